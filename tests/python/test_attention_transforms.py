"""Attention under jit, grad, vmap, scan, remat, forward mode and second derivatives."""

import dataclasses
import functools
import itertools
import re

import attention_problems as problems
import attention_reference as reference
import hlo
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape

import jaxator as jxt

CASE = Case(Shape(2, 9, 11, 4, 2, 8, 6), bias="NTS", mask="BTS", query_lengths=True, key_lengths=True, segments=True, causal=True, bottom_right=True)
NAMES = ("q", "k", "v", *problems.OPTIONAL)


def assert_right(problem: problems.Problem, results, what: str = "") -> None:
    problem.check(results, what=what)


def objective(problem: problems.Problem, floats, **options):
    """<cotangents, results> as a function of the float arrays in `floats`."""

    def value(*some):
        results = problems.call(problem.case, problem.arrays | dict(zip(floats, some, strict=True)), **options)
        results = results if isinstance(results, tuple) else (results,)
        blind = np.isneginf(reference.attention(problem.inputs)["lse"].value)
        total = jnp.vdot(results[0].astype(jnp.float32), jnp.where(blind[..., None], 0, problem.dout).astype(jnp.float32))
        return total + (jnp.sum(jnp.where(blind, 0, results[-1]) * jnp.where(blind, 0, problem.dlse)) if problem.case.residual else 0)

    return value


# ---- jit and grad -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", problems.DTYPES)
def test_jit_changes_nothing(dtype: str) -> None:
    problem = problems.make(CASE, dtype)
    eager = problems.value_and_vjp(CASE, problem.arrays, problem.cotangents)
    problems.assert_same(jax.jit(functools.partial(problems.value_and_vjp, CASE))(problem.arrays, problem.cotangents), eager)
    problem.check(eager, problem.exact(2.0**-8 if dtype == "bfloat16" else 0))


def test_grad_and_value_and_grad() -> None:
    problem = problems.make(CASE)
    floats = ("q", "k", "v", "bias")
    some = tuple(map(jnp.asarray, (problem.arrays[n] for n in floats)))
    exact = problem.exact()
    gradients = jax.grad(objective(problem, floats), argnums=(0, 1, 2, 3))(*some)
    _, again = jax.jit(jax.value_and_grad(objective(problem, floats), argnums=(0, 1, 2, 3)))(*some)
    for name, one, two in zip(floats, gradients, again, strict=True):
        reference.assert_within(one, exact[f"d{name}"], name)
        reference.assert_within(two, exact[f"d{name}"], name)


def test_only_one_output_is_used() -> None:
    """Missing cotangents count as zeros."""
    problem = problems.make(Case(CASE.shape, causal=True), poison=False)
    q, k, v = (jnp.asarray(problem.arrays[n]) for n in "qkv")
    for used, cotangents in ((0, (problem.dout, None)), (1, (None, problem.dlse))):
        exact = reference.attention(problem.inputs, *cotangents)
        got = jax.grad(lambda *a, used=used: jnp.vdot(problems.call(problem.case, dict(zip("qkv", a, strict=True)))[used], problem.cotangents[used]), (0, 1, 2))(q, k, v)
        for name, gradient in zip("qkv", got, strict=True):
            reference.assert_within(gradient, exact[f"d{name}"], f"only result {used}, d{name}")


def backward_bias_gradients(function, *arrays) -> list[str]:
    text = jax.jit(function).lower(*arrays).compile().as_text()
    return [re.search(r"bias_gradient = (\w+)", line)[1] for line in text.splitlines() if 'custom_call_target="jaxator.attention_backward"' in line]


@pytest.mark.parametrize("axes", ["BNTS", "NTS", "S", ""])
def test_bias_gradient_is_computed_only_when_asked_for(axes: str) -> None:
    """The choice is the attribute of the compiled call, and the call has one result more."""
    problem = problems.make(Case(CASE.shape, bias=axes), poison=False)
    q, bias = (jnp.asarray(problem.arrays[n]) for n in ("q", "bias"))
    of_q = jax.grad(objective(problem, ("q", "bias")), argnums=0)
    assert backward_bias_gradients(of_q, q, bias) == ["false"]
    assert backward_bias_gradients(jax.grad(objective(problem, ("q",))), q) == ["false"]
    assert backward_bias_gradients(jax.grad(objective(problem, ("q", "bias")), argnums=1), q, bias) == ["true"]
    assert backward_bias_gradients(jax.grad(objective(problem, ("q", "bias")), argnums=(0, 1)), q, bias) == ["true"]
    exact = problem.exact()
    reference.assert_within(of_q(q, bias), exact["dq"])
    reference.assert_within(jax.grad(objective(problem, ("bias",)))(bias), exact["dbias"])
    stopped = jax.grad(lambda b: objective(problem, ("bias",))(jax.lax.stop_gradient(b)))(bias)
    assert stopped.shape == bias.shape and not np.asarray(stopped).any()


# ---- vmap -------------------------------------------------------------------------------------------------------------------


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
        problem = dataclasses.replace(own.with_arrays(**{n: a for n, a in many[0].arrays.items() if n not in subset}))
        problem.check({n: a[i] for n, a in got.items()}, what=f"mapped {subset} [{i}]")


@pytest.mark.parametrize("subset", some_subsets(), ids="-".join)
def test_vmap_over_a_subset_of_arguments(subset: tuple[str, ...]) -> None:
    check_vmap(CASE, subset)


