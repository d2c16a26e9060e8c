"""The five operations that the two runs compute differently; all else in the model is the same code.

Letters: B batch, T sequence length, N query heads, K key/value heads, H head size, D width, F hidden width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from settings import Implementation

ROPE_THETA = 10000.0
NORM_EPSILON = 1e-6

Attention = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class Ops:
    """Each op computes in float32 inside and returns its first argument's dtype."""

    attention: Attention
    """causal; query [B,T,N,H], key and value [B,T,K,H] -> [B,T,N,H]"""
    rms_norm: Callable[[Array, Array], Array]
    """x [B,T,D], weight [D] -> [B,T,D]"""
    add_rms_norm: Callable[[Array, Array, Array], tuple[Array, Array]]
    """x and residual [B,T,D], weight [D] -> (norm of the sum, the sum)"""
    swiglu: Callable[[Array], Array]
    """gate and up side by side [B,T,2F] -> silu(gate) * up [B,T,F]"""
    rope: Callable[[Array, Array], Array]
    """x [B,T,N,H], positions int32 [B,T] -> x with its halves turned by the position's angles"""


def xla_attention(query: Array, key: Array, value: Array) -> Array:
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


def einsum_attention(query: Array, key: Array, value: Array) -> Array:
    """Two einsums and a softmax in float32: on CPUs whose XLA has slow bf16 products this beats `xla_attention`."""
    b, t, n, h = query.shape
    k = key.shape[2]
    grouped = query.astype(jnp.float32).reshape(b, t, k, n // k, h) * h**-0.5
    logits = jnp.einsum("btkgh,bskh->bkgts", grouped, key.astype(jnp.float32))
    logits = jnp.where(jnp.tril(jnp.ones((t, t), bool)), logits, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("bkgts,bskh->btkgh", weights, value.astype(jnp.float32))
    return out.reshape(b, t, n, h).astype(query.dtype)


def jaxator_attention(query: Array, key: Array, value: Array) -> Array:
    import jaxator as jxt

    return jxt.dot_product_attention(query, key, value, is_causal=True)


def _rms_norm(x: Array, weight: Array) -> Array:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + NORM_EPSILON)
    return (wide * scale * weight.astype(jnp.float32)).astype(x.dtype)


def _add_rms_norm(x: Array, residual: Array, weight: Array) -> tuple[Array, Array]:
    total = x + residual
    return _rms_norm(total, weight), total


def _swiglu(gate_up: Array) -> Array:
    gate, up = jnp.split(gate_up.astype(jnp.float32), 2, axis=-1)
    return (jax.nn.silu(gate) * up).astype(gate_up.dtype)


def _rope(x: Array, positions: Array) -> Array:
    half = x.shape[-1] // 2
    frequencies = ROPE_THETA ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions[..., None, None].astype(jnp.float32) * frequencies  # [B,T,1,H/2]
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def attentions(implementation: Implementation) -> dict[str, Attention]:
    """The formulations that a run chooses from, by name."""
    if implementation == "plain":
        return {"jax.nn.dot_product_attention": xla_attention, "fp32 einsum": einsum_attention}
    return {"jaxator.dot_product_attention": jaxator_attention}


def create_ops(implementation: Implementation, attention: Attention) -> Ops:
    if implementation == "plain":
        return Ops(attention, _rms_norm, _add_rms_norm, _swiglu, _rope)
    # Imported here: the plain run must not load a library that it does not measure.
    import jaxator as jxt

    return Ops(
        attention=attention,
        rms_norm=lambda x, weight: jxt.rms_norm(x, weight, epsilon=NORM_EPSILON),
        add_rms_norm=lambda x, residual, weight: jxt.add_rms_norm(x, residual, weight, epsilon=NORM_EPSILON),
        swiglu=jxt.swiglu,
        rope=lambda x, positions: jxt.rope(x, positions, theta=ROPE_THETA),
    )
