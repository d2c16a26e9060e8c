"""Values and gradients of attention against NumPy float64: every option, dtype, instruction set and route."""

import attention_problems as problems
import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import DTYPES, Case, Shape

import jaxator as jxt

every_dtype = pytest.mark.parametrize("dtype", DTYPES)

OPTIONS: dict[str, Case] = {
    "plain": Case(),
    "without residual": Case(residual=False),
    "scale": Case(scale=-0.37),
    "one query head": Case(Shape(n=1, k=1)),
    "equal heads": Case(Shape(n=3, k=3)),
    "MQA": Case(Shape(n=5, k=1), causal=True),
    "V below H": Case(Shape(h=24, v=5)),
    "V above H": Case(Shape(h=7, v=40)),
    "one query": Case(Shape(t=1, s=70), causal=True, bottom_right=True),
    "one key": Case(Shape(t=9, s=1)),
    "several tiles": Case(Shape(b=1, t=300, s=290, n=3, k=1, h=32, v=48), causal=True),
    "causal": Case(causal=True),
    "causal T > S": Case(Shape(t=71, s=29), causal=True),
    "causal bottom right": Case(causal=True, bottom_right=True),
    "causal bottom right T > S": Case(Shape(t=71, s=29), causal=True, bottom_right=True),
    "window": Case(window=(5, 3)),
    "window bottom right": Case(window=(5, 3), bottom_right=True),
    "window left only": Case(window=(4, 0)),
    "window of itself": Case(Shape(t=40, s=40), window=(0, 0)),
    "window causal": Case(causal=True, window=(6, 9)),
    "window causal bottom right T > S": Case(Shape(t=71, s=29), causal=True, window=(6, 0), bottom_right=True),
    "query lengths": Case(Shape(b=4), query_lengths=True),
    "key lengths": Case(Shape(b=4), key_lengths=True),
    "lengths causal": Case(Shape(b=4), query_lengths=True, key_lengths=True, causal=True),
    "lengths causal bottom right": Case(Shape(b=5), query_lengths=True, key_lengths=True, causal=True, bottom_right=True),
    "segments": Case(segments=True),
    "segments causal": Case(Shape(t=60, s=60), segments=True, causal=True),
    "bias": Case(bias="BNTS"),
    "mask": Case(mask="BNTS"),
    "bias with padding": Case(Shape(b=4), bias="BNTS", query_lengths=True, key_lengths=True),
    "everything": Case(Shape(b=3), bias="NTS", mask="BTS", query_lengths=True, key_lengths=True, segments=True, causal=True, bottom_right=True,
                       window=(30, 2), scale=0.3),
}  # fmt: skip


@every_dtype
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name: str, dtype: str, force_isa) -> None:
    problems.check_everywhere(problems.make(OPTIONS[name], dtype), force_isa, name)


@every_dtype
@pytest.mark.parametrize("sizes", [(1, 1), (1, 256), (2, 9), (8, 8), (33, 31), (64, 64), (72, 72), (80, 80), (127, 1), (128, 128), (192, 128), (255, 253), (256, 256)],
                         ids=lambda s: f"{s[0]}-{s[1]}")  # fmt: skip
def test_head_sizes(sizes: tuple[int, int], dtype: str, force_isa) -> None:
    problems.check_everywhere(problems.make(Case(Shape(1, 33, 41, 2, 1, *sizes), causal=True), dtype), force_isa)


@pytest.mark.full
@pytest.mark.parametrize("size", range(8, 257, 8))
def test_every_multiple_of_eight(size: int, force_isa) -> None:
    for dtype in DTYPES:
        problems.check_everywhere(
            problems.make(Case(Shape(1, 19, 70, 2, 1, size, size), causal=True, bottom_right=True), dtype), force_isa
        )


