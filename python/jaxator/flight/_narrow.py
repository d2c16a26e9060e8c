"""Conversions of 8-bit floats, by their bits: the same results on every target, whatever instructions it has."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jaxator.flight import _math, _ops, _types
from jaxator.flight._errors import FlightError
from jaxator.flight._types import DType, f32, u8, u32


@dataclasses.dataclass(frozen=True)
class Format:
    """A sign, then exponent and mantissa. Without a negative zero its code is the only NaN."""

    mantissa: int
    bias: int
    greatest: int
    """Code of the greatest finite number."""
    overflow: int
    """Code of what is too large."""
    nan: int
    has_infinity: bool = False
    has_negative_zero: bool = True


FORMATS = {
    "f8e4m3fn": Format(3, 7, 0x7E, 0x7F, 0x7F),
    "f8e5m2": Format(2, 15, 0x7B, 0x7C, 0x7E, has_infinity=True),
    "f8e4m3fnuz": Format(3, 8, 0x7F, 0x80, 0x80, has_negative_zero=False),
    "f8e5m2fnuz": Format(2, 16, 0x7F, 0x80, 0x80, has_negative_zero=False),
}


def _format(dtype: DType) -> Format:
    if dtype.name not in FORMATS:
        raise FlightError(f"{dtype} has no conversion; {', '.join(FORMATS)} have")
    return FORMATS[dtype.name]


def widen(x: Any) -> Any:
    """To f32, exactly."""
    kind = _format(x.dtype)
    code = _ops.to(_math.bitcast(x, u8), u32)
    magnitude = code & 0x7F
    normal = _math.bitcast((magnitude << (23 - kind.mantissa)) + ((127 - kind.bias) << 23), f32)
    small = _ops.to(magnitude, f32) * 2.0 ** (1 - kind.bias - kind.mantissa)
    value = _math.where(magnitude < (1 << kind.mantissa), small, normal)
    value = _math.where(code > 127, -value, value)
    if kind.has_infinity:
        value = _math.where(magnitude == kind.overflow, _math.where(code > 127, -math.inf, math.inf), value)
        return _math.where(magnitude > kind.overflow, math.nan, value)
    return _math.where((magnitude if kind.has_negative_zero else code) == kind.nan, math.nan, value)


def narrow(x: Any, dtype: DType) -> Any:
    """From f32 to nearest even. What is too large becomes infinity, or NaN where there is none."""
    kind = _format(dtype)
    bits = _math.bitcast(x, u32)
    magnitude = bits & 0x7FFFFFFF
    drop = 23 - kind.mantissa
    rounded = (magnitude + ((1 << (drop - 1)) - 1) + ((magnitude >> drop) & 1)) >> drop
    normal = rounded - ((127 - kind.bias) << kind.mantissa)
    # Below the smallest normal number codes are evenly spaced: adding a number whose last place is that space rounds to one.
    anchor = 2.0 ** (24 - kind.bias - kind.mantissa)
    small = _math.bitcast(_math.bitcast(magnitude, f32) + anchor, u32) - _math.bitcast(_ops.scalar(anchor, f32), u32)
    code = _math.where(magnitude < ((128 - kind.bias) << 23), small, normal)
    infinite = 0x7F800000
    too_large = (magnitude >= infinite) | (_as_signed(code) > kind.greatest)
    negative = bits >> 31 << 7
    code = _math.where(too_large, kind.overflow, code)
    if kind.has_negative_zero:
        code = code | negative
    else:
        code = _math.where((code == 0) | too_large, code, code | negative)
    code = _math.where(magnitude > infinite, kind.nan, code)
    return _math.bitcast(_ops.to(code, u8), dtype)


def _as_signed(x: Any) -> Any:
    return _math.bitcast(x, _types.i32)
