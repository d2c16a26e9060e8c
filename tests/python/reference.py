"""The ops and their vector-Jacobian products in NumPy float64, with bounds for the error in float32.

Every function returns `Exact` results. A value is a sum of terms; a float32 evaluation rounds each term and partial sum a
number of times, so its error is at most ``roundings * 2**-24 * (sum of the terms' magnitudes)`` to first order, whatever the
input; the result is then rounded once to its own dtype. `assert_within` checks exactly that, for every element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

UNIT = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Unit roundoff by dtype."""
SMALLEST = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-25}
"""Absolute error of a result near zero: denormals are flushed on XLA's threads, float16's own subnormals are not."""
LANES = 32
"""Partial sums that a kernel keeps at least (8 lanes of 4 chains): a sum of K terms has K / 32 + a few roundings."""
SINGLE = 10
"""Roundings of one element: conversions, products, reciprocal square root or exponential (2 ulp), the final sums."""


class Exact(NamedTuple):
    """A result in float64 and its error bound in units of float32 rounding."""

    value: Array
    scale: Array
    """Sum of the magnitudes of the value's terms."""
    roundings: float


def assert_within(got: Any, exact: Exact, what: str = "") -> None:
    """Every element is within the bound that `Exact` states, after one rounding to got's dtype."""
    got = np.asarray(got)
    value, scale = np.broadcast_arrays(exact.value, exact.scale)
    assert got.shape == value.shape, f"{what}: shape {got.shape}, expected {value.shape}"
    error = np.abs(got.astype(np.float64) - value)
    name = got.dtype.name
    bound = UNIT[name] * np.abs(value) + 1.01 * exact.roundings * UNIT["float32"] * scale + SMALLEST[name]
    bad = ~(error <= bound)
    if bad.any():
        at = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error / bound)), error.shape)
        raise AssertionError(
            f"{what}: {bad.sum()} of {bad.size} elements beyond the bound; worst at {tuple(map(int, at))}: "
            f"got {got[at]}, expected {value[at]}, error {error[at]:.3g}, bound {bound[at]:.3g}"
        )


def _mean(a: Array) -> Array:
    return a.sum(axis=-1, keepdims=True) / max(1, a.shape[-1])


def _over_rows(a: Array) -> Array:
    return a.reshape(-1, a.shape[-1]).sum(axis=0) if a.size else np.zeros(a.shape[-1])


def _rows(a: Array) -> int:
    return int(np.prod(a.shape[:-1]))


# ---- norms -----------------------------------------------------------------------------------------------------------


def rms_norm(x: Array, weight: Array | None = None, *, epsilon: float = 1e-6, weight_offset: float = 0.0) -> Exact:
    w, reach = (1.0, 1.0) if weight is None else (weight + weight_offset, np.abs(weight) + abs(weight_offset))
    y = x / np.sqrt(_mean(x * x) + epsilon)
    return Exact(y * w, np.abs(y) * reach, x.shape[-1] / LANES + SINGLE)


def rms_norm_vjp(dy: Array, x: Array, weight: Array | None = None, *, epsilon: float = 1e-6, weight_offset: float = 0.0,
                 dtotal: Array | None = None) -> tuple[Exact, ...]:  # fmt: skip
    """Gradients of x (to which dtotal, the cotangent of x itself, is added) and of the weight."""
    g = dy if weight is None else dy * (weight + weight_offset)
    reach = np.abs(dy) * (1.0 if weight is None else np.abs(weight) + abs(weight_offset))
    scale = 1 / np.sqrt(_mean(x * x) + epsilon)
    extra = np.zeros_like(x) if dtotal is None else dtotal
    dx = Exact(
        scale * g - x * scale**3 * _mean(g * x) + extra,
        scale * reach + np.abs(x) * scale**3 * _mean(reach * np.abs(x)) + np.abs(extra),
        x.shape[-1] / LANES + SINGLE + 4,
    )
    if weight is None:
        return (dx,)
    terms = dy * x * scale
    return dx, Exact(_over_rows(terms), _over_rows(np.abs(terms)), _rows(x) + x.shape[-1] / LANES + SINGLE)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, *, epsilon: float = 1e-6) -> Exact:
    centred = x - _mean(x)
    scale = 1 / np.sqrt(_mean(centred**2) + epsilon)
    w = 1.0 if weight is None else weight
    b = 0.0 if bias is None else bias
    # The mean's error is relative to the magnitudes that were summed, not to the difference.
    reach = (np.abs(x) + _mean(np.abs(x))) * scale
    return Exact(centred * scale * w + b, reach * np.abs(w) + np.abs(b), x.shape[-1] / LANES + SINGLE)


