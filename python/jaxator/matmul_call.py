"""The matmul op: custom_vjp > custom_vmap > partition > custom call. The public function is in `jaxator.matmul`."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from jaxator import _dispatch, _ffi, _partition, _targets
from jaxator._errors import UnsupportedError
from jaxator.matmul_options import ACTIVATIONS, TF32, Options, epilogue, formula

# ---- one device ------------------------------------------------------------------------------------------------------


def _refusals(options: Options, operands: Sequence[Any], platform: str) -> list[str]:
    """Shapes that only a GPU's kernel that loads element by element takes: it is right, and far slower than XLA."""
    reasons = []
    if options.eight_bits and (options.transpose_a or not options.transpose_b):
        reasons.append("eight bits need k contiguous in both operands: transpose_b without transpose_a")
    item = jnp.dtype(options.dtype).itemsize
    for name, array in zip("ab", operands[:2], strict=True):
        if array.shape[-1] * item % 16:
            reasons.append(
                f"rows of {name} have {array.shape[-1] * item} bytes: must be a multiple of 16 "
                f"(implementation={platform!r} takes them, slowly)"
            )
    return reasons


def _limits(options: Options, operands: Sequence[Any]) -> list[str]:
    """Sizes beyond what the ROCm kernels count in 32 bits: see src/ops/matmul/rocm.cpp."""
    sizes = options.sizes(operands)
    batch = math.prod(size for factor, size in sizes.items() if factor[0] == "b")
    m, n = sizes["m"], sizes["n"]
    if options.batch_a and not options.batch_b and not options.transpose_a:
        batch, m = 1, batch * m  # rows of one matrix
    counts = {"m": m, "n": n, "k": sizes["k"], "tiles of 256 x 256": batch * -(-m // 256) * -(-n // 256)}
    most = {"m": 2**30 - 1, "n": 2**22 - 1, "k": 2**30 - 1, "tiles of 256 x 256": (2**31 - 1) // 512}
    return [f"{name}={counts[name]}: must be at most {limit}" for name, limit in most.items() if counts[name] > limit]


def _scratch(options: Options, target: str, operands: Sequence[Any]) -> tuple[int, int]:
    """(slots, bytes); a GPU has one slot."""
    numbers = options.numbers(operands)
    array = (ctypes.c_int64 * len(numbers))(*numbers)

    def query(name: str, *more: int) -> int:
        function = getattr(_ffi.library(), f"jaxator_matmul_{name}")
        function.restype = ctypes.c_int64
        return function(array, *map(ctypes.c_int64, more))

    if target == "cuda":
        return 1, query("cuda_scratch_bytes")
    if target != "cpu":
        return 1, query("rocm_scratch_bytes")
    slots = query("slots")
    return slots, query("scratch_bytes", slots)


def _kernel(options: Options, target: str, *operands: jax.Array) -> tuple[jax.Array, ...]:
    if target == "cuda" and options.route == TF32 and (options.transpose_a or not options.transpose_b):
        # The matrix unit takes 32-bit elements with k contiguous only.
        a = jnp.swapaxes(operands[0], -1, -2) if options.transpose_a else operands[0]
        b = operands[1] if options.transpose_b else jnp.swapaxes(operands[1], -1, -2)
        return _kernel(dataclasses.replace(options, transpose_a=False, transpose_b=True), target, a, b, *operands[2:])
    shape = options.result_shape(operands)
    slots, size = _scratch(options, target, operands)
    results = [_ffi.empty(shape, options.out)] + [_ffi.empty(shape, options.kept)] * options.preactivation
    results.append(_ffi.empty((size,), jnp.uint8))
    return _ffi.call("matmul", results, *operands, target=target, slots=np.int64(slots), **options.attributes())[:-1]


@dataclasses.dataclass(frozen=True)
class Local:
    """The op on one device's shards."""

    options: Options

    def __call__(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        options = self.options
        refused = {target: _limits(options, operands) for target in ("rocm", *_targets.EMULATED)}
        if not options.choice.named:
            for platform in _targets.GPU_PLATFORMS:
                refused[platform] = refused.get(platform, []) + _refusals(options, operands, platform)
        return _dispatch.run(
            options.choice,
            functools.partial(_kernel, options),
            functools.partial(formula, options),
            *operands,
            refused=refused,
        )

    def summed(self, axes: tuple[str, ...], *operands: jax.Array) -> tuple[jax.Array, ...]:
        """The same where k is cut over mesh axes: float32 partial sums are added up, then comes what follows the product."""
        wide = jnp.promote_types(self.options.kept, jnp.float32).name
        plain = dataclasses.replace(
            self.options,
            out=wide,
            has_bias=False,
            batch_bias=False,
            activation=None,
            has_residual=False,
            preactivation=False,
            scales_a=0,
            scales_b=0,
        )
        (product,) = Local(plain)(*_ffi.vary(_ffi.varying_axes(*operands[:2]), *operands[:2]))
        product = jnp.broadcast_to(product, self.options.result_shape(operands))
        return epilogue(self.options, jax.lax.psum(product, axes), *operands[2:])


# ---- sharding and vmap -----------------------------------------------------------------------------------------------


def _with_mapped_scales(
    options: Options, size: int, mapped: Sequence[bool], operands: Sequence[jax.Array]
) -> tuple[Options, list[bool], list[jax.Array]]:
    """The same where a scale for each row is mapped if its operand is, and one scale for all rows is not mapped."""
    operands, mapped, at = list(operands), list(mapped), 2
    for i, (name, rows) in enumerate((("scales_a", "m"), ("scales_b", "n"))):
        kind = getattr(options, name)
        if kind == 1 and mapped[at]:  # so one for each row, the same in a matrix
            sizes = options.sizes(
                [jax.ShapeDtypeStruct(a.shape[m:], a.dtype) for a, m in zip(operands, mapped, strict=True)]
            )
            batched = (options.batch_a, options.batch_b)[i]
            shape = tuple(sizes[factor] for factor in [*options.leading(batched, False), rows])
            operands[at] = jnp.broadcast_to(operands[at].reshape(size, *(1,) * len(shape)), (size, *shape))
            options, kind = dataclasses.replace(options, **{name: 2}), 2
        if kind == 2 and mapped[i] != mapped[at]:
            missing = i if mapped[at] else at
            operands[missing] = jnp.broadcast_to(operands[missing], (size, *operands[missing].shape))
            mapped[i] = mapped[at] = True
        at += kind > 0
    return options, mapped, operands


@functools.lru_cache(maxsize=1024)
def _batched(options: Options) -> Callable[..., Any]:
    @jax.custom_batching.custom_vmap
    def run(*operands: jax.Array) -> tuple[jax.Array, ...]:
        return _partition.call(Local(options), options.rule(operands), operands)

    @run.def_vmap
    def run_vmap(size: int, mapped: Sequence[bool], *operands: jax.Array) -> tuple[Any, Any]:
        """The mapped dimension becomes the first of the batch."""
        asked, mapped, operands = _with_mapped_scales(options, size, mapped, operands)
        sizes = asked.sizes([jax.ShapeDtypeStruct(a.shape[m:], a.dtype) for a, m in zip(operands, mapped, strict=True)])
        batch = tuple(sizes[factor] for factor in asked.leading(True, False))
        had = [asked.batch_a, asked.batch_b]
        had += [asked.batch_a and asked.scales_a == 2] * (asked.scales_a > 0)
        had += [asked.batch_b and asked.scales_b == 2] * (asked.scales_b > 0)
        had += [asked.batch_bias] * asked.has_bias + [True] * asked.has_residual
        has, merged = [], []
        for i, (array, is_mapped, had_batch) in enumerate(zip(operands, mapped, had, strict=True)):
            is_residual = asked.has_residual and i == len(operands) - 1
            full = had_batch and asked.batch > 0
            has.append(is_mapped or full or is_residual)
            if has[-1]:
                own = array.shape[is_mapped:]
                if not full:
                    array = array.reshape(*array.shape[:is_mapped], *(1,) * asked.batch, *own)
                    own = (*batch, *own)
                array = jnp.broadcast_to(array, (size, *own))
            merged.append(array)
        new = dataclasses.replace(
            asked, batch=asked.batch + 1, batch_a=has[0], batch_b=has[1], batch_bias=asked.has_bias and has[2 + asked.scales]
        )
        results = _batched(new)(*merged)
        return results, tuple(True for _ in results)

    return run


# ---- gradient --------------------------------------------------------------------------------------------------------


def widened(operands: Sequence[jax.Array]) -> tuple[tuple[bool, ...], tuple[jax.Array, ...]]:
    """Which operands vary over fewer manual mesh axes than the others, and the operands with these as float32.

    JAX adds up the gradients of such an operand over the missing axes, in its type: so that is float32, and the cast back
    comes after the sum. XLA folds the two casts of the values themselves.
    """
    axes = _ffi.varying_axes(*operands)
    wide = tuple(a.dtype.itemsize == 2 and _ffi.varying_axes(a) != axes for a in operands)
    return wide, tuple(a.astype(jnp.float32) if w else a for a, w in zip(operands, wide, strict=True))


def _narrowed(options: Options, operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    wide = options.wide or (False,) * len(operands)
    return tuple(a.astype(options.dtype) if w else a for a, w in zip(operands, wide, strict=True))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def product(options: Options, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Differentiable to any order in reverse mode: its gradients are products again."""
    return _batched(dataclasses.replace(options, wide=()))(*_narrowed(options, operands))


def _product_fwd(options: Options, operands: tuple[jax.Array, ...]) -> tuple[Any, Any]:
    if options.eight_bits:
        rule = f"dtype={options.dtype}: products of eight-bit arrays have no gradient; quantise inside a custom_vjp"
        raise UnsupportedError(options.choice.op, {"gradient": [rule]})
    # z is written by the same kernel: M N elements more. Computed again it would be the whole product.
    saves = options.activation is not None
    results = product(dataclasses.replace(options, preactivation=options.preactivation or saves), operands)
    z = checkpoint_name(results[1], "jaxator.matmul.preactivation") if saves else None
    return results[: 1 + options.preactivation], (_narrowed(options, operands), z)


def _product_bwd(options: Options, residuals: Any, cotangents: tuple[jax.Array, ...]) -> tuple[Any]:
    (a, b, *rest), z = residuals
    wide = jnp.promote_types(options.dtype, jnp.float32)
    dout = cotangents[0].astype(wide)
    dz = dout if z is None else jax.vjp(ACTIVATIONS[options.activation], z.astype(wide))[1](dout)[0]
    if options.preactivation:
        dz = dz + cotangents[1].astype(wide)
    types = [options.dtype, options.dtype, *(r.dtype for r in rest)]
    types = [jnp.dtype("float32") if w else t for t, w in zip(types, options.wide or (False,) * len(types), strict=True)]
    gradients = _matrix_gradients(options, a, b, dz.astype(options.dtype), types)
    if options.has_bias:
        shared = () if options.batch_bias else tuple(range(options.batch))
        gradients.append(jnp.sum(dz, axis=(*shared, dz.ndim - 2)).astype(types[2]))
    if options.has_residual:
        gradients.append(dout.astype(types[-1]))
    return (tuple(gradients),)


product.defvjp(_product_fwd, _product_bwd)


def apply(options: Options, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """`product` of operands of any sharding and variance."""
    wide, operands = widened(operands)
    rule = options.rule(operands)
    return product(dataclasses.replace(options, wide=wide if any(wide) else ()), _partition.align(rule, operands))


@dataclasses.dataclass(frozen=True)
class _Factor:
    """One operand of a gradient's product."""

    array: jax.Array
    transposed: bool
    groups: str
    """Leading dimensions it has: "b" batch, "s" summed, as the forward product calls them."""


def _matrix_gradients(options: Options, a: jax.Array, b: jax.Array, dz: jax.Array, types: Sequence[Any]) -> list[jax.Array]:
    """da and db: d op(a) = dz op(b)^T, d op(b) = op(a)^T dz, without a transposition of arrays."""
    of_a = "b" * (options.batch_a and options.batch > 0) + "s" * (options.sum_a and options.sum > 0)
    of_b = "b" * (options.batch_b and options.batch > 0) + "s" * (options.sum_b and options.sum > 0)
    of_z = "b" * (options.batch > 0)
    ta, tb = options.transpose_a, options.transpose_b
    if ta:
        da = _contract(options, _Factor(b, tb, of_b), _Factor(dz, True, of_z), a, of_a, types[0])
    else:
        da = _contract(options, _Factor(dz, False, of_z), _Factor(b, not tb, of_b), a, of_a, types[0])
    if tb:
        db = _contract(options, _Factor(dz, True, of_z), _Factor(a, ta, of_a), b, of_b, types[1])
    else:
        db = _contract(options, _Factor(a, not ta, of_a), _Factor(dz, False, of_z), b, of_b, types[1])
    return [da, db]


def _contract(options: Options, left: _Factor, right: _Factor, like: jax.Array, keep: str, out: Any) -> jax.Array:
    """The gradient of `like`: a product of two factors, summed over all leading dimensions but the groups in `keep`."""
    rank = {"b": options.batch, "s": options.sum}
    shape: dict[str, tuple[int, ...]] = {}
    for factor in (left, right):
        at = 0
        for group in factor.groups:
            shape[group] = factor.array.shape[at : at + rank[group]]
            at += rank[group]
    kept = "".join(g for g in keep if g in left.groups + right.groups)
    summed = "".join(g for g in "bs" if g in left.groups + right.groups and g not in kept)

    def ordered(factor: _Factor) -> tuple[jax.Array, bool, bool]:
        """Its dimensions as kept, summed, matrix: all of a kind or none."""
        has = [any(g in factor.groups for g in kind) for kind in (kept, summed)]
        wanted = kept * has[0] + summed * has[1]
        array, matrix = factor.array, factor.array.shape[-2:]
        if factor.groups == "bs" and wanted == "sb":
            array = jnp.moveaxis(array, range(rank["b"]), range(rank["s"], rank["s"] + rank["b"]))
        elif factor.groups != wanted:
            ones = [n if g in factor.groups else 1 for g in wanted for n in shape[g]]
            array = jnp.broadcast_to(array.reshape(*ones, *matrix), (*(n for g in wanted for n in shape[g]), *matrix))
        return array, *has

    (x, batch_a, sum_a), (y, batch_b, sum_b) = ordered(left), ordered(right)
    gradient = Options(
        options.choice,
        options.dtype,
        jnp.dtype(out).name,
        left.transposed,
        right.transposed,
        options.route,
        batch=sum(rank[g] for g in kept),
        sum=sum(rank[g] for g in summed),
        batch_a=batch_a,
        batch_b=batch_b,
        sum_a=sum_a,
        sum_b=sum_b,
        gradient=True,
    )
    (result,) = product(gradient, _partition.align(gradient.rule((x, y)), (x, y)))
    # A group that neither factor has: its gradients are all the same.
    ones = [1 if g not in kept else n for g in keep for n in (shape[g] if g in kept else (1,) * rank[g])]
    return jnp.broadcast_to(result.reshape(*ones, *result.shape[-2:]), like.shape)
