"""The same formulas without Jaxator, each in the ways that XLA may be best at; the faster one is the peer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

Peers = Mapping[str, Callable[..., jax.Array | tuple[jax.Array, ...]]]


def _rms_norm(x, weight):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6) * weight).astype(x.dtype)


def _rms_norm_narrow(x, weight):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return x * inverse.astype(x.dtype) * weight.astype(x.dtype)


def _add_rms_norm(x, residual, weight):
    total = x + residual
    return _rms_norm(total, weight), total


def _add_rms_norm_narrow(x, residual, weight):
    total = x + residual
    return _rms_norm_narrow(total, weight), total


def _layer_norm(x, weight, bias):
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-6)
    return (centred * scale * weight + bias).astype(x.dtype)


def _swiglu_wide(packed):
    gate, up = jnp.split(packed.astype(jnp.float32), 2, axis=-1)
    return (jax.nn.silu(gate) * up).astype(packed.dtype)


def _swiglu_narrow(packed):
    gate, up = jnp.split(packed, 2, axis=-1)
    return jax.nn.silu(gate) * up


def _angles(x):
    """cos and sin as constants: XLA would compute them again for each head."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-3])[:, None] * 10000.0 ** (-np.arange(half) / half)
    return np.cos(angle).astype(np.float32)[:, None, :], np.sin(angle).astype(np.float32)[:, None, :]


def _rope_concatenated(x):
    cosine, sine = _angles(x)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1).astype(x.dtype)


def _rope_stacked(x):
    cosine, sine = _angles(x)
    halves = x.reshape(*x.shape[:-1], 2, -1).astype(jnp.float32)
    first, second = halves[..., 0, :], halves[..., 1, :]
    turned = jnp.stack([first * cosine - second * sine, second * cosine + first * sine], axis=-2)
    return turned.reshape(x.shape).astype(x.dtype)


ROWS: dict[str, Peers] = {
    "rms_norm": {"XLA float32": _rms_norm, "XLA product in dtype": _rms_norm_narrow},
    "add_rms_norm": {"XLA float32": _add_rms_norm, "XLA product in dtype": _add_rms_norm_narrow},
    "layer_norm": {"XLA float32": _layer_norm},
    "swiglu": {"XLA float32": _swiglu_wide, "XLA in dtype": _swiglu_narrow},
    "rope": {"XLA concatenate": _rope_concatenated, "XLA stack": _rope_stacked},
}


def matmul(activation: str | None) -> Peers:
    """The product, and what is added to it: a bias of N elements or a residual."""
    functions = {None: lambda y: y, "gelu": functools.partial(jax.nn.gelu, approximate=False), "gelu_tanh": jax.nn.gelu}

    def product(a, b, *added):
        y = a @ b
        return functions[activation](y + added[0] if added else y)

    return {"XLA": product}


def attention(window: tuple[int, int] | None) -> Peers:
    """Causal attention by jax.nn and as einsums in float32."""

    def library(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=window)

    def einsum(q, k, v):
        # Heads repeated and in front: XLA's batched product is then two to three times as fast as with a group dimension.
        group = q.shape[2] // k.shape[2]
        heads_first = [
            jnp.repeat(a.astype(jnp.float32).transpose(0, 2, 1, 3), n, 1) for a, n in ((q, 1), (k, group), (v, group))
        ]
        logits = jnp.einsum("bnth,bnsh->bnts", *heads_first[:2]) * q.shape[3] ** -0.5
        row, column = jnp.arange(q.shape[1])[:, None], jnp.arange(k.shape[1])[None, :]
        seen = (column <= row) & (column >= row - (window[0] if window else q.shape[1]))
        weights = jax.nn.softmax(jnp.where(seen, logits, -jnp.inf), axis=-1)
        return jnp.einsum("bnts,bnsh->bnth", weights, heads_first[2]).transpose(0, 2, 1, 3).astype(q.dtype)

    return {"jax.nn.dot_product_attention": library, "XLA einsum float32": einsum}