@pytest.mark.parametrize("lower_rank", [False, True], ids=["rank 4", "lowest rank"])
@pytest.mark.parametrize("axes", problems.broadcasts(), ids=lambda a: a or "scalar")
def test_bias_broadcasts(axes: str, lower_rank: bool, force_isa) -> None:
    """The gradient of every pattern, for every pair of dtypes; the lower rank loses its leading ones, down to a scalar."""
    bias_dtypes = dict(
        zip(DTYPES, ("bfloat16", "float32", "float16") if lower_rank else ("float32", "float16", "bfloat16"), strict=True)
    )
    for dtype, bias_dtype in bias_dtypes.items():
        case = Case(Shape(t=19, s=35, h=8, v=8), bias=axes, bias_dtype=bias_dtype, lower_rank=lower_rank, causal=True)
        problem = problems.make(case, dtype, seed=len(axes))
        problems.check_everywhere(problem, force_isa, f"{problem.inputs.bias.shape} {bias_dtype}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axes", problems.broadcasts(), ids=lambda a: a or "scalar")
def test_mask_broadcasts(axes: str, dtype: str, force_isa) -> None:
    for lower_rank in (False, True):
        case = Case(Shape(t=19, s=35, h=8, v=8), mask=axes, lower_rank=lower_rank, residual=lower_rank)
        problems.check_everywhere(problems.make(case, dtype, seed=3), force_isa, axes)


@every_dtype
@pytest.mark.parametrize("bias_dtype", DTYPES)
def test_bias_gradient_has_the_dtype_of_the_bias(bias_dtype: str, dtype: str, force_isa) -> None:
    """jax-ml/jax#32242: a bias of another dtype than the query."""
    case = Case(Shape(b=3, t=20, s=24, n=2, k=2, h=8, v=8), bias="NTS", bias_dtype=bias_dtype)
    problems.check_everywhere(problems.make(case, dtype), force_isa)


@every_dtype
def test_left_window_without_causal_does_not_see_the_future(dtype: str, force_isa) -> None:
    """jax-ml/jax#39576: the same bits with and without is_causal; a poisoned future is not noticed."""
    for shape in (Shape(t=50, s=50), Shape(t=20, s=50), Shape(t=50, s=20)):
        plain, causal = (problems.make(Case(shape, window=(6, 0), causal=causal), dtype) for causal in (False, True))
        problems.check_everywhere(plain, force_isa)
        force_isa(None)
        problems.assert_same(plain.run(), causal.run())


@every_dtype
def test_short_sequences(dtype: str, force_isa) -> None:
    """Dao-AILab/flash-attention#443, #334: finite and right from length 1 up."""
    for length in (1, 2, 3, 5, 8, 13, 15, 16, 17, 31, 33):
        problems.check_everywhere(
            problems.make(Case(Shape(1, length, length, 2, 1, 32, 32), causal=True), dtype), force_isa, f"length {length}"
        )


@every_dtype
def test_zero_lengths_leave_the_others_untouched(dtype: str, force_isa) -> None:
    """ROCm/flash-attention#179: exact zeros for the empty entry, the bits of a plain call for the others."""
    case = Case(Shape(b=3, t=40, s=48), query_lengths=True, key_lengths=True)
    problem = problems.make(case, dtype, poison=False)
    for lengths in (
        {"query_lengths": [40, 0, 40], "key_lengths": [48, 48, 48]},
        {"query_lengths": [40, 40, 40], "key_lengths": [48, 0, 48]},
    ):
        changed = problem.with_arrays(**{name: np.array(a, np.int32) for name, a in lengths.items()})
        for implementation, isa, _ in problems.routes(dtype):
            force_isa(isa)
            got = problems.poisoned(changed).run(implementation)
            whole = problems.make(Case(case.shape), dtype, poison=False)
            whole = whole.with_arrays(q=problem.inputs.q, k=problem.inputs.k, v=problem.inputs.v)
            want = problems.Problem(whole.case, whole.inputs, problem.dout, problem.dlse).run(implementation)
            for name in got:
                np.testing.assert_array_equal(
                    np.asarray(got[name])[[0, 2]], np.asarray(want[name])[[0, 2]], err_msg=f"{name} {isa}"
                )
                assert (np.asarray(got[name])[1] == (-np.inf if name == "lse" else 0)).all(), f"{name} {isa}"


