"""Attention forward on a GPU: every option, alone and in pairs, within bounds of float64; under capture and transforms."""

from __future__ import annotations

import dataclasses
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
from test_attention_values import OPTIONS

import jaxator as jxt

ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Of the probabilities, which the matrix units take in the type of the values."""

every_dtype = pytest.mark.parametrize("dtype", ROUNDING)
on_gpu = pytest.mark.gpu


def gpu() -> Any:
    return jax.devices("cuda")[0]


def programs(given: Sequence[Problem], **options: Any) -> Any:
    """Runs the forward pass of all problems, in one program: out and lse of each."""
    cases = [dataclasses.replace(p.case, residual=True) for p in given]

    def program(arrays: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        results = [problems.call(c, a, implementation="cuda") for c, a in zip(cases, arrays, strict=True)]
        return [dict(zip(("out", "lse"), r, strict=True)) for r in results]

    return jax.jit(program, **options)


def forward(given: Sequence[Problem]) -> list[dict[str, Any]]:
    return programs(given)(jax.device_put([p.arrays for p in given], gpu()))


def check(given: dict[Any, Problem]) -> None:
    """Within the bounds; exact zeros and -inf in rows that see nothing; the same bits when run again."""
    arrays = jax.device_put([p.arrays for p in given.values()], gpu())
    program = programs(list(given.values()))
    results, again = program(arrays), program(arrays)
    for (name, problem), got, repeated in zip(given.items(), results, again, strict=True):
        dtype = problem.inputs.q.dtype.name
        exact = reference.attention(problem.inputs, rounding_of_p=ROUNDING[dtype])
        for key, bound in exact.items():
            reference.assert_within(got[key], bound, f"{name} {dtype} {key}")
        blind = np.isneginf(exact["lse"].value)
        assert (np.asarray(got["out"])[blind] == 0).all(), f"{name}: rows that see nothing"
        problems.assert_same(repeated, got, f"{name}: run again")


def made(cases: dict[Any, Case], dtype: str) -> dict[Any, Problem]:
    return {name: problems.make(case, dtype) for name, case in cases.items()}


@on_gpu
@every_dtype
def test_every_option(dtype: str) -> None:
    check(made(OPTIONS, dtype))


SINGLE: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "bottom right": {"bottom_right": True},
    "window": {"window": (60, 20)},
    "left window": {"window": (130, 0)},
    "query lengths": {"query_lengths": True},
    "key lengths": {"key_lengths": True},
    "segments": {"segments": True},
    "mask": {"mask": "BNTS"},
    "bias": {"bias": "BNTS"},
    "scale": {"scale": -0.21},
}


@on_gpu
@every_dtype
@pytest.mark.parametrize("size", [40, 72, 136])
def test_pairs_of_options_over_several_tiles(size: int, dtype: str) -> None:
    """The sizes take the kernels for 64, 128 and 256; tiles are 128 or 192 queries by 32 to 128 keys."""
    shape = Shape(b=3, t=205, s=150, n=2, k=1, h=size, v=size)
    pairs = itertools.combinations_with_replacement(SINGLE, 2)
    check(made({f"{a}, {b}": Case(shape, **(SINGLE[a] | SINGLE[b])) for a, b in pairs}, dtype))


@on_gpu
@every_dtype
def test_head_sizes(dtype: str) -> None:
    square = (1, 7, 8, 24, 40, 63, 64, 65, 72, 80, 96, 112, 127, 128, 136, 192, 200, 255, 256)
    sizes = [*((n, n) for n in square), (192, 128), (8, 256), (256, 8), (33, 100)]
    cases = {size: Case(Shape(1, 133, 141, 2, 1, *size), causal=True, bottom_right=True) for size in sizes}
    check(made(cases, dtype))


@on_gpu
@every_dtype
def test_lengths_around_tiles(dtype: str) -> None:
    lengths = [
        (1, 1),
        (1, 129),
        (2, 3),
        (63, 64),
        (64, 65),
        (127, 129),
        (128, 128),
        (129, 127),
        (191, 193),
        (257, 1),
        (640, 384),
    ]
    cases = {
        (t, s, size, causal): Case(Shape(1, t, s, 1, 1, size, size), causal=causal)
        for (t, s), size, causal in itertools.product(lengths, (40, 72, 136), (False, True))
    }
    check(made(cases, dtype))


@on_gpu
@every_dtype
@pytest.mark.parametrize("name", ["bias", "mask"])
def test_broadcasts(name: str, dtype: str) -> None:
    """Every subset of [B, N, T, S], the bias in each dtype, even and odd key lengths (read two at a time, and one)."""
    cases = {}
    for i, (axes, keys) in enumerate(itertools.product(problems.broadcasts(), (90, 91))):
        extra = {"bias_dtype": ("float32", "bfloat16", "float16")[i % 3]} if name == "bias" else {}
        cases[axes, keys] = Case(Shape(t=75, s=keys, h=40, v=40), **{name: axes}, **extra)
    check(made(cases, dtype))


@on_gpu
@every_dtype
def test_zero_sizes(dtype: str) -> None:
    for zero in ("b", "t", "s"):
        problem = problems.make(Case(Shape(**(Shape(b=2, t=3, s=4, n=2, k=1, h=8, v=8)._asdict() | {zero: 0}))), dtype)
        (got,) = forward([problem])
        assert (np.asarray(got["out"]) == 0).all() and np.isneginf(np.asarray(got["lse"])).all()


@on_gpu
@every_dtype
def test_zero_lengths_leave_the_others_untouched(dtype: str) -> None:
    """ROCm/flash-attention#179: exact zeros for the empty entry, the bits of a plain call for the others."""
    shape = Shape(b=3, t=140, s=148, h=128, v=128)
    plain = problems.make(Case(shape), dtype, poison=False)
    (whole,) = forward([plain])
    for lengths in ({"query_lengths": [140, 0, 140]}, {"key_lengths": [148, 0, 148]}):
        case = Case(shape, **dict.fromkeys(lengths, True))
        arrays = {name: np.array(a, np.int32) for name, a in lengths.items()}
        problem = problems.poisoned(Problem(case, plain.with_arrays(**arrays).inputs, plain.dout, plain.dlse))
        (got,) = forward([problem])
        for key, empty in (("out", 0), ("lse", -np.inf)):
            np.testing.assert_array_equal(np.asarray(got[key])[[0, 2]], np.asarray(whole[key])[[0, 2]])
            assert (np.asarray(got[key])[1] == empty).all()


