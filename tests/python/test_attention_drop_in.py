"""Against `jax.nn.dot_product_attention`: the same values, gradients and errors, but for the differences that the docstring lists."""

import functools

import attention_problems as problems
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape

import jaxator as jxt

SQUARE = Shape(2, 24, 24, 4, 2, 16, 16)
SAME: dict[str, Case] = {
    "plain": Case(Shape(), residual=False),
    "MHA": Case(Shape(n=3, k=3), residual=False),
    "MQA": Case(Shape(n=3, k=1), residual=False),
    "scale": Case(SQUARE, scale=0.7, residual=False),
    "negative scale": Case(SQUARE, scale=-0.7, residual=False),
    "causal": Case(SQUARE, causal=True, residual=False),
    "causal T < S": Case(Shape(t=20, s=50), causal=True, residual=False),
    "causal T > S": Case(Shape(t=50, s=20), causal=True, residual=False),
    "window": Case(SQUARE, window=(5, 2), residual=False),
    "window causal": Case(SQUARE, window=(5, 2), causal=True, residual=False),
    "left window": Case(SQUARE, window=(5, 0), residual=False),
    "three axes": Case(Shape(b=1), bias="NTS", lower_rank=True, residual=False),
} | {
    f"{kind} {axes or 'scalar'}{' lower' if lower else ''}": Case(Shape(t=9, s=11), **{kind: axes}, lower_rank=lower, residual=False)
    for kind in ("bias", "mask")
    for axes in ("", "S", "T", "N", "TS", "NTS", "BTS", "BNTS")
    for lower in ((False, True) if "B" not in axes else (False,))
}  # fmt: skip


def arrays_of(problem: problems.Problem) -> dict[str, np.ndarray]:
    """No poison, every row sees a key: what both sides define."""
    arrays = problem.arrays
    if "bias" in arrays:
        arrays["bias"] = np.where(np.isfinite(arrays["bias"]), arrays["bias"], np.float32(-3))
    if "mask" in arrays:
        mask = np.array(arrays["mask"])
        mask[... if mask.ndim == 0 else (..., 0)] = True
        arrays["mask"] = mask
    return arrays


def of(function, arrays, cotangent, **options):
    """Output and gradients of the named float arrays, by position as a user calls either function."""
    floats = [name for name in ("q", "k", "v", "bias") if name in arrays]

    def outputs(*some):
        full = arrays | dict(zip(floats, some, strict=True))
        return function(full["q"], full["k"], full["v"], full.get("bias"), full.get("mask"), **options)

    out, vjp = jax.vjp(outputs, *(jnp.asarray(arrays[n]) for n in floats))
    return dict(zip(["out", *(f"d{n}" for n in floats)], [out, *vjp(cotangent)], strict=True))


def both(arrays, cotangent, **options):
    return [
        jax.jit(functools.partial(of, function, **options))(arrays, cotangent)
        for function in (jxt.dot_product_attention, jax.nn.dot_product_attention)
    ]


def assert_close(got, want, tolerance: float) -> None:
    """Relative to the largest element, as both sides round."""
    assert got.keys() == want.keys()
    for name, array in got.items():
        other = np.asarray(want[name], np.float64)
        assert array.shape == other.shape and array.dtype == want[name].dtype, name
        np.testing.assert_allclose(
            np.asarray(array, np.float64), other, rtol=0, atol=tolerance * max(1, np.abs(other).max(initial=0)), err_msg=name
        )


