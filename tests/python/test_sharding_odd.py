"""Sharded operands that do not fit an op's rule, and sharded calls inside scan, vmap and partly manual regions."""

import collections
import dataclasses
import functools

import hlo
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hlo import Collective
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from sharding import Problem, dims_of, make_mesh, row_spec, spec, specs_of

import jaxator as jxt
import ops
from ops import CASES, MAIN, OpCase

main_case = pytest.mark.parametrize("case", MAIN, ids=ops.names(MAIN))

# ---- operands that do not fit ----------------------------------------------------------------------------------------


def total_gathered(found: collections.Counter) -> dict[str, int]:
    counts: dict[str, int] = collections.defaultdict(int)
    for collective, n in found.items():
        counts[collective.kind] += n
    return dict(counts)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@main_case
def test_sharded_last_axis_is_gathered(case: OpCase, kind: AxisType) -> None:
    """swiglu of two arrays keeps it; every other op gathers x and each array sharded so, and sums over the rows."""
    problem = Problem.make(case, "b:q", kind)
    last = P("q", *(None,) * (problem.operands[0].ndim - 2), "p")
    with jax.set_mesh(problem.mesh):
        operands, cotangents = problem.placed()
        rows = tuple(
            jax.device_put(a, NamedSharding(problem.mesh, last)) if k == "row" else a
            for a, k in zip(operands, case.operands, strict=True)
        )
        if case.name == "swiglu" and kind == AxisType.Explicit:  # a cotangent has the type of its output
            cotangents = tuple(jax.device_put(c, NamedSharding(problem.mesh, last)) for c in cotangents)
        compiled = jax.jit(case.value_and_vjp).lower(rows, cotangents).compile()
        problem.check(compiled, rows, cotangents, only_values=True)
    found = total_gathered(hlo.collectives(compiled.as_text()))
    calls = sorted(hlo.custom_calls(compiled.as_text()), key=lambda call: call.target, reverse=True)
    if case.name == "swiglu":
        # The cotangent is not sharded along it: it is cut, without a message.
        assert found == {}
        assert calls[0].operands == ("bf16[8,8,16]",) * 2
    else:
        rows_given = case.operands.count("row")
        # On the automatic route Shardy cuts add_rms_norm's sum as it found x, so the backward pass gathers it again.
        again = case.name == "add_rms_norm" and kind == AxisType.Auto
        assert found["all-gather"] == rows_given + again
        assert found.get("all-reduce", 0) == len(case.parameters)
        assert set(found) <= {"all-gather", "all-reduce"}
        assert calls[0].operands == problem.expected_shapes()


def test_last_axis_of_two_swiglu_arrays_can_be_sharded_by_the_caller() -> None:
    case = next(c for c in CASES if c.name == "swiglu")
    problem = Problem.make(case, "b:p")
    problem.placement = {"d": ("p",)}
    operands, cotangents = problem.placed()
    for keywords in ({}, {"mesh": problem.mesh, "in_specs": (P(None, None, "p"),) * 2}):
        run = jax.jit(functools.partial(case.value_and_vjp, **keywords))
        problem.check(run.lower(operands, cotangents).compile(), operands, cotangents)


@main_case
def test_conflicting_shardings_are_reconciled(case: OpCase) -> None:
    """x has its batch on p, everything else has t on p or lies elsewhere; every result is right."""
    problem = Problem.make(case, "b:p")
    put = lambda a, s: jax.device_put(a, NamedSharding(problem.mesh, s))  # noqa: E731
    operands = [put(a, s) for a, s in zip(problem.operands, specs_of(case, problem.placement), strict=True)]
    for i, kind in enumerate(case.operands[1:], start=1):
        dims = dims_of(case, kind)
        operands[i] = put(problem.operands[i], spec(dims, {"d": ("p",)} if kind == "parameter" else {"t": ("p",)}))
    cotangents = tuple(put(c, row_spec(case, {"t": ("p",)})) for c in problem.cotangents)
    compiled = jax.jit(case.value_and_vjp).lower(tuple(operands), cotangents).compile()
    problem.check(compiled, tuple(operands), cotangents, only_values=True)
    assert problem.expected_shapes() in [call.operands for call in hlo.custom_calls(compiled.as_text())]


@pytest.mark.parametrize("rows", [6, 7, 12])
@main_case
def test_axes_that_do_not_divide_the_rows(case: OpCase, rows: int) -> None:
    """A constraint may ask for it; the op then keeps that axis whole, and no padding is ever summed."""
    mesh = make_mesh("2d")
    operands = case.make((rows, *case.sharded[1:]), "float32")
    cotangents = case.cotangents(operands)

    def run(operands, cotangents):
        uneven = NamedSharding(mesh, row_spec(case, {"b": ("p", "q")}))
        rows = tuple(
            jax.lax.with_sharding_constraint(a, uneven) if k == "row" else a
            for a, k in zip(operands, case.operands, strict=True)
        )
        return case.value_and_vjp(rows, tuple(jax.lax.with_sharding_constraint(c, uneven) for c in cotangents))

    case.assert_right(operands, cotangents, *jax.jit(run)(operands, cotangents))


def test_mesh_argument_refuses_what_it_cannot_do() -> None:
    mesh = make_mesh("2d")
    x, w = jnp.ones((8, 64)), jnp.ones(64)
    with pytest.raises(ValueError, match=r"in_specs has .*'p'.*d.*"):
        jxt.rms_norm(x, w, mesh=mesh, in_specs=(P(None, "p"), P()))
    with pytest.raises(ValueError, match="one PartitionSpec for each of the 2 arrays"):
        jxt.rms_norm(x, w, mesh=mesh, in_specs=(P("p"),))
    with pytest.raises(ValueError, match="one PartitionSpec for each of the 1 arrays"):
        jxt.rms_norm(x, mesh=mesh)
    with pytest.raises(ValueError, match="needs mesh"):
        jxt.rms_norm(x, w, in_specs=(P("p"), P()))
    with pytest.raises(ValueError, match="in_specs has"):
        jxt.rms_norm(jnp.ones((6, 64)), w, mesh=mesh, in_specs=(P("p"), P()))


