"""The attention op: custom_vjp > custom_vmap > partition > custom call."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero

from jaxator import _dispatch, _ffi, _partition, _rows, _targets
from jaxator.attention import formula
from jaxator.attention.options import BIAS, MASK, Options

# ---- one device ------------------------------------------------------------------------------------------------------


def _sizes(options: Options, operands: Sequence[Any]) -> tuple[int, ...]:
    """These local shapes, as the library's queries take them."""
    q, k, v, named = options.unpack(operands)
    bias = named[BIAS].shape if options.has(BIAS) else (1, 1, 1, 1)
    return (_ffi.DTYPES[q.dtype.name], *q.shape[:2], k.shape[1], q.shape[2], *k.shape[2:], v.shape[3], *bias)


def _scratch(options: Options, operands: Sequence[Any], backward: bool, bias_gradient: bool) -> tuple[int, int]:
    """(slots, bytes) on a CPU."""
    numbers = (*_sizes(options, operands), bias_gradient, backward)
    slots = _ffi.query("jaxator_attention_slots", *numbers)
    return slots, _ffi.query("jaxator_attention_scratch_bytes", *numbers, slots)


def whole_vectors(array: jax.Array) -> jax.Array:
    """Zeros added to the last axis up to a multiple of 8: rows of 16 bytes, as GPUs copy them."""
    missing = -array.shape[-1] % 8
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]) if missing else array