@every_dtype
def test_rows_without_keys_have_zero_gradients(dtype: str, force_isa) -> None:
    """By causal, mask and a bias of -inf; every element is an exact zero, with NaN in the cotangents (see `poisoned`)."""
    shape = Shape(b=2, t=30, s=11)
    mask = np.ones((1, 1, 30, 1), bool)
    mask[..., 3:9, :] = False
    cases = {
        "bottom right": (Case(shape, causal=True, bottom_right=True), {}, slice(0, 19)),
        "mask": (Case(shape, mask="T"), {"mask": mask}, slice(3, 9)),
        "bias": (Case(shape, bias="T"), {"bias": np.where(mask, np.float32(0.5), np.float32(-np.inf))}, slice(3, 9)),
    }
    for name, (case, arrays, blind) in cases.items():
        problem = problems.poisoned(problems.make(case, dtype, poison=False).with_arrays(**arrays))
        assert np.isnan(np.asarray(problem.dout, np.float32)[:, blind]).any()
        for implementation, isa, rounding in problems.routes(dtype):
            force_isa(isa)
            got = problem.run(implementation)
            problem.check(got, problem.exact(rounding), f"{name} {isa}")
            assert (np.asarray(got["out"])[:, blind] == 0).all() and (np.asarray(got["dq"])[:, blind] == 0).all()
            assert (np.asarray(got["lse"])[:, blind] == -np.inf).all()
            if "dbias" in got:
                assert (np.asarray(got["dbias"])[:, :, blind] == 0).all()


@every_dtype
@pytest.mark.parametrize("zero", Shape._fields)
def test_zero_sizes(zero: str, dtype: str) -> None:
    sizes = Shape(b=2, t=3, s=4, n=2, k=1, h=8, v=8)._asdict() | {zero: 0}
    if zero == "n":
        sizes["k"] = 0
    if zero == "k":
        sizes["n"] = 0
    for case in (
        Case(Shape(**sizes)),
        Case(Shape(**sizes), bias="NTS", mask="BTS", causal=True, query_lengths=True, segments=True),
    ):
        problem = problems.make(case, dtype)
        problem.check(problem.run(None), what=zero)  # sizes of 0 of H or V are the XLA formulation's


@every_dtype
def test_unbatched_form(dtype: str) -> None:
    """[T, N, H]: the bits of a batch of one."""
    case = Case(Shape(b=1), bias="NTS", mask="TS", segments=True, causal=True, lower_rank=True)
    problem = problems.make(case, dtype)
    one = {
        name: jax.tree.map(lambda a: a[0], a) if name in ("q", "k", "v", "segments") else a
        for name, a in problem.arrays.items()
    }
    got = problems.value_and_vjp(case, one, tuple(c[0] for c in problem.cotangents))
    want = problem.run(None)
    for name, array in got.items():
        problems.assert_same(array, want[name] if name == "dbias" else want[name][0], name)
    assert jxt.dot_product_attention(one["q"], one["k"], one["v"]).shape == problem.inputs.q.shape[1:]


@every_dtype
def test_default_is_one_of_the_named_routes(dtype: str) -> None:
    problem = problems.make(OPTIONS["everything"], dtype)
    default = problem.run(None)
    problems.assert_same(problem.run("cpu"), default)
    names = ["flash_f32"]
    if dtype == "bfloat16" and "x86-64-v4-bf16" in problems._ffi.cpu_report()["selected"]:
        names.append("flash_bf16dot")
    matches = [
        name for name in names if all((np.asarray(a) == np.asarray(default[k])).all() for k, a in problem.run(name).items())
    ]
    assert matches, "the default is neither route"


