"""The row ops on AMD's GPUs: lowered for ROCm without hardware, and run on the emulator by programs for CPUs, with an error
for every race, missing wait, access out of bounds and read of uninitialised memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxator as jxt
import ops
from jaxator import _dispatch, _ffi, _targets
from ops import CASES, DTYPES, OpCase

ARCHITECTURES = ("gfx942", "gfx950")

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
emulated = pytest.mark.skipif(_targets.emulation_refusal() is not None, reason="the emulator is not built")


def handlers(case: OpCase) -> tuple[str, str]:
    """Custom calls of the forward and of the backward pass."""
    if case.is_rope:
        return ("jaxator.rope", "jaxator.rope")
    op = case.name.split()[0].removeprefix("add_")
    return (f"jaxator.{op}_forward", f"jaxator.{op}_backward")


def lowered_for_rocm(function, *arguments) -> str:
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("rocm",)).as_text()


# ---- what programs are lowered to --------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("implementation", [None, "rocm", "gfx942"])
def test_lowering_names_the_kernels(case: OpCase, implementation: str | None) -> None:
    for dtype in DTYPES:
        operands = case.make(case.small, dtype)
        function = functools.partial(case.value_and_vjp, implementation=implementation)
        text = lowered_for_rocm(function, operands, case.cotangents(operands))
        names = handlers(case)
        for name in names:
            assert text.count(f"stablehlo.custom_call @{name}(") == names.count(name), text
        assert "emulated" not in text


def test_an_op_without_kernels_is_refused_by_name() -> None:
    for name in ("rocm", *ARCHITECTURES):
        with pytest.raises(jxt.UnsupportedError, match=f"{name}: this op has no kernels for it"):
            _dispatch.choose("op", name, {"cpu": []})
    choice = _dispatch.choose("op", None, {"cpu": []})
    assert (choice, choice.refused["rocm"]) == ("auto:cpu", ["this op has no kernels for it"])


@every_case
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


@every_case
def test_the_reason_is_that_of_this_call(case: OpCase) -> None:
    """Emulated first, so that what JAX and we keep for the op has been made for another architecture."""
    operands = case.make(case.small, "float16")
    named = functools.partial(case.value_and_vjp, implementation="gfx950")
    with jxt.target("gfx942"):
        jax.jit(named)(operands, case.cotangents(operands))
    for target in ("gfx1201", "gfx942", "gfx1201"):
        with jxt.target(target), pytest.raises(jxt.UnsupportedError, match=f"rocm: .*{target}"):
            lowered_for_rocm(named, operands, case.cotangents(operands))


@every_case
def test_export_for_rocm(case: OpCase) -> None:
    operands = case.make(case.small, "bfloat16")
    exported = jax.export.export(
        jax.jit(case.value_and_vjp), platforms=["rocm", "cpu"], disabled_checks=jxt.export_checks()
    )(operands, case.cotangents(operands))
    again = jax.export.deserialize(exported.serialize())
    assert handlers(case)[1] in again.mlir_module()
    values, gradients = again.call(operands, case.cotangents(operands))
    case.assert_right(operands, case.cotangents(operands), values, gradients)


def test_a_program_for_cpus_refuses_kernels_of_the_platform() -> None:
    with pytest.raises(jxt.UnsupportedError, match="cpu: implementation='rocm' was named"):
        jxt.rms_norm(np.ones((2, 8), np.float32), implementation="rocm")


def test_kernels_are_listed() -> None:
    report = _ffi.rocm_report()
    images = {image.split(":")[0] for image in report["images"]}
    assert {"rms_norm_forward", "rms_norm_backward", "layer_norm_forward", "layer_norm_backward", "swiglu", "rope"} <= images
    assert all(name in image for image in report["images"] for name in ARCHITECTURES)
    assert report["problem"] or report["devices"]


# ---- values on the emulator --------------------------------------------------------------------------------------------

ROWS = ((0, 64), (3, 0), (7,), (5, 31), (2, 3, 130), (3, 1021), (33, 256), (2, 1, 4, 768), (2, 4096))
ROPE = ((0, 2, 8), (3, 2, 0), (1, 1, 2), (7, 1, 22), (2, 3, 2, 1, 16), (33, 8, 64), (2, 9, 4, 128))
"""Cut lists: tests/cpp/rocm runs every path."""


def check_values(case: OpCase, dtype: str, architecture: str, shapes) -> None:
    problems = [(operands, case.cotangents(operands)) for operands in (case.make(shape, dtype) for shape in shapes)]
    run = functools.partial(case.value_and_vjp, implementation=architecture)
    results = jax.jit(lambda *given: [run(*problem) for problem in given])(*problems)
    for problem, (values, gradients) in zip(problems, results, strict=True):
        case.assert_right(*problem, values, gradients, what=f"{architecture} {dtype} {problem[0][0].shape}")


@emulated
@every_architecture
@pytest.mark.parametrize("dtype", DTYPES)
@every_case
def test_values_and_gradients(case: OpCase, dtype: str, architecture: str) -> None:
    check_values(case, dtype, architecture, ROPE if case.is_rope else ROWS)


@emulated
@pytest.mark.full
@every_architecture
@pytest.mark.parametrize("dtype", DTYPES)
@every_case
def test_values_and_gradients_of_every_shape(case: OpCase, dtype: str, architecture: str) -> None:
    check_values(case, dtype, architecture, case.shapes)


def norms(implementation: str, x: jax.Array, weight: jax.Array, positions: jax.Array) -> jax.Array:
    """vmap with parameters of their own, scan and remat; one array as two operands."""
    add_rms, layer = (functools.partial(f, implementation=implementation) for f in (jxt.add_rms_norm, jxt.layer_norm))
    mapped = jax.vmap(lambda x, w: add_rms(x, x, w)[0] + layer(x, w, jnp.sin(w)))(x, weight)
    shared = jax.vmap(layer, (0, 0, None))(x, weight, weight[0])
    step = jax.checkpoint(lambda carry, w: (layer(add_rms(carry, x[0], w)[1], None, w), None))
    return (mapped * shared).sum() + jnp.sin(jax.lax.scan(step, x[1], weight)[0]).sum()


def activations(implementation: str, x: jax.Array, weight: jax.Array, positions: jax.Array) -> jax.Array:
    """One operand that vmap does not map; packed halves; scan and remat."""
    swiglu = functools.partial(jxt.swiglu, implementation=implementation, limit=1.5)
    mapped = jax.vmap(swiglu, (0, None))(x, x[0]).sum() + jax.vmap(swiglu)(x).sum()
    step = jax.checkpoint(lambda carry, w: (swiglu(carry * w, x[0]), None))
    return mapped + jnp.sin(jax.lax.scan(step, x[1], weight)[0]).sum()


def rotations(implementation: str, x: jax.Array, weight: jax.Array, positions: jax.Array) -> jax.Array:
    """Positions that vmap maps, shares, or leaves out; a gradient of a gradient."""
    heads, rope = x.reshape(3, 4, 2, 32), functools.partial(jxt.rope, implementation=implementation)
    mapped = jax.vmap(lambda x, p: rope(x, p, interleaved=True))(heads, positions)
    shared = jax.vmap(lambda x: rope(x, positions[0]))(heads)
    slope = jax.grad(lambda x: (rope(x) ** 3).sum())(heads)
    return jnp.sin(mapped * shared).sum() + jnp.cos(slope).sum()


@emulated
@every_architecture
@pytest.mark.parametrize("program", [norms, activations, rotations])
def test_under_transformations(program, architecture: str) -> None:
    random = np.random.default_rng(5)
    x, weight = random.normal(size=(3, 4, 64)).astype(np.float32), random.normal(size=(3, 64)).astype(np.float32)
    positions = random.integers(0, 50, size=(3, 4), dtype=np.int32)
    got, want = (
        jax.jit(jax.value_and_grad(program, (1, 2)), static_argnums=0)(implementation, x, weight, positions)
        for implementation in (architecture, "xla")
    )
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-5)


@emulated
@pytest.mark.parametrize("op", [jxt.rms_norm, jxt.layer_norm, jxt.swiglu])
def test_nan_stays_in_its_row(op) -> None:
    for columns in (1024, 70):
        x = np.random.default_rng(0).normal(size=(15, columns)).astype(np.float32)
        run = jax.jit(lambda x: jax.value_and_grad(lambda x: op(x, implementation="gfx942").sum())(x))
        clean = run(x)[1]
        x[1, 5] = np.nan
        gradient = run(x)[1]
        alone = [5, 5 + columns // 2] if op is jxt.swiglu else range(columns)
        assert np.isnan(gradient[1, list(alone)]).all()
        others = np.arange(15) != 1
        np.testing.assert_array_equal(gradient[others], clean[others])


# ---- explain -----------------------------------------------------------------------------------------------------------


@emulated
@every_architecture
def test_explain(architecture: str) -> None:
    x, weight = jnp.ones((4, 8192), jnp.bfloat16), jnp.ones(8192)
    for op, name in ((jxt.rms_norm, "rms_norm"), (jxt.layer_norm, "layer_norm")):
        loss = lambda x, w, op=op: op(x, w, implementation=architecture).astype(jnp.float32).sum()  # noqa: E731
        found = jxt.explain(jax.grad(loss), x, weight)
        assert [(c.direction, c.target, c.implementation) for c in found.calls] == [
            ("forward", "cpu", architecture), ("backward", "cpu", architecture),
        ]  # fmt: skip
        forward, backward = (c.config for c in found.calls)
        assert forward == {
            "kernel": f"{name}_forward", "architecture": architecture, "emulated": True,
            "vectors_per_thread": 4, "threads_per_row": 256, "blocks": 4,
        }  # fmt: skip
        assert (backward["vectors_per_thread"], backward["threads_per_row"]) == (1, 1024)
        assert found.calls[0].refused["xla"] == [f"implementation={architecture!r} was named"]


@emulated
def test_explain_of_ops_without_rows() -> None:
    x = jnp.ones((4, 64, 4096), jnp.bfloat16)
    swiglu, packed, rope = (
        jxt.explain(functools.partial(op, implementation="gfx950"), *operands).calls[0].config
        for op, *operands in ((jxt.swiglu, x, x), (jxt.swiglu, x), (jxt.rope, x.reshape(4, 64, 32, 128)))
    )
    same = {"architecture": "gfx950", "emulated": True, "vectors": True, "threads": 256}
    assert swiglu == {"kernel": "swiglu_forward", **same, "blocks": 4 * 64 * 4096 * 2 // (256 * 32)}
    assert packed == {"kernel": "swiglu_forward", **same, "blocks": 4 * 64 // 2}
    assert rope == {"kernel": "rope", **same, "rows_per_block": 2, "blocks": 4 * 64 // 2}


def test_explain_for_rocm(monkeypatch) -> None:
    import importlib

    monkeypatch.setattr(importlib.import_module("jaxator.explain"), "_platform", lambda: "rocm")
    x = jnp.ones((4, 64))
    with jxt.target("gfx950"):
        calls = [jxt.explain(op, x).calls[0] for op in (jxt.rms_norm, jxt.layer_norm, jxt.swiglu)]
        calls += jxt.explain(jxt.rope, x.reshape(4, 2, 32)).calls
    for call in calls:
        assert (call.implementation, call.config["architecture"]) == ("rocm", "gfx950")
        assert "emulated" not in call.config


def test_an_installation_without_the_emulator(monkeypatch) -> None:
    monkeypatch.setattr(_targets, "EMULATOR", "libnothing.so")
    x, missing = np.ones((2, 9), np.float32), r"the emulator \(libnothing.so\) is not in this installation"
    with pytest.raises(jxt.UnsupportedError, match=f"cpu: {missing}"):
        jxt.rms_norm(x, implementation="gfx942")
    with jxt.target("gfx942"), pytest.raises(jxt.UnsupportedError, match=f"gfx950: {missing}") as caught:
        jxt.rms_norm(x, implementation="gfx950")
    assert caught.value.reasons["rocm"] == ["implementation='gfx950': the program is lowered for gfx942"]
    assert "jaxator.rms_norm" in lowered_for_rocm(functools.partial(jxt.rms_norm, implementation="gfx942"), x)
