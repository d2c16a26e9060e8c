"""Attention over disjoint sets of keys, put together again."""

import attention_problems as problems
import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import DTYPES, Case, Shape

import jaxator as jxt


def merged(case: Case, arrays, at: int):
    """The keys in two halves; causal on the second half counts from the bottom, so both use lengths and masks only."""
    parts = []
    for keys in (slice(0, at), slice(at, None)):
        half = arrays | {"k": arrays["k"][:, keys], "v": arrays["v"][:, keys]}
        half |= {name: arrays[name][..., keys] for name in ("bias", "mask") if name in arrays}
        parts += problems.call(case, half)
    return jxt.merge_attention(*parts)


def value_and_vjp(case: Case, arrays, cotangents, at: int):
    floats = [name for name in ("q", "k", "v", "bias") if name in arrays]
    (out, lse), vjp = jax.vjp(
        lambda *some: merged(case, arrays | dict(zip(floats, some, strict=True)), at),
        *(jnp.asarray(arrays[n]) for n in floats),
    )
    return {"out": out, "lse": lse} | {f"d{n}": g for n, g in zip(floats, vjp(tuple(cotangents)), strict=True)}


@pytest.mark.parametrize("at", [0, 1, 20, 53])
def test_two_halves_are_the_whole(at: int) -> None:
    """Values and gradients, through the logsumexp; some rows see nothing in one half or in both."""
    case = Case(Shape(), bias="NTS", mask="BNTS")
    problem = problems.make(case, poison=False)
    mask = problem.inputs.mask.copy()
    mask[:, :, 3:6, :20], mask[:, :, 8:10, 20:], mask[:, :, 12] = False, False, False
    problem = problem.with_arrays(mask=mask)
    # Twice the roundings of one call: each half has its own, and the merge adds a few.
    results = jax.jit(value_and_vjp, static_argnums=(0, 3))(case, problem.arrays, problem.cotangents, at)
    problem.check(results, what=f"cut at {at}", slack=2.5)
    assert np.isneginf(np.asarray(results["lse"])[:, 12]).all() and (np.asarray(results["out"])[:, 12] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    """Each half is rounded once to the dtype, the result once more."""
    problem = problems.make(Case(), dtype, poison=False)
    out, lse = merged(problem.case, problem.arrays, 20)
    assert out.dtype.name == dtype and lse.dtype == jnp.float32
    exact = problem.exact(2.0**-8 if dtype == "bfloat16" else 0)
    magnitude = np.abs(np.asarray(problem.inputs.v, np.float64)).max()
    bound = reference.Bounded(exact["out"].value, exact["out"].error + reference.UNIT[dtype] * magnitude)
    reference.assert_within(out, bound, slack=2)
    reference.assert_within(lse, exact["lse"], slack=2)


def test_a_set_without_keys_takes_no_part() -> None:
    """Whatever its output holds; no NaN in value or gradient."""
    random = np.random.default_rng(0)
    out, other = (random.normal(size=(3, 2, 5)).astype(np.float32) for _ in range(2))
    lse = random.normal(size=(3, 2)).astype(np.float32)
    nothing = np.full_like(lse, -np.inf)
    poison = np.full_like(out, np.nan)
    problems.assert_same(jxt.merge_attention(out, lse, poison, nothing), (jnp.asarray(out), jnp.asarray(lse)))
    problems.assert_same(jxt.merge_attention(poison, nothing, out, lse), (jnp.asarray(out), jnp.asarray(lse)))
    neither = jxt.merge_attention(poison, nothing, poison, nothing)
    assert not np.asarray(neither[0]).any() and np.isneginf(np.asarray(neither[1])).all()

    for arguments in ((out, lse, poison, nothing), (poison, nothing, poison, nothing), (out, lse, other, lse)):
        _, vjp = jax.vjp(jxt.merge_attention, *arguments)
        gradients = vjp((jnp.ones(out.shape), jnp.ones(lse.shape)))
        for gradient, operand in zip(gradients, arguments, strict=True):
            assert np.isfinite(np.asarray(gradient)).all()
            assert gradient.shape == operand.shape


def test_gradients_by_finite_differences() -> None:
    random = np.random.default_rng(1)
    with jax.enable_x64(True):
        arguments = [random.normal(size=shape) for shape in ((3, 2, 5), (3, 2), (3, 2, 5), (3, 2))]
        weights = [random.normal(size=shape) for shape in ((3, 2, 5), (3, 2))]

        def objective(*a):
            return sum(
                float(np.vdot(np.asarray(y, float), w))
                for y, w in zip(jxt.merge_attention(*map(np.float32, a)), weights, strict=True)
            )

        _, vjp = jax.vjp(jxt.merge_attention, *map(jnp.float32, arguments))
        gradients = vjp(tuple(map(jnp.float32, weights)))
        for i, gradient in enumerate(gradients):
            direction = random.normal(size=arguments[i].shape)
            h = 1e-2
            up, down = ([a + s * h * direction if j == i else a for j, a in enumerate(arguments)] for s in (1, -1))
            slope = (objective(*up) - objective(*down)) / (2 * h)
            # float32 values of size about 10 over 2 h: 1e-4; the third derivative adds about h^2.
            np.testing.assert_allclose(np.vdot(np.asarray(gradient), direction), slope, rtol=2e-3, atol=2e-3)


def test_extreme_logsumexps() -> None:
    """No overflow: only the difference matters."""
    out = np.ones((1, 1, 2), np.float32)
    for a, b in ((3e38, 1.0), (-3e38, -2.9e38), (1000.0, 1000.0), (0.0, -200.0)):
        y, lse = jxt.merge_attention(out, np.full((1, 1), a, np.float32), 3 * out, np.full((1, 1), b, np.float32))
        share = 1 / (1 + np.exp(-min(700.0, abs(a - b)))) if a >= b else 1 - 1 / (1 + np.exp(-min(700.0, abs(a - b))))
        np.testing.assert_allclose(y, share * out + (1 - share) * 3 * out, rtol=1e-6)
        np.testing.assert_allclose(lse, np.logaddexp(a, b), rtol=1e-6, atol=1e-38)
