"""`jxt.flax_attention` in `flax.nnx.MultiHeadAttention` and by itself."""

import functools

import attention_problems as problems
import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape

import jaxator as jxt

# ---- by itself: needs no flax ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (2,), (3, 2), (2, 1, 3)], ids=str)
def test_any_number_of_batch_dimensions(batch: tuple[int, ...]) -> None:
    count = int(np.prod(batch))
    case = Case(Shape(count, 9, 11, 4, 2, 8, 6), bias="BNTS", mask="BTS", causal=True, residual=False)
    problem = problems.make(case, poison=False)

    def outer(array):
        return np.reshape(array, (*batch, *np.shape(array)[1:]))

    arrays = {name: outer(a) for name, a in problem.arrays.items()}

    def outputs(q, k, v, bias):
        return jxt.flax_attention(q, k, v, bias, arrays["mask"], is_causal=True)

    out, vjp = jax.vjp(outputs, *(jnp.asarray(arrays[n]) for n in ("q", "k", "v", "bias")))
    assert out.shape == (*batch, 9, 4, 6)
    gradients = vjp(jnp.asarray(outer(problem.dout)))
    results = dict(zip(("out", "dq", "dk", "dv", "dbias"), (out, *gradients), strict=True))
    problem.check({n: np.reshape(a, (count, *a.shape[len(batch) :])) for n, a in results.items()})


def test_mask_of_fewer_dimensions() -> None:
    """As in flax: broadcast to [..., N, T, S]."""
    problem = problems.make(Case(Shape(6, 5, 7, 2, 2, 8, 8)), poison=False)
    q, k, v = (problem.arrays[n].reshape(3, 2, *problem.arrays[n].shape[1:]) for n in "qkv")
    random = np.random.default_rng(0)
    for shape in ((), (7,), (5, 7), (2, 1, 1), (2, 1, 5, 7), (1, 2, 1, 5, 7), (3, 1, 1, 1, 7), (3, 2, 2, 5, 7)):
        mask = np.asarray(random.random(shape) < 0.7)
        got = jxt.flax_attention(q, k, v, mask=mask)
        full = np.broadcast_to(mask, (3, 2, 2, 5, 7)).reshape(6, 2, 5, 7)
        want = reference.attention(problem.with_arrays(mask=full).inputs)["out"]
        reference.assert_within(got.reshape(6, *got.shape[2:]), want, f"mask {shape}")


def test_zero_sizes() -> None:
    for q, k in (((2, 0, 2, 4), (2, 3, 2, 4)), ((0, 2, 3, 2, 4), (0, 2, 5, 2, 4)), ((2, 3, 2, 4), (2, 0, 2, 4))):
        out = jxt.flax_attention(
            np.ones(q, np.float32), np.ones(k, np.float32), np.ones(k, np.float32), mask=np.ones((1, 1, 1), bool)
        )
        assert out.shape == q and not np.asarray(out).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int8"])
def test_mask_of_any_dtype(dtype: str) -> None:
    """flax's make_causal_mask gives float32 ones and zeros."""
    problem = problems.make(Case(Shape(2, 6, 6), mask="TS", residual=False), poison=False)
    q, k, v = (problem.arrays[n] for n in "qkv")
    mask = problem.arrays["mask"]
    problems.assert_same(
        jxt.flax_attention(q, k, v, mask=mask.astype(jnp.dtype(dtype))), jxt.flax_attention(q, k, v, mask=mask)
    )


def test_dtype_promotion() -> None:
    problem = problems.make(Case(Shape(1, 6, 6)), poison=False)
    q, k, v = (problem.arrays[n] for n in "qkv")
    half = jnp.bfloat16
    assert jxt.flax_attention(q, k.astype(half), v.astype(half)).dtype == jnp.float32
    assert jxt.flax_attention(q.astype(half), k.astype(half), v.astype(half)).dtype == half
    for dtype in ("bfloat16", "float16", "float32"):
        got = jxt.flax_attention(q, k, v.astype(half), dtype=dtype)
        assert got.dtype.name == dtype
        cast = [a.astype(jnp.dtype(dtype)) for a in (q, k, v.astype(half))]
        problems.assert_same(got, jxt.dot_product_attention(*cast))

    def promote(arrays, *, dtype):
        assert dtype == half
        return tuple(a.astype(jnp.float16) for a in arrays)

    assert jxt.flax_attention(q, k, v, dtype=half, promote_dtype=promote).dtype == jnp.float16


