"""Attention and its gradients in NumPy float64, with the error that float32 kernels may make in every element.

The bounds are those of tests/cpp/attention_bounds.h, pair by pair, to first order (a tenth is added for the rest). u = 2^-24; a sum of
n terms in any order errs by at most n u times the sum of magnitudes.

    logit    e = u [(H + 3) |scale| sum|q k| + 2 |bias| + 3 |logit|]        product, scale, bias, subtraction of the maximum
    p        relative x = max_s e + 3 exponentials' error (2e-7 for float32, 4e-6 for 16-bit types)
    lse      x + (S + 4) u + u |lse|
    out      (2 x + r + 2 (S + 4) u) sum p|v| + half an ulp                 r: rounding of p, where it is rounded (2^-8 for bfloat16)
    p again  y = x + e(lse) + u |lse|                                       the backward pass computes exp(logit - lse)
    delta    sum|dout| e(out) + (V + 3) u sum|dout out| + u |dlse|
    dS       p [y |dp - delta| + (V + 3) u sum|dout v| + e(delta) + 3 u (|dp| + |delta|)] = E
    dq       |scale| sum_s (E + (r + (S + 3) u) |dS|) |k| + half an ulp;    dk the same over rows and |q|
    dv       sum_rows p (y + r + (rows + 3) u) |dout| + half an ulp;        dbias sum (E + terms u |dS|)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

U = 2.0**-24
UNIT = {"float32": U, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Half an ulp, relative, by dtype."""
LEAST = {"float32": 1e-30, "bfloat16": 1e-30, "float16": 2.0**-24}
"""Denormals of the element type, and what products that underflow lose."""


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Arrays as the op takes them (any dtype) and its options; absent ones are None."""

    q: Array
    k: Array
    v: Array
    bias: Array | None = None
    mask: Array | None = None
    query_lengths: Array | None = None
    key_lengths: Array | None = None
    segments: tuple[Array, Array] | None = None
    scale: float | None = None
    causal: bool = False
    bottom_right: bool = False
    window: tuple[int, int] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """B, T, S, N, K, H, V"""
        (b, t, n, h), (_, s, k, _) = self.q.shape, self.k.shape
        return b, t, s, n, k, h, self.v.shape[3]

    def query_is_real(self) -> Array:
        """[B, T]: not padding."""
        b, t = self.q.shape[:2]
        real = np.ones((b, t), bool)
        if self.query_lengths is not None:
            real &= np.arange(t) < np.asarray(self.query_lengths)[:, None]
        return real & (np.asarray(self.segments[0]) >= 0) if self.segments else real

    def key_is_real(self) -> Array:
        b, s = self.k.shape[:2]
        real = np.ones((b, s), bool)
        if self.key_lengths is not None:
            real &= np.arange(s) < np.asarray(self.key_lengths)[:, None]
        return real & (np.asarray(self.segments[1]) >= 0) if self.segments else real

    def visible(self) -> Array:
        """[B, N, T, S], by everything but the logit."""
        b, t, s, n, *_ = self.sizes
        seen = np.broadcast_to(
            (self.query_is_real()[:, :, None] & self.key_is_real()[:, None, :])[:, None], (b, n, t, s)
        ).copy()
        if self.segments:
            seen &= (np.asarray(self.segments[0])[:, :, None] == np.asarray(self.segments[1])[:, None, :])[:, None]

        def length(lengths: Array | None, most: int) -> Array:
            return np.full(b, most) if lengths is None else np.clip(lengths, 0, most)

        shift = length(self.key_lengths, s) - length(self.query_lengths, t) if self.bottom_right else np.zeros(b, int)
        distance = np.arange(s) - (np.arange(t)[:, None] + shift[:, None, None, None])  # of the key, after the query
        if self.causal:
            seen &= distance <= 0
        if self.window is not None:
            seen &= (distance >= -self.window[0]) & (distance <= self.window[1])
        return seen & np.asarray(self.mask) if self.mask is not None else seen


@dataclasses.dataclass(frozen=True)
class Bounded:
    value: Array
    error: Array
    """What float32 arithmetic may add, before the rounding to the result's own dtype."""

    def finished(self, dtype: str) -> Bounded:
        return Bounded(
            self.value,
            1.1 * self.error + UNIT[dtype] * np.abs(np.where(np.isfinite(self.value), self.value, 0)) + LEAST[dtype],
        )


def _wide(array: Array, real: Array | None = None) -> Array:
    wide = np.asarray(array).astype(np.float64)
    return wide if real is None else np.where(real[:, :, None, None], wide, 0)


def _unbroadcast(full: Array, shape: tuple[int, ...]) -> Array:
    padded = (1,) * (4 - len(shape)) + tuple(shape)
    axes = tuple(i for i, n in enumerate(padded) if n == 1)
    return full.sum(axis=axes, keepdims=True).reshape(shape)


