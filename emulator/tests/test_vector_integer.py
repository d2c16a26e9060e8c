"""Vector integer instructions against the pseudocode of AMD's CDNA3 and CDNA4 ISA documents, written down here for
Python's unbounded integers: VOP1, VOP2, VOP3, with carries, clamps, 16-bit halves, and the byte instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from assembly import LANES, on_each_architecture
from integer_cases import (
    BEFORE,
    M16,
    M32,
    A,
    B,
    C,
    IntegerTable,
    byte,
    clamped,
    distance,
    dot,
    field,
    first,
    lanewise,
    low24,
    median,
    permute,
    signed,
)

TABLE = IntegerTable()
CASES = TABLE.cases
add = TABLE.add_text

FULL: dict[str, Callable[..., int]] = {
    "v_mov_b32": lambda a: a, "v_not_b32": lambda a: ~a, "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
    "v_ffbh_u32": lambda a: first(lambda k: a >> (31 - k) & 1, range(32)),
    "v_ffbl_b32": lambda a: first(lambda k: a >> k & 1, range(32)),
    "v_ffbh_i32": lambda a: first(lambda k: (a >> (31 - k) & 1) != a >> 31, range(1, 32)),
    "v_add_u32": lambda a, b: a + b, "v_sub_u32": lambda a, b: a - b, "v_subrev_u32": lambda a, b: b - a,
    "v_add_i32": lambda a, b: signed(a) + signed(b), "v_sub_i32": lambda a, b: signed(a) - signed(b),
    "v_mul_lo_u32": lambda a, b: a * b, "v_mul_hi_u32": lambda a, b: a * b >> 32,
    "v_mul_hi_i32": lambda a, b: signed(a) * signed(b) >> 32,
    "v_mul_u32_u24": lambda a, b: low24(a) * low24(b), "v_mul_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24),
    "v_mul_hi_u32_u24": lambda a, b: low24(a) * low24(b) >> 32,
    "v_mul_hi_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24) >> 32,
    "v_and_b32": lambda a, b: a & b, "v_or_b32": lambda a, b: a | b, "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_lshlrev_b32": lambda a, b: b << (a & 31), "v_lshrrev_b32": lambda a, b: b >> (a & 31),
    "v_ashrrev_i32": lambda a, b: signed(b) >> (a & 31),
    "v_min_u32": min, "v_max_u32": max, "v_min_i32": lambda a, b: min(signed(a), signed(b)),
    "v_max_i32": lambda a, b: max(signed(a), signed(b)),
    "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31), "v_bcnt_u32_b32": lambda a, b: bin(a).count("1") + b,
    "v_mbcnt_lo_u32_b32": None, "v_mbcnt_hi_u32_b32": None,
    "v_add3_u32": lambda a, b, c: a + b + c, "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b & M32) << (c & 31), "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c, "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_mad_u32_u24": lambda a, b, c: low24(a) * low24(b) + c,
    "v_mad_i32_i24": lambda a, b, c: signed(a, 24) * signed(b, 24) + signed(c),
    "v_mad_u32_u16": lambda a, b, c: (a & M16) * (b & M16) + c,
    "v_mad_i32_i16": lambda a, b, c: signed(a, 16) * signed(b, 16) + signed(c),
    "v_bfe_u32": lambda a, b, c: field(a, b, c, False), "v_bfe_i32": lambda a, b, c: field(a, b, c, True),
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c, "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3), "v_perm_b32": permute,
    "v_min3_u32": min, "v_max3_u32": max, "v_med3_u32": median,
    "v_min3_i32": lambda *x: min(map(signed, x)), "v_max3_i32": lambda *x: max(map(signed, x)),
    "v_med3_i32": lambda *x: median(*map(signed, x)),
    "v_sad_u8": lambda a, b, c: distance(a, b, c), "v_sad_hi_u8": lambda a, b, c: (distance(a, b, 0) << 16) + c,
    "v_sad_u32": lambda a, b, c: abs(a - b) + c,
    "v_sad_u16": lambda a, b, c: abs((a & M16) - (b & M16)) + abs((a >> 16) - (b >> 16)) + c,
    "v_msad_u8": lambda a, b, c: distance(a, b, c, masked=True),
    "v_lerp_u8": lambda a, b, c: sum((byte(a, k) + byte(b, k) + (c >> 8 * k & 1)) // 2 << 8 * k for k in range(4)),
    "v_dot2_i32_i16": dot(16, True), "v_dot2_u32_u16": dot(16, False), "v_dot4_i32_i8": dot(8, True),
    "v_dot4_u32_u8": dot(8, False),
    "v_dot8_i32_i4": dot(4, True), "v_dot8_u32_u4": dot(4, False),
    "v_cvt_pk_u16_u32": lambda a, b: min(a, M16) | min(b, M16) << 16,
    "v_cvt_pk_i16_i32": lambda a, b: clamped(signed(a), 16, True) | clamped(signed(b), 16, True) << 16,
    "v_sat_pk_u8_i16": lambda a: clamped(signed(a, 16), 8, False) | clamped(signed(a >> 16, 16), 8, False) << 8,
    "v_cvt_off_f32_i4": None,
}  # fmt: skip
FULL = {name: function for name, function in FULL.items() if function is not None}
# The result lies in the low 16 bits; the rest becomes 0, or stays (KEEPS).
HALVES: dict[str, Callable[..., int]] = {
    "v_add_u16": lambda a, b: a + b, "v_sub_u16": lambda a, b: a - b, "v_subrev_u16": lambda a, b: b - a,
    "v_mul_lo_u16": lambda a, b: a * b,
    "v_lshlrev_b16": lambda a, b: b << (a & 15), "v_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_ashrrev_i16": lambda a, b: signed(b, 16) >> (a & 15), "v_min_u16": min, "v_max_u16": max,
    "v_min_i16": lambda a, b: min(signed(a, 16), signed(b, 16)), "v_max_i16": lambda a, b: max(signed(a, 16), signed(b, 16)),
    "v_add_i16": lambda a, b: signed(a, 16) + signed(b, 16), "v_sub_i16": lambda a, b: signed(a, 16) - signed(b, 16),
    "v_mad_u16": lambda a, b, c: a * b + c, "v_mad_i16": lambda a, b, c: signed(a, 16) * signed(b, 16) + signed(c, 16),
    "v_mad_legacy_u16": lambda a, b, c: a * b + c,
    "v_mad_legacy_i16": lambda a, b, c: signed(a, 16) * signed(b, 16) + signed(c, 16),
    "v_min3_u16": min, "v_max3_u16": max, "v_med3_u16": median, "v_min3_i16": lambda *x: min(signed(v, 16) for v in x),
    "v_max3_i16": lambda *x: max(signed(v, 16) for v in x), "v_med3_i16": lambda *x: median(*(signed(v, 16) for v in x)),
}  # fmt: skip
KEEPS = {
    "v_add_i16",
    "v_sub_i16",
    "v_mad_u16",
    "v_mad_i16",
    "v_min3_u16",
    "v_max3_u16",
    "v_med3_u16",
    "v_min3_i16",
    "v_max3_i16",
    "v_med3_i16",
}
PACKED: dict[str, Callable[..., int]] = {
    "v_pk_add_u16": HALVES["v_add_u16"], "v_pk_sub_u16": HALVES["v_sub_u16"], "v_pk_mul_lo_u16": HALVES["v_mul_lo_u16"],
    "v_pk_add_i16": HALVES["v_add_i16"], "v_pk_sub_i16": HALVES["v_sub_i16"], "v_pk_mad_u16": HALVES["v_mad_u16"],
    "v_pk_mad_i16": HALVES["v_mad_i16"], "v_pk_lshlrev_b16": HALVES["v_lshlrev_b16"],
    "v_pk_lshrrev_b16": HALVES["v_lshrrev_b16"],
    "v_pk_ashrrev_i16": HALVES["v_ashrrev_i16"], "v_pk_min_u16": min, "v_pk_max_u16": max,
    "v_pk_min_i16": HALVES["v_min_i16"],
    "v_pk_max_i16": HALVES["v_max_i16"],
}  # fmt: skip
# What `clamp` saturates to: bits and sign. v_mad_u32_u24 and the like in 32 bits.
CLAMPS = {
    "v_add_u32": (32, False), "v_sub_u32": (32, False), "v_subrev_u32": (32, False), "v_add_i32": (32, True),
    "v_sub_i32": (32, True),
    "v_mad_u32_u24": (32, False), "v_mad_i32_i24": (32, True), "v_mad_u32_u16": (32, False), "v_mad_i32_i16": (32, True),
    "v_dot4_i32_i8": (32, True), "v_dot4_u32_u8": (32, False), "v_dot2_i32_i16": (32, True), "v_dot8_u32_u4": (32, False),
}  # fmt: skip
CLAMPS_16 = {
    "v_add_u16": False,
    "v_sub_u16": False,
    "v_subrev_u16": False,
    "v_add_i16": True,
    "v_sub_i16": True,
    "v_mad_u16": False,
    "v_mad_i16": True,
}


def count(function: Callable[..., int]) -> int:
    if function in (min, max):
        return 2
    return function.__code__.co_argcount or 3


def sources(n: int) -> str:
    return ", ".join(f"v{k}" for k in range(1, n + 1))


for name, function in FULL.items():
    n = 3 if "3_" in name else count(function)
    add(name, f"{name} v0, {sources(n)}", {"v0": lanewise(function, *(A, B, C)[:n])})
for name, (bits, is_signed) in CLAMPS.items():
    function = FULL[name]
    n = count(function)
    encoded = name if n == 3 else f"{name}_e64"
    add(
        f"{name} clamp",
        f"{encoded} v0, {sources(n)} clamp",
        {"v0": lanewise(lambda *x, f=function, b=bits, s=is_signed: clamped(f(*x), b, s), *(A, B, C)[:n])},
    )
for name, function in HALVES.items():
    n = 3 if "3_" in name or "mad" in name else 2
    kept = BEFORE & 0xFFFF0000 if name in KEEPS else 0
    halves = [s & M16 for s in (A, B, C)[:n]]
    add(name, f"{name} v0, {sources(n)}", {"v0": lanewise(function, *halves) & M16 | kept})
    if name in CLAMPS_16:
        encoded = name if n == 3 or name in ("v_add_i16", "v_sub_i16") else f"{name}_e64"
        saturated = lanewise(lambda *x, f=function, s=CLAMPS_16[name]: clamped(f(*x), 16, s), *halves)
        add(f"{name} clamp", f"{encoded} v0, {sources(n)} clamp", {"v0": saturated | kept})
    if name in KEEPS:  # op_sel: high halves of the first sources, the result in the high half
        high = [A >> 16, B >> 16, C & M16][:n]
        add(
            f"{name} op_sel",
            f"{name} v0, {sources(n)} op_sel:[1,1,{'0,1' if n == 3 else '1'}]",
            {"v0": lanewise(function, *high) << 16 | BEFORE & M16},
        )
for name, function in PACKED.items():
    n = 3 if "mad" in name else 2
    values = (A, B, C)[:n]
    low, high = [s & M16 for s in values], [s >> 16 for s in values]
    both = lambda lo, hi, f=function: lanewise(f, *lo) & M16 | lanewise(f, *hi) << 16  # noqa: E731
    add(name, f"{name} v0, {sources(n)}", {"v0": both(low, high)})
    ones, zeros = ",".join("1" * n), ",".join("0" * n)
    add(f"{name} op_sel", f"{name} v0, {sources(n)} op_sel:[{ones}] op_sel_hi:[{zeros}]", {"v0": both(high, low)})
for name, is_signed in (("v_pk_add_u16", False), ("v_pk_sub_i16", True), ("v_pk_add_i16", True)):
    saturated = [
        lanewise(lambda a, b, f=PACKED[name], s=is_signed: clamped(f(a, b), 16, s), A >> k & M16, B >> k & M16) << k
        for k in (0, 16)
    ]
    add(f"{name} clamp", f"{name} v0, v1, v2 clamp", {"v0": saturated[0] | saturated[1]})

# Operands of other kinds.
add("scalar operand", "v_sub_u32_e32 v0, s16, v2", {"v0": lanewise(lambda b: 7 - b, B)}, s16=7)
add("inline constant", "v_sub_u32_e32 v0, -16, v2", {"v0": lanewise(lambda b: -16 - b, B)})
add("literal", "v_and_b32_e32 v0, 0xabcdef12, v2", {"v0": B & 0xABCDEF12})
add("float constant in an integer instruction", "v_or_b32_e32 v0, 1.0, v2", {"v0": B | 0x3F800000})
add(
    "inactive lanes",
    "v_mov_b32_e32 v0, v1",
    {"v0": np.where(np.arange(LANES) % 3 == 0, A, BEFORE)},
    exec=sum(1 << k for k in range(0, 64, 3)),
)
add(
    "accumulators",
    "v_accvgpr_write_b32 a1, v1\n s_nop 3\n v_accvgpr_mov_b32 a2, a1\n s_nop 3\n v_accvgpr_read_b32 v0, a2",
    {"v0": A, "a2": A},
)


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_vector_integer(name: str, architecture: str) -> None:
    TABLE.check(__name__, name, architecture)
