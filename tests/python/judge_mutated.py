"""Which launches mutations of kernels are tried on: small ones that together execute what there is in a kernel."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attention_problems
import jax
import jax.numpy as jnp
import numpy as np
from attention_problems import Shape
from matmul_problems import ACTIVATIONS, Problem

import jaxator as jxt
import ops
from jaxator.judge import Launch
from jaxator.judge.mutations import executed
from jaxator.judge.ops import record
from ops import OpCase

HALVES = ("bfloat16", "float16")
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")
_FIRST_BLOCKS = 2

Record = Callable[[], list[Launch]]

# ---- rows ------------------------------------------------------------------------------------------------------------

_SMALL_ROWS = ((5, 512), (3, 4096), (6, 77))
# Long: four vectors a thread; several waves element by element. Many: more than the 64 sums that are added up in one go.
_MORE_ROWS = ((1, 12288), (1, 6144), (2, 1001), (140, 77))
# More rows than the backward pass of norms has blocks, so that each block has some: with a wave a row, several waves, four
# vectors a thread, element by element. Only the first blocks run.
_MANY_ROWS = ((3700, 64), (930, 640), (306, 12288), (306, 6144), (3700, 70))
# The last ones: fewer threads in a block than rows; heads that take several turns.
_SMALL_ROPE = ((1, 6, 4, 128), (2, 3, 3, 30))
_MORE_ROPE = ((2, 40, 1, 16), (2, 9, 1, 2), (1, 2, 1, 1100), (1, 2, 1, 2048))


def _row_op(case: OpCase, shape: tuple[int, ...], architecture: str, dtype: str, part: int) -> list[Launch]:
    operands = case.make(shape, dtype)
    function = jax.jit(functools.partial(case.value_and_vjp, implementation=architecture))
    launches = record(function, operands, case.cotangents(operands), part=part)
    # What adds up the sums of all blocks cannot run on those of two.
    return [launch for launch in launches if not part or "backward" in launch.kernel]


def _rows(family: str, architecture: str, dtype: str, quick: bool) -> Iterator[tuple[str, Record]]:
    is_norm = "norm" in family
    for case in (case for case in ops.CASES if family in case.name):
        shapes = _SMALL_ROPE if case.is_rope else _SMALL_ROWS
        if not quick:
            shapes += _MORE_ROPE if case.is_rope else _MORE_ROWS if is_norm else ()
        parts = [(shape, 0) for shape in shapes] + [(shape, _FIRST_BLOCKS) for shape in _MANY_ROWS if is_norm and not quick]
        for shape, part in parts:
            yield "", functools.partial(_row_op, case, shape, architecture, dtype, part)


# ---- matmul ----------------------------------------------------------------------------------------------------------


def _product(problem: Problem, architecture: str, backward: bool = False) -> list[Launch]:
    operands, cotangent = problem.operands(), problem.cotangent()
    if not backward:
        return record(jax.jit(functools.partial(problem, implementation=architecture)), *operands)
    return record(jax.jit(functools.partial(problem.value_and_vjp, implementation=architecture)), operands, cotangent)


def _products(architecture: str, dtype: str, quick: bool) -> Iterator[tuple[str, Record]]:
    # Sizes that are no multiples of anything but of 8, multiples of the tile, and rows that do not end where a vector does.
    layouts = ((False, False), (True, True), (False, True), (True, False))
    for a, b in layouts[:2] if quick else layouts:
        layout = dict(dtype=dtype, transpose_a=a, transpose_b=b)
        yield "", functools.partial(_product, Problem(250 if not a else 248, 208, 192, **layout), architecture)
        if quick:
            continue
        yield "", functools.partial(_product, Problem(256, 256, 256, **layout), architecture)
        for k in (72, 200):  # odd numbers of steps, of 32 and of 64
            yield "", functools.partial(_product, Problem(40, 48, k, **layout), architecture)
        n = 205 if b else 208
        more = dict(layout, has_bias=True, has_residual=True, lead_a=(2,))
        for activation in ACTIVATIONS:
            yield "", functools.partial(_product, Problem(40, 48, 64, activation=activation, **more), architecture)
        yield "", functools.partial(_product, Problem(40, n, 64, activation="gelu", **more), architecture, True)
        yield "", functools.partial(_product, Problem(40, n, 64, float32_result=True, **more), architecture)
        plain = Problem(40, 48, 64, float32_result=True, lead_a=(2,), **layout)
        yield "", functools.partial(_product, plain, architecture, True)
        # Blocks share the steps, and a second kernel adds up; that one too with whatever may follow the product.
        yield "", functools.partial(_product, Problem(40, 48, 2048, activation="silu", **more), architecture, True)
        # No 16 bytes: the loose kernel.
        yield "", functools.partial(_product, Problem(33, 35, 77, activation="gelu_tanh", **more), architecture, True)
    if quick:
        return
    for activation in ACTIVATIONS:
        problem = Problem(33, 36, 77, dtype, activation=activation, has_bias=True, has_residual=True, float32_result=True)
        yield "", functools.partial(_product, problem, architecture)
        problem = Problem(33, 37, 2048, dtype, activation=activation, has_bias=True, has_residual=True, transpose_b=True)
        yield "", functools.partial(_product, problem, architecture)
        problem = Problem(33, 40, 2048, dtype, activation=activation, has_bias=True, has_residual=True, float32_result=True)
        yield "", functools.partial(_product, problem, architecture)


def _eight_bits(
    types: tuple[str, str], m: int, n: int, k: int, architecture: str, special: bool = False, **options: Any
) -> list[Launch]:
    """With scales of rows and columns, bias and residual. special: some operands are NaN."""
    random = np.random.default_rng(0)
    a, b = (random.normal(size=shape).astype(jnp.dtype(t)) for shape, t in zip(((m, k), (n, k)), types, strict=True))
    if special:
        a[3, 5] = b[m % n, 7] = np.nan
    residual = random.normal(size=(m, n)).astype(jnp.bfloat16)
    rows, columns, bias = (random.random(size=count).astype(np.float32) + 0.5 for count in (m, n, n))
    function = functools.partial(jxt.matmul, transpose_b=True, implementation=architecture, **options)
    return record(
        jax.jit(
            lambda a, b, rows, columns, bias, residual: function(
                a, b, scale_a=rows, scale_b=columns, bias=bias, residual=residual
            )
        ),
        a, b, rows, columns, bias, residual,
    )  # fmt: skip


def _products_of_eight_bits(architecture: str) -> Iterator[tuple[str, Record]]:
    for types in itertools.product(EIGHT_BITS, repeat=2):
        for activation in ACTIVATIONS:
            for n in (48, 43):
                yield "", functools.partial(_eight_bits, types, 40, n, 128, architecture, activation=activation)
            yield "", functools.partial(_eight_bits, types, 40, 43, 77, architecture, activation=activation)
        f32 = dict(preferred_element_type=jnp.float32)
        for n, k in ((48, 256), (43, 128), (48, 77)):
            yield "", functools.partial(_eight_bits, types, 40, n, k, architecture, special=True, **f32)
        for k in (192, 336, 512):  # odd and even numbers of steps
            yield "", functools.partial(_eight_bits, types, 40, 48, k, architecture)


# ---- attention -------------------------------------------------------------------------------------------------------


def _attention(case: attention_problems.Case, architecture: str, dtype: str, forward_only: bool = False) -> list[Launch]:
    problem = attention_problems.make(case, dtype)
    if forward_only:
        call = functools.partial(attention_problems.call, case, implementation=architecture)
        return record(jax.jit(call), problem.arrays)
    run = functools.partial(attention_problems.value_and_vjp, case, implementation=architecture)
    return record(jax.jit(run), problem.arrays, problem.cotangents)


def _attentions(architecture: str, dtype: str, quick: bool) -> Iterator[tuple[str, Record]]:
    def one(size: int, length: int, forward_only: bool = False, heads: int = 1, **options: Any) -> tuple[str, Record]:
        case = attention_problems.Case(Shape(1, length, length, heads, 1, size, size), **options)
        label = f" head size {128 if size > 64 else 64}"
        return label, functools.partial(_attention, case, architecture, dtype, forward_only)

    for size in (128,) if quick else (128, 64):
        # Lengths that are no multiples of anything, and lengths that are.
        yield one(size, 300, causal=True, forward_only=quick, heads=2)
        if quick:
            continue
        yield one(size, 512, residual=False)
        yield one(size - 8, 70)
        for bias in ("float32", "bfloat16", "float16"):
            yield one(size, 100, bias="NTS", bias_dtype=bias, mask="NTS")
        yield one(size, 100, bias="NTS", query_lengths=True, key_lengths=True)
        yield one(size, 130, segments=True, query_lengths=True, key_lengths=True, heads=2)
        yield one(size, 300, mask="TS")
        yield one(size, 300, segments=True, causal=True, bias="S")
        yield one(size, 300, query_lengths=True, key_lengths=True, bottom_right=True, causal=True)
        yield one(size, 300, window=(40, 30), residual=False)
        yield one(size, 300, window=(40, 30), mask="BNTS", bias="T", key_lengths=True)


# ---- all -------------------------------------------------------------------------------------------------------------


FAMILIES: dict[str, tuple[str, ...]] = {
    "rms_norm": ops.DTYPES, "layer_norm": ops.DTYPES, "swiglu": ops.DTYPES, "rope": ops.DTYPES,
    "matmul": HALVES, "matmul_e": ("bfloat16",), "attention": HALVES,
}  # fmt: skip
"""How names of kernels begin, and the element types that have such. Eight bits go with bfloat16."""


def _records(family: str, architecture: str, dtype: str, quick: bool) -> Iterator[tuple[str, Record]]:
    """(label behind the kernels' names, launches)"""
    if family == "attention":
        return _attentions(architecture, dtype, quick)
    if family == "matmul":
        return _products(architecture, dtype, quick)
    if family == "matmul_e":
        return iter(()) if quick else _products_of_eight_bits(architecture)
    return _rows(family, architecture, dtype, quick)


@functools.cache
def launches_to_mutate(
    architecture: str, dtype: str, quick: bool, families: tuple[str, ...] = tuple(FAMILIES)
) -> Mapping[str, tuple[Launch, ...]]:
    """Kernel -> launches, small enough to run hundreds of times; those with few waves first.

    quick: fewer of them, so that not every wait is reached.
    """
    found: dict[str, list[Launch]] = {}
    for family in families:
        if dtype in FAMILIES[family]:
            for label, run in _records(family, architecture, dtype, quick):
                for launch in run():
                    found.setdefault(launch.kernel + label, []).append(launch)
    return {kernel: _different(launches) for kernel, launches in found.items()}


def _different(launches: list[Launch]) -> tuple[Launch, ...]:
    """One of those that execute the same instructions with as many waves, and in whole or in part."""
    kinds: dict[Any, Launch] = {}
    for launch in sorted(launches, key=lambda launch: launch.geometry.workgroups * launch.geometry.waves):
        geometry = launch.geometry
        kinds.setdefault((geometry.part > 0, geometry.block, executed(launch)), launch)
    return tuple(kinds.values())
