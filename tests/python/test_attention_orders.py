"""Forward mode and second derivatives of attention: right with implementation="xla", a named error with the kernels."""

import functools

import attention_problems as problems
import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape

import jaxator as jxt

CASE = Case(Shape(2, 5, 7, 4, 2, 6, 5), bias="NTS", mask="BTS", key_lengths=True, causal=True, bottom_right=True)
FLOATS = ("q", "k", "v", "bias")


def problem_of() -> problems.Problem:
    problem = problems.make(CASE, poison=False)
    blind = np.isneginf(reference.attention(problem.inputs)["lse"].value)
    bias = np.where(np.isfinite(problem.inputs.bias), problem.inputs.bias, np.float32(-2))
    zeroed = problem.with_arrays(bias=bias)
    return problems.Problem(CASE, zeroed.inputs, problem.dout, np.where(blind, np.float32(0), problem.dlse))


def outputs_of(problem: problems.Problem, **options):
    def outputs(*some):
        out, lse = problems.call(CASE, problem.arrays | dict(zip(FLOATS, some, strict=True)), **options)
        return out, jnp.where(jnp.isneginf(lse), 0, lse)

    return outputs, tuple(jnp.asarray(problem.arrays[n]) for n in FLOATS)


def directions(some, seed: int = 5):
    random = np.random.default_rng(seed)
    return tuple(random.normal(size=a.shape).astype(np.float32) for a in some)


@pytest.mark.parametrize("implementation", [None, "cpu", "flash_f32"])
def test_kernels_refuse_by_name(implementation: str | None) -> None:
    problem = problem_of()
    outputs, some = outputs_of(problem, implementation=implementation)
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(outputs, some, directions(some))
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jacfwd(lambda q: outputs(q, *some[1:])[0])(some[0])

    def norm_of_gradient(q):
        return sum(jnp.vdot(g, g) for g in jax.vjp(outputs, q, *some[1:])[1](problem.cotangents))

    for transform in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        with pytest.raises(
            jxt.UnsupportedError, match=r"dot_product_attention .*\n.*second derivative.*implementation='xla'"
        ) as caught:
            transform(norm_of_gradient)(some[0])
        assert list(caught.value.reasons) == ["second derivative"]


def test_xla_has_forward_mode() -> None:
    """<cotangent, J tangent> = <J^T cotangent, tangent>, the right side in float64."""
    problem = problem_of()
    outputs, some = outputs_of(problem, implementation="xla")
    tangents = directions(some)
    _, got = jax.jit(functools.partial(jax.jvp, outputs))(some, tangents)
    exact = problem.exact()
    left = [np.asarray(t, np.float64) * c for t, c in zip(got, problem.cotangents, strict=True)]
    right = sum(np.vdot(exact[f"d{n}"].value, t) for n, t in zip(FLOATS, tangents, strict=True))
    # float32 over a few hundred terms, relative to the sum of magnitudes.
    assert abs(sum(a.sum() for a in left) - right) <= 1e-5 * sum(np.abs(a).sum() for a in left)


def test_xla_has_second_derivatives() -> None:
    """The derivative of <gradients, directions> against central differences of the reference's gradients in float64."""
    problem = problem_of()
    outputs, some = outputs_of(problem, implementation="xla")
    chosen = directions(some)
    along = directions(some, 7)

    def slope(*some):
        gradients = jax.vjp(outputs, *some)[1](problem.cotangents)
        return sum(jnp.vdot(g, d) for g, d in zip(gradients, chosen, strict=True))

    got = [
        np.vdot(np.asarray(g, np.float64), a)
        for g, a in zip(jax.jit(jax.grad(slope, argnums=(0, 1, 2, 3)))(*some), along, strict=True)
    ]

    def exact_slope(moved: int, step: float) -> float:
        from unittest import mock

        arrays = {
            n: np.asarray(a, np.float64) + (step * along[i] if i == moved else 0)
            for i, (n, a) in enumerate(zip(FLOATS, some, strict=True))
        }
        with mock.patch.dict(reference.UNIT, float64=0.0), mock.patch.dict(reference.LEAST, float64=0.0):
            exact = reference.attention(problem.with_arrays(**arrays).inputs, *problem.cotangents)
        return sum(np.vdot(exact[f"d{n}"].value, d) for n, d in zip(FLOATS, chosen, strict=True))

    for i, name in enumerate(FLOATS):
        h = 1e-5
        want = (exact_slope(i, h) - exact_slope(i, -h)) / (2 * h)
        # float32 over a few hundred terms; the differences are right to 1e-9.
        np.testing.assert_allclose(got[i], want, rtol=1e-4, atol=1e-3, err_msg=name)
