"""The row ops on AMD's GPUs: lowered for ROCm without hardware, and run on the emulator by programs for CPUs, with an error
for every race, missing wait, access out of bounds and read of uninitialised memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxator as jxt
import ops
from jaxator import _ffi, _targets
from ops import CASES, DTYPES, OpCase

SERVED = tuple(case for case in CASES if "rms_norm" in case.name)
OTHERS = tuple(case for case in CASES if case not in SERVED)
ARCHITECTURES = ("gfx942", "gfx950")

served_case = pytest.mark.parametrize("case", SERVED, ids=ops.names(SERVED))
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
emulated = pytest.mark.skipif(_targets.emulation_refusal() is not None, reason="the emulator is not built")


def lowered_for_rocm(function, *arguments) -> str:
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("rocm",)).as_text()


# ---- what programs are lowered to --------------------------------------------------------------------------------------


@served_case
@pytest.mark.parametrize("implementation", [None, "rocm", "gfx942"])
def test_lowering_names_the_kernels(case: OpCase, implementation: str | None) -> None:
    for dtype in DTYPES:
        operands = case.make(case.small, dtype)
        function = functools.partial(case.value_and_vjp, implementation=implementation)
        text = lowered_for_rocm(function, operands, case.cotangents(operands))
        for name in ("jaxator.rms_norm_forward", "jaxator.rms_norm_backward"):
            assert text.count(f"stablehlo.custom_call @{name}(") == 1, text
        assert "emulated" not in text


@pytest.mark.parametrize("case", OTHERS, ids=ops.names(OTHERS))
def test_lowering_of_ops_without_kernels(case: OpCase) -> None:
    operands = case.make(case.small, "bfloat16")
    cotangents = case.cotangents(operands)
    assert "custom_call @jaxator." not in lowered_for_rocm(case.value_and_vjp, operands, cotangents)
    for name in ("rocm", *ARCHITECTURES):
        with pytest.raises(jxt.UnsupportedError, match=f"{name}: this op has no kernels for it"):
            lowered_for_rocm(functools.partial(case.value_and_vjp, implementation=name), operands, cotangents)


@served_case
def test_lowering_for_a_named_architecture(case: OpCase) -> None:
    operands = case.make(case.small, "bfloat16")
    cotangents = case.cotangents(operands)
    with jxt.target("gfx1201"):
        assert "custom_call @jaxator." not in lowered_for_rocm(case.value_and_vjp, operands, cotangents)
    for target, implementation in (("gfx1201", "rocm"), ("gfx1201", "gfx950"), ("gfx942", "gfx950")):
        with jxt.target(target), pytest.raises(jxt.UnsupportedError, match=f"rocm: .*{target}"):
            lowered_for_rocm(functools.partial(case.value_and_vjp, implementation=implementation), operands, cotangents)
    with jxt.target("gfx950"):
        named = functools.partial(case.value_and_vjp, implementation="gfx950")
        assert lowered_for_rocm(named, operands, cotangents).count("custom_call @jaxator.") == 2


@served_case
def test_export_for_rocm(case: OpCase) -> None:
    operands = case.make(case.small, "bfloat16")
    exported = jax.export.export(
        jax.jit(case.value_and_vjp), platforms=["rocm", "cpu"], disabled_checks=jxt.export_checks()
    )(operands, case.cotangents(operands))
    again = jax.export.deserialize(exported.serialize())
    assert "jaxator.rms_norm_backward" in again.mlir_module()
    values, gradients = again.call(operands, case.cotangents(operands))
    case.assert_right(operands, case.cotangents(operands), values, gradients)


def test_a_program_for_cpus_refuses_kernels_of_the_platform() -> None:
    with pytest.raises(jxt.UnsupportedError, match="cpu: implementation='rocm' was named"):
        jxt.rms_norm(np.ones((2, 8), np.float32), implementation="rocm")


def test_kernels_are_listed() -> None:
    report = _ffi.rocm_report()
    assert [image.split(":")[0] for image in report["images"]] == ["rms_norm_forward", "rms_norm_backward"]
    assert all(name in image for image in report["images"] for name in ARCHITECTURES)
    assert report["problem"] or report["devices"]


# ---- values on the emulator --------------------------------------------------------------------------------------------

ROWS = ((0, 64), (3, 0), (7,), (5, 31), (2, 3, 130), (3, 1021), (33, 256), (2, 1, 4, 768), (2, 4096))
"""A cut list: tests/cpp/rocm runs every path."""


@emulated
@every_architecture
@pytest.mark.parametrize("dtype", DTYPES)
@served_case
def test_values_and_gradients(case: OpCase, dtype: str, architecture: str) -> None:
    problems = [(operands, case.cotangents(operands)) for operands in (case.make(shape, dtype) for shape in ROWS)]
    run = functools.partial(case.value_and_vjp, implementation=architecture)
    results = jax.jit(lambda *given: [run(*problem) for problem in given])(*problems)
    for problem, (values, gradients) in zip(problems, results, strict=True):
        case.assert_right(*problem, values, gradients, what=f"{architecture} {dtype} {problem[0][0].shape}")


@emulated
@every_architecture
def test_under_transformations(architecture: str) -> None:
    """vmap with weights of their own, scan and remat; one array as two operands."""
    random = np.random.default_rng(5)
    x, weight = random.normal(size=(3, 4, 64)).astype(np.float32), random.normal(size=(3, 64)).astype(np.float32)

    def program(implementation: str, x: jax.Array, weight: jax.Array) -> jax.Array:
        norm = functools.partial(jxt.add_rms_norm, implementation=implementation)
        mapped = jax.vmap(lambda x, w: norm(x, x, w)[0])(x, weight)
        layer = jax.checkpoint(lambda carry, w: (norm(carry, x[0], w)[1], None))
        return mapped.sum() + jnp.sin(jax.lax.scan(layer, x[1], weight)[0]).sum()

    got, want = (
        jax.jit(jax.value_and_grad(program, (1, 2)), static_argnums=0)(implementation, x, weight)
        for implementation in (architecture, "xla")
    )
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@emulated
def test_nan_stays_in_its_row() -> None:
    for columns in (1024, 71):
        x = np.random.default_rng(0).normal(size=(15, columns)).astype(np.float32)
        run = jax.jit(lambda x: jax.value_and_grad(lambda x: jxt.rms_norm(x, implementation="gfx942").sum())(x))
        clean = run(x)[1]
        x[1, 5] = np.nan
        gradient = run(x)[1]
        assert np.isnan(gradient[1]).all()
        others = np.arange(15) != 1
        np.testing.assert_array_equal(gradient[others], clean[others])


@emulated
@every_architecture
def test_explain(architecture: str) -> None:
    x, weight = jnp.ones((4, 8192), jnp.bfloat16), jnp.ones(8192)
    found = jxt.explain(
        jax.grad(lambda x, w: jxt.rms_norm(x, w, implementation=architecture).astype(jnp.float32).sum()), x, weight
    )
    assert [(c.direction, c.target, c.implementation) for c in found.calls] == [
        ("forward", "cpu", architecture), ("backward", "cpu", architecture),
    ]  # fmt: skip
    forward, backward = (c.config for c in found.calls)
    assert forward == {
        "kernel": "rms_norm_forward", "architecture": architecture, "emulated": True,
        "vectors_per_thread": 4, "threads_per_row": 256, "blocks": 4,
    }  # fmt: skip
    assert (backward["vectors_per_thread"], backward["threads_per_row"]) == (1, 1024)
    assert found.calls[0].refused["xla"] == [f"implementation={architecture!r} was named"]


def test_explain_for_rocm(monkeypatch) -> None:
    import importlib

    monkeypatch.setattr(importlib.import_module("jaxator.explain"), "_platform", lambda: "rocm")
    with jxt.target("gfx950"):
        (call,) = jxt.explain(jxt.rms_norm, jnp.ones((4, 64))).calls
        (other,) = jxt.explain(jxt.swiglu, jnp.ones((4, 64)), jnp.ones((4, 64))).calls
    assert (call.implementation, call.config["architecture"]) == ("rocm", "gfx950")
    assert "emulated" not in call.config
    assert (other.implementation, other.refused["rocm"]) == ("xla", ["this op has no kernels for it"])


def test_an_installation_without_the_emulator(monkeypatch) -> None:
    monkeypatch.setattr(_targets, "EMULATOR", "libnothing.so")
    x, missing = np.ones((2, 9), np.float32), r"the emulator \(libnothing.so\) is not in this installation"
    with pytest.raises(jxt.UnsupportedError, match=f"cpu: {missing}"):
        jxt.rms_norm(x, implementation="gfx942")
    with jxt.target("gfx942"), pytest.raises(jxt.UnsupportedError, match=f"gfx950: {missing}") as caught:
        jxt.rms_norm(x, implementation="gfx950")
    assert caught.value.reasons["rocm"] == ["implementation='gfx950': the program is lowered for gfx942"]
    assert "jaxator.rms_norm" in lowered_for_rocm(functools.partial(jxt.rms_norm, implementation="gfx942"), x)