@pytest.mark.full
@pytest.mark.parametrize("bias", ["NTS", "BS", "T"])
def test_vmap_over_every_subset_of_arguments(bias: str) -> None:
    case = dataclasses.replace(CASE, bias=bias)
    for bits in itertools.product((False, True), repeat=len(NAMES)):
        if any(bits):
            check_vmap(case, tuple(n for n, mapped in zip(NAMES, bits, strict=True) if mapped), size=2)


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
    kinds = {"q": "both", "k": "inner", "v": "outer", "bias": "inner", "mask": "outer", "query_lengths": "both", "key_lengths": "neither", "segments": "inner"}
    grid = [[problems.make(case, seed=3 * i + j, poison=False) for j in range(3)] for i in range(2)]
    index = {"both": (slice(None), slice(None)), "inner": (0, slice(None)), "outer": (slice(None), 0), "neither": (0, 0)}
    two = jax.tree.map(lambda *a: np.stack(a).reshape(2, 3, *np.shape(a[0])), *(p.arrays for row in grid for p in row))
    given = {n: jax.tree.map(lambda a, n=n: a[index[kinds[n]]], tree) for n, tree in two.items()}
    cotangents = jax.tree.map(lambda *a: np.stack(a).reshape(2, 3, *np.shape(a[0])), *(p.cotangents for row in grid for p in row))

    def axes(level: str):
        return {n: jax.tree.map(lambda _: 0, a) if kinds[n] in ("both", level) else None for n, a in given.items()}

    run = jax.vmap(jax.vmap(functools.partial(problems.value_and_vjp, case), in_axes=(axes("inner"), 0)), in_axes=(axes("outer"), 0))
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
    results = {"out": out[:, 0], "lse": lse[:, 0]} | {f"d{n}": g if n == "bias" else g[:, 0] for n, g in zip(names, gradients, strict=True)}
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


# ---- scan -------------------------------------------------------------------------------------------------------------------


def test_scan() -> None:
    many = [problems.make(CASE, seed=seed) for seed in range(3)]
    stack = jax.tree.map(lambda *a: np.stack(a), *((p.arrays, p.cotangents) for p in many))
    _, got = jax.jit(lambda xs: jax.lax.scan(lambda c, x: (c + 1, problems.value_and_vjp(CASE, *x)), 0, xs))(stack)
    for i, problem in enumerate(many):
        problems.assert_same({n: a[i] for n, a in got.items()}, problems.value_and_vjp(CASE, problem.arrays, problem.cotangents))
        problem.check({n: a[i] for n, a in got.items()})


def test_gradient_through_scan() -> None:
    """A shared bias: its gradients add up over the steps. The same as one call over a batch."""
    case = Case(Shape(3, 9, 11, 4, 2, 8, 6), bias="NTS", causal=True)
    problem = problems.make(case, poison=False)
    one = dataclasses.replace(case, shape=case.shape._replace(b=1))
    names = ("q", "k", "v", "bias")

    def scanned(q, k, v, bias):
        return jax.lax.scan(lambda c, x: (c, problems.call(one, dict(zip(names, (*x, bias), strict=True)))), 0, (q, k, v))[1]

    split = [problem.arrays[n][:, None] for n in "qkv"] + [problem.arrays["bias"]]
    (out, lse), vjp = jax.vjp(jax.jit(scanned), *map(jnp.asarray, split))
    gradients = vjp((problem.dout[:, None], problem.dlse[:, None]))
    results = {"out": out[:, 0], "lse": lse[:, 0]} | {f"d{n}": g if n == "bias" else g[:, 0] for n, g in zip(names, gradients, strict=True)}
    problem.check(results, slack=1.01)


# ---- remat ------------------------------------------------------------------------------------------------------------------

SAVED = ("jaxator.attention.out", "jaxator.attention.lse")
POLICIES = {
    "both names": (jax.checkpoint_policies.save_only_these_names(*SAVED), 1),
    "everything": (jax.checkpoint_policies.everything_saveable, 1),
    "nothing": (jax.checkpoint_policies.nothing_saveable, 2),
    "out alone": (jax.checkpoint_policies.save_only_these_names(SAVED[0]), 2),
    "dots": (jax.checkpoint_policies.dots_saveable, 2),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_remat(policy: str) -> None:
    """Saving both names is what avoids the second forward pass; the gradients are the same bits with every policy."""
    chosen, forward_calls = POLICIES[policy]
    problem = problems.make(dataclasses.replace(CASE, bias="NTS"))

    def run(arrays, cotangents, wrap):
        floats = ("q", "k", "v", "bias")

        def outputs(*some):  # through a product, so that the op's operands are not the function's arguments
            return problems.call(CASE, arrays | {n: a * 2 for n, a in zip(floats, some, strict=True)})

        results, vjp = jax.vjp(wrap(outputs), *(arrays[n] for n in floats))
        return results, vjp(cotangents)

    remat = jax.jit(lambda *a: run(*a, functools.partial(jax.checkpoint, policy=chosen)))
    compiled = remat.lower(problem.arrays, problem.cotangents).compile()
    calls = [call.target for call in hlo.custom_calls(compiled.as_text())]
    assert calls.count("jaxator.attention_forward") == forward_calls and calls.count("jaxator.attention_backward") == 1
    problems.assert_same(compiled(problem.arrays, problem.cotangents), jax.jit(lambda *a: run(*a, lambda f: f))(problem.arrays, problem.cotangents))
    assert all(name in jxt.dot_product_attention.__doc__ for name in SAVED)
