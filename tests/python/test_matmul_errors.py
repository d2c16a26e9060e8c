"""Errors of matmul name the argument, the value and the rule."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxator as jxt

A, B = jnp.zeros((4, 6)), jnp.zeros((6, 8))


@pytest.mark.parametrize(
    ("operands", "options", "kind", "text"),
    [
        ((A, jnp.zeros((5, 8))), {}, ValueError, "contracts 5 elements: a with shape (4, 6) has k=6"),
        ((A, B), {"transpose_a": True}, ValueError, "has k=4"),
        ((jnp.zeros(6), B), {}, ValueError, "a has shape (6,): needs at least two dimensions"),
        ((A, B.astype(jnp.bfloat16)), {}, TypeError, "dtype of b is bfloat16: must be that of a, which is float32"),
        ((A.astype(jnp.int32), B.astype(jnp.int32)), {}, TypeError, "a has dtype=int32: must be a float type"),
        (
            (jnp.zeros((2, 4, 6)), jnp.zeros((3, 6, 8))),
            {},
            ValueError,
            "leading dimensions of a (2,) and b (3,) do not broadcast",
        ),
        ((A, B), {"bias": jnp.zeros(7)}, ValueError, "bias has shape (7,): must be (8,)"),
        ((A, B), {"bias": jnp.zeros(8, jnp.int32)}, TypeError, "bias has dtype=int32"),
        ((A, B), {"residual": jnp.zeros((4, 7))}, ValueError, "residual has shape (4, 7): must be (4, 8)"),
        ((A, B), {"residual": jnp.zeros((4, 8), jnp.bfloat16)}, TypeError, "residual has dtype=bfloat16"),
        (
            (A, B),
            {"activation": "tanh"},
            ValueError,
            "activation='tanh': must be one of None, 'relu', 'silu', 'gelu', 'gelu_tanh'",
        ),
        (
            (A, B),
            {"preferred_element_type": jnp.bfloat16},
            ValueError,
            "preferred_element_type=bfloat16: must be float32 or",
        ),
        ((A, B), {"implementation": "fast"}, ValueError, "implementation='fast': must be None"),
        ((A, B), {"in_specs": ()}, ValueError, "needs mesh"),
    ],
)
def test_arguments(operands, options, kind, text) -> None:
    with pytest.raises(kind, match="matmul|in_specs|implementation") as error:
        jxt.matmul(*operands, **options)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("dtype", "implementation", "text"),
    [
        ("bfloat16", "tf32", "dtype=bfloat16: must be float32"),
        ("float32", "matmul_bf16dot", "needs bfloat16 and AVX512_BF16"),
        ("float32", "cuda", "implementation='tf32' names the matrix unit's"),
        ("bfloat16", "rocm", "no kernels"),
    ],
)
def test_named_implementations_that_cannot(dtype, implementation, text) -> None:
    with pytest.raises(jxt.UnsupportedError) as error:
        jxt.matmul(A.astype(dtype), B.astype(dtype), implementation=implementation)
    assert text in str(error.value)


def test_wide_types_are_xlas() -> None:
    with jax.enable_x64(True):
        a, b = np.ones((3, 4)), np.ones((4, 5))
        assert "jaxator.matmul" not in jax.jit(jxt.matmul).lower(a, b).as_text()
        np.testing.assert_array_equal(jxt.matmul(a, b), a @ b)
        with pytest.raises(jxt.UnsupportedError, match="dtype=float64"):
            jxt.matmul(a, b, implementation="cpu")


@pytest.mark.parametrize("implementation", [None, "rocm", "gfx942", "gfx950"])
def test_eight_bits_have_no_gradient(implementation: str | None) -> None:
    """In no operand: the error says what to do instead."""
    a, b = np.ones((4, 16), ml_dtypes.float8_e4m3fn), np.ones((8, 16), ml_dtypes.float8_e5m2)
    operands = {"a": a, "b": b, "scale_a": np.float32(1), "bias": np.ones(8, np.float32)}

    def loss(chosen: dict) -> jax.Array:
        result = jxt.matmul(**operands | chosen, transpose_b=True, implementation=implementation)
        return result.astype(jnp.float32).sum()

    for name in operands:
        rule = "dtype=float8_e4m3fn: products of eight-bit arrays have no gradient; quantise inside a custom_vjp"
        with pytest.raises(jxt.UnsupportedError, match=rule):
            jax.grad(loss)({name: operands[name]})
