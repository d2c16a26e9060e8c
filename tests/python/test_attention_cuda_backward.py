"""Attention gradients on a GPU: every option, alone and in pairs, within the bounds of float64; the same bits each time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import attention_problems as problems
import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Problem, Shape
from test_attention_cuda import ROUNDING, SINGLE, every_dtype, gpu, on_gpu
from test_attention_values import OPTIONS

import jaxator as jxt

FLOATS = ("dq", "dk", "dv", "dbias")


def gradients(given: Sequence[Problem], **options: Any) -> list[dict[str, Any]]:
    """out, lse and gradients of each problem, all in one program."""

    def program(*arrays: tuple[Any, Any]) -> list[Any]:
        return [
            problems.value_and_vjp(p.case, *a, implementation="cuda", **options) for p, a in zip(given, arrays, strict=True)
        ]

    return jax.jit(program)(*jax.device_put([(p.arrays, p.cotangents) for p in given], gpu()))


def exact(problem: Problem) -> dict[str, reference.Bounded]:
    """P is rounded before dS is computed from it, and dS is rounded: twice the rounding of one."""
    return problem.exact(2 * ROUNDING[problem.inputs.q.dtype.name])


def check(given: dict[Any, Problem]) -> None:
    """Within the bounds; zeros in rows that see nothing and in padding; the same bits when run again."""
    results, again = gradients(list(given.values())), gradients(list(given.values()))
    for (name, problem), got, repeated in zip(given.items(), results, again, strict=True):
        dtype = problem.inputs.q.dtype.name
        problem.check(got, exact(problem), f"{name} {dtype}")
        problems.assert_same(repeated, got, f"{name}: run again")
        blind = np.isneginf(reference.attention(problem.inputs)["lse"].value)
        assert (np.asarray(got["dq"])[blind] == 0).all(), f"{name}: rows that see nothing"
        padding = ~problem.inputs.key_is_real()
        for key in ("dk", "dv"):
            assert (np.asarray(got[key])[padding] == 0).all(), f"{name} {key}: padding"


def made(cases: dict[Any, Case], dtype: str) -> dict[Any, Problem]:
    return {name: problems.make(case, dtype) for name, case in cases.items()}


@on_gpu
@every_dtype
def test_every_option(dtype: str) -> None:
    check(made({name: case for name, case in OPTIONS.items() if max(case.shape.h, case.shape.v) <= 128}, dtype))


@on_gpu
@every_dtype
@pytest.mark.parametrize("size", [64, 128])
def test_pairs_of_options_over_several_tiles(size: int, dtype: str) -> None:
    """Tiles are 64 or 128 queries by 128 keys; the lengths are multiples of neither."""
    shape = Shape(b=3, t=200, s=190, n=2, k=1, h=size, v=size)
    pairs = itertools.combinations_with_replacement(SINGLE, 2)
    check(made({f"{a}, {b}": Case(shape, **(SINGLE[a] | SINGLE[b])) for a, b in pairs}, dtype))


@on_gpu
@every_dtype
def test_several_key_heads(dtype: str) -> None:
    """Groups of 1, 2, 3 and all heads; dk and dv in the type of the arrays and, with one key head, in float32."""
    cases = {}
    for (n, k), size in itertools.product(((4, 4), (4, 2), (6, 2), (5, 1)), (64, 128)):
        cases[n, k, size] = Case(Shape(1, 200, 190, n, k, size, size), causal=True)
    check(made(cases, dtype))


@on_gpu
@every_dtype
def test_head_sizes(dtype: str) -> None:
    equal = (1, 7, 8, 24, 40, 63, 64, 65, 72, 80, 96, 112, 127, 128)
    sizes = [*((n, n) for n in equal), (128, 64), (8, 128), (128, 8), (33, 100)]
    cases = {size: Case(Shape(1, 133, 141, 2, 1, *size), causal=True, bottom_right=True) for size in sizes}
    check(made(cases, dtype))


@on_gpu
@every_dtype
def test_wider_heads_take_the_formulation(dtype: str) -> None:
    """The forward kernel's out and lse with the gradients of the XLA formulation, which is chosen at trace time."""
    for shape in (Shape(1, 33, 41, 2, 1, 136, 136), Shape(1, 33, 41, 2, 1, 64, 256)):
        problem = problems.make(Case(shape, causal=True), dtype)
        program = jax.jit(functools.partial(problems.value_and_vjp, problem.case, implementation=None))
        got = program(*jax.device_put((problem.arrays, problem.cotangents), gpu()))
        problem.check(got, exact(problem), f"{shape}", slack=4)


