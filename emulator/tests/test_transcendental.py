"""Transcendental functions, cube maps and the digits of 2/pi. Functions are correctly rounded here or within an ulp (their
inputs and results without denormals), as AMD's documents give no bits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from assembly import Case, on_each_architecture, split_pairs
from float_cases import (
    SOURCES,
    FloatTable,
    as_float,
    decoded,
    flushed,
    is_nan,
)
from floats import F16, F32, F64, LANES

TABLE = FloatTable()
CASES = TABLE.cases
CHECKS = TABLE.checks
add = TABLE.add

P, X = decoded(F16, 1)[0], decoded(F64, 1)[0]
# Transcendental functions.
guarded = lambda f, low=None: lambda a: f(a) if not is_nan(a) and (low is None or a >= low) else math.nan  # noqa: E731


def power(a: float) -> float:
    return 0.0 if a < -2000 else math.inf if a >= 1024 else 2.0**a


def logarithm(a: float) -> float:
    return -math.inf if a == 0 else a if math.isinf(a) else math.log2(a)


def reciprocal(a: float) -> float:
    return math.copysign(math.inf, a) if a == 0 else 1 / a


def turns(f: Callable[[float], float], outside: float) -> Callable[[float], float]:
    return lambda a: outside if abs(a) > 256 else f((a - math.floor(a)) * 2 * math.pi)


TRANSCENDENTAL = {
    "v_rcp": guarded(reciprocal), "v_rsq": guarded(lambda a: math.copysign(math.inf, a) if a == 0 else 1 / math.sqrt(a), 0),
    "v_sqrt": guarded(math.sqrt, 0), "v_exp": guarded(power), "v_log": guarded(logarithm, 0),
    "v_sin": guarded(turns(math.sin, 0.0)),
    "v_cos": guarded(turns(math.cos, 1.0)),
}  # fmt: skip
for stem, function in TRANSCENDENTAL.items():
    codes = [F32.encode(function(as_float(F32.decode(flushed(int(a)))))) for a in SOURCES[F32][0]]
    add(f"{stem}_f32", f"{stem}_f32 v0, v1", F32, [flushed(c) for c in codes], 1)
    add(f"{stem}_f16", f"{stem}_f16 v0, v1", F16, [F16.encode(function(as_float(a))) for a in P], 1)
for alias, stem in (("v_rcp_iflag_f32", "v_rcp_f32"), ("v_exp_legacy_f32", "v_exp_f32"), ("v_log_legacy_f32", "v_log_f32")):
    add(alias, f"{alias} v0, v1", F32, CHECKS[stem][2], 1)
for stem in ("v_rcp", "v_rsq", "v_sqrt"):
    add(f"{stem}_f64", f"{stem}_f64 v[0:1], v[4:5]", F64, [F64.encode(TRANSCENDENTAL[stem](as_float(a))) for a in X], 1)

# Cube maps.
CUBE = np.array([[1, 2, 3], [1, 2, -3], [1, 3, 2], [1, -3, 2], [3, 1, 2], [-3, 1, 2], [2, 2, 2], [-2, 2, 1]], np.float32)
FACES = {
    "v_cubeid_f32": [4, 5, 2, 3, 0, 1, 4, 2],
    "v_cubema_f32": [6, -6, 6, -6, 6, -6, 4, 4],
    "v_cubesc_f32": [1, -1, 1, 1, -2, 2, 2, -2],
    "v_cubetc_f32": [-2, -2, 2, -2, -1, -1, -2, 1],
}
for name, values in FACES.items():
    CASES[name] = Case(f"{name} v0, v1, v2, v3", {f"v{k + 1}": np.tile(CUBE[:, k], 8) for k in range(3)})
    CHECKS[name] = (F32, "v0", [int(v) for v in np.tile(np.array(values, np.float32), 8).view(np.uint32)], 0)


# 2/pi by integers: the arctangent series of Machin's formula.
def two_over_pi_bits(bits: int) -> int:
    one = 1 << bits + 64

    def arctangent(inverse: int) -> int:
        term, sum_, k = one // inverse, 0, 0
        while term:
            sum_ += (-1) ** k * (term // (2 * k + 1))
            term //= inverse**2
            k += 1
        return sum_

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return (2 * one * one // pi) >> 64


TWO_OVER_PI = two_over_pi_bits(1201)


def segment(code: int, part: int) -> float:
    field = code >> 52 & 2047
    shift = part * 53 + max(field - 1077, 0)
    bits = (TWO_OVER_PI << shift) >> 1201 - 53 & (1 << 53) - 1 if shift <= 1201 else 0
    return math.ldexp(bits, -53 - shift + (128 if field >= 1968 else 0))


PARTS = np.array([k % 18 for k in range(LANES)], np.uint32)
LARGE = np.array(
    [
        code
        for code in (
            0x3FF0000000000000,
            0x4000000000000000,
            0x4330000000000000,
            0x4350000000000000,
            0x4450000000000000,
            0x7FE0000000000000,
            0x7B10000000000000,
            0x5000000000000000,
        )
        for _ in range(8)
    ],
    np.uint64,
)
CASES["v_trig_preop_f64"] = Case(
    "v_trig_preop_f64 v[0:1], v[4:5], v6",
    dict(zip(("v4", "v5"), split_pairs(LARGE), strict=True)) | {"v6": PARTS},
    ("v0", "v1"),
)
CHECKS["v_trig_preop_f64"] = (
    F64,
    "v[0:1]",
    [F64.encode(segment(int(c), int(p))) for c, p in zip(LARGE, PARTS, strict=True)],
    0,
)


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_transcendental(name: str, architecture: str) -> None:
    TABLE.check(__name__, name, architecture)
