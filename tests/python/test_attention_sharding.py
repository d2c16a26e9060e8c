"""Attention on eight virtual devices, by each route: the values of one device, and between devices the expected sums only."""

import collections
import dataclasses
import functools
import math

import attention_problems as problems
import hlo
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape
from hlo import Collective
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxator as jxt

ROUTES = ("automatic", "explicit", "manual", "mesh=")
every_route = pytest.mark.parametrize("route", ROUTES)

DIMS = {"q": "BTNH", "k": "BSKH", "v": "BSKV", "bias": "BNTS", "mask": "BNTS", "query_lengths": "B", "key_lengths": "B", "segments": ("BT", "BS"),
        "out": "BTNV", "lse": "BTN"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Setup:
    """A case on a mesh, with the mesh axes of B, N (query heads) and K (key/value heads)."""

    case: Case
    mesh: dict[str, int]
    b: tuple[str, ...] = ()
    n: tuple[str, ...] = ()
    k: tuple[str, ...] | None = None
    """The query heads' unless said otherwise."""

    def axes(self, dim: str) -> tuple[str, ...]:
        return {"B": self.b, "N": self.n, "K": self.n if self.k is None else self.k}.get(dim, ())

    def make_mesh(self, kind: AxisType = AxisType.Auto) -> Mesh:
        devices = jax.devices("cpu")[: math.prod(self.mesh.values())]
        return jax.make_mesh(
            tuple(self.mesh.values()), tuple(self.mesh), axis_types=(kind,) * len(self.mesh), devices=devices
        )

    def spec(self, name: str, shape: tuple[int, ...], dims: str | None = None) -> P:
        dims = (dims or DIMS[name])[-len(shape) :] if shape else ""
        return P(*(self.axes(d) or None if size > 1 else None for d, size in zip(dims, shape, strict=True)))

    def specs(self, arrays) -> dict:
        def of(name, array):
            if name == "segments":
                return tuple(self.spec(name, a.shape, d) for a, d in zip(array, DIMS[name], strict=True))
            return self.spec(name, array.shape)

        return {name: of(name, a) for name, a in arrays.items()}

    def local(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            size // math.prod(self.mesh[a] for a in entry or ())
            for size, entry in zip(shape, self.spec(name, shape), strict=True)
        )

    def expected(self, problem: problems.Problem) -> collections.Counter[Collective]:
        """One sum of each gradient over the mesh axes that cut rows or heads which the operand does not have."""
        mesh, found = self.make_mesh(), []
        for name in ("k", "v", "bias"):
            if name not in problem.arrays:
                continue
            array = problem.arrays[name]
            own = {a for entry in self.spec(name, array.shape) for a in entry or ()}
            summed = [a for a in mesh.axis_names if a in (*self.b, *self.n) and a not in own]
            if summed:
                found.append(
                    Collective("all-reduce", 4 * math.prod(self.local(name, array.shape)), hlo.groups_of(mesh, summed))
                )
        return collections.Counter(found)


GQA, MQA = Shape(8, 6, 10, 4, 2, 8, 4), Shape(8, 6, 10, 8, 1, 8, 4)
ONE, TWO = {"p": 8}, {"p": 4, "q": 2}
EVERYTHING = Case(
    GQA, bias="NTS", mask="BTS", query_lengths=True, key_lengths=True, segments=True, causal=True, bottom_right=True
)
SETUPS: dict[str, Setup] = {
    "batch": Setup(Case(GQA, causal=True), ONE, b=("p",)),
    "heads": Setup(Case(Shape(2, 6, 10, 16, 8, 8, 4), window=(3, 1)), ONE, n=("p",)),
    "equal heads": Setup(Case(Shape(2, 6, 10, 8, 8, 8, 4)), ONE, n=("p",)),
    "batch x heads": Setup(Case(GQA, causal=True), TWO, b=("p",), n=("q",)),
    "batch over both axes": Setup(Case(GQA, key_lengths=True, query_lengths=True), TWO, b=("p", "q")),
    "MQA heads": Setup(Case(MQA), ONE, n=("p",), k=()),
    "MQA batch x heads": Setup(Case(MQA, causal=True), TWO, b=("p",), n=("q",), k=()),
    "bias of heads, batch cut": Setup(Case(GQA, bias="NTS"), ONE, b=("p",)),
    "bias of the batch, heads cut": Setup(Case(GQA, bias="BTS"), TWO, n=("q",)),
    "bias of positions, both cut": Setup(Case(GQA, bias="TS", lower_rank=True), TWO, b=("p",), n=("q",)),
    "scalar bias, both cut": Setup(Case(GQA, bias=""), TWO, b=("p",), n=("q",)),
    "full bias and mask": Setup(Case(GQA, bias="BNTS", mask="BNTS"), TWO, b=("p",), n=("q",)),
    "everything": Setup(EVERYTHING, TWO, b=("p",), n=("q",)),
    "everything MQA": Setup(dataclasses.replace(EVERYTHING, shape=MQA), TWO, b=("p",), n=("q",), k=()),
}  # fmt: skip


def run(setup: Setup, problem: problems.Problem, route: str):
    """(results by name, text of the optimised program)"""
    mesh = setup.make_mesh(AxisType.Explicit if route == "explicit" else AxisType.Auto)
    arrays = problem.arrays | (
        {"bias": problem.arrays["bias"].reshape((1,) * (4 - problem.arrays["bias"].ndim) + problem.arrays["bias"].shape)}
        if "bias" in problem.arrays
        else {}
    )
    specs, cotangent_specs = (
        setup.specs(arrays),
        (setup.spec("out", problem.dout.shape), setup.spec("lse", problem.dlse.shape)),
    )
    function = functools.partial(problems.value_and_vjp, setup.case)
    is_spec = {"is_leaf": lambda x: isinstance(x, P)}
    if route == "manual":
        results = {"out": cotangent_specs[0], "lse": cotangent_specs[1]} | {
            f"d{n}": specs[n] for n in ("q", "k", "v", "bias") if n in specs
        }
        function = jax.shard_map(function, mesh=mesh, in_specs=(specs, cotangent_specs), out_specs=results)
    elif route == "mesh=":
        order = [specs[n] for n in ("q", "k", "v", *problems.OPTIONAL) if n in specs]
        function = functools.partial(function, mesh=mesh, in_specs=jax.tree.leaves(order, **is_spec))
    shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), (specs, cotangent_specs), **is_spec)
    given = jax.tree.map(jax.device_put, (arrays, problem.cotangents), shardings)
    with jax.set_mesh(mesh):
        compiled = jax.jit(function).lower(*given).compile()
        results = dict(compiled(*given))
    if "bias" in arrays:
        results["dbias"] = results["dbias"].reshape(problem.arrays["bias"].shape)
    return results, compiled.as_text()


