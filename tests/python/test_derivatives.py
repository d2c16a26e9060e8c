"""Forward mode and second derivatives of every row op: right, or an error that names what to do."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees import problem

import jaxator as jxt
import ops
from ops import CASES, OpCase

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))


def tangents_of(case: OpCase, operands):
    random = np.random.default_rng(5)
    return tuple(random.normal(size=operands[i].shape).astype(operands[i].dtype) for i in case.differentiable)


def of_differentiable(case: OpCase, operands, **keywords):
    def outputs(*some):
        full = list(operands)
        for i, a in zip(case.differentiable, some, strict=True):
            full[i] = a
        return case(*full, **keywords)

    return outputs, tuple(operands[i] for i in case.differentiable)


@every_case
def test_kernels_refuse_forward_mode_and_second_derivatives_by_name(case: OpCase) -> None:
    operands, cotangents = problem(case)
    outputs, some = of_differentiable(case, operands, implementation="cpu")
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(outputs, some, tangents_of(case, operands))
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jit(jax.jacfwd(lambda x: outputs(x, *some[1:])))(some[0])

    def gradient_norm(x):
        return sum(jnp.vdot(g, g) for g in jax.vjp(outputs, x, *some[1:])[1](tuple(map(jnp.asarray, cotangents))))

    if case.all_orders:
        return
    with pytest.raises(jxt.UnsupportedError, match=r"second derivative.*implementation='xla'") as caught:
        jax.grad(gradient_norm)(some[0])
    assert isinstance(caught.value, NotImplementedError)
    assert list(caught.value.reasons) == ["second derivative"]


@every_case
def test_xla_formulation_has_forward_mode(case: OpCase) -> None:
    """<cotangent, J tangent> = <J^T cotangent, tangent>, the right side in float64."""
    operands, cotangents = problem(case)
    tangents = tangents_of(case, operands)
    outputs, some = of_differentiable(case, operands, implementation="xla")
    _, got = jax.jit(functools.partial(jax.jvp, outputs))(some, tangents)
    wide, wide_cotangents, exact = exact_vjp(case, operands, cotangents)
    left = sum(np.vdot(np.asarray(t, np.float64), c) for t, c in zip(got, wide_cotangents, strict=True))
    right = sum(np.vdot(g, t) for g, t in zip(exact, tangents, strict=True))
    # Relative to the sum of magnitudes: float32 over a few hundred terms.
    magnitude = sum(np.vdot(np.abs(np.asarray(t, np.float64)), np.abs(c)) for t, c in zip(got, wide_cotangents, strict=True))
    assert abs(left - right) <= 1e-5 * magnitude


def exact_vjp(case: OpCase, operands, cotangents):
    """Operands and cotangents in float64, and the gradients there of every differentiable operand (sums not rounded)."""
    wide = [np.asarray(a, np.float64) for a in operands]
    wide_cotangents = [np.asarray(c, np.float64) for c in cotangents]
    if "add_" in case.name:
        gradients = case.vjp(wide_cotangents, wide[0] + wide[1], *wide[2:])
        gradients = (gradients[0], *gradients)
    else:
        gradients = case.vjp(wide_cotangents, *wide)
    return wide, wide_cotangents, [g.value for g in gradients]


@every_case
@pytest.mark.parametrize("implementation", ["xla", None])
def test_second_derivatives_are_right(case: OpCase, implementation: str | None) -> None:
    """The derivative of <gradient, direction> against central differences of the float64 gradients."""
    if implementation is None and not case.all_orders:
        return  # refused by name: see above
    operands, cotangents = problem(case)
    outputs, some = of_differentiable(case, operands, implementation=implementation)
    directions = tangents_of(case, operands)
    along = np.random.default_rng(7).normal(size=some[0].shape)

    def slope(x):
        gradients = jax.vjp(outputs, x, *some[1:])[1](tuple(map(jnp.asarray, cotangents)))
        return sum(jnp.vdot(g, d) for g, d in zip(gradients, directions, strict=True))

    got = np.vdot(np.asarray(jax.jit(jax.grad(slope))(some[0]), np.float64), along)

    def exact_slope(step):
        moved = (np.asarray(operands[0], np.float64) + step * along, *operands[1:])
        return sum(np.vdot(g, d) for g, d in zip(exact_vjp(case, moved, cotangents)[2], directions, strict=True))

    h = 1e-6
    want = (exact_slope(h) - exact_slope(-h)) / (2 * h)
    # Central differences are right to about 1e-8; float32 over some thousand terms to about 1e-4 of their norm.
    assert abs(got - want) <= 1e-4 * (abs(want) + np.sqrt(some[0].size) * 10), (got, want)
