"""`explain` finds every Jaxator call, wherever it is in a program, and tells why it is served as it is."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import jaxator as jxt
from jaxator import _ffi
from jaxator.explain import explain

X = jax.ShapeDtypeStruct((6, 8), jnp.bfloat16)
W = jax.ShapeDtypeStruct((8,), jnp.float32)


def loss(x, w):
    return jxt.rms_norm(x, w).astype(jnp.float32).sum()


def directions(explanation):
    return [(call.op, call.direction) for call in explanation.calls]


def test_a_kernel_call():
    (call,) = explain(jxt.rms_norm, X, W).calls
    assert (call.op, call.direction, call.target, call.implementation) == ("rms_norm", "forward", "cpu", "cpu")
    assert call.operands == ("bfloat16[6,8]", "float32[8]")
    assert call.config["kernel"] == "rms_norm_forward"
    assert call.config["isa"] == _ffi.cpu_report()["selected"]
    assert call.config["tasks"] == 1 and call.config["streaming_stores"] is False
    assert set(call.refused) == {"cuda", "rocm", "xla"}
    assert all(reasons and all(isinstance(r, str) for r in reasons) for reasons in call.refused.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.op = "other"


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda f: f, ["forward"]),
        (jax.jit, ["forward"]),
        (lambda f: jax.vmap(f, in_axes=(0, None)), ["forward"]),
        (lambda f: jax.grad(f, argnums=(0, 1)), ["forward", "backward"]),
        (lambda f: jax.jit(jax.value_and_grad(jax.jit(f))), ["forward", "backward"]),
        # The gradient of one norm does not need its result again, that of two needs the first one's.
        (lambda f: jax.grad(jax.checkpoint(f)), ["forward", "backward"]),
        (lambda f: jax.grad(jax.checkpoint(lambda x, w: f(jxt.rms_norm(x, w), w))), ["forward"] * 3 + ["backward"] * 2),
        (lambda f: lambda x, w: jax.lax.scan(lambda c, _: (c + f(x, w), None), 0.0, None, length=3), ["forward"]),
        (lambda f: lambda x, w: jax.lax.cond(w[0] > 0, f, lambda x, w: -f(x, w), x, w), ["forward", "forward"]),
        (lambda f: lambda x, w: jax.lax.while_loop(lambda c: c < 1, lambda c: c + f(x, w), 0.0), ["forward"]),
    ],
)
def test_transforms(transform, expected):
    found = explain(transform(loss), X, W)
    assert [call.direction for call in found.calls] == expected
    assert {call.op for call in found.calls} == {"rms_norm"}


def test_inside_shard_map_operands_are_local():
    mesh = AbstractMesh((2,), ("x",), axis_types=(AxisType.Auto,))
    sharded = jax.shard_map(jxt.rms_norm, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))
    (call,) = explain(sharded, X, W).calls
    assert call.operands == ("bfloat16[3,8]", "float32[8]")


def test_a_function_that_was_traced_before():
    inner = jax.jit(loss)
    inner(jnp.ones(X.shape, X.dtype), jnp.ones(8))
    assert directions(explain(inner, X, W)) == [("rms_norm", "forward")]
    assert directions(explain(inner, X, W)) == [("rms_norm", "forward")]


def test_mapped_parameters_make_groups():
    (alone,) = explain(jxt.rms_norm, jax.ShapeDtypeStruct((512, 4096), jnp.bfloat16), jnp.ones(4096)).calls
    stacked = jax.ShapeDtypeStruct((3, 512, 4096), jnp.bfloat16)
    (mapped,) = explain(jax.vmap(jxt.rms_norm), stacked, jax.ShapeDtypeStruct((3, 4096), jnp.float32)).calls
    assert mapped.config == alone.config and alone.config["tasks"] > 1
    gradients = explain(
        jax.vmap(jax.grad(loss), in_axes=(0, None)), stacked, jax.ShapeDtypeStruct((4096,), jnp.float32)
    ).calls
    assert gradients[1].config["tasks"] * gradients[1].config["rows_per_task"] == 512


def test_add_rms_norm_has_its_public_name():
    def both(x, residual, w):
        y, total = jxt.add_rms_norm(x, residual, w)
        return (y + total).astype(jnp.float32).sum()

    found = explain(jax.grad(both), X, X, W)
    assert directions(found) == [("add_rms_norm", "forward"), ("add_rms_norm", "backward")]


def test_static_arguments_stay_static():
    (call,) = explain(jxt.rms_norm, X, W, epsilon=1e-3, implementation="cpu").calls
    assert call.refused["xla"] == ["implementation='cpu' was named"]
    assert explain(lambda x, text: (x, text), X, "text").calls == []


def test_the_xla_formulation_by_name():
    found = explain(jax.grad(lambda x, w: jxt.rms_norm(x, w, implementation="xla").astype(jnp.float32).sum()), X, W)
    assert {call.direction for call in found.calls} == {"forward", "backward"}
    for call in found.calls:
        assert (call.op, call.target, call.implementation, call.config) == ("rms_norm", "cpu", "xla", {})
        assert call.refused["cpu"] == ["implementation='xla' was named"]
    assert found.calls[0].operands == ("bfloat16[6,8]", "float32[8]")


def test_the_xla_formulation_because_of_the_dtype():
    with jax.enable_x64(True):
        wide = jnp.ones((2, 8), jnp.float64)
        inner = jax.jit(jxt.rms_norm)
        inner(wide)  # traced and compiled before explain sees it
        (call,) = explain(lambda x: inner(x), wide).calls
    assert call.implementation == "xla"
    assert call.refused["cpu"] == ["dtype=float64: must be one of float32, bfloat16, float16"]


def test_a_gpu_without_kernels_takes_the_formulation(monkeypatch):
    monkeypatch.setattr(importlib.import_module("jaxator.explain"), "_platform", lambda: "cuda")
    with jxt.target("sm_80"):
        (call,) = explain(jxt.rms_norm, jax.ShapeDtypeStruct((3, 24), jnp.float16)).calls
    assert (call.op, call.target, call.implementation) == ("rms_norm", "cuda", "xla")
    assert call.refused["cuda"] == ["architecture=sm_80: this build has kernels for sm_90a"]


def test_a_gpu_that_is_not_here(monkeypatch):
    monkeypatch.setattr(importlib.import_module("jaxator.explain"), "_platform", lambda: "cuda")
    found = explain(jax.grad(lambda x, w: jxt.rms_norm(x, w).astype(jnp.float32).sum()), X, W)
    assert directions(found) == [("rms_norm", "forward"), ("rms_norm", "backward")]
    for call in found.calls:
        assert (call.target, call.implementation, call.config["architecture"]) == ("cuda", "cuda", "sm_90a")
        assert {"vectors_per_thread", "threads_per_row", "blocks"} <= set(call.config)
        assert call.refused["rocm"] == ["the program is lowered for cuda"]


def test_values_of_the_marked_formulation():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((5, 16)), jnp.float32)
    np.testing.assert_allclose(
        jxt.rms_norm(x, implementation="xla"), jxt.rms_norm(x, implementation="cpu"), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("op", "operands", "configured"),
    [
        ("layer_norm", (X, W, W), {"rows_per_task", "tasks"}),
        ("swiglu", (X,), {"elements_per_task", "tasks"}),
        ("swiglu", (X, X), {"elements_per_task", "tasks"}),
        ("rope", (jax.ShapeDtypeStruct((2, 5, 3, 8), jnp.float32),), {"rows_per_task", "tasks"}),
    ],
)
def test_other_row_ops(op, operands, configured):
    def total(*operands):
        return getattr(jxt, op)(*operands).astype(jnp.float32).sum()

    found = explain(jax.grad(total), *operands)
    assert directions(found) == [(op, "forward"), (op, "backward")]
    assert all(configured <= set(call.config) for call in found.calls)


def test_attention():
    q = jax.ShapeDtypeStruct((1, 64, 4, 16), jnp.bfloat16)
    kv = jax.ShapeDtypeStruct((1, 64, 2, 16), jnp.bfloat16)

    def total(q, k, v):
        return jxt.dot_product_attention(q, k, v, is_causal=True).astype(jnp.float32).sum()

    found = explain(jax.grad(total), q, kv, kv)
    assert directions(found) == [("dot_product_attention", "forward"), ("dot_product_attention", "backward")]
    for call in found.calls:
        assert call.config["kernel"] in ("flash_f32", "flash_bf16dot")
        other = ({"flash_f32", "flash_bf16dot"} - {call.config["kernel"]}).pop()
        assert call.refused[other]


def test_attention_kernel_by_name():
    q = jax.ShapeDtypeStruct((1, 64, 4, 16), jnp.bfloat16)
    (call,) = explain(jxt.dot_product_attention, q, q, q, implementation="flash_f32").calls
    assert call.config["kernel"] == "flash_f32"
    assert "implementation='flash_f32' was named" in call.refused["flash_bf16dot"]
    assert call.refused["xla"] == ["implementation='flash_f32' was named"]


def test_prints_a_table():
    def two(x, w):
        return jxt.rms_norm(jxt.rms_norm(x, w), w)

    found = explain(two, X, W)
    text = str(found)
    assert repr(found) == text
    assert text.startswith("2 Jaxator calls in a program for cpu")
    assert "1-2" in text and "rms_norm_forward" in text and "not cuda: the program is lowered for cpu" in text
    assert str(explain(lambda x: x + 1, X)) == "0 Jaxator calls in a program for cpu"
