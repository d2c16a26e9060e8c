"""Matmul on eight virtual devices, by each route: right values, and one float32 sum for each sharded contraction."""

import collections
import contextlib
import dataclasses
import functools
import math

import hlo
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import shapes
from hlo import Collective
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from matmul_problems import Problem

M, N, K = shapes.SHARDED_PRODUCT
PLAIN = Problem(M, N, K, "bfloat16")
FULL = Problem(M, N, K, "bfloat16", has_bias=True, activation="silu", has_residual=True)


@dataclasses.dataclass(frozen=True)
class Setup:
    problem: Problem
    mesh: dict[str, int]
    axes: dict[str, tuple[str, ...]]
    """Mesh axes of m, n, k and of the batch dimension b."""

    def make_mesh(self, kind: AxisType):
        return jax.make_mesh(tuple(self.mesh.values()), tuple(self.mesh), axis_types=(kind,) * len(self.mesh),
                             devices=jax.devices("cpu")[: math.prod(self.mesh.values())])  # fmt: skip

    def dims(self) -> list[str]:
        p = self.problem
        a, b = (
            "b" * len(p.lead_a) + ("km" if p.transpose_a else "mk"),
            "b" * len(p.lead_b) + ("nk" if p.transpose_b else "kn"),
        )
        result = "b" * len(p.lead) + "mn"
        return [a, b, *["n"] * p.has_bias, *[result] * p.has_residual, result]

    def specs(self) -> list[P]:
        return [P(*(self.axes.get(d) or None for d in dims)) for dims in self.dims()]

    def expected(self) -> collections.Counter:
        """Sums of the result over the axes of k, of each gradient over the axes of the dimensions that it does not have."""
        *operands, result = self.dims()
        sizes = {"m": M, "n": N, "k": K, "b": math.prod(self.problem.lead)}
        mesh, found = self.make_mesh(AxisType.Auto), []

        def add(dims: str, missing: str) -> None:
            axes = [a for d in missing for a in self.axes.get(d, ())]
            if axes:
                local = math.prod(sizes[d] // math.prod(self.mesh[a] for a in self.axes.get(d, ())) for d in dims)
                found.append(Collective("all-reduce", 4 * local, hlo.groups_of(mesh, axes)))

        add(result, "k")
        for dims in operands[: 2 + self.problem.has_bias]:
            add(dims, "".join(d for d in result if d not in dims))
        return collections.Counter(found)


ONE, TWO = {"p": 8}, {"p": 4, "q": 2}
BATCHED = dataclasses.replace(FULL, lead_a=(8,))
SETUPS = {
    "rows": Setup(FULL, ONE, {"m": ("p",)}),
    "columns": Setup(FULL, ONE, {"n": ("p",)}),
    "contracted": Setup(PLAIN, ONE, {"k": ("p",)}),
    "contracted, everything follows": Setup(FULL, ONE, {"k": ("p",)}),
    "rows and columns": Setup(FULL, TWO, {"m": ("p",), "n": ("q",)}),
    "rows and contracted": Setup(FULL, TWO, {"m": ("q",), "k": ("p",)}),
    "contracted over both axes": Setup(PLAIN, TWO, {"k": ("p", "q")}),
    "transposed": Setup(dataclasses.replace(FULL, transpose_a=True, transpose_b=True), TWO, {"m": ("p",), "k": ("q",)}),
    "batch": Setup(BATCHED, ONE, {"b": ("p",)}),
    "batch and columns": Setup(BATCHED, TWO, {"b": ("p",), "n": ("q",)}),
    "batch and contracted": Setup(BATCHED, TWO, {"b": ("q",), "k": ("p",)}),
    "batches": Setup(dataclasses.replace(BATCHED, lead_b=(8,), has_bias=False), TWO, {"b": ("p",), "m": ("q",)}),
}
every_setup = pytest.mark.parametrize("setup", SETUPS.values(), ids=[name.replace(" ", "-") for name in SETUPS])


def run_and_check(setup: Setup, run, kind: AxisType = AxisType.Auto) -> None:
    problem, mesh, specs = setup.problem, setup.make_mesh(kind), setup.specs()
    operands, cotangent = problem.operands(), problem.cotangent()
    with jax.set_mesh(mesh) if kind == AxisType.Explicit else contextlib.nullcontext():
        *placed, placed_cotangent = (
            jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip((*operands, cotangent), specs, strict=True)
        )
        compiled = jax.jit(run(mesh, specs)).lower(tuple(placed), placed_cotangent).compile()
        value, gradients = compiled(tuple(placed), placed_cotangent)
    problem.assert_right(operands, cotangent, value, gradients)
    text = compiled.as_text()
    assert hlo.collectives(text) == setup.expected(), text
    assert len(hlo.custom_calls(text)) == 3, text


@every_setup
def test_automatic_route(setup: Setup) -> None:
    run_and_check(setup, lambda mesh, specs: setup.problem.value_and_vjp)


@every_setup
def test_explicit_mesh(setup: Setup) -> None:
    def run(mesh, specs):
        def checked(operands, cotangent):
            value, gradients = setup.problem.value_and_vjp(operands, cotangent)
            assert [jax.typeof(x).sharding.spec for x in (*gradients, value)] == [
                jax.typeof(x).sharding.spec for x in (*operands, cotangent)
            ]
            return value, gradients

        return checked

    run_and_check(setup, run, AxisType.Explicit)


@every_setup
def test_mesh_argument(setup: Setup) -> None:
    run_and_check(
        setup, lambda mesh, specs: functools.partial(setup.problem.value_and_vjp, mesh=mesh, in_specs=tuple(specs[:-1]))
    )


def in_shard_map(setup: Setup, mesh, specs):
    return jax.shard_map(
        lambda *a: setup.problem(*a), mesh=mesh, in_specs=tuple(specs[:-1]), out_specs=specs[-1], check_vma=True
    )


WHOLE = {name: setup for name, setup in SETUPS.items() if "k" not in setup.axes}


@pytest.mark.parametrize("setup", WHOLE.values(), ids=[name.replace(" ", "-") for name in WHOLE])
def test_manual_route(setup: Setup) -> None:
    """Gradients of operands that do not vary over a mesh axis are added up there in float32."""

    def outside(mesh, specs):
        function = in_shard_map(setup, mesh, specs)

        def run(operands, cotangent):
            value, vjp = jax.vjp(function, *operands)
            return value, vjp(cotangent)

        return run

    def inside(mesh, specs):
        return jax.shard_map(setup.problem.value_and_vjp, mesh=mesh, in_specs=(tuple(specs[:-1]), specs[-1]),
                             out_specs=(specs[-1], tuple(specs[:-1])), check_vma=True)  # fmt: skip

    run_and_check(setup, outside)
    run_and_check(setup, inside)


def test_contraction_in_a_manual_region_is_the_callers() -> None:
    """The local product, with what follows it; a psum of ours would count twice."""
    mesh = Setup(PLAIN, ONE, {}).make_mesh(AxisType.Auto)
    problem = dataclasses.replace(PLAIN, float32_result=True)
    a, b = problem.operands()

    def local(a, b):
        return jax.lax.psum(problem(a, b), "p")

    run = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(P(None, "p"), P("p", None)), out_specs=P()))
    np.testing.assert_allclose(run(a, b), a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5, atol=1e-4)


def test_sums_are_exact_where_rounded_parts_would_not_be() -> None:
    """Parts of 256 and 1 in bfloat16: 8 * 257 is 2056, a sum of rounded parts 2048."""
    mesh = Setup(PLAIN, ONE, {}).make_mesh(AxisType.Auto)
    a = jnp.tile(jnp.array([256.0, 1.0], jnp.bfloat16), (1, 8))
    b = jnp.ones((16, 1), jnp.bfloat16)
    a, b = jax.device_put(a, NamedSharding(mesh, P(None, "p"))), jax.device_put(b, NamedSharding(mesh, P("p", None)))
    import jaxator as jxt

    assert float(jax.jit(functools.partial(jxt.matmul, preferred_element_type=jnp.float32))(a, b)[0, 0]) == 2056
    relu = jax.jit(functools.partial(jxt.matmul, activation="relu"))
    signs = jnp.asarray(
        np.repeat([1.0, -1.0], 8)[:, None], jnp.bfloat16
    )  # positive and negative parts cancel before the activation
    assert float(relu(a, jax.device_put(signs, NamedSharding(mesh, P("p", None))))[0, 0]) == 0
