"""Attention and matmul over two GPUs by each route: values of one device, and between devices the expected sums only."""

import collections
import dataclasses

import attention_problems as problems
import hlo
import jax
import pytest
import test_attention_sharding as attention
import test_matmul_sharding as product
from attention_problems import Case, Shape
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from matmul_problems import Problem
from test_attention_cuda import ROUNDING

pytestmark = pytest.mark.gpu
MESH = {"p": 2}


@pytest.fixture(autouse=True)
def two_devices() -> None:
    if (count := len(jax.devices("cuda"))) < 2:
        pytest.skip(f"needs two GPUs, JAX sees {count}")


def joined(found: collections.Counter[hlo.Collective]) -> collections.Counter[hlo.Collective]:
    """XLA for GPUs moves the arrays of several sums of one group as one: what is compared is all bytes of a group."""
    bytes_of: collections.Counter[tuple] = collections.Counter()
    for one, times in found.items():
        bytes_of[one.kind, one.groups] += one.bytes * times
    return collections.Counter(hlo.Collective(kind, size, groups) for (kind, groups), size in bytes_of.items())


@pytest.fixture(autouse=True)
def joined_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = hlo.collectives
    monkeypatch.setattr(hlo, "collectives", lambda text: joined(plain(text)))


def gpu_mesh(kind: AxisType):
    return jax.make_mesh((2,), ("p",), axis_types=(kind,), devices=jax.devices("cuda")[:2])


class AttentionSetup(attention.Setup):
    def make_mesh(self, kind: AxisType = AxisType.Auto):
        return gpu_mesh(kind)

    def expected(self, *args):
        return joined(super().expected(*args))


class ProductSetup(product.Setup):
    def make_mesh(self, kind: AxisType):
        return gpu_mesh(kind)

    def expected(self, *args):
        return joined(super().expected(*args))


GROUPED = Shape(2, 130, 140, 8, 4, 64, 64)
ATTENTION = {
    "batch": AttentionSetup(Case(GROUPED, causal=True), MESH, b=("p",)),
    "heads": AttentionSetup(Case(GROUPED, window=(60, 1)), MESH, n=("p",)),
    "MQA heads": AttentionSetup(Case(GROUPED._replace(k=1), causal=True), MESH, n=("p",), k=()),
    "bias of heads, batch cut": AttentionSetup(Case(GROUPED, bias="NTS"), MESH, b=("p",)),
}


@attention.every_route
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str, route: str) -> None:
    setup = ATTENTION[name]
    problem = problems.make(setup.case, "bfloat16")
    results, text = attention.run(setup, problem, route)
    # Partial sums are rounded once to float32 each, before they are added.
    problem.check(results, problem.exact(2 * ROUNDING["bfloat16"]), what=f"{name} {route}", slack=1.05)
    assert hlo.collectives(text) == setup.expected(problem)
    assert len(hlo.custom_calls(text)) == 2, text


PLAIN, FULL = (dataclasses.replace(p, dtype="bfloat16") for p in (product.PLAIN, product.FULL))
PRODUCTS = {
    "rows": ProductSetup(FULL, MESH, {"m": ("p",)}),
    "columns": ProductSetup(FULL, MESH, {"n": ("p",)}),
    "contracted": ProductSetup(PLAIN, MESH, {"k": ("p",)}),
    "contracted, everything follows": ProductSetup(FULL, MESH, {"k": ("p",)}),
}
every_product = pytest.mark.parametrize("name", PRODUCTS)


@every_product
def test_matmul_automatic(name: str) -> None:
    product.test_automatic_route(PRODUCTS[name])


@every_product
def test_matmul_explicit(name: str) -> None:
    product.test_explicit_mesh(PRODUCTS[name])


@every_product
def test_matmul_mesh_argument(name: str) -> None:
    product.test_mesh_argument(PRODUCTS[name])


@pytest.mark.parametrize("name", [name for name, setup in PRODUCTS.items() if "k" not in setup.axes])
def test_matmul_manual(name: str) -> None:
    product.test_manual_route(PRODUCTS[name])


def test_a_column_and_a_row_parallel_product() -> None:
    """A layer's two products: the first is cut along n, the second along k, and one sum joins them."""
    mesh, first, second = gpu_mesh(AxisType.Auto), Problem(256, 512, 128, "bfloat16"), Problem(256, 128, 512, "bfloat16")
    a, b = first.operands()
    c = second.operands()[1]
    place = lambda x, *spec: jax.device_put(x, NamedSharding(mesh, P(*spec)))  # noqa: E731
    run = jax.jit(lambda a, b, c: second(first(a, b, activation="silu"), c, preferred_element_type="float32"))
    compiled = run.lower(place(a), place(b, None, "p"), place(c, "p", None)).compile()
    text = compiled.as_text()
    assert list(hlo.collectives(text)) == [hlo.Collective("all-reduce", 4 * 256 * 128, hlo.groups_of(mesh, ["p"]))], text
    whole = [jax.device_put(x, jax.devices("cuda")[0]) for x in (a, b, c)]
    got, want = compiled(place(a), place(b, None, "p"), place(c, "p", None)), run(*whole)
    # The sum of two float32 parts instead of one chain of 512 products.
    assert abs(jax.device_get(got) - jax.device_get(want)).max() <= 512 * 2.0**-24 * abs(jax.device_get(want)).max()