@on_gpu
@every_dtype
def test_lengths_around_tiles(dtype: str) -> None:
    lengths = [(1, 1), (1, 129), (2, 3), (63, 64), (64, 65), (127, 129), (128, 128), (129, 127), (192, 256), (257, 1)]
    cases = {
        (t, s, size, causal): Case(Shape(2, t, s, 3, 3, size, size), causal=causal)
        for (t, s), size, causal in itertools.product(lengths, (64, 128), (False, True))
    }
    check(made(cases, dtype))


@on_gpu
@every_dtype
def test_bias_gradients(dtype: str) -> None:
    """Every subset of [B, N, T, S] in every dtype, over several tiles in both directions."""
    cases = {}
    for axes, (t, s) in itertools.product(problems.broadcasts(), ((150, 300), (75, 91))):
        for bias_dtype in ("float32", "bfloat16", "float16"):
            cases[axes, t, bias_dtype] = Case(Shape(t=t, s=s, h=64, v=64), bias=axes, bias_dtype=bias_dtype)
    check(made(cases, dtype))


@on_gpu
@every_dtype
def test_zero_sizes(dtype: str) -> None:
    for zero, bias in itertools.product(("b", "t", "s"), (None, "", "NTS")):
        shape = Shape(**(Shape(b=2, t=3, s=4, n=2, k=1, h=8, v=8)._asdict() | {zero: 0}))
        problem = problems.make(Case(shape, bias=bias), dtype)
        (got,) = gradients([problem])
        for name in FLOATS:
            assert name not in got or (np.asarray(got[name]) == 0).all(), f"{zero} {bias} {name}"


@on_gpu
@every_dtype
def test_zero_lengths_leave_the_others_untouched(dtype: str) -> None:
    """ROCm/flash-attention#179: exact zeros for the empty entry, the bits of a plain call for the others."""
    shape = Shape(b=3, t=140, s=148, h=128, v=128)
    plain = problems.make(Case(shape), dtype, poison=False)
    (whole,) = gradients([plain])
    for lengths in ({"query_lengths": [140, 0, 140]}, {"key_lengths": [148, 0, 148]}):
        case = Case(shape, **dict.fromkeys(lengths, True))
        arrays = {name: np.array(a, np.int32) for name, a in lengths.items()}
        problem = problems.poisoned(Problem(case, plain.with_arrays(**arrays).inputs, plain.dout, plain.dlse))
        (got,) = gradients([problem])
        for key in ("dq", "dk", "dv"):
            np.testing.assert_array_equal(np.asarray(got[key])[[0, 2]], np.asarray(whole[key])[[0, 2]])
            assert (np.asarray(got[key])[1] == 0).all()


@on_gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [64, 128])
def test_relaunches_are_bit_equal(size: int, causal: bool) -> None:
    """Blocks of dq get their sums from 32 blocks of keys, in an order that does not depend on timing."""
    shapes = [(2, 4096, heads, size) for heads in (8, 2, 2, 8)]
    drawn = [jax.random.normal(jax.random.key(i), shape, jnp.bfloat16) for i, shape in enumerate(shapes)]
    q, k, v, dout = jax.device_put(drawn, gpu())
    attend = functools.partial(jxt.dot_product_attention, is_causal=causal, implementation="cuda")
    program = jax.jit(lambda q, k, v, dout: jax.vjp(attend, q, k, v)[1](dout))
    first = program(q, k, v, dout)
    for _ in range(20):
        problems.assert_same(program(q, k, v, dout), first)


