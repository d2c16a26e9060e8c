"""Attention under jit, grad, scan and remat."""

import dataclasses
import functools
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


def objective(problem: problems.Problem, floats, **options):
    """<cotangents, results> as a function of the float arrays in `floats`."""

    def value(*some):
        results = problems.call(problem.case, problem.arrays | dict(zip(floats, some, strict=True)), **options)
        results = results if isinstance(results, tuple) else (results,)
        blind = np.isneginf(reference.attention(problem.inputs)["lse"].value)
        total = jnp.vdot(results[0].astype(jnp.float32), jnp.where(blind[..., None], 0, problem.dout).astype(jnp.float32))
        return total + (
            jnp.sum(jnp.where(blind, 0, results[-1]) * jnp.where(blind, 0, problem.dlse)) if problem.case.residual else 0
        )

    return value


# ---- jit and grad ----------------------------------------------------------------------------------------------------


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
        got = jax.grad(
            lambda *a, used=used: jnp.vdot(
                problems.call(problem.case, dict(zip("qkv", a, strict=True)))[used], problem.cotangents[used]
            ),
            (0, 1, 2),
        )(q, k, v)
        for name, gradient in zip("qkv", got, strict=True):
            reference.assert_within(gradient, exact[f"d{name}"], f"only result {used}, d{name}")


def backward_bias_gradients(function, *arrays) -> list[str]:
    text = jax.jit(function).lower(*arrays).compile().as_text()
    return [
        re.search(r"bias_gradient = (\w+)", line)[1]
        for line in text.splitlines()
        if 'custom_call_target="jaxator.attention_backward"' in line
    ]


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


# ---- scan ------------------------------------------------------------------------------------------------------------


def test_scan() -> None:
    many = [problems.make(CASE, seed=seed) for seed in range(3)]
    stack = jax.tree.map(lambda *a: np.stack(a), *((p.arrays, p.cotangents) for p in many))
    _, got = jax.jit(lambda xs: jax.lax.scan(lambda c, x: (c + 1, problems.value_and_vjp(CASE, *x)), 0, xs))(stack)
    for i, problem in enumerate(many):
        problems.assert_same(
            {n: a[i] for n, a in got.items()}, problems.value_and_vjp(CASE, problem.arrays, problem.cotangents)
        )
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
    results = {"out": out[:, 0], "lse": lse[:, 0]} | {
        f"d{n}": g if n == "bias" else g[:, 0] for n, g in zip(names, gradients, strict=True)
    }
    problem.check(results, slack=1.01)


# ---- remat -----------------------------------------------------------------------------------------------------------

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

    lowered = jax.jit(lambda *a: run(*a, functools.partial(jax.checkpoint, policy=chosen))).lower(
        problem.arrays, problem.cotangents
    )
    # Before optimisation: jaxlib 0.10.2 merges the second pass with the first on a CPU.
    text, compiled = lowered.as_text(), lowered.compile()
    assert [text.count(f"stablehlo.custom_call @jaxator.attention_{d}(") for d in ("forward", "backward")] == [
        forward_calls,
        1,
    ]
    if forward_calls == 1:
        assert [call.target for call in hlo.custom_calls(compiled.as_text())].count("jaxator.attention_forward") == 1
    problems.assert_same(
        compiled(problem.arrays, problem.cotangents),
        jax.jit(lambda *a: run(*a, lambda f: f))(problem.arrays, problem.cotangents),
    )
    assert all(name in jxt.dot_product_attention.__doc__ for name in SAVED)
