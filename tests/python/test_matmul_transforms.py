"""Matmul under vmap, second derivatives, scan, remat, donation, export."""

import functools
import itertools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from matmul_problems import Problem

import jaxator as jxt

FULL = Problem(5, 9, 7, has_bias=True, activation="silu", has_residual=True)


def objective(problem: Problem, *operands, **more):
    y = problem(*operands, **more)
    return jnp.sum(jnp.sin(y) * y)


def stacked(problem: Problem, count: int):
    return tuple(np.stack(x) for x in zip(*(problem.operands(seed) for seed in range(count)), strict=True))


@pytest.mark.parametrize(
    "problem", [FULL, Problem(4, 6, 5, transpose_a=True, transpose_b=True), Problem(3, 4, 5, lead_a=(2,))], ids=str
)
@pytest.mark.parametrize("with_gradient", [False, True], ids=["value", "gradient"])
def test_vmap_over_every_subset_of_arguments(problem: Problem, with_gradient: bool) -> None:
    operands = stacked(problem, 3)
    function = functools.partial(objective, problem)
    if with_gradient:
        function = jax.grad(function, argnums=tuple(range(len(operands))))
    for subset in itertools.product((0, None), repeat=len(operands)):
        if all(axis is None for axis in subset):
            continue
        given = tuple(x if axis == 0 else x[0] for x, axis in zip(operands, subset, strict=True))
        got = jax.jit(jax.vmap(function, in_axes=subset))(*given)
        want = [function(*(x[i] if axis == 0 else x for x, axis in zip(given, subset, strict=True))) for i in range(3)]
        want = jax.tree.map(lambda *x: np.stack(x), *want)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), got, want)


def test_nested_vmap() -> None:
    problem = Problem(4, 6, 5, has_bias=True)
    a, b, bias = stacked(problem, 6)
    gradient = jax.grad(functools.partial(objective, problem), argnums=(0, 1, 2))
    got = jax.jit(jax.vmap(jax.vmap(gradient, in_axes=(0, None, 0)), in_axes=(None, 0, 0)))(
        a[:3], b[:2], bias.reshape(2, 3, -1)
    )
    for i, j in itertools.product(range(2), range(3)):
        want = gradient(a[j], b[i], bias[3 * i + j])
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x[i, j], y, rtol=1e-4, atol=1e-4), got, want)  # noqa: B023


@pytest.mark.parametrize("lead_a", [(), (3,)], ids=str)
@pytest.mark.parametrize("lead_b", [(), (3,)], ids=str)
@pytest.mark.parametrize("activation", [None, "gelu_tanh"])
def test_second_derivatives(lead_a, lead_b, activation) -> None:
    """Those of the XLA formulation, which JAX differentiates by itself."""
    problem = Problem(4, 6, 5, "float32", lead_a, lead_b, has_bias=True, activation=activation, has_residual=True)
    operands = problem.operands()
    every = tuple(range(len(operands)))

    def second(implementation):
        first = jax.grad(functools.partial(objective, problem, implementation=implementation), argnums=every)
        return jax.jit(jax.grad(lambda *x: sum(jnp.sum(jnp.cos(g)) for g in first(*x)), argnums=every))(*operands)

    for got, want in zip(second("cpu"), second("xla"), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


def test_scan_and_remat() -> None:
    problem = Problem(6, 6, 6, has_bias=True, activation="gelu")
    a, b, bias = problem.operands()
    weights = np.stack([b, b * 0.5, b.T])

    def loss(policy, a, weights):
        step = jax.checkpoint(lambda x, w: (problem(x, w, bias) * 0.3, None), policy=policy)
        return jnp.sum(jax.lax.scan(step, a, weights)[0] ** 2)

    policies = (None, jax.checkpoint_policies.save_only_these_names("jaxator.matmul.preactivation"))
    results = [jax.jit(jax.grad(functools.partial(loss, policy), argnums=(0, 1)))(a, weights) for policy in policies]

    def plain(a, weights):
        for w in weights:
            a = jax.nn.gelu(a @ w + bias, approximate=False) * 0.3
        return jnp.sum(a**2)

    for got in results:
        jax.tree.map(
            functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4),
            got,
            jax.grad(plain, argnums=(0, 1))(a, weights),
        )


def test_the_checkpoint_name_saves_the_product() -> None:
    problem = Problem(6, 8, 6, has_bias=True, activation="gelu")
    operands = problem.operands()

    def calls(policy) -> int:
        function = jax.checkpoint(lambda a, b, bias: problem(jnp.sin(a), b, bias), policy=policy)
        text = jax.jit(jax.value_and_grad(lambda *x: jnp.sum(function(*x)), argnums=(0, 1))).lower(*operands).as_text()
        return text.count("custom_call @jaxator.matmul")

    assert calls(jax.checkpoint_policies.save_only_these_names("jaxator.matmul.preactivation")) == 3
    assert calls(jax.checkpoint_policies.nothing_saveable) == 4
    assert "jaxator.matmul.preactivation" in jxt.matmul.__doc__


def test_export_and_load() -> None:
    problem = Problem(4, 6, 8, "bfloat16", activation="relu")
    operands = problem.operands()
    exported = jax.export.export(jax.jit(problem), disabled_checks=jxt.export_checks())(*operands)
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(*operands), problem(*operands))


def test_lowering_for_cuda_without_a_gpu() -> None:
    """Both layouts of the same call: cuda lowers the kernel for bfloat16 and the formulation for float32 and loose rows."""
    for problem, kernels in (
        (Problem(32, 64, 48, "bfloat16"), 1),
        (Problem(32, 63, 48, "bfloat16"), 0),
        (Problem(32, 64, 48), 0),
    ):
        text = jax.jit(problem).trace(*problem.operands()).lower(lowering_platforms=("cuda",)).as_text()
        assert text.count("custom_call @jaxator.matmul") == kernels, text
    text = jax.jit(functools.partial(Problem(32, 64, 48), implementation="tf32")).trace(*Problem(32, 64, 48).operands())
    assert text.lower(lowering_platforms=("cuda",)).as_text().count("custom_call @jaxator.matmul") == 1