def layer_norm_vjp(dy: Array, x: Array, weight: Array | None = None, bias: Array | None = None, *,
                   epsilon: float = 1e-6) -> tuple[Exact, ...]:  # fmt: skip
    g = dy if weight is None else dy * weight
    centred = x - _mean(x)
    scale = 1 / np.sqrt(_mean(centred**2) + epsilon)
    unit = centred * scale
    reach = (np.abs(x) + _mean(np.abs(x))) * scale
    roundings = x.shape[-1] / LANES + SINGLE
    gradients = [
        Exact(
            scale * (g - _mean(g) - unit * _mean(g * unit)),
            scale * (np.abs(g) + _mean(np.abs(g)) + reach * _mean(np.abs(g) * reach)),
            2 * roundings,
        )
    ]
    if weight is not None:
        gradients.append(Exact(_over_rows(dy * unit), _over_rows(np.abs(dy) * reach), _rows(x) + roundings))
    if bias is not None:
        gradients.append(Exact(_over_rows(dy), _over_rows(np.abs(dy)), _rows(x) + SINGLE))
    return tuple(gradients)


# ---- activation ------------------------------------------------------------------------------------------------------


FLUSHED = SMALLEST["float32"] / UNIT["float32"]
"""A sigmoid below the smallest normal float32 becomes zero."""


def _sigmoid(a: Array) -> Array:
    return np.exp(-np.logaddexp(0, -a))


def swiglu(gate: Array, up: Array, *, limit: float | None = None) -> Exact:
    if limit is not None:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    y = gate * _sigmoid(gate) * up
    return Exact(y, np.abs(y) + FLUSHED * np.abs(gate * up), SINGLE)


def swiglu_vjp(dy: Array, gate: Array, up: Array, *, limit: float | None = None) -> tuple[Exact, Exact]:
    gate_passes, up_passes = (True, True) if limit is None else (gate <= limit, np.abs(up) <= limit)
    if limit is not None:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    s = _sigmoid(gate)
    dgate = np.where(gate_passes, dy * up * s * (1 + gate * (1 - s)), 0)
    dup = np.where(up_passes, dy * gate * s, 0)
    return (
        Exact(dgate, np.abs(dy * up) * (s + FLUSHED) * (1 + np.abs(gate)), SINGLE + 4),
        Exact(dup, np.abs(dup) + FLUSHED * np.abs(dy * gate), SINGLE),
    )


def _halves(packed: Array) -> tuple[Array, Array]:
    return tuple(np.split(packed, 2, axis=-1))


def swiglu_packed(packed: Array, **options: Any) -> Exact:
    return swiglu(*_halves(packed), **options)


def swiglu_packed_vjp(dy: Array, packed: Array, **options: Any) -> tuple[Exact]:
    gradients = swiglu_vjp(dy, *_halves(packed), **options)
    value, scale = (np.concatenate([getattr(g, field) for g in gradients], axis=-1) for field in ("value", "scale"))
    return (Exact(value, scale, max(g.roundings for g in gradients)),)


# ---- position --------------------------------------------------------------------------------------------------------


def rope_angles(positions: Array, size: int, theta: float) -> Array:
    """[..., T] -> [..., T, 1, H / 2]"""
    return (positions[..., None] * theta ** (-2 * np.arange(size // 2) / max(1, size)))[..., None, :]


def _pairs(x: Array, interleaved: bool) -> tuple[Array, Array]:
    return (x[..., 0::2], x[..., 1::2]) if interleaved else _halves(x)


def _join(first: Array, second: Array, interleaved: bool) -> Array:
    if interleaved:
        return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], 2 * first.shape[-1])
    return np.concatenate([first, second], axis=-1)


def _rotate(x: Array, cos: Array, sin: Array, interleaved: bool) -> Exact:
    a, b = _pairs(x, interleaved)
    scale = [np.abs(p * cos) + np.abs(q * sin) for p, q in ((a, b), (b, a))]
    # Conversions, two products, one sum, and the rounding of cos and sin.
    return Exact(_join(a * cos - b * sin, b * cos + a * sin, interleaved), _join(*scale, interleaved), 5)


def rope(
    x: Array, positions: Array | None = None, *, theta: float = 10000.0, interleaved: bool = False, inverse: bool = False
) -> Exact:
    positions = np.arange(x.shape[-3]) if positions is None else positions
    angles = rope_angles(positions, x.shape[-1], theta) * (-1 if inverse else 1)
    # The angle is reduced in float64; cos and sin are rounded to float32.
    return _rotate(x, np.cos(angles), np.sin(angles), interleaved)


def rope_vjp(dy: Array, x: Array, positions: Array | None = None, **options: Any) -> tuple[Exact]:
    return (rope(dy, positions, inverse=True, **options),)


def rope_tables(x: Array, cos: Array, sin: Array, *, interleaved: bool = False) -> Exact:
    """cos, sin: [..., T, H / 2]"""
    cos, sin = cos[..., None, :], sin[..., None, :]
    return _rotate(x, cos, sin, interleaved)


def rope_tables_vjp(dy: Array, x: Array, cos: Array, sin: Array, *, interleaved: bool = False) -> tuple[Exact]:
    return (rope_tables(dy, cos, -sin, interleaved=interleaved),)


def rounded_sum(arrays: Sequence[Array]) -> Array:
    """The float32 sum of arrays of one dtype, rounded once to it: what add_rms_norm documents, bit by bit."""
    total = sum((a.astype(np.float32) for a in arrays[1:]), arrays[0].astype(np.float32))
    return total.astype(arrays[0].dtype)