@pytest.mark.parametrize("name", SAME)
def test_same_values_and_gradients(name: str) -> None:
    case = SAME[name]
    problem = problems.make(case, poison=False)
    options = {"scale": case.scale, "is_causal": case.causal, "local_window_size": case.window}
    arrays, cotangent = arrays_of(problem), problem.dout
    if name == "three axes":
        arrays, cotangent = {n: a[0] if n in "qkv" else a for n, a in arrays.items()}, cotangent[0]
    # Two float32 evaluations of a few hundred terms each.
    assert_close(*both(arrays, cotangent, **options), tolerance=5e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_same_in_half_precision(dtype: str) -> None:
    """jax.nn rounds the probabilities and the gradient of the logits to bfloat16: a few of its ulps. It has no float16 on a CPU:
    there the same numbers go in as float32."""
    problem = problems.make(Case(SQUARE, causal=True, residual=False), dtype)
    arrays, cotangent = problem.arrays, problem.dout
    if dtype == "bfloat16":
        assert_close(*both(arrays, cotangent, is_causal=True), tolerance=2.0**-6)
        return
    got = of(jxt.dot_product_attention, arrays, cotangent, is_causal=True)
    wide = {n: a.astype(np.float32) for n, a in arrays.items()}
    want = of(jax.nn.dot_product_attention, wide, cotangent.astype(np.float32), is_causal=True)
    assert_close(got, {n: a.astype(jnp.float16) for n, a in want.items()}, tolerance=2.0**-10)


def test_one_number_is_both_sides_of_the_window() -> None:
    problem = problems.make(Case(SQUARE, residual=False))
    got, want = both(problem.arrays, problem.dout, local_window_size=4)
    assert_close(got, want, 5e-5)
    problems.assert_same(got, both(problem.arrays, problem.dout, local_window_size=(4, 4))[0])


@pytest.mark.parametrize(
    "lengths",
    [
        {"query_seq_lengths": [24, 7]},
        {"key_value_seq_lengths": [3, 24]},
        {"query_seq_lengths": [5, 24], "key_value_seq_lengths": [24, 9]},
    ],
)
def test_same_with_lengths(lengths) -> None:
    problem = problems.make(Case(SQUARE, residual=False))
    options = {name: np.array(values, np.int32) for name, values in lengths.items()}
    results = []
    for function in (jxt.dot_product_attention, jax.nn.dot_product_attention):
        results.append(jax.jit(functools.partial(of, function))(problem.arrays, problem.dout, **options))
    assert_close(*results, tolerance=5e-5)


def test_same_residual() -> None:
    problem = problems.make(Case(SQUARE))
    q, k, v = (problem.arrays[n] for n in "qkv")
    for options in ({}, {"is_causal": True, "scale": 0.3}):
        got = jxt.dot_product_attention(q, k, v, return_residual=True, **options)
        want = jax.nn.dot_product_attention(q, k, v, return_residual=True, **options)
        assert_close(dict(enumerate(got)), dict(enumerate(want)), 1e-5)
    one = jxt.dot_product_attention(q[0], k[0], v[0], return_residual=True)
    assert_close(
        dict(enumerate(one)), dict(enumerate(jax.nn.dot_product_attention(q[0], k[0], v[0], return_residual=True))), 1e-5
    )


def test_float64_is_served_in_float64() -> None:
    problem = problems.make(Case(SQUARE, residual=False))
    with jax.enable_x64(True):
        wide = {n: np.asarray(a, np.float64) for n, a in problem.arrays.items()}
        cotangent = np.asarray(problem.dout, np.float64)
        assert_close(*both(wide, cotangent), tolerance=1e-6)  # jax.nn's softmax is float32 all the same
        with pytest.raises(jxt.UnsupportedError, match="dtype=float64"):
            jxt.dot_product_attention(wide["q"], wide["k"], wide["v"], implementation="cpu")


BAD = {
    "batch": lambda a: a | {"k": a["k"][:1], "v": a["v"][:1]},
    "batch of value": lambda a: a | {"v": a["v"][:1]},
    "length of value": lambda a: a | {"v": a["v"][:, :-1]},
    "heads of value": lambda a: a | {"v": a["v"][:, :, :1]},
    "head size of key": lambda a: a | {"k": a["k"][..., :-1], "v": a["v"][..., :-1]},
    "query heads": lambda a: a | {"q": a["q"][:, :, :3]},
    "rank 5": lambda a: {n: x[None] if n in "qkv" else x for n, x in a.items()},
    "dtype of key": lambda a: a | {"k": a["k"].astype(jnp.bfloat16)},
    "dtype of value": lambda a: a | {"v": a["v"].astype(jnp.bfloat16)},
    "mask of floats": lambda a: a | {"mask": np.ones((24, 24), np.float32)},
    "mask of another size": lambda a: a | {"mask": np.ones((24, 23), bool)},
    "mask of rank 5": lambda a: a | {"mask": np.ones((1, 1, 1, 24, 24), bool)},
    "bias of another size": lambda a: a | {"bias": np.ones((23, 24), np.float32)},
    "bias heads": lambda a: a | {"bias": np.ones((2, 2, 24, 24), np.float32)},
    "lengths of floats": lambda a: a | {"query_seq_lengths": np.ones(2, np.float32)},
    "number of lengths": lambda a: a | {"key_value_seq_lengths": np.ones(3, np.int32)},
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_an_error_there_is_one_here(name: str) -> None:
    arrays = BAD[name]({n: a for n, a in problems.make(Case(SQUARE)).arrays.items()})
    given = dict(query=arrays.pop("q"), key=arrays.pop("k"), value=arrays.pop("v"), **arrays)
    with pytest.raises(Exception):  # noqa: B017 - jax.nn raises ValueError, TypeError and AssertionError
        jax.nn.dot_product_attention(**given)
    with pytest.raises((ValueError, TypeError), match="dot_product_attention: "):
        jxt.dot_product_attention(**given)


def test_the_listed_differences() -> None:
    """And that each is in the docstring."""
    ours, theirs, text = jxt.dot_product_attention, jax.nn.dot_product_attention, jxt.dot_product_attention.__doc__
    listed = " ".join(text.partition("Differences from `jax.nn.dot_product_attention`:")[2].split())
    problem = problems.make(Case(SQUARE))
    q, k, v = (problem.arrays[n] for n in "qkv")

    nothing = np.zeros((24, 1), bool)
    assert (np.asarray(ours(q, k, v, mask=nothing)) == 0).all() and np.abs(theirs(q, k, v, mask=nothing)).max() > 0.01
    assert "no visible key gives 0, logsumexp -inf and zero gradients" in listed

    poisoned = v.copy()
    poisoned[:, 20:] = np.nan
    lengths = {"key_value_seq_lengths": np.array([20, 20], np.int32)}
    assert (
        np.isfinite(np.asarray(ours(q, k, poisoned, **lengths))).all()
        and np.isnan(np.asarray(theirs(q, k, poisoned, **lengths))).any()
    )
    assert "padding is never read, it may hold NaN" in listed

    assert ours(q, k, v[..., :5]).shape == (*q.shape[:3], 5)
    with pytest.raises(ValueError):
        theirs(q, k, v[..., :5])
    assert "value size may differ from head size" in listed

    wide = np.zeros((24, 24), np.float32)
    assert jax.grad(lambda b: ours(*(a.astype(jnp.bfloat16) for a in (q, k, v)), b).sum())(wide).dtype == np.float32
    assert "bias may have another dtype than the query" in listed

    halves = [a.astype(jnp.bfloat16) for a in (q, k, v)]
    assert ours(*halves, return_residual=True)[1].dtype == jnp.float32
    slope = jax.grad(lambda q: ours(q, k, v, return_residual=True)[1].sum())(q)
    assert (
        np.abs(slope).max() > 0.01
        and not np.asarray(jax.grad(lambda q: theirs(q, k, v, return_residual=True)[1].sum())(q)).any()
    )
    assert "logsumexp is float32 and differentiable" in listed

    stricter = {
        "a scale that is traced": lambda f: jax.jit(lambda s: f(q, k, v, scale=s))(0.5),
        "a bias of integers": lambda f: f(q, k, v, np.zeros((24, 24), np.int32)),
        "a negative window": lambda f: f(q, k, v, local_window_size=(-1, 3)),
        "query and key with different numbers of axes": lambda f: f(q[0], k[:1], v[:1]),
    }
    for name, ask in stricter.items():
        ask(theirs)
        with pytest.raises((TypeError, ValueError)):
            ask(ours)
        assert name in listed
