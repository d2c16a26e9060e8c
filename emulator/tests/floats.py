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

# Codes in hexadecimal: zeros, ones, infinities, NaN, the limits of normal numbers, ties of roundings, limits of integers.
_SPECIAL = {
    F32: """0 80000000 3f800000 bf800000 7f800000 ff800000 7fc00000 ffc12345 7f812345 1 80000001 7fffff 800000 7f7fffff
      ff7fffff 3f000000 3fc00000 40200000 bfc00000 4b000000 4b000001 4f000000 cf000000 4f7fffff 33800000 3f7fffff
      42f60000 c2ca0000 7e800000 800001 41200000 2f800000""",
    F16: """0 8000 3c00 bc00 7c00 fc00 7e00 fe12 7d01 1 8001 3ff 400 7bff fbff 3800 3e00 4100 be00 6400 6401 6800 1400 3bff
      57b0 d650 7800 401 4900 801 5555 aaaa""",
    F64: """0 8000000000000000 3ff0000000000000 bff0000000000000 7ff0000000000000 fff0000000000000 7ff8000000000000
      fff8123456789abc 7ff0123456789abc 1 8000000000000001 fffffffffffff 10000000000000 7fefffffffffffff
      3fe0000000000000 3ff8000000000000 4004000000000000 bff8000000000000 41dfffffffc00000 41e0000000000000
      c1e0000000000000 41efffffffe00000 3ca0000000000000 3fefffffffffffff 4340000000000000 4340000000000001
      7fd0000000000000 4024000000000000 3810000000000000 380fffffffffffff 36a0000000000000 47effffff0000000""",
}
SPECIAL = {form: [int(code, 16) for code in codes.split()] for form, codes in _SPECIAL.items()}


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