@every_route
@pytest.mark.parametrize("name", SETUPS)
def test_values_collectives_and_local_shapes(name: str, route: str) -> None:
    """openxla's silent gathers around custom calls (jax-ml/jax#32098) would show as collectives or as whole local shapes."""
    setup = SETUPS[name]
    problem = problems.make(setup.case)
    results, text = run(setup, problem, route)
    # Partial sums are rounded once to float32 each, before they are added.
    problem.check(results, what=f"{name} {route}", slack=1.05)
    assert hlo.collectives(text) == setup.expected(problem)
    calls = {call.target: call for call in hlo.custom_calls(text)}
    assert len(hlo.custom_calls(text)) == len(calls) == 2, calls
    arrays = problem.arrays
    local = [hlo.shape_text("float32", setup.local(n, arrays[n].shape)) for n in "qkv"]
    out, lse = (
        hlo.shape_text("float32", setup.local(n, c.shape)) for n, c in zip(("out", "lse"), problem.cotangents, strict=True)
    )
    assert calls["jaxator.attention_forward"].operands[:3] == tuple(local) and calls["jaxator.attention_forward"].results[
        :2
    ] == (out, lse)
    assert calls["jaxator.attention_backward"].operands[-4:] == (out, lse, out, lse) and calls[
        "jaxator.attention_backward"
    ].results[:3] == tuple(local)
    for n in ("out", "dq", "dk", "dv"):  # nothing was gathered on the way out either
        shape = problem.cotangents[0].shape if n == "out" else arrays[n[1:]].shape
        assert results[n].sharding.shard_shape(shape) == setup.local(n.removeprefix("d"), shape), n


@every_route
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str, route: str) -> None:
    """The partial sums of dk and dv are added in float32 and rounded once: the bound is that of one device."""
    setup = SETUPS["everything MQA"]
    problem = problems.make(setup.case, dtype)
    results, _ = run(setup, problem, route)
    problem.check(results, problem.exact(2.0**-8 if dtype == "bfloat16" else 0), f"{dtype} {route}")


# ---- what the rule cannot follow: gathered, and right ----------------------------------------------------------------

AWKWARD = {
    "T and S cut": (Case(Shape(2, 16, 16, 4, 2, 8, 8), causal=True), {"q": P(None, "p"), "k": P(None, "p"), "v": P(None, "p"), "out": P(None, "p")}),
    "S cut": (Case(Shape(2, 16, 16, 4, 2, 8, 8), key_lengths=True), {"k": P(None, "p"), "v": P(None, "p")}),
    "head size cut": (Case(Shape(2, 5, 6, 4, 2, 8, 8)), {"q": P(None, None, None, "p"), "k": P(None, None, None, "p")}),
    "q by batch, k by heads": (Case(Shape(8, 5, 6, 16, 8, 8, 8)), {"q": P("p"), "k": P(None, None, "p"), "v": P("p"), "out": P(None, None, "p")}),
    "only the keys by batch": (Case(Shape(8, 5, 6, 4, 2, 8, 8), bias="NTS"), {"k": P("p")}),
    "only the bias by heads": (Case(Shape(2, 5, 6, 16, 8, 8, 8), bias="NTS"), {"bias": P(None, "p")}),
    "two kv heads, eight ways": (Case(Shape(2, 5, 6, 16, 2, 8, 8), causal=True), {"q": P(None, None, "p"), "out": P(None, None, "p")}),
    "mask by keys": (Case(Shape(2, 5, 16, 4, 2, 8, 8), mask="BNTS"), {"mask": P(None, None, None, "p")}),
}  # fmt: skip


