"""Rounding of exact values to any binary format, by fractions: the reference for arithmetic, independent of the
emulator's."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
from emulator import Array

LANES = 64


class Signalling(float):
    """A signalling NaN."""


@dataclasses.dataclass(frozen=True)
class Format:
    exponent_bits: int
    mantissa_bits: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        return (1 << self.exponent_bits - 1) - 1

    def decode(self, code: int) -> Fraction | float:
        """A fraction, or a float for -0, infinities and NaN."""
        sign = -1 if code >> self.bits - 1 & 1 else 1
        field = code >> self.mantissa_bits & (1 << self.exponent_bits) - 1
        mantissa = code & (1 << self.mantissa_bits) - 1
        if field == (1 << self.exponent_bits) - 1:
            if mantissa and not mantissa >> self.mantissa_bits - 1:
                return Signalling("nan")
            return math.nan if mantissa else sign * math.inf
        value = Fraction(mantissa if field == 0 else mantissa | 1 << self.mantissa_bits) * Fraction(2) ** (
            (field or 1) - self.bias - self.mantissa_bits
        )
        return sign * value if value else math.copysign(0.0, sign)

    def encode(self, value: Fraction | float, towards_zero: bool = False) -> int:
        """The nearest number, ties to even. NaN is the quiet one without payload."""
        top = (1 << self.exponent_bits) - 1 << self.mantissa_bits
        if isinstance(value, float):
            if math.isnan(value):
                return top | 1 << self.mantissa_bits - 1
            if math.isinf(value) or value == 0:
                return (top if value else 0) | (1 << self.bits - 1 if math.copysign(1, value) < 0 else 0)
            value = Fraction(value)
        sign = 1 << self.bits - 1 if value < 0 else 0
        value = abs(value)
        if value == 0:
            return sign
        exponent = max(value.numerator.bit_length() - value.denominator.bit_length(), 1 - self.bias - 1)
        while value >= Fraction(2) ** (exponent + 1):
            exponent += 1
        while exponent > 1 - self.bias and value < Fraction(2) ** exponent:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        scaled = value / Fraction(2) ** (exponent - self.mantissa_bits)
        steps = math.floor(scaled) if towards_zero else round(scaled)
        code = (exponent + self.bias - 1 << self.mantissa_bits) + steps
        return sign | min(code, top - 1 if towards_zero else top)


F16, F32, F64 = Format(5, 10), Format(8, 23), Format(11, 52)

SPECIAL = {
    F32: [0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F812345, 1, 0x80000001,
        0x7FFFFF, 0x800000,
          0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x3FC00000, 0x40200000, 0xBFC00000, 0x4B000000, 0x4B000001, 0x4F000000,
          0xCF000000, 0x4F7FFFFF,
          0x33800000, 0x3F7FFFFF, 0x42F60000, 0xC2CA0000, 0x7E800000, 0x00800001, 0x41200000, 0x2F800000],
    F16: [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFE12, 0x7D01, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x3800,
        0x3E00, 0x4100, 0xBE00,
          0x6400, 0x6401, 0x6800, 0x1400, 0x3BFF, 0x57B0, 0xD650, 0x7800, 0x401, 0x4900, 0x0801, 0x5555, 0xAAAA],
    F64: [0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
        0xFFF8123456789ABC,
          0x7FF0123456789ABC, 1, 0x8000000000000001, 0xFFFFFFFFFFFFF, 0x10000000000000, 0x7FEFFFFFFFFFFFFF,
          0x3FE0000000000000, 0x3FF8000000000000,
          0x4004000000000000, 0xBFF8000000000000, 0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000000000,
          0x41EFFFFFFFE00000, 0x3CA0000000000000,
          0x3FEFFFFFFFFFFFFF, 0x4340000000000000, 0x4340000000000001, 0x7FD0000000000000, 0x4024000000000000,
          0x3810000000000000, 0x380FFFFFFFFFFFFF,
          0x36A0000000000000, 0x47EFFFFFF0000000],
}  # fmt: skip


def inputs(form: Format, seed: int) -> Array:
    """64 codes, every second one special."""
    random = np.random.default_rng(seed)
    near = random.integers(form.bias - 12, form.bias + 12, LANES).astype(np.uint64) << np.uint64(form.mantissa_bits)
    mantissa = random.integers(0, 1 << form.mantissa_bits, LANES, np.uint64)
    sign = random.integers(0, 2, LANES, np.uint64) << np.uint64(form.bits - 1)
    codes = near | mantissa | sign
    codes[::2] = random.permutation(np.array(SPECIAL[form], np.uint64))
    return random.permutation(codes)


def same(form: Format, got: Array, expected: list[int], ulps: int = 0) -> list[int]:
    """Lanes that differ. All NaN are the same; numbers may differ by `ulps`."""
    sign = 1 << form.bits - 1

    def differs(a: int, b: int) -> bool:
        nan = [isinstance(v := form.decode(x), float) and math.isnan(v) for x in (a, b)]
        if any(nan):
            return not all(nan)
        ordered = [-(x ^ sign) if x & sign else x for x in (a, b)]
        return abs(ordered[0] - ordered[1]) > ulps if ulps else a != b

    return [lane for lane in range(LANES) if differs(int(got[lane]), int(expected[lane]))]