# ---- inside other transformations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@main_case
def test_in_scan(case: OpCase, kind: AxisType) -> None:
    """The loop's body holds the same calls and sums, once each."""
    problem = Problem.make(case, "b:p t:q", kind)

    def whole(operands, cotangents):
        def step(carry, _):
            return carry, case.value_and_vjp(operands, cotangents)

        return jax.tree.map(lambda a: a[-1], jax.lax.scan(step, 0, length=3)[1])

    with jax.set_mesh(problem.mesh):
        operands, cotangents = problem.placed()
        problem.check(jax.jit(whole).lower(operands, cotangents).compile(), operands, cotangents)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@main_case
def test_vmap_over_a_sharded_axis(case: OpCase, kind: AxisType) -> None:
    """Mapped over b, which is sharded; an unmapped parameter has one gradient for each b: no sum over p."""
    problem = Problem.make(case, "b:p t:q", kind)
    axes = tuple(None if k == "parameter" or "shared" in k else 0 for k in case.operands)
    with jax.set_mesh(problem.mesh):
        operands, cotangents = problem.placed()
        compiled = jax.jit(jax.vmap(case.value_and_vjp, in_axes=(axes, 0))).lower(operands, cotangents).compile()
        values, gradients = compiled(operands, cotangents)
    want_values, want_gradients = jax.jit(jax.vmap(case.value_and_vjp, in_axes=(axes, 0)))(
        problem.operands, problem.cotangents
    )
    for got, want in (*zip(values, want_values, strict=True), *zip(gradients, want_gradients, strict=True)):
        np.testing.assert_allclose(np.asarray(got, np.float32), np.asarray(want, np.float32), rtol=1e-5, atol=1e-5)
    found = hlo.collectives(compiled.as_text())
    size = 4 * problem.operands[0].shape[-1] * (problem.operands[0].shape[0] // 4)
    sums = Collective("all-reduce", size, hlo.groups_of(problem.mesh, ("q",)))
    assert found == collections.Counter({sums: len(case.parameters)} if case.parameters else {}), compiled.as_text()


@main_case
def test_partly_manual_mesh_gathers_the_automatic_axes(case: OpCase) -> None:
    """p is manual, q automatic: documented to gather q. Over p nothing but the parameters' sums."""
    problem = Problem.make(case, "b:p t:q")
    only_p = {"b": ("p",)}
    manual = jax.shard_map(
        lambda *a: case(*a),
        mesh=problem.mesh,
        in_specs=specs_of(case, only_p),
        out_specs=row_spec(case, only_p),
        axis_names={"p"},
        check_vma=True,
    )
    partly = dataclasses.replace(case, op=manual)
    operands, cotangents = problem.placed()
    compiled = jax.jit(partly.value_and_vjp).lower(operands, cotangents).compile()
    problem.check(compiled, operands, cotangents, only_values=True)
    over_p, over_q = (hlo.groups_of(problem.mesh, (a,)) for a in "pq")
    for collective in hlo.collectives(compiled.as_text()):
        assert (collective.kind, collective.groups) in {("all-gather", over_q), ("all-reduce", over_p)}, compiled.as_text()


def nested_shard_map_gathers(x: jax.Array, outer: P, inner: P) -> bool:
    """Whether this jax gathers the inner axes of any nested shard_map (0.10.2 does), also of one without a custom call."""
    nested = jax.shard_map(
        lambda a: jax.shard_map(lambda b: b * 2, in_specs=inner, out_specs=inner, axis_names={"q"})(a),
        in_specs=outer, out_specs=outer, axis_names={"p"},
    )  # fmt: skip
    return bool(hlo.collectives(jax.jit(nested).lower(x).compile().as_text()))


@main_case
def test_partly_manual_mesh_with_explicit_axes_gathers_nothing(case: OpCase) -> None:
    problem = Problem.make(case, "b:p t:q", AxisType.Explicit)
    only_p = {"b": ("p",)}
    with jax.set_mesh(problem.mesh):
        operands, cotangents = problem.placed()
        manual = jax.shard_map(
            lambda *a: case(*a),
            in_specs=specs_of(case, only_p),
            out_specs=row_spec(case, only_p),
            axis_names={"p"},
            check_vma=True,
        )
        partly = dataclasses.replace(case, op=manual)
        compiled = jax.jit(partly.value_and_vjp).lower(operands, cotangents).compile()
        problem.check(compiled, operands, cotangents, only_values=True)
        gathers = nested_shard_map_gathers(operands[0], row_spec(case, only_p), row_spec(case, {"t": ("q",)}))
    found = hlo.collectives(compiled.as_text())
    # The parameters' gradients are summed over q inside and over p outside.
    assert {c.kind for c in found} <= ({"all-reduce", "all-gather"} if gathers else {"all-reduce"}), compiled.as_text()
    assert problem.expected_shapes() in [call.operands for call in hlo.custom_calls(compiled.as_text())]


def test_one_device_program_has_no_partitioning_callback() -> None:
    x, w = jnp.ones((4, 64)), jnp.ones(64)
    text = jax.jit(jxt.rms_norm).lower(x, w).compile().as_text()
    assert "CustomSPMDPartitioning" not in text
    assert [c.target for c in hlo.custom_calls(text)] == ["jaxator.rms_norm_forward"]
