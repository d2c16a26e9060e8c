"""RMS normalisation, alone or fused with a residual addition."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike

from jaxator import _dispatch, _ffi, _rows


@dataclasses.dataclass(frozen=True)
class Options:
    epsilon: float
    has_residual: bool
    has_weight: bool
    choice: str
    """As returned by `_dispatch.choose`."""

    def forward(self) -> _rows.RowCall:
        pattern = f"* d{', * d' * self.has_residual}{', ~ d' * self.has_weight} -> * d{', * d' * self.has_residual}"
        return _rows.RowCall(_forward, self, pattern, replicated=("d",))

    def backward(self) -> _rows.RowCall:
        pattern = f"* d{', ~ d' * self.has_weight}, * d{', * d' * self.has_residual} -> * d{', ~ d' * self.has_weight}"
        return _rows.RowCall(_backward, self, pattern, replicated=("d",))

    def attributes(self) -> dict[str, Any]:
        return dict(epsilon=np.float32(self.epsilon), has_residual=self.has_residual, has_weight=self.has_weight)


# ---- one device: the kernel and the XLA formulation ------------------------------------------------------------------


def _formula(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """x, [residual], [weight] -> y, [sum], all in float32 inside."""
    x, *rest = operands
    total = (x.astype(jnp.float32) + rest.pop(0).astype(jnp.float32)).astype(x.dtype) if options.has_residual else x
    wide = total.astype(jnp.promote_types(x.dtype, jnp.float32))
    y = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + options.epsilon)
    if options.has_weight:
        y = y * rest.pop(0)
    return (y.astype(x.dtype), total) if options.has_residual else (y.astype(x.dtype),)


def _forward(options: Options, batch_dims: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
    x = operands[0]

    def kernel(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        results = [_ffi.empty(x.shape, x.dtype)] * (1 + options.has_residual)
        return _ffi.call("rms_norm_forward", results, *operands, target=target, **options.attributes())

    ranks = [None] * (1 + options.has_residual) + [1] * options.has_weight
    formula = _rows.map_batch(functools.partial(_formula, options), batch_dims, ranks)
    return _dispatch.run(options.choice, kernel, formula, *operands)


def _backward(options: Options, batch_dims: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """sum, [weight], dy, [dsum] -> dx, [dweight]; the residual's gradient is dx."""
    total = operands[0]
    batch, columns, rows = _rows.extents(total, batch_dims)

    def kernel(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        results = [_ffi.empty(total.shape, total.dtype)]
        if options.has_weight:
            floats = _ffi.scratch_floats("rms_norm", target, _ffi.DTYPES[total.dtype.name], rows, columns)
            results += [_ffi.empty((*batch, columns), jnp.float32), _ffi.empty((floats,), jnp.float32)]
        called = _ffi.call("rms_norm_backward", results, *operands, target=target, **options.attributes())
        return called[: 1 + options.has_weight]

    def formula(*operands: jax.Array) -> tuple[jax.Array, ...]:
        inputs, cotangents = operands[: 1 + options.has_weight], operands[1 + options.has_weight :]
        plain = dataclasses.replace(options, has_residual=False)
        _, vjp = jax.vjp(functools.partial(_formula, plain), *inputs)
        dx, *rest = vjp((cotangents[0],))
        return (dx + cotangents[1] if options.has_residual else dx, *rest)

    ranks = [None] + [1] * options.has_weight + [None] * (1 + options.has_residual)
    return _dispatch.run(options.choice, kernel, _rows.map_batch(formula, batch_dims, ranks), *operands)


# ---- gradient --------------------------------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rms_norm(options: Options, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return options.forward()(*operands)


def _rms_norm_fwd(options: Options, operands: tuple[jax.Array, ...]) -> tuple[Any, Any]:
    # Through the custom_vjp itself: where this is differentiated again, the first-order rules still apply.
    results = _rms_norm(options, operands)
    # Without a residual the backward pass needs only its inputs; the fused sum is the one array worth a name.
    total = checkpoint_name(results[1], "jaxator.add_rms_norm.sum") if options.has_residual else operands[0]
    weight = operands[1 + options.has_residual :]
    return (results[0], total) if options.has_residual else results, (total, *weight)


@_rows.first_order("rms_norm")
def _gradients(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    return options.backward()(*operands)


def _rms_norm_bwd(options: Options, residuals: tuple[jax.Array, ...], cotangents: tuple[jax.Array, ...]) -> tuple[Any]:
    dx, *dweight = _gradients(options, *residuals, *cotangents)
    return ((dx, *([dx] if options.has_residual else []), *dweight),)


_rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


# ---- public ----------------------------------------------------------------------------------------------------------


def _entry(op: str, rows: Sequence[ArrayLike], weight: ArrayLike | None, epsilon: float, weight_offset: float,
           implementation: str | None, mesh: Mesh | None, in_specs: Sequence[PartitionSpec] | None) -> tuple[jax.Array, ...]:  # fmt: skip
    rows, weights = _rows.check(op, rows, {"weight": weight}, epsilon)
    # The kernel takes float32 weights; the cast and the offset touch D numbers only, and JAX transposes them.
    weights = tuple(w.astype(jnp.promote_types(rows[0].dtype, jnp.float32)) for w in weights)
    if weight_offset != 0:
        weights = tuple(w + weight_offset for w in weights)
    choice = _dispatch.choose(op, implementation, _rows.refusals(rows, "cpu", "cuda", "rocm"))
    options = Options(float(epsilon), has_residual=len(rows) == 2, has_weight=bool(weights), choice=choice)
    return _rows.apply(_rms_norm, _formula, options, options.forward(), (*rows, *weights), mesh, in_specs)


def rms_norm(
    x: ArrayLike, weight: ArrayLike | None = None, *, epsilon: float = 1e-6, weight_offset: float = 0.0,
    implementation: str | None = None, mesh: Mesh | None = None, in_specs: Sequence[PartitionSpec] | None = None,
) -> jax.Array:  # fmt: skip
    """Divides each row by its root mean square: ``x / sqrt(mean(x**2) + epsilon) * (weight + weight_offset)``.

    The mean runs over the last axis, in float32; the result is rounded once. Memory is touched once in each direction: the
    backward pass recomputes the root mean square from x and saves nothing else.

    Args:
      x: float array [..., D].
      weight: float array [D] of any float dtype; None counts as ones (and ignores weight_offset).
      epsilon: added to the mean square; finite and not negative.
      weight_offset: added to the weight (1.0 for models that store weight - 1).
      implementation: None chooses; "cpu", "cuda", "rocm" or "xla" names one. "gfx942" and "gfx950" name AMD's kernels for
        programs for CPUs too, which run them on an emulator: slowly, and with an error for every race, missing wait, access
        out of bounds and read of uninitialised memory.
      mesh, in_specs: run by `jax.shard_map` over this mesh, with one PartitionSpec for each array given. Rows may be
        sharded; D may not.

    Returns:
      Array like x.

    Raises:
      ValueError, TypeError: an argument breaks a rule; the text names it.
      UnsupportedError: a named implementation cannot serve the call, or a second derivative was asked of the kernels.

    Differentiable in x and weight, by reverse mode once (any mode and order with implementation="xla").

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467.
    """
    return _entry("rms_norm", (x,), weight, epsilon, weight_offset, implementation, mesh, in_specs)[0]


def add_rms_norm(
    x: ArrayLike, residual: ArrayLike, weight: ArrayLike | None = None, *, epsilon: float = 1e-6, weight_offset: float = 0.0,
    implementation: str | None = None, mesh: Mesh | None = None, in_specs: Sequence[PartitionSpec] | None = None,
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """The residual addition and the normalisation of a pre-norm block in one pass over memory.

    ``s = x + residual`` (rounded to x's dtype), ``y = rms_norm(s, weight)``.

    Args:
      x, residual: float arrays [..., D] of one shape and dtype.
      weight, epsilon, weight_offset, implementation, mesh, in_specs: as in `rms_norm`.

    Returns:
      (y, s): the normalised array and the new residual, both like x.

    Raises: as `rms_norm`.

    Checkpoint name of the saved sum: "jaxator.add_rms_norm.sum".
    """
    y, total = _entry("add_rms_norm", (x, residual), weight, epsilon, weight_offset, implementation, mesh, in_specs)
    return y, total
