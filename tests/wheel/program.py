"""Runs in an environment that holds the wheel and what it depends on, nothing else: imports, values, gradients."""

import sys
from importlib.metadata import distributions

import jax
import jax.numpy as jnp
import numpy as np

import jaxator as jxt

ALLOWED = {"jaxator", "jax", "jaxlib", "numpy", "ml-dtypes", "opt-einsum", "scipy", "pip", "setuptools"}
EXTRAS = ("typer", "rich", "flax", "optax", "orbax", "tqdm", "matplotlib", "flatbuffers")


def check_only_declared_packages() -> None:
    installed = {distribution.name.lower().replace("_", "-") for distribution in distributions()}
    assert installed <= ALLOWED, f"more than jaxator's dependencies is installed: {installed - ALLOWED}"
    assert "jaxator" in installed and "site-packages" in jxt.__file__, f"jaxator is not the wheel's: {jxt.__file__}"
    imported = [name for name in EXTRAS if name in sys.modules]
    assert not imported, f"importing jaxator imported {imported}"


def check_rms_norm() -> None:
    random = np.random.default_rng(0)
    x, weight, cotangent = random.normal(size=(37, 129)), random.normal(size=129), random.normal(size=(37, 129))
    inverse = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    scaled = cotangent * weight
    expected = x * inverse * weight
    expected_dx = scaled * inverse - x * inverse**3 * np.mean(scaled * x, axis=-1, keepdims=True)
    expected_dweight = np.sum(cotangent * x * inverse, axis=0)

    def objective(x, weight):
        y = jxt.rms_norm(x, weight, implementation="cpu")
        return jnp.sum(y * jnp.asarray(cotangent, y.dtype)), y

    arguments = jnp.asarray(x, jnp.float32), jnp.asarray(weight, jnp.float32)
    (_, y), (dx, dweight) = jax.jit(jax.value_and_grad(objective, argnums=(0, 1), has_aux=True))(*arguments)
    for got, want in ((y, expected), (dx, expected_dx), (dweight, expected_dweight)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def check_emulator() -> None:
    """The kernels for AMD's GPUs, on the emulator that the wheel has."""
    random = np.random.default_rng(2)
    x, weight = random.normal(size=(5, 512)).astype(np.float32), random.normal(size=512).astype(np.float32)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=-1, keepdims=True) + 1e-6) * weight
    for architecture in ("gfx942", "gfx950"):
        y = jxt.rms_norm(x, weight, epsilon=1e-6, implementation=architecture)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def check_attention() -> None:
    batch, length, heads, kv_heads, size = 2, 33, 4, 2, 16
    random = np.random.default_rng(0)
    query = random.normal(size=(batch, length, heads, size))
    key, value = random.normal(size=(2, batch, length, kv_heads, size))
    logits = np.einsum("bthd,bshd->bhts", query, np.repeat(key, heads // kv_heads, axis=2)) / np.sqrt(size)
    logits = np.where(np.tri(length, dtype=bool), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    expected = np.einsum("bhts,bshd->bthd", weights, np.repeat(value, heads // kv_heads, axis=2))
    # The gradient of sum(output) reaches value[s] as the sum of weights over queries and the heads that share it.
    summed = weights.sum(axis=2).reshape(batch, kv_heads, heads // kv_heads, length).sum(axis=2)
    expected_dvalue = np.broadcast_to(summed.transpose(0, 2, 1)[..., None], value.shape)

    def objective(query, key, value):
        output = jxt.dot_product_attention(query, key, value, is_causal=True, implementation="cpu")
        return jnp.sum(output), output

    arguments = [jnp.asarray(array, jnp.float32) for array in (query, key, value)]
    (_, output), gradients = jax.jit(jax.value_and_grad(objective, argnums=(0, 1, 2), has_aux=True))(*arguments)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradients[2], expected_dvalue, rtol=1e-4, atol=1e-4)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def main() -> None:
    check_only_declared_packages()
    check_rms_norm()
    check_attention()
    check_emulator()
    print(f"Python {sys.version.split()[0]}, jax {jax.__version__}, numpy {np.__version__}, cpu")


if __name__ == "__main__":
    main()
