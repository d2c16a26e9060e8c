"""The row ops on an NVIDIA GPU: values and gradients within the bounds of the CPU kernels.

Without a GPU only what programs are lowered to."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import shapes

import jaxator as jxt
import ops
from ops import CASES, DTYPES, OpCase

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))
NORMS = tuple(case for case in CASES if "norm" in case.name)
LAYER_NORM = next(case for case in CASES if case.name == "layer_norm")
SWIGLU = next(case for case in CASES if case.name == "swiglu")


def kernels(case: OpCase):
    return functools.partial(case.value_and_vjp, implementation="cuda")


def on_gpu(case: OpCase, *problems):
    """Values and gradients of each (operands, cotangents), all in one program."""
    problems = jax.device_put(problems, jax.devices("cuda")[0])
    return jax.device_get(jax.jit(lambda *given: [kernels(case)(*p) for p in given])(*problems))


def assert_right_on_gpu(case: OpCase, *operand_lists, what: str = "") -> None:
    problems = [(operands, case.cotangents(operands)) for operands in operand_lists]
    for problem, results in zip(problems, on_gpu(case, *problems), strict=True):
        shape = f"{problem[0][0].dtype}{list(problem[0][0].shape)}"
        case.assert_right(*problem, *results, what=f"cuda {shape} {what}")


# ---- what programs are lowered to; no GPU needed -----------------------------------------------------------------------


def lowered_for_cuda(function, *arguments) -> str:
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def handlers(case: OpCase) -> set[str]:
    """Of both directions: rope's gradient is the same handler with the inverse rotation."""
    op = case.name.removeprefix("add_").split()[0]
    return {"jaxator.rope"} if case.is_rope else {f"jaxator.{op}_forward", f"jaxator.{op}_backward"}


@every_case
def test_lowering_names_the_kernels(case: OpCase) -> None:
    for dtype in DTYPES:
        operands = case.make(case.small, dtype)
        for function in (kernels(case), case.value_and_vjp):
            text = lowered_for_cuda(function, operands, case.cotangents(operands))
            assert text.count("stablehlo.custom_call @jaxator.") == 2, f"{case.name} {dtype}\n{text}"
            assert all(f"stablehlo.custom_call @{name}(" in text for name in handlers(case)), text


@every_case
def test_lowering_for_an_architecture_without_kernels(case: OpCase) -> None:
    operands = case.make(case.small, "bfloat16")
    cotangents = case.cotangents(operands)
    with jxt.target("sm_80"):
        assert "custom_call @jaxator." not in lowered_for_cuda(case.value_and_vjp, operands, cotangents)
        with pytest.raises(jxt.UnsupportedError, match="sm_80"):
            lowered_for_cuda(kernels(case), operands, cotangents)


@pytest.mark.parametrize("case", ops.MAIN, ids=ops.names(ops.MAIN))
def test_export_for_cuda(case: OpCase) -> None:
    operands = case.make(case.small, "bfloat16")
    function = jax.jit(kernels(case))
    exported = jax.export.export(function, platforms=["cuda"], disabled_checks=jxt.export_checks())
    data = exported(operands, case.cotangents(operands)).serialize()
    again = jax.export.deserialize(data)
    assert again.platforms == ("cuda",)
    assert all(name in again.mlir_module() for name in handlers(case))


@pytest.mark.parametrize("case", ops.MAIN, ids=ops.names(ops.MAIN))
def test_explain_tells_the_configuration(case: OpCase, monkeypatch) -> None:
    monkeypatch.setattr(importlib.import_module("jaxator.explain"), "_platform", lambda: "cuda")
    operands = case.make((33, 8, 64) if case.is_rope else (65, 768), "bfloat16")
    calls = jxt.explain(case.value_and_vjp, operands, case.cotangents(operands)).calls
    assert [call.direction for call in calls] == ["forward", "backward"]
    for call in calls:
        assert (call.implementation, call.config["architecture"]) == ("cuda", "sm_90a")
        assert call.config["blocks"] > 0 and any(name in call.config for name in ("threads", "threads_per_row"))


# ---- values --------------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@every_case
def test_every_shape(case: OpCase, dtype: str) -> None:
    assert_right_on_gpu(case, *(case.make(shape, dtype) for shape in case.shapes))


LONG_ROWS: tuple[shapes.Shape, ...] = (
    (140, 512),  # a warp for each row, more rows than one round of a block
    (1200, 136),
    (700, 1032),  # several rows for each block
    (300, 8192),
    (3, 8200),  # beyond one vector a thread
    (270, 16384),
    (3, 20480),  # beyond the backward pass's registers
    (2, 32768),
    (2, 40000),  # beyond the forward pass's
    (1, 40001),
)
LONG_ROPE: tuple[shapes.Shape, ...] = (
    (3, 2, 2048),  # two turns of a head
    (2, 3, 1030),
    (70, 40, 128),  # heads in two rounds
    (2, 300, 1, 64),
    (5, 300, 16),
    (1000, 3, 2),
)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@every_case
def test_shapes_that_take_every_path(case: OpCase, dtype: str) -> None:
    assert_right_on_gpu(case, *(case.make(shape, dtype) for shape in (LONG_ROPE if case.is_rope else LONG_ROWS)))


