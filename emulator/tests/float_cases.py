"""What the tests of vector float instructions share: exact arithmetic, sources, comparing codes."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from assembly import Case, join_pairs, run_case, split_pairs
from emulator import ARCHITECTURES, Array
from floats import F16, F32, F64, LANES, Format, Signalling, inputs, same

Number = Fraction | float
GFX950 = ("gfx950",)
FORMATS = {"f16": F16, "f32": F32, "f64": F64}


def is_nan(x: Number) -> bool:
    return isinstance(x, float) and math.isnan(x)


def as_float(x: Number) -> float:
    try:
        return float(x)
    except OverflowError:  # beyond double precision: only its size matters
        return math.inf if x > 0 else -math.inf


def product(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    if any(is_nan(v) or isinstance(v, float) and math.isinf(v) for v in (a, b)):
        clipped = [v if isinstance(v, float) else math.copysign(1.0, v) for v in (a, b)]
        return clipped[0] * clipped[1]
    negative = sum((v < 0) if isinstance(v, Fraction) else math.copysign(1, v) < 0 for v in (a, b)) % 2
    return -0.0 if negative else 0.0


def total(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b or 0.0
    infinite = [v if isinstance(v, float) else 1.0 for v in (a, b)]
    if any(math.isinf(v) or math.isnan(v) for v in infinite):
        return infinite[0] + infinite[1]
    if isinstance(a, float) and isinstance(b, float):
        return a + b
    return a if isinstance(a, Fraction) else b


def negate(a: Number) -> Number:
    return -a


def minimum(a: Number, b: Number) -> Number:
    if isinstance(a, Signalling) or isinstance(b, Signalling):
        return math.nan
    if is_nan(a) or is_nan(b):
        return b if is_nan(a) else a
    if a == 0 and b == 0:
        return a if math.copysign(1, a) < 0 else b
    return a if a < b else b


def maximum(a: Number, b: Number) -> Number:
    if isinstance(a, Signalling) or isinstance(b, Signalling):
        return math.nan
    if is_nan(a) or is_nan(b):
        return b if is_nan(a) else a
    return negate(minimum(negate(a), negate(b)))


def median(a: Number, b: Number, c: Number) -> Number:
    if any(map(is_nan, (a, b, c))):
        return minimum(minimum(a, b), c)
    largest = maximum(maximum(a, b), c)
    return maximum(b, c) if largest == a else maximum(a, c) if largest == b else maximum(a, b)


def rounded(function: Callable[[Fraction], int]) -> Callable[[Number], Number]:
    def apply(a: Number) -> Number:
        if isinstance(a, float):
            return a
        whole = function(a)
        return Fraction(whole) if whole else math.copysign(0.0, a)

    return apply


def fraction(form: Format) -> Callable[[Number], Number]:
    def apply(a: Number) -> Number:
        if isinstance(a, float):
            return math.nan if math.isinf(a) or math.isnan(a) else a - a
        difference = form.decode(form.encode(a - math.floor(a)))
        return min(difference, 1 - Fraction(1, 2 << form.mantissa_bits)) if difference else 0.0

    return apply


def exponent(a: Number) -> int:
    if isinstance(a, float):
        return 0
    e = a.numerator.bit_length() - a.denominator.bit_length()
    while abs(a) >= Fraction(2) ** e:
        e += 1
    while abs(a) < Fraction(2) ** (e - 1):
        e -= 1
    return e


def mantissa(a: Number) -> Number:
    return a if isinstance(a, float) else a / Fraction(2) ** exponent(a)


def power_of_two(a: Number, n: int) -> Number:
    return a if isinstance(a, float) else a * Fraction(2) ** max(min(n, 5000), -5000)


SOURCES = {form: [inputs(form, 10 * form.bits + k) for k in range(3)] for form in (F16, F32, F64)}
BEFORE = np.full(LANES, 0xABCD1234, np.uint32)


def registers(form: Format) -> tuple[list[str], dict[str, object]]:
    """Names of three sources and a result, and what they hold."""
    if form is F64:
        names = ["v[4:5]", "v[6:7]", "v[8:9]"]
        values = [part for source in SOURCES[form] for part in split_pairs(source)]
        return [*names, "v[0:1]"], {f"v{4 + k}": v for k, v in enumerate(values)}
    high = np.uint32(0x7BAD0000 if form is F16 else 0)  # must not matter
    return ["v1", "v2", "v3", "v0"], {f"v{k + 1}": s.astype(np.uint32) | high for k, s in enumerate(SOURCES[form])} | {
        "v0": BEFORE
    }


def decoded(form: Format, n: int) -> list[list[Number]]:
    return [[form.decode(int(code)) for code in source] for source in SOURCES[form][:n]]


def arity(function: Callable[..., object]) -> int:
    return function.__code__.co_argcount


FLUSH = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n s_nop 3\n "


def flushed(code: int) -> int:
    return code & 0x80000000 if code & 0x7F800000 == 0 else code


class FloatTable:
    def __init__(self) -> None:
        self.cases: dict[str, Case] = {}
        # Format, registers of the result, expected codes, how many units in the last place a result may be off.
        self.checks: dict[str, tuple[Format, str, list[int], int]] = {}

    def add(
        self,
        name: str,
        text: str,
        form: Format,
        expected: list[int],
        ulps: int = 0,
        architectures: tuple[str, ...] = ARCHITECTURES,
        **more: object,
    ) -> None:
        _, held = registers(form)
        self.cases[name] = Case(
            text, held | more, ("v0", "v1") if form is F64 and "v[0:1]" in text else ("v0",), architectures=architectures
        )
        self.checks[name] = (form, "v[0:1]" if form is F64 else "v0", expected, ulps)

    def check(self, module: str, name: str, architecture: str) -> None:
        case = self.cases[name]
        got = run_case(module, name, architecture)
        form, where, expected, ulps = self.checks[name]
        if where == "two":
            assert (
                same(form, got["v0"], expected[:LANES], ulps) == [] and same(form, got["v1"], expected[LANES:], ulps) == []
            )
            return
        if where == "integer":
            np.testing.assert_array_equal(got["v0"], np.array(expected, np.uint32))
            return
        if where == "pair":
            wrong = [same(F16, got["v0"] >> k & 0xFFFF, [e >> k & 0xFFFF for e in expected]) for k in (0, 16)]
            assert wrong == [[], []]
            return
        result: Array = join_pairs(*(got[r] for r in case.outputs)) if form is F64 else got["v0"]
        if form is F16:
            rest = np.array([e >> 16 for e in expected])
            if expected[0] >> 16 and not expected[0] & 0xFFFF == 0x1234:
                np.testing.assert_array_equal(result >> 16, rest)
            elif expected[0] & 0xFFFF == 0x1234:
                assert (result & 0xFFFF == 0x1234).all()
                result, expected = result >> 16, [e >> 16 for e in expected]
            else:
                assert (result >> 16 == 0).all()
            result, expected = result & 0xFFFF, [e & 0xFFFF for e in expected]
        wrong = same(form, result, expected, ulps)
        details = [
            (lane, hex(int(result[lane])), hex(expected[lane]), [hex(int(s[lane])) for s in SOURCES[form]])
            for lane in wrong[:4]
        ]
        assert not wrong, f"{case.text}: lane, got, expected, sources: {details}"
