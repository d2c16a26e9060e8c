"""Attention under vmap: any subset of the arguments, nested, differentiated from inside and outside."""

import dataclasses
import functools
import itertools

import attention_problems as problems
import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape

import jaxator as jxt

CASE = Case(
    Shape(2, 9, 11, 4, 2, 8, 6),
    bias="NTS",
    mask="BTS",
    query_lengths=True,
    key_lengths=True,
    segments=True,
    causal=True,
    bottom_right=True,
)
NAMES = ("q", "k", "v", *problems.OPTIONAL)


def some_subsets() -> list[tuple[str, ...]]:
    """Each argument alone, all but each, all, and some at random."""
    random = np.random.default_rng(0)
    singles = [(n,) for n in NAMES] + [tuple(m for m in NAMES if m != n) for n in NAMES]
    return [*singles, NAMES, *(tuple(n for n in NAMES if random.random() < 0.5) for _ in range(4))]


def check_vmap(case: Case, subset: tuple[str, ...], size: int = 3) -> None:
    many = [problems.make(case, seed=seed, poison=False) for seed in range(size)]
    stack = jax.tree.map(lambda *a: np.stack(a), *(p.arrays for p in many))
    cotangents = jax.tree.map(lambda *a: np.stack(a), *(p.cotangents for p in many))
    given = {n: a if n in subset else jax.tree.map(lambda x: x[0], a) for n, a in stack.items()}
    axes = {n: jax.tree.map(lambda _: 0, a) if n in subset else None for n, a in given.items()}
    run = jax.vmap(functools.partial(problems.value_and_vjp, case), in_axes=(axes, 0))
    got = jax.jit(run)(given, cotangents)
    for i, own in enumerate(many):
        problem = own.with_arrays(**{n: a for n, a in many[0].arrays.items() if n not in subset})
        problem.check({n: a[i] for n, a in got.items()}, what=f"mapped {subset} [{i}]")


@pytest.mark.parametrize("subset", some_subsets(), ids="-".join)
def test_vmap_over_a_subset_of_arguments(subset: tuple[str, ...]) -> None:
    check_vmap(CASE, subset)


@pytest.mark.full
def test_vmap_over_every_subset_of_arguments() -> None:
    for bits in itertools.product((False, True), repeat=len(NAMES)):
        if any(bits):
            check_vmap(CASE, tuple(n for n, mapped in zip(NAMES, bits, strict=True) if mapped), size=2)


@pytest.mark.parametrize("axes", ["", "B", "N", "BS", "TS", "BNTS"])
@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "shared"])
def test_vmap_of_a_broadcast_bias(axes: str, mapped: bool) -> None:
    check_vmap(Case(CASE.shape, bias=axes, bias_dtype="bfloat16"), ("q", "bias") if mapped else ("q",))


def test_vmap_of_other_axes_and_of_the_unbatched_form() -> None:
    """[T, N, H] mapped over the last axis is a batch."""
    case = Case(Shape(3, 9, 11, 4, 2, 8, 6), causal=True)
    problem = problems.make(case, poison=False)

    def one(q, k, v):
        return jxt.dot_product_attention(q, k, v, is_causal=True, return_residual=True)

    moved = [np.moveaxis(problem.arrays[n], 0, -1) for n in "qkv"]
    out, lse = jax.jit(jax.vmap(one, in_axes=-1, out_axes=1))(*moved)
    exact = problem.exact()
    reference.assert_within(jnp.moveaxis(out, 1, 0), exact["out"])
    reference.assert_within(jnp.moveaxis(lse, 1, 0), exact["lse"])


