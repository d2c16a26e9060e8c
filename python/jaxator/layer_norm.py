"""Layer normalisation."""

from __future__ import annotations

import dataclasses
import functools
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
    epsilon: float
    has_weight: bool
    has_bias: bool
    choice: str
    """As returned by `_dispatch.choose`."""

    def forward(self) -> _rows.RowCall:
        return _rows.RowCall(_forward, self, f"* d{', ~ d' * (self.has_weight + self.has_bias)} -> * d", replicated=("d",))

    def backward(self) -> _rows.RowCall:
        parameters = ", ~ d" * (self.has_weight + self.has_bias)
        return _rows.RowCall(_backward, self, f"* d{', ~ d' * self.has_weight}, * d -> * d{parameters}", replicated=("d",))

    def attributes(self) -> dict[str, Any]:
        return dict(epsilon=np.float32(self.epsilon), has_weight=self.has_weight, has_bias=self.has_bias)


def _formula(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """x, [weight], [bias] -> y, in float32 inside."""
    x, *parameters = operands
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    y = centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + options.epsilon)
    if options.has_weight:
        y = y * parameters.pop(0)
    if options.has_bias:
        y = y + parameters.pop(0)
    return (y.astype(x.dtype),)


def _forward(options: Options, batch_dims: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
    def kernel(target: str, x: jax.Array, *parameters: jax.Array) -> tuple[jax.Array, ...]:
        return _ffi.call(
            "layer_norm_forward", [_ffi.empty(x.shape, x.dtype)], x, *parameters, target=target, **options.attributes()
        )

    ranks = [None] + [1] * (options.has_weight + options.has_bias)
    formula = _rows.map_batch(functools.partial(_formula, options), batch_dims, ranks)
    return _dispatch.run(options.choice, kernel, formula, *operands)


def _backward(options: Options, batch_dims: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """x, [weight], dy -> dx, [dweight], [dbias]."""
    x = operands[0]
    batch, columns, rows = _rows.extents(x, batch_dims)
    parameters = options.has_weight + options.has_bias

    def kernel(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        results = [_ffi.empty(x.shape, x.dtype)] + [_ffi.empty((*batch, columns), jnp.float32)] * parameters
        if parameters:
            numbers = (_ffi.DTYPES[x.dtype.name], rows, columns, options.has_weight, options.has_bias)
            results.append(_ffi.empty((_ffi.scratch_floats("layer_norm", target, *numbers),), jnp.float32))
        return _ffi.call("layer_norm_backward", results, *operands, target=target, **options.attributes())[: 1 + parameters]

    def formula(*operands: jax.Array) -> tuple[jax.Array, ...]:
        *inputs, dy = operands
        gradients = jax.vjp(functools.partial(_formula, dataclasses.replace(options, has_bias=False)), *inputs)[1]((dy,))
        dbias = jnp.sum(dy.astype(jnp.float32), axis=tuple(range(dy.ndim - 1)))
        return (*gradients, dbias) if options.has_bias else gradients

    ranks = [None] + [1] * options.has_weight + [None]
    return _dispatch.run(options.choice, kernel, _rows.map_batch(formula, batch_dims, ranks), *operands)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _layer_norm(options: Options, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return options.forward()(*operands)


def _layer_norm_fwd(options: Options, operands: tuple[jax.Array, ...]) -> tuple[Any, Any]:
    return _layer_norm(options, operands), operands[: 1 + options.has_weight]


@_rows.first_order("layer_norm")
def _gradients(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    return options.backward()(*operands)


def _layer_norm_bwd(options: Options, residuals: tuple[jax.Array, ...], cotangents: tuple[jax.Array, ...]) -> tuple[Any]:
    return (tuple(_gradients(options, *residuals, *cotangents)),)


_layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


def layer_norm(
    x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, *, epsilon: float = 1e-6,
    implementation: str | None = None, mesh: Mesh | None = None, in_specs: Sequence[PartitionSpec] | None = None,
) -> jax.Array:  # fmt: skip
    """Normalises each row: ``(x - mean) / sqrt(variance + epsilon) * weight + bias``.

    Mean and (biased) variance run over the last axis, in float32, the variance from centred values; the result is rounded
    once. Memory is touched once in each direction: the backward pass recomputes both from x and saves nothing else.

    Args:
      x: float array [..., D].
      weight, bias: float arrays [D] of any float dtype; None counts as ones and zeros.
      epsilon: added to the variance; finite and not negative.
      implementation: None chooses; "cpu", "cuda", "rocm" or "xla" names one. "gfx942" and "gfx950" name AMD's kernels for
        programs for CPUs too, which run them on an emulator, as in `rms_norm`.
      mesh, in_specs: run by `jax.shard_map` over this mesh, with one PartitionSpec for each array given. Rows may be
        sharded; D may not.

    Returns:
      Array like x.

    Raises:
      ValueError, TypeError: an argument breaks a rule; the text names it.
      UnsupportedError: a named implementation cannot serve the call, or a second derivative was asked of the kernels.

    Differentiable in x, weight and bias, by reverse mode once (any mode and order with implementation="xla").

    Source: Ba, Kiros and Hinton, "Layer Normalization", arXiv:1607.06450.
    """
    rows, parameters = _rows.check("layer_norm", (x,), {"weight": weight, "bias": bias}, epsilon)
    parameters = tuple(p.astype(jnp.promote_types(rows[0].dtype, jnp.float32)) for p in parameters)
    choice = _dispatch.choose("layer_norm", implementation, _rows.refusals(rows, "cpu", "cuda", "rocm"))
    options = Options(float(epsilon), has_weight=weight is not None, has_bias=bias is not None, choice=choice)
    return _rows.apply(_layer_norm, _formula, options, options.forward(), (*rows, *parameters), mesh, in_specs)[0]