@pytest.mark.parametrize("name", OPTIONS)
def test_xla_formulation_has_the_same_meaning(name: str) -> None:
    """Four times the kernels' bound: XLA sums in its own order and rounds p in the dtype of the query."""
    for dtype, rounding in (("float32", 0), ("bfloat16", 2.0**-8))[: 2 if name in ("plain", "everything") else 1]:
        problem = problems.make(OPTIONS[name], dtype)
        problem.check(problem.run("xla"), problem.exact(rounding), f"{name} {dtype}", slack=4)


def test_large_logits_do_not_overflow(force_isa) -> None:
    problem = problems.make(Case(Shape(t=20, s=40), scale=30.0, causal=True), poison=False)
    problems.check_everywhere(problem, force_isa)
    far = problem.with_arrays(q=problem.inputs.q * np.float32(1e3))
    for _, isa, _ in problems.routes("float32"):
        force_isa(isa)
        assert all(np.isfinite(np.asarray(a)).all() for a in far.run().values())


def test_gradients_are_the_slopes_of_the_values() -> None:
    """The reference itself: its analytic gradients against central differences in float64."""
    case = Case(
        Shape(2, 5, 7, 4, 2, 3, 2), bias="NTS", mask="BTS", causal=True, bottom_right=True, window=(4, 1), query_lengths=True
    )
    problem = problems.make(case, poison=False)
    x = problem.with_arrays(
        **{name: np.asarray(getattr(problem.inputs, name), np.float64) for name in ("q", "k", "v", "bias")}
    ).inputs
    finite = np.where(np.isfinite(x.bias), x.bias, -1.0)
    seen = reference.attention(problem.with_arrays(bias=finite.astype(np.float32)).inputs)["lse"].value > -np.inf

    def value(**arrays: np.ndarray) -> float:
        # The bounds want a dtype of the op's; float64 is passed on under the name of float32.
        y = _attention_in_float64(x, finite, arrays)
        return float(
            (y["out"].value * problem.dout).sum()
            + np.where(seen, y["lse"].value, 0).ravel() @ np.where(seen, problem.dlse, 0).ravel()
        )

    gradients = _attention_in_float64(x, finite, {}, problem.dout, problem.dlse)
    random = np.random.default_rng(0)
    for name in ("q", "k", "v", "bias"):
        base = finite if name == "bias" else getattr(x, name)
        direction = random.normal(size=base.shape)
        h = 1e-6
        slope = (value(**{name: base + h * direction}) - value(**{name: base - h * direction})) / (2 * h)
        np.testing.assert_allclose((gradients[f"d{name}"].value * direction).sum(), slope, rtol=1e-6, atol=1e-7)


def _attention_in_float64(x, finite_bias, arrays, dout=None, dlse=None):
    import dataclasses
    from unittest import mock

    with mock.patch.dict(reference.UNIT, float64=2.0**-53), mock.patch.dict(reference.LEAST, float64=1e-300):
        return reference.attention(dataclasses.replace(x, **({"bias": finite_bias} | arrays)), dout, dlse)


def test_the_bounds_can_fail() -> None:
    """One step of the dtype, a dropped dlse, a diagonal that is off by one: all beyond the bound."""
    problem = problems.make(Case(causal=True), "bfloat16")
    got, exact = problem.run("flash_f32"), problem.exact()
    problem.check(got, exact)
    for name in ("out", "dq", "dk", "dv"):
        wrong = (np.asarray(got[name], np.float64) * (1 + 2.0**-6)).astype(jnp.bfloat16)
        with pytest.raises(AssertionError, match="beyond the bound"):
            reference.assert_within(wrong, exact[name])
    with pytest.raises(AssertionError, match="d[qk]: .*beyond the bound"):
        problem.check(got, reference.attention(problem.inputs, problem.dout, None))
    other = problems.make(Case(causal=True, bottom_right=True), "bfloat16")
    with pytest.raises(AssertionError, match="beyond the bound"):
        problem.check(got, other.exact())
