"""A LLaMA-style byte-level language model in flax nnx: RMSNorm, RoPE, grouped-query attention, SwiGLU.

Weights are float32 (the optimizer's master copy) and are cast where they are used; activations are bfloat16; logits and
loss are float32. Letters: B batch, T sequence length, N query heads, K key/value heads, H head size, D width, F hidden.
"""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from ops import Ops
from settings import Settings

VOCABULARY = 256
COMPUTE_DTYPE = jnp.bfloat16


def _linear(inputs: int, outputs: int, scale: float, rngs: nnx.Rngs) -> nnx.Linear:
    return nnx.Linear(
        inputs,
        outputs,
        use_bias=False,
        dtype=COMPUTE_DTYPE,
        param_dtype=jnp.float32,
        kernel_init=nnx.initializers.normal(scale * inputs**-0.5),
        rngs=rngs,
    )


def _norm_weight(width: int) -> nnx.Param[Array]:
    return nnx.Param(jnp.ones((width,), jnp.float32))


class Block(nnx.Module):
    """Attention, then feed-forward, each followed by the fused "add to the residual, normalise for the next part"."""

    def __init__(self, settings: Settings, rngs: nnx.Rngs) -> None:
        s = settings
        # Each block adds twice to the residual: this keeps its variance from growing with depth.
        residual_scale = (2 * s.layers) ** -0.5
        self.head_size = s.head_size
        self.query = _linear(s.width, s.heads * s.head_size, 1.0, rngs)
        self.key = _linear(s.width, s.kv_heads * s.head_size, 1.0, rngs)
        self.value = _linear(s.width, s.kv_heads * s.head_size, 1.0, rngs)
        self.output = _linear(s.heads * s.head_size, s.width, residual_scale, rngs)
        self.norm_after_attention = _norm_weight(s.width)
        self.gate_up = _linear(s.width, 2 * s.hidden, 1.0, rngs)
        self.down = _linear(s.hidden, s.width, residual_scale, rngs)
        self.norm_after_feed_forward = _norm_weight(s.width)

    def __call__(self, ops: Ops, normed: Array, residual: Array, positions: Array) -> tuple[Array, Array]:
        """normed and residual [B,T,D], positions int32 [B,T] -> the two for the next block."""

        def heads(projected: Array) -> Array:
            return projected.reshape(*projected.shape[:2], -1, self.head_size)

        query = ops.rope(heads(self.query(normed)), positions)
        key = ops.rope(heads(self.key(normed)), positions)
        attended = ops.attention(query, key, heads(self.value(normed)))
        attended = self.output(attended.reshape(*normed.shape[:2], -1))
        normed, residual = ops.add_rms_norm(attended, residual, self.norm_after_attention[...].astype(COMPUTE_DTYPE))
        fed = self.down(ops.swiglu(self.gate_up(normed)))
        return ops.add_rms_norm(fed, residual, self.norm_after_feed_forward[...].astype(COMPUTE_DTYPE))


class Llama(nnx.Module):
    def __init__(self, settings: Settings, rngs: nnx.Rngs) -> None:
        self.embedding = nnx.Embed(
            VOCABULARY,
            settings.width,
            dtype=COMPUTE_DTYPE,
            param_dtype=jnp.float32,
            embedding_init=nnx.initializers.normal(1.0),
            rngs=rngs,
        )
        self.input_norm = _norm_weight(settings.width)
        self.blocks = nnx.List([Block(settings, rngs) for _ in range(settings.layers)])
        self.head = _linear(settings.width, VOCABULARY, 1.0, rngs)

    def __call__(self, ops: Ops, tokens: Array) -> Array:
        """tokens int32 [B,T] -> logits float32 [B,T,256]."""
        positions = jnp.broadcast_to(jnp.arange(tokens.shape[1], dtype=jnp.int32), tokens.shape)
        residual = self.embedding(tokens)
        normed = ops.rms_norm(residual, self.input_norm[...].astype(COMPUTE_DTYPE))
        for block in self.blocks:
            normed, residual = block(ops, normed, residual, positions)
        return self.head(normed).astype(jnp.float32)


def create_model(settings: Settings) -> tuple[nnx.GraphDef[Llama], nnx.State]:
    """The module's static part and its float32 parameters, a function of the settings' sizes and seed."""
    return nnx.split(Llama(settings, nnx.Rngs(settings.seed)))


def parameter_count(parameters: nnx.State) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(parameters))


def loss(graph: nnx.GraphDef[Llama], ops: Ops, parameters: nnx.State, batch: Array) -> Array:
    """Mean cross-entropy in nats a byte, float32 []; batch int32 [B,T+1] holds inputs and, shifted by one, targets."""
    logits = nnx.merge(graph, parameters)(ops, batch[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()


def generate(
    graph: nnx.GraphDef[Llama],
    ops: Ops,
    parameters: nnx.State,
    *,
    prompt: bytes,
    length: int,
    temperature: float,
    key: Array,
) -> bytes:
    """`prompt` and `length` sampled bytes after it.

    Each step runs the model over the whole fixed-size buffer: causal attention makes the bytes that are not written yet
    invisible, so one compiled program serves every position.
    """
    buffer = jnp.zeros((1, len(prompt) + length), jnp.int32).at[0, : len(prompt)].set(jnp.array(list(prompt)))

    @jax.jit
    def decode(parameters: nnx.State, buffer: Array) -> Array:
        model = nnx.merge(graph, parameters)

        def write_next(position: Array, buffer: Array) -> Array:
            logits = model(ops, buffer)[0, position - 1]
            chosen = jax.random.categorical(jax.random.fold_in(key, position), logits / temperature)
            return buffer.at[0, position].set(chosen)

        return jax.lax.fori_loop(len(prompt), len(prompt) + length, write_next, buffer)

    return bytes(int(token) for token in decode(parameters, buffer)[0])
