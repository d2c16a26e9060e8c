"""call_kernel over several devices: which collectives a rule costs, and what each device's kernel sees."""

import collections
import functools

import call_kernel_cases as cases
import hlo
import jax
import numpy as np
import pytest
import sharding as meshes
from call_kernel_cases import normal, on_cpu, saxpy, softmax  # noqa: F401
from hlo import Collective
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxator as jxt

S = jax.ShapeDtypeStruct
every_kind = pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])


def matmul(a, b, rule="m k, k n -> m n"):
    return jxt.call_kernel(
        cases.shared_object(),
        "matmul",
        a,
        b,
        out_shape=S((a.shape[0], b.shape[1]), np.float32),
        grid=lambda operands, results: results[0][0],
        block=1,
        scalars=lambda operands, results: (np.int64(results[0][1]), np.int64(operands[0][1])),
        sharding_rule=rule,
    )


def compiled(f, mesh, specs, *operands):
    placed = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(operands, specs, strict=True)]
    with jax.set_mesh(mesh):
        program = jax.jit(f).lower(*placed).compile()
        return program.as_text(), program(*placed)


# specs of a [8, 8] and b [8, 16] -> local shapes of the call, axes summed over, spec of the result
MATMULS = {
    "rows": ("1d", (P("p"), P()), ("f32[1,8]", "f32[8,16]"), (), P("p")),
    "columns": ("1d", (P(), P(None, "p")), ("f32[8,8]", "f32[8,2]"), (), P(None, "p")),
    "contraction": ("1d", (P(None, "p"), P("p")), ("f32[8,1]", "f32[1,16]"), ("p",), P()),
    "rows and columns": ("2d", (P("p"), P(None, "q")), ("f32[2,8]", "f32[8,8]"), (), P("p", "q")),
    "rows and contraction": ("2d", (P("p", "q"), P("q")), ("f32[2,4]", "f32[4,16]"), ("q",), P("p")),
}


