"""Scaled dot-product attention."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike

from jaxator import _dispatch, _ffi, _partition
from jaxator._errors import UnsupportedError
from jaxator._rows import is_wide_float, op_call
from jaxator.attention import call, formula
from jaxator.attention.flax import flax_attention
from jaxator.attention.merge import merge_attention
from jaxator.attention.options import BIAS, KERNELS, KEY_LENGTHS, MASK, QUERY_LENGTHS, SEGMENTS, Options

__all__ = ["dot_product_attention", "flax_attention", "merge_attention"]

OP = "dot_product_attention"


def _check_heads(q: jax.Array, k: jax.Array, v: jax.Array) -> None:
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        raise ValueError(
            f"{OP}: query, key, value have {q.ndim}, {k.ndim}, {v.ndim} axes: must all be [B, T, N, H] or all [T, N, H]"
        )
    if not (q.dtype == k.dtype == v.dtype) or not is_wide_float(q.dtype):
        raise TypeError(
            f"{OP}: dtypes {q.dtype}, {k.dtype}, {v.dtype}: query, key and value must have one float dtype of 16 bits or more"
        )
    (b, _, n, h), (kb, s, kh, kd), vs = q.shape, k.shape, v.shape
    if kb != b or vs[0] != b:
        raise ValueError(f"{OP}: batch sizes {b}, {kb}, {vs[0]}: must be equal")
    if vs[1] != s or vs[2] != kh:
        raise ValueError(f"{OP}: key {list(k.shape)} and value {list(vs)}: must have the same length and heads")
    if kd != h:
        raise ValueError(f"{OP}: key head size {kd}: must be the query's, {h}")
    if (n % kh if kh else n) != 0:
        raise ValueError(f"{OP}: {n} query heads: must be a multiple of the {kh} key/value heads")


def _check_broadcast(name: str, array: jax.Array, full: Sequence[int]) -> jax.Array:
    """The array as [B|1, N|1, T|1, S|1]."""
    shape = (1,) * (4 - array.ndim) + array.shape
    if array.ndim > 4 or any(n not in (1, m) for n, m in zip(shape, full, strict=True)):
        raise ValueError(f"{OP}: {name} shape={array.shape}: must broadcast to [B, N, T, S] = {list(full)}")
    return array.reshape(shape)


def _check_integers(name: str, array: ArrayLike, shape: tuple[int, ...]) -> jax.Array:
    array = jnp.asarray(array)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{OP}: {name} dtype={array.dtype}: must be an integer type")
    if array.shape != shape:
        raise ValueError(f"{OP}: {name} shape={array.shape}: must be {shape}")
    return array.astype(jnp.int32)


def _window(size: int | tuple[int, int] | None) -> tuple[int, int]:
    if size is None:
        return (-1, -1)
    left, right = (size, size) if isinstance(size, int) else size
    if left < 0 or right < 0:
        raise ValueError(f"{OP}: local_window_size={size}: both sides must be 0 or more")
    return int(left), int(right)


def _refuse_later_options(**given: Any) -> None:
    for name, (value, absent) in given.items():
        # Arrays are given whatever they hold.
        if value is not None and (absent is None or isinstance(value, jax.core.Tracer) or value != absent):
            raise UnsupportedError(
                OP, {"cpu": [f"{name} is given: not supported yet"], "xla": [f"{name} is given: not supported yet"]}
            )


def _refusals(q: jax.Array, v: jax.Array) -> list[str]:
    reasons = []
    if q.dtype.name not in _ffi.DTYPES:
        reasons.append(f"dtype={q.dtype}: must be one of {', '.join(_ffi.DTYPES)}")
    for name, size in (("head size", q.shape[3]), ("value size", v.shape[3])):
        if not 1 <= size <= 256:
            reasons.append(f"{name}={size}: must be 1 to 256")
    return reasons


def _gpu_refusals(q: jax.Array, v: jax.Array) -> list[str]:
    if q.dtype == jnp.float32:
        return [f"dtype={q.dtype}: must be bfloat16 or float16, what its matrix units multiply", *_refusals(q, v)]
    return _refusals(q, v)


def _rocm_refusals(q: jax.Array, v: jax.Array) -> list[str]:
    sizes = {"head size": q.shape[3], "value size": v.shape[3]}
    wide = [f"{name}={size}: must be at most 128" for name, size in sizes.items() if 128 < size <= 256]
    return _gpu_refusals(q, v) + wide


def _kernel(implementation: str | None, dtype: Any) -> tuple[str, str | None]:
    """(kernel, implementation for `choose`)."""
    if implementation not in KERNELS:
        return "cpu", implementation
    report = _ffi.cpu_report()
    if implementation == "flash_bf16dot" and not (dtype == jnp.bfloat16 and "x86-64-v4-bf16" in report["supported"]):
        reason = f"dtype={dtype}, cpu={report['brand']!r}: needs bfloat16 and AVX512_BF16"
        raise UnsupportedError(OP, {implementation: [reason]})
    return implementation, "cpu"


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
    segment_ids: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    causal_alignment: Literal["top_left", "bottom_right"] = "top_left",
    sinks: ArrayLike | None = None,
    logit_softcap: float | None = None,
    alibi_slopes: ArrayLike | None = None,
    dropout_rate: float = 0.0,
    dropout_key: jax.Array | None = None,
    index_offset: ArrayLike | None = None,
    global_shape: tuple[int, ...] | None = None,
    deterministic: bool = True,
    mesh: Mesh | None = None,
    in_specs: Sequence[PartitionSpec] | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """softmax(scale * query @ key^T + bias) @ value over the visible keys, without an array of T x S.

    A key is visible to a query when mask, lengths, segment ids, causal and window all say so and its logit is not -inf.
    Sizes: B batch, T query length, S key length, N query heads, K key/value heads (N % K == 0), H head size, V value size.

    Args:
      query: [B, T, N, H] or [T, N, H]; float32, bfloat16 or float16 for the kernels.
      key: [B, S, K, H], value: [B, S, K, V]; the query's dtype.
      bias: added to the scaled logits; broadcastable to [B, N, T, S], any float dtype; differentiable.
      mask: bool, True = takes part; broadcastable to [B, N, T, S].
      scale: default 1/sqrt(H).
      is_causal: query i sees keys up to i (top_left) or up to i + S - T (bottom_right, with the per-batch lengths).
      query_seq_lengths, key_value_seq_lengths: integers [B]; rows and keys beyond are padding.
      local_window_size: (left, right) or one number for both: keys at distance up to left before and right after.
      implementation: None chooses; "cpu", "flash_f32", "flash_bf16dot" (see `explain`), "cuda", "rocm" or "xla" names one.
        "gfx942" and "gfx950" name AMD's kernels for programs for CPUs too, which run them on an emulator: slowly, and with
        an error for every race, missing wait, access out of bounds and read of uninitialised memory. The GPU kernels take
        bfloat16 and float16, ROCm's H and V up to 128; H and V that are no multiple of 8 are padded, which copies.
      return_residual: also return the logsumexp.
      segment_ids: integers [B, T] (with T = S), or a pair [B, T] and [B, S]; equal ids attend, negative ids are padding.
      causal_alignment: where the causal diagonal and the window start when T != S.
      sinks, logit_softcap, alibi_slopes, dropout_rate, dropout_key, index_offset, global_shape: not supported yet; they
        raise UnsupportedError.
      deterministic: results are always deterministic on this target.
      mesh, in_specs: run by `jax.shard_map` over this mesh, with one PartitionSpec for each array given, in the order query,
        key, value, bias, mask, query lengths, key lengths, segment ids. Batch and heads may be sharded.

    Returns:
      [B, T, N, V] in the query's dtype; with return_residual also the natural logsumexp after scale and bias, float32
      [B, T, N], differentiable.

    Raises:
      ValueError, TypeError: an argument breaks a rule; the text names it.
      UnsupportedError: a named implementation cannot serve the call, or a second derivative was asked of the kernels.

    Differences from `jax.nn.dot_product_attention`: a query with no visible key gives 0, logsumexp -inf and zero
    gradients (there: the mean of the values); a window without is_causal means the same as with it; padding is never
    read, it may hold NaN; bias may have another dtype than the query; value size may differ from head size; the
    logsumexp is float32 and differentiable (there: the key's dtype, constant); products accumulate in float32 and
    probabilities are rounded to the dtype of the values only on the bfloat16 dot route and on GPUs; errors here,
    accepted there: a scale that is traced, a bias of integers, a negative window, query and key with different numbers
    of axes.

    Checkpoint names: "jaxator.attention.out", "jaxator.attention.lse".

    Source: Dao et al., "FlashAttention", arXiv:2205.14135; Dao, "FlashAttention-2", arXiv:2307.08691.
    """
    _refuse_later_options(
        sinks=(sinks, None), logit_softcap=(logit_softcap, None), alibi_slopes=(alibi_slopes, None), dropout_rate=(dropout_rate, 0.0),
        dropout_key=(dropout_key, None), index_offset=(index_offset, None), global_shape=(global_shape, None),
    )  # fmt: skip
    del deterministic
    if causal_alignment not in ("top_left", "bottom_right"):
        raise ValueError(f"{OP}: causal_alignment={causal_alignment!r}: must be 'top_left' or 'bottom_right'")
    q, k, v = jnp.asarray(query), jnp.asarray(key), jnp.asarray(value)
    unbatched = q.ndim == 3
    if unbatched and k.ndim == v.ndim == 3:
        q, k, v = q[None], k[None], v[None]
    _check_heads(q, k, v)
    b, t, n, h = q.shape
    s = k.shape[1]

    optional: dict[str, Any] = {}
    if bias is not None:
        array = jnp.asarray(bias)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(f"{OP}: bias dtype={array.dtype}: must be a float type")
        array = _check_broadcast("bias", array, (b, n, t, s))
        optional[BIAS] = (array if array.dtype.name in _ffi.DTYPES else array.astype(jnp.float32),)
    if mask is not None:
        array = jnp.asarray(mask)
        if array.dtype != jnp.bool_:
            raise TypeError(f"{OP}: mask dtype={array.dtype}: must be bool (True = takes part)")
        optional[MASK] = (_check_broadcast("mask", array, (b, n, t, s)),)
    if query_seq_lengths is not None:
        optional[QUERY_LENGTHS] = (_check_integers("query_seq_lengths", query_seq_lengths, (b,)),)
    if key_value_seq_lengths is not None:
        optional[KEY_LENGTHS] = (_check_integers("key_value_seq_lengths", key_value_seq_lengths, (b,)),)
    if segment_ids is not None:
        optional[SEGMENTS] = _segments(segment_ids, b, t, s, unbatched)

    kernel, named = _kernel(implementation, q.dtype)
    options = Options(
        scale=call.default_scale(h) if scale is None else float(scale),
        causal=bool(is_causal),
        bottom_right=causal_alignment == "bottom_right",
        window=_window(local_window_size),
        present=tuple(optional),
        choice=_dispatch.choose(
            OP, named, {"cpu": _refusals(q, v), "cuda": _gpu_refusals(q, v), "rocm": _rocm_refusals(q, v)}
        ),
        kernel=kernel,
    )
    operands = (q, k, v, *(a for group in optional.values() for a in group))
    out, lse = _apply(options, operands, mesh, in_specs)
    if unbatched:
        out, lse = out[0], lse[0]
    return (out, lse) if return_residual else out


def _segments(ids: Any, b: int, t: int, s: int, unbatched: bool) -> tuple[jax.Array, jax.Array]:
    query_ids, key_ids = ids if isinstance(ids, tuple) else (ids, ids)
    if unbatched:
        query_ids, key_ids = jnp.asarray(query_ids)[None], jnp.asarray(key_ids)[None]
    return _check_integers("segment_ids of the query", query_ids, (b, t)), _check_integers(
        "segment_ids of the key", key_ids, (b, s)
    )


def _apply(options: Options, operands: tuple[jax.Array, ...], mesh: Any, in_specs: Any) -> tuple[jax.Array, jax.Array]:
    rule = options.rule(operands, backward=False)
    if mesh is not None:
        return _partition.over_mesh(
            functools.partial(_apply, options, mesh=None, in_specs=None), rule, mesh, in_specs, operands
        )
    if in_specs is not None:
        raise ValueError(f"in_specs={in_specs}: needs mesh")
    if options.choice == "xla":
        return _dispatch.formulate(options.choice, formula.attention, options, *operands)
    return op_call(call.attention, options, _partition.align(rule, call.widened(operands)))