def _forward(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    q, _, v = operands[:3]
    fixed = dict(options.attributes(), bias_gradient=False, kv_gradients_f32=False)
    lse = _ffi.empty(q.shape[:3], jnp.float32)

    def on_cpu(*operands: jax.Array) -> tuple[jax.Array, ...]:
        slots, size = _scratch(options, operands, backward=False, bias_gradient=False)
        results = [_ffi.empty((*q.shape[:3], v.shape[3]), q.dtype), lse, _ffi.empty((size,), jnp.uint8)]
        return _ffi.call("attention_forward", results, *operands, slots=np.int64(slots), **fixed)[:2]

    def on_gpu(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        operands = (*map(whole_vectors, operands[:3]), *operands[3:])
        results = [_ffi.empty((*q.shape[:3], operands[2].shape[3]), q.dtype), lse]
        out, rows = _ffi.call("attention_forward", results, *operands, target=target, slots=np.int64(1), **fixed)
        return out[..., : v.shape[3]], rows

    def kernel(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        return on_cpu(*operands) if target == "cpu" else on_gpu(target, *operands)

    return _dispatch.run(options.choice, kernel, functools.partial(formula.attention, options), *operands)


def _backward(options: Options, bias_gradient: bool, kv_float32: bool, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """Inputs, out, lse, dout, dlse -> dq, dk, dv, [dbias float32]."""
    inputs = operands[:-4]
    differentiated = 3 + bias_gradient
    dtypes = (inputs[0].dtype, *(jnp.float32 if kv_float32 else a.dtype for a in inputs[1:3]))

    def call(target: str, slots: int, size: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
        results = [_ffi.empty(a.shape, d) for a, d in zip(operands[:3], dtypes, strict=True)]
        results += [_ffi.empty(a.shape, jnp.float32) for a in inputs[3:differentiated]] + [_ffi.empty((size,), jnp.uint8)]
        attributes = dict(
            options.attributes(), bias_gradient=bias_gradient, kv_gradients_f32=kv_float32, slots=np.int64(slots)
        )
        return _ffi.call("attention_backward", results, *operands, target=target, **attributes)[:differentiated]

    def on_gpu(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        *others, out, lse, dout, dlse = operands
        whole = (*map(whole_vectors, others[:3]), *others[3:])
        platform = _targets.ARCHITECTURES.get(target, target)
        size = _ffi.query(f"jaxator_attention_{platform}_backward_scratch_bytes", *_sizes(options, whole))
        gradients = call(target, 1, size, *whole, whole_vectors(out), lse, whole_vectors(dout), dlse)
        return *(g[..., : a.shape[3]] for g, a in zip(gradients[:3], others[:3], strict=True)), *gradients[3:]

    def kernel(target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
        if target != "cpu":
            return on_gpu(target, *operands)
        return call(target, *_scratch(options, inputs, backward=True, bias_gradient=bias_gradient), *operands)

    def xla(*operands: jax.Array) -> tuple[jax.Array, ...]:
        inputs, (_, _, dout, dlse) = operands[:-4], operands[-4:]

        def function(*leading: jax.Array) -> tuple[jax.Array, ...]:
            return formula.attention(options, *leading, *inputs[differentiated:])

        leading = tuple(a.astype(jnp.float32) if i == 3 else a for i, a in enumerate(inputs[:differentiated]))
        gradients = jax.vjp(function, *leading)[1]((dout, dlse))
        return *(g.astype(d) for g, d in zip(gradients[:3], dtypes, strict=True)), *gradients[3:]

    return _dispatch.run(options.choice, kernel, xla, *operands, refused={"cuda": _cuda_backward_refusals(inputs)})


def _cuda_backward_refusals(inputs: Sequence[jax.Array]) -> list[str]:
    """Its accumulators hold 128 columns. Wider heads take the formulation's gradients: they compute the forward pass again,
    and so may follow any forward kernel."""
    sizes = {"head size": inputs[0].shape[3], "value size": inputs[2].shape[3]}
    return [f"{name}={size}: must be at most 128 for the backward pass" for name, size in sizes.items() if size > 128]


# ---- sharding and vmap -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Direction:
    """One direction of the op with its options: hashable, called with arrays."""

    options: Options
    backward: bool = False
    bias_gradient: bool = False
    kv_float32: bool = False
    """dk and dv as float32: where the heads of one key/value head are cut over devices they are partial sums."""

    def local(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        return (
            _backward(self.options, self.bias_gradient, self.kv_float32, *operands)
            if self.backward
            else _forward(self.options, *operands)
        )

    def rule(self, operands: Sequence[Any]) -> _partition.Rule:
        return self.options.rule(operands, self.backward, self.bias_gradient)

    def __call__(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        return _batched(self)(*operands)


@dataclasses.dataclass(frozen=True)
class _Local:
    direction: Direction

    def __call__(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        return self.direction.local(*operands)


@functools.lru_cache(maxsize=1024)
def _batched(direction: Direction) -> Callable[..., Any]:
    @jax.custom_batching.custom_vmap
    def run(*operands: jax.Array) -> tuple[jax.Array, ...]:
        return _partition.call(_Local(direction), direction.rule(operands), operands)

    @run.def_vmap
    def run_vmap(size: int, batched: Sequence[bool], *operands: jax.Array) -> tuple[Any, Any]:
        """The mapped dimension becomes part of the batch, which is the leading dimension of every operand."""
        batch = operands[0].shape[1 if batched[0] else 0]
        may_broadcast = [3 + i for i, name in enumerate(direction.options.present) if name in (BIAS, MASK)]
        merged = []
        for i, (array, is_mapped) in enumerate(zip(operands, batched, strict=True)):
            own = array.shape[1:] if is_mapped else array.shape
            # A bias or mask that every batch shares stays so, unless its gradient is wanted for each mapped element.
            if i in may_broadcast and own[0] == 1 and not is_mapped and not (direction.bias_gradient and i == 3):
                merged.append(array)
                continue
            full = jnp.broadcast_to(array if is_mapped else array[None], (size, *own))
            if own[0] != batch:
                full = jnp.broadcast_to(full, (size, batch, *own[1:]))
            merged.append(full.reshape(size * batch, *own[1:]))
        results = list(direction(*merged))
        for i, result in enumerate(results):
            results[i] = result.reshape(size, batch, *result.shape[1:])
        if direction.bias_gradient:
            bias = operands[3]
            if bias.shape[1 if batched[3] else 0] != batch:
                results[3] = jnp.sum(results[3], axis=1, keepdims=True)
        return tuple(results), tuple(True for _ in results)

    return run


# ---- gradient --------------------------------------------------------------------------------------------------------


def is_multi_query(q: jax.Array, k: jax.Array) -> bool:
    return k.shape[2] == 1 < q.shape[2]


def widened(operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """The operands of `attention`: with one key/value head, key and value as float32.

    Devices that share such a head each hold a partial sum of dk and dv. JAX adds them up in the type of the operand, so that
    type is float32 and the cast back comes after the sum. XLA folds the two casts of the values themselves.
    """
    if not is_multi_query(*operands[:2]):
        return operands
    q, k, v, *rest = operands
    wide = jnp.promote_types(q.dtype, jnp.float32)
    return q, k.astype(wide), v.astype(wide), *rest


def _narrowed(operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    q, k, v, *rest = operands
    return q, k.astype(q.dtype), v.astype(q.dtype), *rest


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def attention(options: Options, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    out, lse = Direction(options)(*_narrowed(operands))
    return out, lse


def _attention_fwd(options: Options, operands: tuple[Any, ...]) -> tuple[Any, Any]:
    values = tuple(o.value for o in operands)
    out, lse = attention(options, values)
    values = _narrowed(values)
    out, lse = checkpoint_name(out, "jaxator.attention.out"), checkpoint_name(lse, "jaxator.attention.lse")
    # The structure of this entry, not a value, says whether the bias needs its gradient: that choice is static.
    bias_gradient = ((),) if options.has(BIAS) and operands[3].perturbed else ()
    return (out, lse), (values, out, lse, bias_gradient)


@_rows.first_order("dot_product_attention")
def _gradients(direction: Direction, *operands: jax.Array) -> tuple[jax.Array, ...]:
    return direction(*operands)


def _attention_bwd(options: Options, residuals: Any, cotangents: Any) -> tuple[Any]:
    operands, out, lse, bias_gradient = residuals
    dout, dlse = (jnp.zeros(c.shape, c.dtype) if isinstance(c, SymbolicZero) else c for c in cotangents)
    direction = Direction(
        options, backward=True, bias_gradient=bool(bias_gradient), kv_float32=is_multi_query(*operands[:2])
    )
    gradients = list(_gradients(direction, *operands, out, lse, dout, dlse))
    if bias_gradient:
        gradients[3] = gradients[3].astype(operands[3].dtype)
    elif options.has(BIAS):
        gradients.append(jnp.zeros_like(operands[3]))
    integers = [np.zeros(a.shape, jax.dtypes.float0) for a in operands[len(gradients) :]]
    return ((*gradients, *integers),)


attention.defvjp(_attention_fwd, _attention_bwd, symbolic_zeros=True)


def default_scale(head_size: int) -> float:
    return 1 / math.sqrt(head_size) if head_size else 1.0