REFUSED = {
    "module": ({"module": object()}, "module=<object"),
    "precision": ({"precision": "highest"}, "precision='highest'"),
    "input_positions": ({"input_positions": np.arange(6)}, "input_positions="),
    "active dropout": (
        {"dropout_rate": 0.25, "deterministic": False, "dropout_rng": jax.random.key(0)},
        "dropout_rate=0.25, broadcast_dropout=True",
    ),
    "active dropout of its own": (
        {"dropout_rate": 0.5, "deterministic": False, "broadcast_dropout": False},
        "dropout_rate=0.5, broadcast_dropout=False",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    options, message = REFUSED[name]
    q = np.ones((1, 6, 2, 8), np.float32)
    with pytest.raises(jxt.UnsupportedError, match=message):
        jxt.flax_attention(q, q, q, **options)


def test_inactive_dropout_is_accepted() -> None:
    q = np.ones((1, 6, 2, 8), np.float32)
    jxt.flax_attention(q, q, q, dropout_rate=0.5, deterministic=True)
    jxt.flax_attention(q, q, q, dropout_rate=0.0, deterministic=False, dropout_rng=jax.random.key(0))


# ---- in flax ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def nnx():
    return pytest.importorskip("flax.nnx", reason="flax is not installed")


def layers(nnx, attention_fn=jxt.flax_attention, **options):
    """The same parameters with our attention and with flax's own."""
    merged = {"num_heads": 4, "in_features": 24, "qkv_features": 32, "decode": False} | options
    return [nnx.MultiHeadAttention(rngs=nnx.Rngs(1), **merged, **more) for more in ({"attention_fn": attention_fn}, {})]


def assert_close(got, want, tolerance=2e-5) -> None:
    """Float32 on both sides."""
    assert got.dtype == want.dtype
    np.testing.assert_allclose(
        np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=0, atol=tolerance * max(1, np.abs(want).max())
    )


def inputs(*batch: int):
    return np.random.default_rng(0).normal(size=(*batch, 10, 24)).astype(np.float32)


@pytest.mark.parametrize("batch", [(2,), (2, 3)], ids=str)
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2}, {"num_kv_heads": 1}, {"normalize_qk": True}], ids=str)
def test_same_output_as_flax(nnx, options, batch) -> None:
    ours, theirs = layers(nnx, **options)
    x = inputs(*batch)
    assert_close(ours(x), theirs(x))
    assert_close(ours(x, is_causal=True), theirs(x, is_causal=True))
    assert_close(ours(x, x[..., :7, :], x[..., :7, :] * 2), theirs(x, x[..., :7, :], x[..., :7, :] * 2))


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_same_gradients_as_flax(nnx, kv_heads: int) -> None:
    x = inputs(2)

    def loss(model):
        return jnp.sum(jnp.sin(model(x, is_causal=True)))

    ours, theirs = (jax.tree.leaves(nnx.jit(nnx.grad(loss))(model)) for model in layers(nnx, num_kv_heads=kv_heads))
    assert len(ours) == len(theirs) == 8
    for got, want in zip(ours, theirs, strict=True):
        assert_close(got, want, 1e-4)


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_float_masks(nnx, kv_heads: int) -> None:
    ours, theirs = layers(nnx, num_kv_heads=kv_heads)
    x = inputs(3)
    causal = nnx.make_causal_mask(np.ones((3, 10)), dtype=jnp.float32)
    assert causal.dtype == jnp.float32
    padding = nnx.make_attention_mask(np.ones((3, 10)), np.arange(10)[None] < np.array([[3], [10], [6]]), dtype=jnp.float32)
    for mask in (causal, padding, nnx.combine_masks(causal, padding, dtype=jnp.float32)):
        assert_close(ours(x, mask=mask), theirs(x, mask=mask))


@pytest.mark.parametrize("kv_heads", [4, 1])
def test_decode_with_a_cache(nnx, kv_heads: int) -> None:
    """One token at a time gives what the whole sequence gives."""
    ours, theirs = layers(nnx, decode=True, num_kv_heads=kv_heads)
    x = inputs(2)
    whole = layers(nnx, num_kv_heads=kv_heads)[0](x, is_causal=True)
    for model in (ours, theirs):
        model.init_cache(x.shape)

    @nnx.jit
    def step(model, token):
        return model(token)

    for t in range(x.shape[1]):
        got = step(ours, x[:, t : t + 1])
        assert_close(got, step(theirs, x[:, t : t + 1]))
        assert_close(got, whole[:, t : t + 1])


def test_evaluation_with_a_dropout_rate(nnx) -> None:
    ours, theirs = layers(nnx, dropout_rate=0.5)
    x = inputs(2)
    assert_close(ours(x, deterministic=True), theirs(x, deterministic=True))
    with pytest.raises(jxt.UnsupportedError, match="dropout_rate=0.5"):
        ours(x, deterministic=False)


def test_dtype_and_options_of_the_layer(nnx) -> None:
    x = inputs(2)
    ours, theirs = layers(nnx, dtype=jnp.bfloat16)
    assert_close(ours(x), theirs(x), 2.0**-6)
    windowed, _ = layers(nnx, attention_fn=functools.partial(jxt.flax_attention, local_window_size=(3, 0)))
    distance = np.arange(10)[:, None] - np.arange(10)
    assert_close(windowed(x), layers(nnx)[1](x, mask=(distance >= 0) & (distance <= 3)))
    with pytest.raises(jxt.UnsupportedError, match="module="):
        ours(x, sow_weights=True)
