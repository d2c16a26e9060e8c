"""Every row op on eight virtual devices, by each route: the values of one device, and only the expected collectives.

Expected: one sum over the row axes for each parameter's gradient. Each route is asked for values and gradients together.
"""

import dataclasses
import functools

import jax
import pytest
from jax.sharding import AxisType
from sharding import PLACEMENTS, Problem, every_placement, row_spec, spec, specs_of

import ops
from ops import CASES, OpCase

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))

# ---- the four routes -------------------------------------------------------------------------------------------------


@every_placement
@every_case
def test_automatic_route(case: OpCase, placement: str) -> None:
    problem = Problem.make(case, placement)
    operands, cotangents = problem.placed()
    problem.check(jax.jit(case.value_and_vjp).lower(operands, cotangents).compile(), operands, cotangents)


@every_placement
@every_case
def test_explicit_mesh(case: OpCase, placement: str) -> None:
    problem = Problem.make(case, placement, AxisType.Explicit)
    with jax.set_mesh(problem.mesh):
        operands, cotangents = problem.placed()
        values, gradients = jax.eval_shape(case.value_and_vjp, operands, cotangents)
        assert {v.sharding.spec for v in values} == {row_spec(case, problem.placement)}
        assert [g.sharding.spec for g in gradients] == [operands[i].sharding.spec for i in case.differentiable]
        problem.check(jax.jit(case.value_and_vjp).lower(operands, cotangents).compile(), operands, cotangents)


MANUAL = [
    pytest.param(case, name, id=f"{ops.names((case,))[0]}-{name}")
    for case in CASES
    for name, (_, where) in PLACEMENTS.items()
    # Inside shard_map default positions count in the local block: where t is cut, the caller passes positions.
    if "t" not in where or case.operands != ("row",) or not case.is_rope
]


def in_shard_map(problem: Problem):
    case, row = problem.case, row_spec(problem.case, problem.placement)
    specs = specs_of(case, problem.placement)
    return jax.shard_map(lambda *a: case(*a), mesh=problem.mesh, in_specs=specs, out_specs=row, check_vma=True)


@pytest.mark.parametrize(("case", "placement"), MANUAL)
def test_manual_route_differentiated_outside(case: OpCase, placement: str) -> None:
    problem = Problem.make(case, placement)
    outside = dataclasses.replace(case, op=in_shard_map(problem))
    operands, cotangents = problem.placed()
    problem.check(jax.jit(outside.value_and_vjp).lower(operands, cotangents).compile(), operands, cotangents)


@pytest.mark.parametrize(("case", "placement"), MANUAL)
def test_manual_route_differentiated_inside(case: OpCase, placement: str) -> None:
    """A parameter does not vary over the row axes, so JAX sums its gradient there."""
    problem = Problem.make(case, placement)
    row = row_spec(case, problem.placement)
    specs = specs_of(case, problem.placement)
    inside = jax.shard_map(
        case.value_and_vjp,
        mesh=problem.mesh,
        in_specs=(specs, row),
        out_specs=(row, tuple(specs[i] for i in case.differentiable)),
        check_vma=True,
    )
    operands, cotangents = problem.placed()
    problem.check(jax.jit(inside).lower(operands, cotangents).compile(), operands, cotangents)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@every_placement
@every_case
def test_mesh_argument(case: OpCase, placement: str, kind: AxisType) -> None:
    problem = Problem.make(case, placement, kind)
    operands, cotangents = problem.placed()
    in_specs = specs_of(case, problem.placement)
    if case.is_rope and len(in_specs) == 1:
        in_specs = (*in_specs, spec("t", problem.placement))
    run = jax.jit(functools.partial(case.value_and_vjp, mesh=problem.mesh, in_specs=in_specs))
    problem.check(run.lower(operands, cotangents).compile(), operands, cotangents)