@on_gpu
@pytest.mark.parametrize("name", ["several tiles", "everything"])
def test_captured_calls(name: str) -> None:
    """A CUDA graph of the calls, replayed with fresh buffers: the bits of a plain call."""
    given = [problems.make(OPTIONS[name], "bfloat16", seed) for seed in range(3)]
    plain = [gradients([p])[0] for p in given]
    program = functools.partial(problems.value_and_vjp, given[0].case, implementation="cuda")
    captured = jax.jit(program, compiler_options={"xla_gpu_graph_min_graph_size": 1})
    kept = []
    for _ in range(3):
        for problem, want in zip(given, plain, strict=True):
            kept.append(jax.device_put((problem.arrays, problem.cotangents), gpu()))
            problems.assert_same(captured(*kept[-1]), want)


@on_gpu
def test_vmap_and_scan() -> None:
    case = Case(Shape(b=2, t=70, s=75, h=64, v=64), mask="BTS", bias="NTS", key_lengths=True, causal=True)
    given = [problems.make(case, "bfloat16", seed) for seed in range(3)]
    stacked = jax.device_put(jax.tree.map(lambda *a: np.stack(a), *((p.arrays, p.cotangents) for p in given)), gpu())
    one = functools.partial(problems.value_and_vjp, case, implementation="cuda")
    mapped = jax.jit(jax.vmap(one))(*stacked)
    scanned = jax.jit(lambda *stacked: jax.lax.scan(lambda carry, a: (carry, one(*a)), 0, stacked)[1])(*stacked)
    for i, problem in enumerate(given):
        (want,) = gradients([problem])
        for got in (mapped, scanned):
            problem.check({name: a[i] for name, a in got.items()}, exact(problem))
        problems.assert_same({name: a[i] for name, a in scanned.items()}, want)


@on_gpu
def test_more_than_two_to_the_31_elements() -> None:
    """Of q, dout and dq: the last batch entries are those of a small call."""
    b, t, n, h = 33, 4096, 128, 128
    small = [jax.random.normal(jax.random.key(i), (1, t, n, h), jnp.bfloat16) for i in (0, 1)]
    k, v = (jax.random.normal(jax.random.key(i), (b, 256, 2, h), jnp.bfloat16) for i in (2, 3))
    attend = functools.partial(jxt.dot_product_attention, is_causal=True, implementation="cuda")
    program = jax.jit(lambda q, k, v, dout: jax.vjp(attend, q, k, v)[1](dout))
    q, dout = (jnp.broadcast_to(a, (b, t, n, h)) for a in small)
    assert q.size > 2**31
    got = program(q, k, v, dout)
    for entry in (0, b - 1):
        want = program(small[0], k[entry:][:1], v[entry:][:1], small[1])
        problems.assert_same(tuple(g[entry:][:1] for g in got), want)


def test_lowered_without_a_gpu() -> None:
    """The kernel's call up to a head size of 128, beyond that the forward kernel with the formulation's gradients."""

    def text(size: int, **options: Any) -> str:
        q = jax.ShapeDtypeStruct((2, 10, 4, size), jnp.bfloat16)
        loss = lambda q: jxt.dot_product_attention(q, q, q, **options).astype(jnp.float32).sum()  # noqa: E731
        return jax.jit(jax.grad(loss)).trace(q).lower(lowering_platforms=("cuda",)).as_text()

    assert "jaxator.attention_backward" in text(20) and "jaxator.attention_backward" in text(128)
    wide = text(136)
    assert "jaxator.attention_forward" in wide and "jaxator.attention_backward" not in wide
    with pytest.raises(jxt.UnsupportedError, match="head size=136: must be at most 128 for the backward pass"):
        text(136, implementation="cuda")