@pytest.mark.parametrize("route", ["automatic", "explicit"])
@pytest.mark.parametrize("name", AWKWARD)
def test_shardings_that_the_op_cannot_use(name: str, route: str) -> None:
    case, specs = AWKWARD[name]
    problem = problems.make(case)
    mesh = jax.make_mesh(
        (8,), ("p",), axis_types=(AxisType.Explicit if route == "explicit" else AxisType.Auto,), devices=jax.devices("cpu")
    )
    given = {
        n: jax.tree.map(lambda x, n=n: jax.device_put(x, NamedSharding(mesh, specs.get(n, P()))), a)
        for n, a in problem.arrays.items()
    }
    dout, dlse = (
        jax.device_put(c, NamedSharding(mesh, s)) for c, s in ((problem.dout, specs.get("out", P())), (problem.dlse, P()))
    )
    with jax.set_mesh(mesh):
        if route == "explicit":  # a cotangent must have the sharding of its output
            results = jax.jit(functools.partial(problems.call, case))(given)
            dout, dlse = (
                jax.device_put(np.asarray(c), r.sharding) for c, r in zip(problem.cotangents, results, strict=True)
            )
        results = jax.jit(functools.partial(problems.value_and_vjp, case))(given, (dout, dlse))
    problem.check(results, what=name, slack=1.05)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_batch_that_the_axis_does_not_divide(kind: AxisType) -> None:
    """The arrays lie on the mesh whole; the other axis is used all the same."""
    case = Case(Shape(3, 6, 10, 4, 2, 8, 4), bias="TS", causal=True)
    setup = Setup(case, TWO, n=("q",))
    problem = problems.make(case)
    results, text = run(setup, problem, "explicit" if kind == AxisType.Explicit else "automatic")
    problem.check(results, slack=1.05)
    assert hlo.collectives(text) == setup.expected(problem)


def test_partly_manual_mesh() -> None:
    """Batch by hand, the other axis automatic: gathered around the local call, and right."""
    setup = SETUPS["batch x heads"]
    problem = problems.make(setup.case)
    mesh = setup.make_mesh()
    by_hand = jax.tree.map(lambda a: P("p", *(None,) * (a.ndim - 1)), (problem.arrays, problem.cotangents))
    out_specs = {n: P("p") for n in ("out", "lse", "dq", "dk", "dv")}
    function = jax.shard_map(
        functools.partial(problems.value_and_vjp, setup.case),
        mesh=mesh,
        in_specs=by_hand,
        out_specs=out_specs,
        axis_names={"p"},
    )
    shardings = jax.tree.map(
        lambda s: NamedSharding(mesh, s), setup.specs(problem.arrays), is_leaf=lambda x: isinstance(x, P)
    )
    problem.check(jax.jit(function)(jax.tree.map(jax.device_put, problem.arrays, shardings), problem.cotangents))


def test_specs_that_conflict_with_the_op_are_named() -> None:
    problem = problems.make(Case(GQA))
    q, k, v = (problem.arrays[n] for n in "qkv")
    mesh = jax.make_mesh((8,), ("p",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu"))
    batch = P("p")
    for specs, message in (
        ((P(None, "p"), batch, batch), r"in_specs has P.*\(None, 'p'\): the op can be sharded as"),
        ((batch, P(), batch), r"in_specs has P.*\(\): the op can be sharded as P.*\('p'"),
        ((batch, P(None, None, "p"), batch), "in_specs has"),
        ((batch, batch), "needs one PartitionSpec for each of the 3 arrays"),
        (None, "in_specs=None: needs one PartitionSpec"),
    ):
        with pytest.raises(ValueError, match=message):
            jxt.dot_product_attention(q, k, v, mesh=mesh, in_specs=specs)


def test_vmap_of_a_sharded_call() -> None:
    """The mapped dimension joins the batch; the batch stays cut."""
    case = Case(GQA, causal=True)
    many = [problems.make(case, seed=seed) for seed in range(3)]
    mesh = SETUPS["batch"].make_mesh()
    stack = jax.tree.map(
        lambda *a: jax.device_put(np.stack(a), NamedSharding(mesh, P(None, "p"))), *((p.arrays, p.cotangents) for p in many)
    )
    got = jax.jit(jax.vmap(functools.partial(problems.value_and_vjp, case)))(*stack)
    for i, problem in enumerate(many):
        problem.check({n: jnp.asarray(a)[i] for n, a in got.items()})
