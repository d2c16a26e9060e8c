"""The XLA formulation of attention: logits as an array, float32 softmax, the same contract as the kernels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxator.attention.options import BIAS, KEY_LENGTHS, MASK, QUERY_LENGTHS, SEGMENTS, Options


def visible(options: Options, q: jax.Array, k: jax.Array, named: dict[str, Any]) -> jax.Array:
    """Which keys each query may see, bool, broadcastable to [B, N, T, S]."""
    t, s = q.shape[1], k.shape[1]
    row, column = jnp.arange(t)[None, None, :, None], jnp.arange(s)[None, None, None, :]
    query_lengths = named.get(QUERY_LENGTHS, jnp.full((1,), t))[:, None, None, None]
    key_lengths = named.get(KEY_LENGTHS, jnp.full((1,), s))[:, None, None, None]
    seen = (row < query_lengths) & (column < key_lengths)
    at = row + (jnp.clip(key_lengths, 0, s) - jnp.clip(query_lengths, 0, t) if options.bottom_right else 0)
    if options.causal:
        seen &= column <= at
    if options.window[0] >= 0:
        seen &= column >= at - options.window[0]
    if options.window[1] >= 0:
        seen &= column <= at + options.window[1]
    if options.has(SEGMENTS):
        query_ids, key_ids = named[SEGMENTS]
        seen &= ((query_ids[:, :, None] == key_ids[:, None, :]) & (query_ids[:, :, None] >= 0))[:, None]
    if options.has(MASK):
        seen &= named[MASK].astype(bool)
    return seen


def _without_padding(options: Options, q: Any, k: Any, v: Any, named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Zeros where a row or key is padding, which may hold NaN (0 * NaN would spread)."""

    def keep(array: jax.Array, lengths: str, ids: int) -> jax.Array:
        position = jnp.arange(array.shape[1])[None, :]
        real = jnp.ones((1, 1), bool)
        if options.has(lengths):
            real &= position < named[lengths][:, None]
        if options.has(SEGMENTS):
            real &= named[SEGMENTS][ids] >= 0
        return jnp.where(real[..., None, None], array, jnp.zeros((), array.dtype))

    return keep(q, QUERY_LENGTHS, 0), keep(k, KEY_LENGTHS, 1), keep(v, KEY_LENGTHS, 1)


def attention(options: Options, *operands: jax.Array) -> tuple[jax.Array, jax.Array]:
    """q, k, v, optional operands -> out [B, T, N, V], logsumexp [B, T, N]; differentiable by JAX, NaN-free by selection."""
    q, k, v, named = options.unpack(operands)
    batch, t, heads, head_size = q.shape
    s, kv_heads = k.shape[1], k.shape[2]
    wide = jnp.promote_types(q.dtype, jnp.float32)
    seen = jnp.broadcast_to(visible(options, q, k, named), (batch, heads, t, s))
    q, k, v = _without_padding(options, q, k, v, named)
    group = heads // kv_heads if kv_heads else 1
    grouped = q.reshape(batch, t, kv_heads, group, head_size)
    logits = (
        jnp.einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=wide).reshape(batch, heads, t, s) * options.scale
    )
    if options.has(BIAS):
        logits = logits + jnp.where(seen, named[BIAS].astype(wide), 0)
    seen &= logits != -jnp.inf
    logits = jnp.where(seen, logits, -jnp.inf)
    any_seen = jnp.any(seen, axis=-1, keepdims=True)
    top = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True, initial=-jnp.inf))
    top = jnp.where(any_seen, top, 0)
    p = jnp.where(seen, jnp.exp(jnp.where(seen, logits - top, 0)), 0)
    total = jnp.where(any_seen, jnp.sum(p, axis=-1, keepdims=True), 1)
    weights = (p / total).astype(q.dtype).reshape(batch, kv_heads, group, t, s)
    out = jnp.einsum("bkgts,bskv->btkgv", weights, v, preferred_element_type=wide).reshape(batch, t, heads, v.shape[-1])
    rows = jnp.moveaxis(any_seen, 1, 2)
    lse = jnp.where(any_seen, top + jnp.log(total), -jnp.inf)[..., 0]
    return jnp.where(rows, out, 0).astype(q.dtype), jnp.moveaxis(lse, 1, 2).astype(jnp.float32)