def attention(
    x: Inputs, dout: Array | None = None, dlse: Array | None = None, rounding_of_p: float = 0.0
) -> dict[str, Bounded]:
    """out [B, T, N, V], lse [B, T, N]; with cotangents (a missing one counts as zeros) also dq, dk, dv and dbias.

    rounding_of_p: relative; 2^-8 where probabilities are rounded to bfloat16.
    """
    b, t, s, n, kv, h, vs = x.sizes
    dtype, r = x.q.dtype.name, rounding_of_p
    group = n // kv if kv else 1
    scale = float(np.float32(1 / np.sqrt(h) if x.scale is None else x.scale)) if h else 1.0
    q, k, v = _wide(x.q, x.query_is_real()), _wide(x.k, x.key_is_real()), _wide(x.v, x.key_is_real())
    each_k, each_v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)
    seen = x.visible()
    bias = np.zeros((1, 1, 1, 1)) if x.bias is None else np.where(seen, _wide(x.bias), 0)

    logits = scale * np.einsum("btnh,bsnh->bnts", q, each_k) + bias
    seen = seen & (logits != -np.inf)
    logits = np.where(seen, logits, -np.inf)
    any_seen = seen.any(axis=-1, keepdims=True)
    top = np.where(any_seen, logits.max(axis=-1, keepdims=True, initial=-np.inf), 0)
    total = np.exp(logits - top).sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(any_seen, top + np.log(total), -np.inf)
    p = np.where(any_seen, np.exp(logits - top) / np.where(any_seen, total, 1), 0)

    magnitude = np.abs(scale) * np.einsum("btnh,bsnh->bnts", np.abs(q), np.abs(each_k))
    with np.errstate(invalid="ignore"):
        e = np.where(seen, U * ((h + 3) * magnitude + 2 * np.abs(bias) + 3 * np.abs(logits)), 0)
    y = e.max(axis=-1, keepdims=True, initial=0) + 3 * (2e-7 if dtype == "float32" else 4e-6)
    finite_lse = np.abs(np.where(any_seen, lse, 0))
    lse_error = y + (s + 4) * U + U * finite_lse
    out = np.einsum("bnts,bsnv->btnv", p, each_v)
    out_error = np.einsum("bnts,bsnv->btnv", p * (2 * y + r + 2 * (s + 4) * U), np.abs(each_v))

    def rows(a: Array) -> Array:
        return a[..., 0].transpose(0, 2, 1)

    exact = {"out": Bounded(out, out_error).finished(dtype), "lse": Bounded(rows(lse), rows(lse_error)).finished("float32")}
    if dout is None and dlse is None:
        return exact

    row_seen = any_seen[..., 0].transpose(0, 2, 1)  # cotangents of rows that see nothing are not looked at
    dout = np.zeros(out.shape) if dout is None else np.where(row_seen[..., None], _wide(dout), 0)
    dlse = np.zeros(lse.shape) if dlse is None else np.where(any_seen, _wide(dlse).transpose(0, 2, 1)[..., None], 0)
    y = y + 1.1 * lse_error + U * finite_lse
    delta = np.einsum("btnv,btnv->bnt", dout, out)[..., None] - dlse
    rounded_out = exact["out"].error + (vs + 3) * U * np.abs(out)
    delta_error = np.einsum("btnv,btnv->bnt", np.abs(dout), rounded_out)[..., None] + U * np.abs(dlse)
    dp = np.einsum("btnv,bsnv->bnts", dout, each_v)
    products = np.einsum("btnv,bsnv->bnts", np.abs(dout), np.abs(each_v))
    ds = p * (dp - delta)
    error = p * (y * np.abs(dp - delta) + (vs + 3) * U * products + delta_error + 3 * U * (np.abs(dp) + np.abs(delta)))
    per_row, per_key = t * group + 3, s + 3

    def keys(a: Array) -> Array:
        """Sums the query heads of each key/value head."""
        return a.reshape(b, s, kv, group, a.shape[-1]).sum(axis=3)

    def along(pairs: Array, other: Array, subscripts: str) -> Array:
        return np.einsum(subscripts, pairs, other)

    to_q, to_k = "bnts,bsnh->btnh", "bnts,btnh->bsnh"
    exact["dq"] = Bounded(
        scale * along(ds, each_k, to_q), abs(scale) * along(error + (r + per_key * U) * np.abs(ds), np.abs(each_k), to_q)
    ).finished(dtype)
    exact["dk"] = Bounded(
        scale * keys(along(ds, q, to_k)), abs(scale) * keys(along(error + (r + per_row * U) * np.abs(ds), np.abs(q), to_k))
    ).finished(dtype)
    exact["dv"] = Bounded(keys(along(p, dout, to_k)), keys(along(p * (y + r + per_row * U), np.abs(dout), to_k))).finished(
        dtype
    )
    if x.bias is not None:
        shape = np.shape(x.bias)
        terms = b * n * t * s / max(1, np.size(x.bias)) + 3
        exact["dbias"] = Bounded(_unbroadcast(ds, shape), _unbroadcast(error + terms * U * np.abs(ds), shape)).finished(
            np.asarray(x.bias).dtype.name
        )
    return exact


def assert_within(got: Any, exact: Bounded, what: str = "", slack: float = 1.0) -> None:
    """Every element is within `slack` times its bound (so the maximum is bounded too); infinities are exact."""
    got = np.asarray(got)
    assert got.shape == exact.value.shape, f"{what}: shape {got.shape}, expected {exact.value.shape}"
    wide = got.astype(np.float64)
    infinite = np.isinf(exact.value)
    with np.errstate(invalid="ignore"):
        error = np.where(infinite, np.where(wide == exact.value, 0, np.inf), np.abs(wide - exact.value))
    bound = slack * exact.error
    bad = ~(error <= bound)
    if bad.any():
        at = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error / bound)), error.shape)
        raise AssertionError(
            f"{what}: {bad.sum()} of {bad.size} elements beyond the bound; worst at {tuple(map(int, at))}: got {wide[at]}, "
            f"expected {exact.value[at]}, error {error[at]:.3g}, bound {bound[at]:.3g}"
        )
