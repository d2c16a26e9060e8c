"""SwiGLU: the product in the middle of a gated feed-forward layer."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike

from jaxator import _dispatch, _ffi, _rows


@dataclasses.dataclass(frozen=True)
class Options:
    packed: bool
    limit: float
    """Infinity for none."""
    choice: str
    """As returned by `_dispatch.choose`."""

    def forward(self) -> _rows.RowCall:
        # Packed halves lie half a row apart, so only separate arrays can be sharded along F.
        pattern = "* f2 -> * f" if self.packed else "* f, * f -> * f"
        return _rows.RowCall(_forward, self, pattern, replicated=("f", "f2") if self.packed else ())

    def backward(self) -> _rows.RowCall:
        pattern = "* f2, * f -> * f2" if self.packed else "* f, * f, * f -> * f, * f"
        return _rows.RowCall(_backward, self, pattern, replicated=("f", "f2") if self.packed else ())

    def attributes(self) -> dict[str, Any]:
        return dict(packed=self.packed, limit=np.float32(self.limit))


def _formula(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """gate, [up] -> y, in float32 inside."""
    gate, up = jnp.split(operands[0], 2, axis=-1) if options.packed else operands
    wide = jnp.promote_types(gate.dtype, jnp.float32)
    gate, up = gate.astype(wide), up.astype(wide)
    if math.isfinite(options.limit):
        # By selection: jnp.minimum would pass half of the gradient at a tie, the kernel passes all of it.
        limit = options.limit
        gate = jnp.where(gate > limit, limit, gate)
        up = jnp.where(up > limit, limit, jnp.where(up < -limit, -limit, up))
    return ((jax.nn.silu(gate) * up).astype(operands[0].dtype),)


def _forward(options: Options, batch_dims: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
    def kernel(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        *rows, columns = operands[0].shape
        y = _ffi.empty((*rows, columns // 2 if options.packed else columns), operands[0].dtype)
        return _ffi.call("swiglu_forward", [y], *operands, target=target, **options.attributes())

    del batch_dims  # every array has them
    return _dispatch.run(options.choice, kernel, functools.partial(_formula, options), *operands)


def _backward(options: Options, batch_dims: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """gate, [up], dy -> dgate, [dup]."""
    inputs = operands[:-1]

    def kernel(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        results = [_ffi.empty(a.shape, a.dtype) for a in inputs]
        return _ffi.call("swiglu_backward", results, *operands, target=target, **options.attributes())

    def formula(*operands: jax.Array) -> tuple[jax.Array, ...]:
        *inputs, dy = operands
        return jax.vjp(functools.partial(_formula, options), *inputs)[1]((dy,))

    del batch_dims
    return _dispatch.run(options.choice, kernel, formula, *operands)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _swiglu(options: Options, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return options.forward()(*operands)


def _swiglu_fwd(options: Options, operands: tuple[jax.Array, ...]) -> tuple[Any, Any]:
    return _swiglu(options, operands), operands


@_rows.first_order("swiglu")
def _gradients(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    return options.backward()(*operands)


def _swiglu_bwd(options: Options, residuals: tuple[jax.Array, ...], cotangents: tuple[jax.Array, ...]) -> tuple[Any]:
    return (tuple(_gradients(options, *residuals, *cotangents)),)


_swiglu.defvjp(_swiglu_fwd, _swiglu_bwd)


def swiglu(
    gate: ArrayLike, up: ArrayLike | None = None, *, limit: float | None = None, implementation: str | None = None,
    mesh: Mesh | None = None, in_specs: Sequence[PartitionSpec] | None = None,
) -> jax.Array:  # fmt: skip
    """``silu(gate) * up`` with ``silu(x) = x / (1 + exp(-x))``, in float32 inside, rounded once.

    Args:
      gate: float array [..., F]; without `up`, [..., 2F] whose first half is the gate and whose second half is up.
      up: array like gate.
      limit: if given (> 0), gate is cut at limit from above and up at -limit and limit before the product; the gradient is 0
        where an operand was cut (as gpt-oss, without its scaled sigmoid).
      implementation: None chooses; "cpu", "cuda", "rocm" or "xla" names one. "gfx942" and "gfx950" name AMD's kernels for
        programs for CPUs too, which run them on an emulator, as in `rms_norm`.
      mesh, in_specs: run by `jax.shard_map` over this mesh, with one PartitionSpec for each array given. Every axis may be
        sharded, except the last one of the packed form.

    Returns:
      [..., F] in gate's dtype.

    Raises:
      ValueError, TypeError: an argument breaks a rule; the text names it.
      UnsupportedError: a named implementation cannot serve the call, or a second derivative was asked of the kernels.

    Differentiable in gate and up, by reverse mode once (any mode and order with implementation="xla").

    Source: Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    operands, _ = _rows.check("swiglu", (gate,) if up is None else (gate, up), {})
    if up is None and operands[0].shape[-1] % 2:
        raise ValueError(f"swiglu: gate has {operands[0].shape[-1]} columns: must be even without up")
    if limit is not None and not limit > 0:
        raise ValueError(f"swiglu: limit={limit}: must be positive")
    choice = _dispatch.choose("swiglu", implementation, _rows.refusals(operands, "cpu", "cuda", "rocm"))
    options = Options(packed=up is None, limit=math.inf if limit is None else float(limit), choice=choice)
    return _rows.apply(_swiglu, _formula, options, options.forward(), operands, mesh, in_specs)[0]
