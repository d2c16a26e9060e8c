"""Vector float instructions in single, half and double precision: arithmetic against exact fractions rounded once, the
rest against the pseudocode of AMD's CDNA3 and CDNA4 ISA documents. Transcendental functions are correctly rounded here or
within an ulp (their inputs and results without denormals), as the documents give no bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from assembly import Case, on_each_architecture
from emulator import ARCHITECTURES
from float_cases import (
    BEFORE,
    FLUSH,
    FORMATS,
    GFX950,
    SOURCES,
    FloatTable,
    Number,
    arity,
    as_float,
    decoded,
    exponent,
    flushed,
    fraction,
    is_nan,
    mantissa,
    maximum,
    median,
    minimum,
    negate,
    power_of_two,
    product,
    registers,
    rounded,
    total,
)
from floats import F16, F32, F64

TABLE = FloatTable()
CASES = TABLE.cases
CHECKS = TABLE.checks
add = TABLE.add

ARITHMETIC: dict[str, Callable[..., Number]] = {
    "v_add": total, "v_sub": lambda a, b: total(a, negate(b)), "v_subrev": lambda a, b: total(b, negate(a)),
    "v_mul": product,
    "v_fma": lambda a, b, c: total(product(a, b), c), "v_min": minimum, "v_max": maximum,
    "v_min3": lambda a, b, c: minimum(minimum(a, b), c), "v_max3": lambda a, b, c: maximum(maximum(a, b), c),
    "v_med3": median,
    "v_trunc": rounded(math.trunc), "v_ceil": rounded(math.ceil), "v_floor": rounded(math.floor), "v_rndne": rounded(round),
    "v_frexp_mant": mantissa,
}  # fmt: skip
EXISTS = {
    "f32": set(ARITHMETIC), "f16": set(ARITHMETIC),
    "f64": {"v_add", "v_mul", "v_fma", "v_min", "v_max", "v_trunc", "v_ceil", "v_floor", "v_rndne", "v_frexp_mant"},
}  # fmt: skip
KEEPS_F16 = {"v_fma", "v_min3", "v_max3", "v_med3"}

for suffix, form in FORMATS.items():
    names, _ = registers(form)
    for stem in sorted(EXISTS[suffix]):
        function = ARITHMETIC[stem]
        n = arity(function)
        expected = [form.encode(function(*values)) for values in zip(*decoded(form, n), strict=True)]
        if form is F16:
            expected = [code | (0xABCD0000 if stem in KEEPS_F16 else 0) for code in expected]
        add(f"{stem}_{suffix}", f"{stem}_{suffix} {names[3]}, {', '.join(names[:n])}", form, expected)
    one = decoded(form, 1)[0]
    add(f"v_fract_{suffix}", f"v_fract_{suffix} {names[3]}, {names[0]}", form, [form.encode(fraction(form)(a)) for a in one])

# Exponents and scaling by powers of two.
SHIFT = np.array([0, 1, -1, 5, -5, 127, -126, 200, -200, 3000, -3000, 30, -30, 2, -2, 10] * 4, np.int64)
for suffix, form, kind in (("f16", F16, "i16"), ("f32", F32, "i32"), ("f64", F64, "i32")):
    names, _ = registers(form)
    mask = 0xFFFF if form is F16 else 0xFFFFFFFF
    one = decoded(form, 1)[0]
    CASES[f"v_frexp_exp_{kind}_{suffix}"] = Case(f"v_frexp_exp_{kind}_{suffix} v0, {names[0]}", registers(form)[1])
    CHECKS[f"v_frexp_exp_{kind}_{suffix}"] = (F32, "integer", [exponent(a) & mask for a in one], 0)
    scaled = [form.encode(power_of_two(a, int(n))) for a, n in zip(one, SHIFT, strict=True)]
    add(
        f"v_ldexp_{suffix}",
        f"v_ldexp_{suffix} {names[3]}, {names[0]}, v20",
        form,
        scaled,
        v20=(SHIFT & mask).astype(np.uint32),
    )

# Forms of the multiply-add.
A, B, C = decoded(F32, 3)
fused = lambda a, b, c: F32.encode(total(product(a, b), c))  # noqa: E731
add(
    "v_fmac_f32",
    "v_fmac_f32_e32 v0, v1, v2",
    F32,
    [fused(a, b, c) for a, b, c in zip(A, B, C, strict=True)],
    v0=SOURCES[F32][2].astype(np.uint32),
)
add("v_fmamk_f32", "v_fmamk_f32 v0, v1, 0x42280000, v2", F32, [fused(a, Fraction(42), b) for a, b in zip(A, B, strict=True)])
add("v_fmaak_f32", "v_fmaak_f32 v0, v1, v2, 0x42280000", F32, [fused(a, b, Fraction(42)) for a, b in zip(A, B, strict=True)])
add(
    "v_mul_legacy_f32",
    "v_mul_legacy_f32 v0, v1, v2",
    F32,
    [0 if a == 0 or b == 0 else F32.encode(product(a, b)) for a, b in zip(A, B, strict=True)],
)
X, Y, Z = decoded(F64, 3)
CASES["v_fmac_f64"] = Case("v_fmac_f64_e32 v[8:9], v[4:5], v[6:7]", registers(F64)[1], ("v8", "v9"))
CHECKS["v_fmac_f64"] = (F64, "v[8:9]", [F64.encode(total(product(a, b), c)) for a, b, c in zip(X, Y, Z, strict=True)], 0)
P, Q, R = decoded(F16, 3)
twice = lambda a, b, c: F16.encode(total(F16.decode(F16.encode(product(a, b))), c))  # noqa: E731
unfused = [twice(a, b, c) for a, b, c in zip(P, Q, R, strict=True)]
add("v_mad_f16", "v_mad_f16 v0, v1, v2, v3", F16, [code | 0xABCD0000 for code in unfused])
add("v_mad_legacy_f16", "v_mad_legacy_f16 v0, v1, v2, v3", F16, unfused)
add(
    "v_fma_legacy_f16",
    "v_fma_legacy_f16 v0, v1, v2, v3",
    F16,
    [F16.encode(total(product(a, b), c)) for a, b, c in zip(P, Q, R, strict=True)],
)
add("v_mac_f16", "v_mac_f16_e32 v0, v1, v2", F16, unfused, v0=SOURCES[F16][2].astype(np.uint32))
add("v_madak_f16", "v_madak_f16 v0, v1, v2, 0x5140", F16, [twice(a, b, Fraction(42)) for a, b in zip(P, Q, strict=True)])
add("v_madmk_f16", "v_madmk_f16 v0, v1, 0x5140, v2", F16, [twice(a, Fraction(42), b) for a, b in zip(P, Q, strict=True)])

# IEEE 754-2019 minimum and maximum: NaN wins.
either = lambda f: lambda a, b, c: math.nan if any(map(is_nan, (a, b, c))) else f(f(a, b), c)  # noqa: E731
for stem, f in (("minimum3", minimum), ("maximum3", maximum)):
    add(
        f"v_{stem}_f32",
        f"v_{stem}_f32 v0, v1, v2, v3",
        F32,
        [F32.encode(either(f)(a, b, c)) for a, b, c in zip(A, B, C, strict=True)],
        0,
        GFX950,
    )

# Modifiers.
absolute = lambda a: abs(a)  # noqa: E731
add(
    "negated and absolute",
    "v_fma_f32 v0, -v1, |v2|, -|v3|",
    F32,
    [fused(negate(a), absolute(b), negate(absolute(c))) for a, b, c in zip(A, B, C, strict=True)],
)
clamp = lambda x: 0.0 if is_nan(x) or x <= 0 else min(x, Fraction(1))  # noqa: E731
add("clamp", "v_add_f32_e64 v0, v1, v2 clamp", F32, [F32.encode(clamp(total(a, b))) for a, b in zip(A, B, strict=True)])
add(
    "clamp f64",
    "v_add_f64 v[0:1], v[4:5], v[6:7] clamp",
    F64,
    [F64.encode(clamp(total(a, b))) for a, b in zip(X, Y, strict=True)],
)
add("clamp f16", "v_add_f16_e64 v0, v1, v2 clamp", F16, [F16.encode(clamp(total(a, b))) for a, b in zip(P, Q, strict=True)])
add(
    "output modifier is ignored with denormals",
    "v_mul_f32_e64 v0, v1, v2 mul:2",
    F32,
    [F32.encode(product(a, b)) for a, b in zip(A, B, strict=True)],
)
FA, FB = ([F32.decode(flushed(int(code))) for code in source] for source in SOURCES[F32][:2])
for modifier, factor in (("", 1), (" mul:2", 2), (" mul:4", 4), (" div:2", Fraction(1, 2))):
    values = [F32.decode(F32.encode(product(a, b))) for a, b in zip(FA, FB, strict=True)]
    add(
        f"flushed{modifier}",
        f"{FLUSH}v_mul_f32_e64 v0, v1, v2{modifier}",
        F32,
        [flushed(F32.encode(product(v, Fraction(factor)))) for v in values],
    )

# Half precision: halves by op_sel, constants, packing.
add("v_add_f16 scalar constant", "v_add_f16_e32 v0, 0.5, v2", F16, [F16.encode(total(Fraction(1, 2), b)) for b in Q])
add(
    "v_fma_f16 op_sel",
    "v_fma_f16 v0, v20, v21, v3 op_sel:[1,1,0,1]",
    F16,
    [F16.encode(total(product(a, b), c)) << 16 | 0x1234 for a, b, c in zip(P, Q, R, strict=True)],
    v20=SOURCES[F16][0].astype(np.uint32) << 16,
    v21=SOURCES[F16][1].astype(np.uint32) << 16,
)
CASES["v_pack_b32_f16"] = Case("v_pack_b32_f16 v0, -v1, |v2|", registers(F16)[1])
CHECKS["v_pack_b32_f16"] = (
    F32,
    "integer",
    [int(a) ^ 0x8000 | (int(b) & 0x7FFF) << 16 for a, b in zip(*SOURCES[F16][:2], strict=True)],
    0,
)

# Mixed precision: op_sel_hi says that a source is half precision.
mixed = {
    "v1": SOURCES[F32][0].astype(np.uint32),
    "v2": SOURCES[F16][1].astype(np.uint32),
    "v3": SOURCES[F16][2].astype(np.uint32) << 16,
    "v0": BEFORE,
}
sums = [F32.encode(total(product(a, b), c)) for a, b, c in zip(A, Q, R, strict=True)]
for name, codes in {
    "v_fma_mix_f32": sums,
    "v_fma_mixlo_f16": [F16.encode(F32.decode(s)) | 0xABCD0000 for s in sums],
    "v_fma_mixhi_f16": [F16.encode(F32.decode(s)) << 16 | 0x1234 for s in sums],
}.items():
    CASES[name] = Case(f"{name} v0, v1, v2, v3 op_sel:[0,0,1] op_sel_hi:[0,1,1]", mixed)
    CHECKS[name] = (F32 if name.endswith("32") else F16, "v0", codes, 0)
CASES["v_fma_mix_f32 modifiers"] = Case("v_fma_mix_f32 v0, -v1, |v2|, v3 op_sel:[0,0,1] op_sel_hi:[0,1,1]", mixed)
CHECKS["v_fma_mix_f32 modifiers"] = (
    F32,
    "v0",
    [F32.encode(total(product(negate(a), absolute(b)), c)) for a, b, c in zip(A, Q, R, strict=True)],
    0,
)


def fix_up(quotient: int, denominator: int, numerator: int) -> int:
    sign = (denominator ^ numerator) & 0x8000
    for code in (numerator, denominator):
        if code & 0x7FFF > 0x7C00:
            return code | 0x200
    zeros, infinities = ([code & 0x7FFF == special for code in (denominator, numerator)] for special in (0, 0x7C00))
    if all(zeros) or all(infinities):
        return 0xFE00
    return sign | (0x7C00 if zeros[0] or infinities[1] else 0 if zeros[1] or infinities[0] else quotient & 0x7FFF)


fixed = [fix_up(*(int(code) for code in codes)) for codes in zip(*SOURCES[F16], strict=True)]
add("v_div_fixup_f16", "v_div_fixup_f16 v0, v1, v2, v3", F16, [code | 0xABCD0000 for code in fixed])
add("v_div_fixup_legacy_f16", "v_div_fixup_legacy_f16 v0, v1, v2, v3", F16, fixed)

# Packed.
S16 = [SOURCES[F16][k].astype(np.uint32) | SOURCES[F16][(k + 1) % 3].astype(np.uint32) << 16 for k in range(3)]
H = [P, Q, R]
PACKED = {
    "v_pk_add_f16": (total, 2),
    "v_pk_mul_f16": (product, 2),
    "v_pk_fma_f16": (ARITHMETIC["v_fma"], 3),
    "v_pk_min_f16": (minimum, 2),
    "v_pk_max_f16": (maximum, 2),
    "v_pk_minimum3_f16": (either(minimum), 3),
    "v_pk_maximum3_f16": (either(maximum), 3),
}
for name, (function, n) in PACKED.items():
    architectures = GFX950 if "mum3" in name else ARCHITECTURES
    low = [F16.encode(function(*values)) for values in zip(*H[:n], strict=True)]
    high = [F16.encode(function(*values)) for values in zip(*(H[(k + 1) % 3] for k in range(n)), strict=True)]
    CASES[name] = Case(
        f"{name} v0, {', '.join(f'v{k + 1}' for k in range(n))}",
        {f"v{k + 1}": S16[k] for k in range(3)},
        architectures=architectures,
    )
    CHECKS[name] = (F16, "pair", [a | b << 16 for a, b in zip(low, high, strict=True)], 0)
swapped = (
    [F16.encode(total(a, negate(b))) for a, b in zip(H[1], H[1], strict=True)],
    [F16.encode(total(a, b)) for a, b in zip(H[0], H[2], strict=True)],
)
CASES["v_pk_add_f16 op_sel"] = Case(
    "v_pk_add_f16 v0, v1, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1]", {"v1": S16[0], "v2": S16[1]}
)
CHECKS["v_pk_add_f16 op_sel"] = (F16, "pair", [a | b << 16 for a, b in zip(*swapped, strict=True)], 0)
CASES["v_pk_fmac_f16"] = Case("v_pk_fmac_f16 v0, v1, v2", {"v0": S16[2], "v1": S16[0], "v2": S16[1]})
CHECKS["v_pk_fmac_f16"] = CHECKS["v_pk_fma_f16"]
S32 = {f"v{2 * k + 2 + h}": SOURCES[F32][(k + h) % 3].astype(np.uint32) for k in range(3) for h in range(2)}
N = [A, B, C]
for name, (function, n) in {
    "v_pk_add_f32": (total, 2),
    "v_pk_mul_f32": (product, 2),
    "v_pk_fma_f32": (ARITHMETIC["v_fma"], 3),
}.items():
    wide = [
        [F32.encode(function(*values)) for values in zip(*(N[(k + h) % 3] for k in range(n)), strict=True)] for h in range(2)
    ]
    CASES[name] = Case(f"{name} v[0:1], {', '.join(f'v[{2 * k + 2}:{2 * k + 3}]' for k in range(n))}", S32, ("v0", "v1"))
    CHECKS[name] = (F32, "two", wide[0] + wide[1], 0)
low_high = (
    [F32.encode(total(a, negate(b))) for a, b in zip(B, B, strict=True)],
    [F32.encode(total(a, b)) for a, b in zip(A, C, strict=True)],
)
CASES["v_pk_add_f32 op_sel"] = Case(
    "v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1]", S32, ("v0", "v1")
)
CHECKS["v_pk_add_f32 op_sel"] = (F32, "two", low_high[0] + low_high[1], 0)
CASES["v_pk_mov_b32"] = Case("v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]", S32, ("v0", "v1"))
CHECKS["v_pk_mov_b32"] = (F32, "two", [int(v) for k in (1, 1) for v in SOURCES[F32][k]], 0)

# Dot products in single precision, in the documents' order.
single = lambda x: np.float32(as_float(x))  # noqa: E731
with np.errstate(all="ignore"):
    pairs = [[single(p) * single(q) for p, q in zip(H[k], H[(k + 1) % 3], strict=True)] for k in range(2)]
    accumulators = SOURCES[F32][2].astype(np.uint32).view(np.float32)
    dots = [int((c + x + y).view(np.uint32)) for x, y, c in zip(*pairs, accumulators, strict=True)]
dot_inputs = {"v1": S16[0], "v2": S16[1], "v3": accumulators, "v0": accumulators}
for name in ("v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2c_f32_f16 v0, v1, v2"):
    CASES[name.split()[0]] = Case(name, dot_inputs)
    CHECKS[name.split()[0]] = (F32, "v0", dots, 0)
BF = [SOURCES[F32][k].astype(np.uint32) for k in range(3)]
with np.errstate(all="ignore"):
    wide_halves = [[(s & 0xFFFF0000).view(np.float32), (s << 16).view(np.float32)] for s in BF[:2]]
    low, high = wide_halves[0][1] * wide_halves[1][1], wide_halves[0][0] * wide_halves[1][0]
    orders = {
        "v_dot2_f32_bf16 v0, v1, v2, v3": low + high + accumulators,
        "v_dot2c_f32_bf16 v0, v1, v2": accumulators + low + high,
    }
for name, value in orders.items():
    CASES[name.split()[0]] = Case(
        name, {"v1": BF[0], "v2": BF[1], "v3": accumulators, "v0": accumulators}, architectures=GFX950
    )
    CHECKS[name.split()[0]] = (F32, "v0", [int(v) for v in value.view(np.uint32)], 0)


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_vector_float(name: str, architecture: str) -> None:
    TABLE.check(__name__, name, architecture)