@on_gpu
@pytest.mark.parametrize("name", ["several tiles", "everything"])
def test_captured_calls(name: str) -> None:
    """A CUDA graph of the single call, replayed with fresh buffers: the bits of a plain call."""
    given = [problems.make(OPTIONS[name], "bfloat16", seed) for seed in range(3)]
    plain = [forward([p])[0] for p in given]
    case = dataclasses.replace(given[0].case, residual=True)
    options = {"xla_gpu_graph_min_graph_size": 1}
    captured = jax.jit(lambda arrays: problems.call(case, arrays, implementation="cuda"), compiler_options=options)
    kept = []
    for _ in range(3):
        for problem, want in zip(given, plain, strict=True):
            kept.append(jax.device_put(problem.arrays, gpu()))
            got = captured(kept[-1])
            problems.assert_same(dict(zip(("out", "lse"), got, strict=True)), want)


@on_gpu
def test_vmap_and_scan() -> None:
    case = Case(Shape(b=2, t=70, s=75, h=64, v=64), mask="BTS", key_lengths=True, causal=True)
    given = [problems.make(case, "bfloat16", seed) for seed in range(3)]
    stacked = jax.device_put(jax.tree.map(lambda *a: np.stack(a), *(p.arrays for p in given)), gpu())
    one = lambda arrays: problems.call(case, arrays, implementation="cuda")  # noqa: E731
    mapped = jax.jit(jax.vmap(one))(stacked)
    scanned = jax.jit(lambda stacked: jax.lax.scan(lambda carry, a: (carry, one(a)), 0, stacked)[1])(stacked)
    for i, problem in enumerate(given):
        (alone,) = forward([problem])
        for got in (mapped, scanned):
            problems.assert_same(tuple(a[i] for a in got), (alone["out"], alone["lse"]))


@on_gpu
def test_vmap_over_some_operands() -> None:
    """jax-ml/jax#38495: nested, over the queries alone, then over all."""
    case = Case(Shape(b=1, t=20, s=30, h=64, v=64))
    problem = problems.make(case, "bfloat16")
    arrays = jax.device_put(problem.arrays, gpu())
    queries = jnp.stack([arrays["q"] * f for f in (1, 2, 3)])
    one = lambda q, k, v: jxt.dot_product_attention(q, k, v, implementation="cuda")  # noqa: E731
    got = jax.jit(jax.vmap(jax.vmap(one, (0, None, None)), (None, 0, 0)))(queries, arrays["k"][None], arrays["v"][None])
    for i in range(3):
        problems.assert_same(got[0, i], jax.jit(one)(queries[i], arrays["k"], arrays["v"]))


@on_gpu
def test_more_than_two_to_the_31_elements() -> None:
    """Of q and out: the last batch entries are those of a small call."""
    b, t, n, h = 33, 4096, 128, 128
    q = jax.jit(lambda: jax.random.normal(jax.random.key(0), (1, t, n, h), jnp.bfloat16))()
    k, v = (jax.random.normal(jax.random.key(i), (b, 256, 1, h), jnp.bfloat16) for i in (1, 2))
    attend = jax.jit(
        lambda q, k, v: jxt.dot_product_attention(q, k, v, is_causal=True, implementation="cuda", return_residual=True)
    )
    out, lse = attend(jnp.broadcast_to(q, (b, t, n, h)), k, v)
    assert out.size > 2**31
    for entry in (0, b - 1):
        problems.assert_same((out[entry:][:1], lse[entry:][:1]), attend(q, k[entry:][:1], v[entry:][:1]))


def test_lowered_without_a_gpu() -> None:
    """bfloat16 becomes the kernel's call; float32 the XLA formulation, or an error where the kernel was named."""
    q = jax.ShapeDtypeStruct((2, 10, 4, 20), jnp.bfloat16)

    def text(dtype: Any, **options: Any) -> str:
        shaped = jax.ShapeDtypeStruct(q.shape, dtype)
        traced = jax.jit(lambda q: jxt.dot_product_attention(q, q, q, **options)).trace(shaped)
        return traced.lower(lowering_platforms=("cuda",)).as_text()

    assert "jaxator.attention_forward" in text(jnp.bfloat16)
    assert "jaxator.attention_forward" not in text(jnp.float32)
    with pytest.raises(jxt.UnsupportedError, match="dtype=float32: must be bfloat16 or float16"):
        text(jnp.float32, implementation="cuda")