@every_kind
@pytest.mark.parametrize("case", MATMULS)
def test_a_rule_shards_and_sums(case, kind):
    mesh_name, specs, local, summed, out_spec = MATMULS[case]
    mesh = meshes.make_mesh(mesh_name, kind)
    a, b = np.round(normal(8, 8) * 8), np.round(normal(8, 16, seed=1) * 8)  # sums are exact
    text, got = compiled(matmul, mesh, specs, a, b)
    np.testing.assert_array_equal(got, a @ b)
    assert got.sharding.is_equivalent_to(NamedSharding(mesh, out_spec), 2), got.sharding
    (call,) = hlo.custom_calls(text)
    assert call.operands == local, text
    size = 4 * np.prod(
        [n // (mesh.shape[axis] if axis else 1) for n, axis in zip((8, 16), (*out_spec, None, None), strict=False)]
    )
    expected = {Collective("all-reduce", size, hlo.groups_of(mesh, summed)): 1} if summed else {}
    assert hlo.collectives(text) == collections.Counter(expected), text


@every_kind
def test_without_a_rule_arrays_are_gathered(kind):
    mesh = meshes.make_mesh("1d", kind)
    x, y = normal(64), normal(64, seed=1)
    text, got = compiled(functools.partial(saxpy, 2.0), mesh, (P("p"), P("p")), x, y)
    np.testing.assert_allclose(got, 2 * x + y, rtol=1e-6, atol=1e-6)
    assert hlo.custom_calls(text)[0].operands == ("f32[64]", "f32[64]")
    assert {c.kind for c in hlo.collectives(text)} == {"all-gather"}


@every_kind
def test_dimensions_that_stay_whole_are_gathered(kind):
    mesh = meshes.make_mesh("2d", kind)
    x = normal(8, 6)
    text, got = compiled(softmax, mesh, (P("p", "q"),), x)
    cases.check_softmax(x, np.zeros_like(x), 1.0, got, np.zeros_like(x))
    assert hlo.custom_calls(text)[0].operands == ("f32[2,6]",)
    assert got.sharding.is_equivalent_to(NamedSharding(mesh, P("p")), 2)


@every_kind
def test_gradients_of_sharded_rows(kind):
    mesh = meshes.make_mesh("2d", kind)
    x, dy = normal(8, 4, 20), normal(8, 4, 20, seed=1)
    spec = P("p", "q")
    text, (y, dx) = compiled(functools.partial(cases.value_and_vjp, softmax), mesh, (spec, spec), x, dy)
    cases.check_softmax(x, dy, 1.0, y, dx)
    assert [c.operands[0] for c in hlo.custom_calls(text)] == ["f32[2,2,20]"] * 2
    assert not hlo.collectives(text), text


def test_inside_shard_map_arrays_are_local():
    mesh = meshes.make_mesh("1d")
    x, y = normal(64), normal(64, seed=1)
    for rule in (None, "n, n -> n"):
        f = jax.shard_map(
            functools.partial(saxpy, 2.0, sharding_rule=rule), mesh=mesh, in_specs=(P("p"), P()), out_specs=P("p")
        )
        got = jax.jit(f)(x, y[:8])  # a replicated operand beside a varying one
        np.testing.assert_allclose(got, 2 * x + np.tile(y[:8], 8), rtol=1e-6, atol=1e-6)
    f = jax.shard_map(softmax, mesh=mesh, in_specs=P("p"), out_specs=P("p"))
    x, dy = normal(16, 9), normal(16, 9, seed=1)
    cases.check_softmax(x, dy, 1.0, *jax.jit(functools.partial(cases.value_and_vjp, f))(x, dy))


@every_kind
def test_vmap_over_a_sharded_axis(kind):
    mesh = meshes.make_mesh("1d", kind)
    x, y = normal(16, 8), normal(8, seed=1)
    f = jax.vmap(functools.partial(saxpy, 2.0, sharding_rule="n, n -> n", vmap_method="broadcast_all"), in_axes=(0, None))
    text, got = compiled(f, mesh, (P("p"), P()), x, y)
    np.testing.assert_allclose(got, 2 * x + y, rtol=1e-6, atol=1e-6)
    assert hlo.custom_calls(text)[0].operands == ("f32[2,8]", "f32[2,8]")
    assert not hlo.collectives(text), text


def test_uneven_sizes_stay_whole():
    mesh = meshes.make_mesh("1d")
    x = normal(13)
    text, got = compiled(functools.partial(saxpy, 1.0, sharding_rule="n, n -> n"), mesh, (P(), P()), x, x)
    np.testing.assert_array_equal(got, 2 * x)
    assert hlo.custom_calls(text)[0].operands == ("f32[13]", "f32[13]")


RULES = {
    "no arrow": ("n, n", "must have one '->'"),
    "too few operands": ("n -> n", "has 1 operands: the call has 2"),
    "too many results": ("n, n -> n, n", "has 2 results: the call has 1"),
    "rank": ("n m, n -> n", r"'n m' has 2 dimensions, its array \(6,\)"),
    "name": ("n, n$ -> n", r"'n\$' must be '_', or a letter"),
    "compound": ("(a b), n -> n", r"'\(a' must be '_', or a letter"),
    "underscore": ("n_1, n -> n", "'n_1' must be '_', or a letter"),
    "twice": ("n n, n -> n", "names a dimension of 'n n' twice"),
}


@pytest.mark.parametrize("rule, text", RULES.values(), ids=RULES)
def test_rules_that_do_not_fit_are_errors(rule, text):
    with pytest.raises(ValueError, match=text):
        saxpy(1.0, normal(6), normal(6), sharding_rule=rule)


def test_rules_are_checked_against_sizes_and_aliases():
    with pytest.raises(ValueError, match="k is 8 and 9"):
        matmul(normal(3, 8), normal(9, 4))
    with pytest.raises(ValueError, match="operand 0 shares memory with result 0, but 'a' is not 'b'"):
        saxpy(1.0, normal(6), normal(6), sharding_rule="a, b -> b", input_output_aliases={0: 0})