@pytest.mark.gpu
@every_case
def test_nan_stays_in_its_row(case: OpCase) -> None:
    """In vectors, and element by element."""
    for shape in ((5, 3, 64), (5, 3, 34)) if case.is_rope else ((15, 1024), (15, 71)):
        operands = case.make(shape, "float32")
        cotangents = case.cotangents(operands)
        poisoned = (operands[0].copy(), *operands[1:])
        at = 1
        poisoned[0][at, ..., 5] = np.nan
        (clean, clean_gradients), (values, gradients) = on_gpu(case, (operands, cotangents), (poisoned, cotangents))
        assert all(np.isnan(v[at]).any() for v in values), "NaN was lost"
        # rope is linear: its gradient does not know x.
        assert case.is_rope or np.isnan(gradients[0][at]).any(), "NaN was lost in the gradient"
        others = np.arange(len(operands[0])) != at
        for got, want in (*zip(values, clean, strict=True), (gradients[0], clean_gradients[0])):
            np.testing.assert_array_equal(got[others], want[others])


@pytest.mark.gpu
@pytest.mark.parametrize("case", NORMS, ids=ops.names(NORMS))
def test_rows_of_zeros_and_of_large_numbers(case: OpCase) -> None:
    for columns in (128, 131):
        operands = list(case.make((6, columns), "float32"))
        operands[0][0] = 0
        operands[0][1] = 3e12  # its square is a float32, the sum of 131 of them too
        operands[0][2] = 1e-12
        if "add_" in case.name:
            operands[1][:3] = 0
        assert_right_on_gpu(case, tuple(operands))


@pytest.mark.gpu
@pytest.mark.parametrize("mean", [0.0, 100.0, -3000.0])
def test_layer_norm_keeps_its_accuracy_under_a_large_mean(mean: float) -> None:
    problems = [LAYER_NORM.make((9, columns), "float32") for columns in (517, 1024, 4096, 9000)]
    assert_right_on_gpu(LAYER_NORM, *((x + np.float32(mean), *parameters) for x, *parameters in problems))
    # The kernels guess the mean from the first elements: here that is far off.
    for x, *_ in problems:
        x[::2, :8] += 1e4
        x[1::2, :1] -= 3e3
    assert_right_on_gpu(LAYER_NORM, *((x + np.float32(mean), *parameters) for x, *parameters in problems), what="misled")


@pytest.mark.gpu
def test_swiglu_far_from_zero() -> None:
    """Gates over which the exponential overflows in float32, up to infinity."""
    points = [-1e30, -200, -104, -89, -88, -20, -0.0, 0.0, 20, 88, 89, 104, 200, 1e30]
    for gate in (
        np.array(points, np.float32),
        np.array([*points, 2, 3], np.float32),
        np.linspace(-90, 90, 4096, dtype=np.float32),
    ):
        problem = ((gate, np.full_like(gate, 1.5)), (np.full_like(gate, -0.5),))
        ((values, gradients),) = on_gpu(SWIGLU, problem)
        assert all(np.isfinite(a).all() for a in (*values, *gradients))
        SWIGLU.assert_right(*problem, values, gradients)
    ends = jxt.swiglu(jnp.array([np.inf, -np.inf, np.nan]), jnp.ones(3), implementation="xla")
    for repeat in (1, 4):
        gate = jax.device_put(np.tile(np.array([np.inf, -np.inf, np.nan], np.float32), repeat), jax.devices("cuda")[0])
        got = jax.jit(functools.partial(jxt.swiglu, implementation="cuda"))(gate, jnp.ones_like(gate))
        np.testing.assert_array_equal(got, np.tile(np.asarray(ends), repeat))


@pytest.mark.gpu
def test_rope_is_right_at_every_position() -> None:
    """Against angles in extended precision, to the ends of int32."""
    positions = np.array([0, 1, -1, 2, 1000, 30000, 131071, -131071, 2**24 + 1, 2**31 - 1, -(2**31)], np.int32)
    for size, interleaved in ((64, False), (34, False), (64, True), (34, True), (4096, False)):
        x = np.random.default_rng(size).normal(size=(len(positions), 2, size)).astype(np.float32)
        angles = positions[:, None] * np.longdouble(10000) ** (-2 * np.arange(size // 2, dtype=np.longdouble) / size)
        cos, sin = (np.asarray(f(angles), np.float64) for f in (np.cos, np.sin))
        want = reference.rope_tables(x.astype(np.float64), cos, sin, interleaved=interleaved)
        run = jax.jit(functools.partial(jxt.rope, interleaved=interleaved, implementation="cuda"))
        turned = run(*jax.device_put((x, positions), jax.devices("cuda")[0]))
        # float64 holds an angle of 2^31 turns to 2^-22 of a turn only: long double does better.
        reference.assert_within(turned, want, f"H={size} interleaved={interleaved}")
        np.testing.assert_array_equal(turned[0], x[0])
