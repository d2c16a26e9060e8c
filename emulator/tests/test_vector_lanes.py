"""Vector integer instructions that look across lanes, carry, or have 64 bits, against the pseudocode of AMD's CDNA3 and
CDNA4 ISA documents."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from assembly import LANES, join_pairs, on_each_architecture, split_pairs, words
from emulator import Array
from integer_cases import (
    BEFORE,
    GFX950,
    M16,
    M32,
    M64,
    A,
    B,
    C,
    IntegerTable,
    clamped,
    distance,
    dot,
    lanewise,
    signed,
)

TABLE = IntegerTable()
CASES = TABLE.cases
add = TABLE.add_text

# Lanes.
LANE = np.arange(LANES, dtype=np.uint32)
below = [(1 << k) - 1 for k in range(LANES)]
add(
    "v_mbcnt_lo_u32_b32",
    "v_mbcnt_lo_u32_b32 v0, v1, v2",
    {
        "v0": np.array(
            [(bin(int(a) & m & M32).count("1") + int(b)) & M32 for a, b, m in zip(A, B, below, strict=True)], np.uint32
        )
    },
)
add(
    "v_mbcnt_hi_u32_b32",
    "v_mbcnt_hi_u32_b32 v0, v1, v2",
    {
        "v0": np.array(
            [(bin(int(a) & m >> 32).count("1") + int(b)) & M32 for a, b, m in zip(A, B, below, strict=True)], np.uint32
        )
    },
)
add("v_readlane_b32", "v_readlane_b32 s20, v1, s16", {"s20": int(A[37])}, s16=37)
add("v_readlane_b32 constant", "v_readlane_b32 s20, v1, 5", {"s20": int(A[5])})
add("v_readfirstlane_b32", "v_readfirstlane_b32 s20, v1", {"s20": int(A[9])}, exec=0xFE00)
add("v_readfirstlane_b32 without lanes", "v_readfirstlane_b32 s20, v1", {"s20": int(A[0])}, exec=0)
add("v_writelane_b32", "v_writelane_b32 v0, s16, 5", {"v0": np.where(LANE == 5, 77, BEFORE)}, s16=77, exec=1)
add("v_cndmask_b32", "v_cndmask_b32_e32 v0, v1, v2, vcc", {"v0": np.where(LANE % 2 == 0, B, A)}, vcc=0x5555555555555555)
add(
    "v_cndmask_b32 modifiers",
    "v_cndmask_b32_e64 v0, -v1, |v2|, s[16:17]",
    {"v0": np.where(LANE < 32, B & 0x7FFFFFFF, A ^ 0x80000000)},
    s16=M32,
    s17=0,
)
add("v_swap_b32", "v_swap_b32 v1, v2", {"v1": B, "v2": A})
add("v_swap_b32 inactive", "v_swap_b32 v1, v2", {"v1": np.where(LANE < 8, B, A), "v2": np.where(LANE < 8, A, B)}, exec=255)
for rows in (16, 32):
    odd = (LANE & rows) != 0
    partner = LANE ^ rows
    add(
        f"v_permlane{rows}_swap_b32",
        f"v_permlane{rows}_swap_b32_e32 v1, v2",
        {"v1": np.where(odd, B[partner], A), "v2": np.where(odd, B, A[partner])},
        GFX950,
    )
add("v_prng_b32", "v_prng_b32_e32 v0, v1", {"v0": lanewise(lambda a: a << 1 ^ (197 if a >> 31 else 0), A)}, GFX950)


def truth(table: int, a: int, b: int, c: int) -> int:
    return sum((table >> (4 * (a >> k & 1) + 2 * (b >> k & 1) + (c >> k & 1)) & 1) << k for k in range(32))


for table in (0x40, 0xCA, 0x96, 0xFF, 0x01):
    add(
        f"v_bitop3_b32 {table:#x}",
        f"v_bitop3_b32 v0, v1, v2, v3 bitop3:{table:#x}",
        {"v0": lanewise(functools.partial(truth, table), A, B, C)},
        GFX950,
    )
    add(
        f"v_bitop3_b16 {table:#x}",
        f"v_bitop3_b16 v0, v1, v2, v3 bitop3:{table:#x}",
        {"v0": lanewise(functools.partial(truth, table), A, B, C) & M16 | BEFORE & 0xFFFF0000},
        GFX950,
    )
for name, is_signed in (("v_ashr_pk_i8_i32", True), ("v_ashr_pk_u8_i32", False)):
    pack = lambda a, b, c, s=is_signed: clamped(signed(a) >> (c & 31), 8, s) | clamped(signed(b) >> (c & 31), 8, s) << 8  # noqa: E731
    add(name, f"{name} v0, v1, v2, v3", {"v0": lanewise(pack, A, B, C) | BEFORE & 0xFFFF0000}, GFX950)

# Dot products that add to their destination.
for name, bits in (("v_dot2c_i32_i16", 16), ("v_dot4c_i32_i8", 8), ("v_dot8c_i32_i4", 4)):
    add(name, f"{name} v0, v1, v2", {"v0": lanewise(dot(bits, True), A, B, BEFORE)})

# Registers by index.
indexed = "s_set_gpr_idx_on s16, gpr_idx(SRC0)\n s_nop 0\n v_mov_b32_e32 v0, v1\n s_set_gpr_idx_idx s17\n s_nop 0\n"
indexed += " v_mov_b32_e32 v5, v1\n s_set_gpr_idx_mode gpr_idx(DST)\n s_nop 0\n v_mov_b32_e32 v5, v1\n s_set_gpr_idx_off"
add("s_set_gpr_idx", indexed, {"v0": B, "v5": C, "v7": A, "m0": 0x8002}, s16=1, s17=2)

# Carries.
CARRY = 0xF0F0F0F00F0F0F0F
IN = np.array([CARRY >> k & 1 for k in range(LANES)], np.uint32)


def mask(bits: Array) -> int:
    return sum(int(bit) << k for k, bit in enumerate(bits))


CARRIES = {
    "v_add_co_u32": lambda a, b, c: a + b,
    "v_sub_co_u32": lambda a, b, c: a - b,
    "v_subrev_co_u32": lambda a, b, c: b - a,
    "v_addc_co_u32": lambda a, b, c: a + b + c,
    "v_subb_co_u32": lambda a, b, c: a - b - c,
    "v_subbrev_co_u32": lambda a, b, c: b - a - c,
}
for name, value in CARRIES.items():
    exact = [value(int(a), int(b), int(c)) for a, b, c in zip(A, B, IN, strict=True)]
    result = np.array([x & M32 for x in exact], np.uint32)
    carry = mask(np.array([not 0 <= x <= M32 for x in exact]))
    with_carry = ", vcc" if name in ("v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32") else ""
    add(name, f"{name}_e32 v0, vcc, v1, v2{with_carry}", {"v0": result, "vcc": carry}, vcc=CARRY)
    add(
        f"{name} scalar pair",
        f"{name}_e64 v0, s[20:21], v1, v2{with_carry}",
        {"v0": result, "s20": carry & M32, "s21": carry >> 32},
        vcc=CARRY,
    )

# 64 bits: v[4:5], v[6:7] are the wide sources, v[8:9] the result.
WIDE = join_pairs(words(5), words(6)), join_pairs(words(7), words(8))
PAIRS = dict(zip(("v4", "v5", "v6", "v7"), (*split_pairs(WIDE[0]), *split_pairs(WIDE[1])), strict=True))


def add_wide(name: str, text: str, values: list[int], more: dict[str, int] | None = None, **inputs: object) -> None:
    low, high = split_pairs(np.array([v & M64 for v in values], np.uint64))
    add(name, text, {"v8": low, "v9": high} | (more or {}), **(PAIRS | inputs))


X, Y = [int(v) for v in WIDE[0]], [int(v) for v in WIDE[1]]
SHIFTS = [int(a) for a in A]
add_wide("v_lshlrev_b64", "v_lshlrev_b64 v[8:9], v1, v[4:5]", [x << (s & 63) for x, s in zip(X, SHIFTS, strict=True)])
add_wide("v_lshrrev_b64", "v_lshrrev_b64 v[8:9], v1, v[4:5]", [x >> (s & 63) for x, s in zip(X, SHIFTS, strict=True)])
add_wide(
    "v_ashrrev_i64", "v_ashrrev_i64 v[8:9], v1, v[4:5]", [signed(x, 64) >> (s & 63) for x, s in zip(X, SHIFTS, strict=True)]
)
add_wide(
    "v_lshl_add_u64",
    "v_lshl_add_u64 v[8:9], v[4:5], v1, v[6:7]",
    [(x << (s & 7)) + y for x, s, y in zip(X, SHIFTS, Y, strict=True)],
)
add_wide("v_mov_b64", "v_mov_b64_e32 v[8:9], v[4:5]", X)
add_wide("v_mov_b64 constant", "v_mov_b64_e32 v[8:9], -3", [-3] * LANES)
sums = [int(a) * int(b) + x for a, b, x in zip(A, B, X, strict=True)]
add_wide(
    "v_mad_u64_u32",
    "v_mad_u64_u32 v[8:9], s[20:21], v1, v2, v[4:5]",
    sums,
    {"s20": mask(np.array([s >> 64 for s in sums])) & M32},
)
sums = [signed(int(a)) * signed(int(b)) + signed(x, 64) for a, b, x in zip(A, B, X, strict=True)]
add_wide(
    "v_mad_i64_i32",
    "v_mad_i64_i32 v[8:9], s[20:21], v1, v2, v[4:5]",
    sums,
    {"s21": mask(np.array([s >> 64 & 1 for s in sums])) >> 32},
)
for name, masked in (("v_qsad_pk_u16_u8", False), ("v_mqsad_pk_u16_u8", True)):
    add_wide(
        name,
        f"{name} v[8:9], v[4:5], v1, v[6:7]",
        [
            sum((distance(x >> 8 * k & M32, a, y >> 16 * k & M16, masked) & M16) << 16 * k for k in range(4))
            for x, a, y in zip(X, SHIFTS, Y, strict=True)
        ],
    )
add(
    "v_mqsad_u32_u8",
    "v_mqsad_u32_u8 v[12:15], v[4:5], v1, v[8:11]",
    {
        f"v{12 + k}": np.array(
            [distance(x >> 8 * k & M32, int(a), int(c), True) & M32 for x, a, c in zip(X, A, words(20 + k), strict=True)],
            np.uint32,
        )
        for k in range(4)
    },
    **PAIRS,
    **{f"v{8 + k}": words(20 + k) for k in range(4)},
)


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_vector_lanes(name: str, architecture: str) -> None:
    TABLE.check(__name__, name, architecture)
