"""Values and gradients of every row op against NumPy float64: all shapes, dtypes and instruction sets."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import shapes
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxator as jxt
import ops
from ops import CASES, DTYPES, OpCase

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))


def jitted(case: OpCase, **keywords):
    return jax.jit(functools.partial(case.value_and_vjp, **keywords))


@pytest.mark.parametrize("dtype", DTYPES)
@every_case
def test_every_shape_and_instruction_set(case: OpCase, dtype: str, force_isa) -> None:
    for shape in case.shapes:
        operands = case.make(shape, dtype)
        cotangents = case.cotangents(operands)
        run = jitted(case, implementation="cpu").lower(operands, cotangents).compile()
        for isa in ops.supported_isas():
            force_isa(isa)
            case.assert_right(operands, cotangents, *run(operands, cotangents), what=f"{isa} {dtype}{list(shape)}")


@every_case
def test_xla_formulation_has_the_same_meaning(case: OpCase) -> None:
    for shape in (case.small, *case.shapes[:3], case.shapes[6]):
        operands = case.make(shape, "float32")
        cotangents = case.cotangents(operands)
        # One running sum, where a kernel keeps many; float32 angles, each wrong by two roundings of the position.
        furthest = max([shape[-3] if case.is_rope else 0, *(int(a.max(initial=0)) for a in operands if a.dtype == np.int32)])
        results = jitted(case, implementation="xla")(operands, cotangents)
        case.assert_right(operands, cotangents, *results, what=f"xla {list(shape)}", slack=4 + 2 * furthest)


@every_case
def test_results_have_the_dtypes_of_the_operands(case: OpCase) -> None:
    for parameter_dtype in ("bfloat16", "float16", "float32"):
        operands = case.make(case.small, "bfloat16", parameter_dtype=parameter_dtype)
        cotangents = case.cotangents(operands)
        values, gradients = jitted(case)(operands, cotangents)
        assert {v.dtype for v in values} == {jnp.dtype("bfloat16")}
        assert [g.dtype for g in gradients] == [operands[i].dtype for i in case.differentiable]
        case.assert_right(operands, cotangents, values, gradients, parameter_dtype)


def test_default_implementation_runs_the_kernels() -> None:
    for case in CASES:
        operands = case.make(case.small, "bfloat16")
        text = jax.jit(lambda *a, case=case: case(*a)).lower(*operands).as_text()
        assert text.count("stablehlo.custom_call @jaxator.") == 1, f"{case.name}\n{text}"
        text = jax.jit(lambda *a, case=case: case(*a, implementation="xla")).lower(*operands).as_text()
        assert "jaxator." not in text, case.name


@every_case
def test_nan_stays_in_its_row(case: OpCase, force_isa) -> None:
    shape = (5, 3, 34) if case.is_rope else (15, 70)
    operands = case.make(shape, "float32")
    cotangents = case.cotangents(operands)
    poisoned = [a.copy() for a in operands]
    at = 1
    poisoned[0][at, ..., 5] = np.nan
    run = jitted(case, implementation="cpu")
    for isa in ops.supported_isas():
        force_isa(isa)
        clean, clean_gradients = run(operands, cotangents)
        values, gradients = run(tuple(poisoned), cotangents)
        assert all(np.isnan(v[at]).any() for v in values), f"{isa}: NaN was lost"
        # rope is linear: its gradient does not know x.
        assert case.is_rope or np.isnan(gradients[0][at]).any(), f"{isa}: NaN was lost in the gradient"
        others = np.arange(len(operands[0])) != at
        for got, want in (*zip(values, clean, strict=True), (gradients[0], clean_gradients[0])):
            np.testing.assert_array_equal(np.asarray(got)[others], np.asarray(want)[others], err_msg=isa)


def norms() -> list[OpCase]:
    return [case for case in CASES if "norm" in case.name]


@pytest.mark.parametrize("case", norms(), ids=ops.names(tuple(norms())))
def test_rows_of_zeros_and_of_large_numbers(case: OpCase, force_isa) -> None:
    operands = list(case.make((6, 130), "float32"))
    operands[0][0] = 0
    operands[0][1] = 3e12  # its square is a float32, the sum of 130 of them too
    operands[0][2] = 1e-12
    if "add_" in case.name:
        operands[1][:3] = 0
    cotangents = case.cotangents(tuple(operands))
    run = jitted(case, implementation="cpu")
    for isa in ops.supported_isas():
        force_isa(isa)
        values, gradients = run(tuple(operands), cotangents)
        assert all(np.isfinite(np.asarray(a)).all() for a in (*values, *gradients)), isa
        case.assert_right(tuple(operands), cotangents, values, gradients, isa)


@pytest.mark.parametrize("mean", [0.0, 100.0, -3000.0])
def test_layer_norm_keeps_its_accuracy_under_a_large_mean(mean: float, force_isa) -> None:
    case = next(c for c in CASES if c.name == "layer_norm")
    operands = list(case.make((9, 517), "float32"))
    operands[0] = operands[0] + np.float32(mean)
    cotangents = case.cotangents(tuple(operands))
    for isa in ops.supported_isas():
        force_isa(isa)
        case.assert_right(
            tuple(operands), cotangents, *jitted(case, implementation="cpu")(tuple(operands), cotangents), what=isa
        )


def test_swiglu_far_from_zero(force_isa) -> None:
    """Gates over which the exponential overflows in float32, up to infinity."""
    gate = np.array([-1e30, -200, -104, -89, -88, -20, -0.0, 0.0, 20, 88, 89, 104, 200, 1e30], np.float32)
    up, cotangent = np.full_like(gate, 1.5), np.full_like(gate, -0.5)
    case = next(c for c in CASES if c.name == "swiglu")
    for isa in ops.supported_isas():
        force_isa(isa)
        values, gradients = jitted(case, implementation="cpu")((gate, up), (cotangent,))
        assert all(np.isfinite(np.asarray(a)).all() for a in (*values, *gradients)), isa
        case.assert_right((gate, up), (cotangent,), values, gradients, isa)


def test_rope_keeps_lengths_and_turns_back() -> None:
    x = ops.CASES[0].make((7, 2, 64), "float32")[0]
    positions = np.array([0, 1, 2, 1000, 5000, 30000, 131071], np.int32)
    turned = jxt.rope(x, positions)
    np.testing.assert_array_equal(turned[0], x[0])
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-6)
    np.testing.assert_allclose(jxt.rope(turned, -positions), x, atol=2e-6)


# ---- hypothesis: any shape, dtype, options and instruction set together ----------------------------------------------


def small_shape(case: OpCase) -> st.SearchStrategy[shapes.Shape]:
    leading = st.lists(st.integers(0, 5), min_size=2 if case.is_rope else 0, max_size=3)
    last = st.integers(0, 40).map(lambda n: 2 * n) if case.is_rope else st.integers(0, 200)
    return st.tuples(leading, last).map(lambda parts: (*parts[0], parts[1]))


@settings(deadline=None, derandomize=True, max_examples=60, database=None)
@given(data=st.data())
def test_random_combinations(data: st.DataObject) -> None:
    from jaxator import _ffi

    case = data.draw(st.sampled_from(CASES), label="case")
    shape = data.draw(small_shape(case), label="shape")
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    parameter_dtype = data.draw(st.sampled_from(DTYPES), label="parameter dtype")
    operands = case.make(shape, dtype, seed=data.draw(st.integers(0, 1000), label="seed"), parameter_dtype=parameter_dtype)
    cotangents = case.cotangents(operands)
    try:
        _ffi.force_isa(data.draw(st.sampled_from(ops.supported_isas()), label="isa"))
        case.assert_right(operands, cotangents, *jitted(case, implementation="cpu")(operands, cotangents), what=str(shape))
    finally:
        _ffi.force_isa(None)


@settings(deadline=None, derandomize=True, max_examples=25, database=None)
@given(
    epsilon=st.floats(0, 10), offset=st.floats(-2, 2), residual=st.booleans(), dtype=st.sampled_from(DTYPES),
    rows=st.integers(0, 9), columns=st.integers(1, 80),
)  # fmt: skip
def test_random_norm_options(epsilon: float, offset: float, residual: bool, dtype: str, rows: int, columns: int) -> None:
    options = {"epsilon": epsilon, "weight_offset": offset}
    if residual:
        case = ops._add_rms_norm("add_rms_norm random", "row, row, parameter", **options)
    else:
        case = ops._case("rms_norm random", "rms_norm", "row, parameter", options=options)
    operands = case.make((rows, columns), dtype)
    cotangents = case.cotangents(operands)
    case.assert_right(operands, cotangents, *jitted(case)(operands, cotangents), what=f"{options} {dtype}[{rows},{columns}]")


def test_the_bounds_can_fail() -> None:
    """One bfloat16 step, or sixteen float32 roundings too many, is beyond a bound."""
    exact = reference.rms_norm(np.linspace(0.5, 0.9, 64)[None])
    near = exact.value.astype(jnp.bfloat16)
    reference.assert_within(near, exact)
    with pytest.raises(AssertionError, match="beyond the bound"):
        reference.assert_within((near.astype(np.float64) * (1 + 2.0**-7)).astype(jnp.bfloat16), exact)
    with pytest.raises(AssertionError, match="beyond the bound"):
        reference.assert_within((exact.value * (1 + 30 * 2.0**-24)).astype(np.float32), exact)