@pytest.mark.parametrize("bias", ["NTS", "B"])
def test_nested_vmap(bias: str) -> None:
    """jax-ml/jax#38495: each operand mapped by the outer vmap, the inner one, both or neither."""
    case = dataclasses.replace(CASE, bias=bias)
    kinds = {
        "q": "both",
        "k": "inner",
        "v": "outer",
        "bias": "inner",
        "mask": "outer",
        "query_lengths": "both",
        "key_lengths": "neither",
        "segments": "inner",
    }
    grid = [[problems.make(case, seed=3 * i + j, poison=False) for j in range(3)] for i in range(2)]
    index = {"both": (slice(None), slice(None)), "inner": (0, slice(None)), "outer": (slice(None), 0), "neither": (0, 0)}
    two = jax.tree.map(lambda *a: np.stack(a).reshape(2, 3, *np.shape(a[0])), *(p.arrays for row in grid for p in row))
    given = {n: jax.tree.map(lambda a, n=n: a[index[kinds[n]]], tree) for n, tree in two.items()}
    cotangents = jax.tree.map(
        lambda *a: np.stack(a).reshape(2, 3, *np.shape(a[0])), *(p.cotangents for row in grid for p in row)
    )

    def axes(level: str):
        return {n: jax.tree.map(lambda _: 0, a) if kinds[n] in ("both", level) else None for n, a in given.items()}

    run = jax.vmap(
        jax.vmap(functools.partial(problems.value_and_vjp, case), in_axes=(axes("inner"), 0)), in_axes=(axes("outer"), 0)
    )
    got = jax.jit(run)(given, cotangents)
    for i, j in itertools.product(range(2), range(3)):
        source = {"both": (i, j), "inner": (0, j), "outer": (i, 0), "neither": (0, 0)}
        arrays = {n: grid[source[kinds[n]][0]][source[kinds[n]][1]].arrays[n] for n in kinds}
        grid[i][j].with_arrays(**arrays).check({n: a[i, j] for n, a in got.items()}, what=f"[{i}, {j}]")


def test_gradient_of_a_vmapped_call_sums_over_what_is_shared() -> None:
    case = Case(Shape(4, 9, 11, 4, 2, 8, 6), bias="NTS", causal=True)
    problem = problems.make(case, poison=False)
    one = dataclasses.replace(case, shape=case.shape._replace(b=1))
    arrays = problem.arrays
    names = ("q", "k", "v", "bias")

    def mapped(*some):
        return jax.vmap(lambda *a: problems.call(one, dict(zip(names, a, strict=True))), in_axes=(0, 0, 0, None))(*some)

    split = [arrays[n][:, None] for n in "qkv"] + [arrays["bias"]]
    (out, lse), vjp = jax.vjp(mapped, *map(jnp.asarray, split))
    gradients = vjp((problem.dout[:, None], problem.dlse[:, None]))
    results = {"out": out[:, 0], "lse": lse[:, 0]} | {
        f"d{n}": g if n == "bias" else g[:, 0] for n, g in zip(names, gradients, strict=True)
    }
    # Each element's dbias is rounded once to float32 before the sum.
    problem.check(results, slack=1.01)


def test_jacobian() -> None:
    """jacrev maps the backward pass over all cotangents."""
    problem = problems.make(Case(Shape(1, 3, 4, 2, 1, 4, 2), causal=True, residual=False), poison=False)
    q, k, v = (jnp.asarray(problem.arrays[n]) for n in "qkv")
    got = np.asarray(jax.jit(jax.jacrev(lambda q: jxt.dot_product_attention(q, k, v, is_causal=True)))(q))
    for at in np.ndindex(problem.dout.shape):
        unit = np.zeros_like(problem.dout)
        unit[at] = 1
        reference.assert_within(got[at], reference.attention(problem.inputs, unit)["dq"], f"row {at}")


def test_vmap_of_nothing() -> None:
    problem = problems.make(CASE, poison=False)
    empty = jax.tree.map(lambda a: np.zeros((0, *np.shape(a)), a.dtype), (problem.arrays, problem.cotangents))
    got = jax.jit(jax.vmap(functools.partial(problems.value_and_vjp, CASE)))(*empty)
    assert {n: a.shape[1:] for n, a in got.items()} == {n: b.value.shape for n, b in problem.exact().items()}
