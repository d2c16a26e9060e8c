"""Scalar instructions against the pseudocode of AMD's CDNA3 and CDNA4 ISA documents (SOP1, SOP2, SOPC, SOPK), written
down here for Python's unbounded integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from assembly import WORDS, Case, run_case
from emulator import ARCHITECTURES

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(a: int, bits: int = 32) -> int:
    return a - (1 << bits) if a >> (bits - 1) & 1 else a


def popcount(a: int) -> int:
    return bin(a).count("1")


def first_one(a: int, bits: int) -> int:
    return next((k for k in range(bits) if a >> k & 1), -1)


def leading(a: int, bits: int) -> int:
    return next((k for k in range(bits) if a >> (bits - 1 - k) & 1), -1)


def leading_signed(a: int, bits: int) -> int:
    return next((k for k in range(1, bits) if (a >> (bits - 1 - k) & 1) != a >> (bits - 1)), -1)


def reverse(a: int, bits: int) -> int:
    return int(f"{a:0{bits}b}"[::-1], 2)


def extract(a: int, b: int, bits: int, is_signed: bool) -> int:
    offset, count = b & (bits - 1), min(b >> 16 & 127, bits)
    if count == 0:
        return 0
    value = signed(a, bits) >> offset if is_signed else a >> offset
    value &= (1 << count) - 1
    return signed(value, count) if is_signed else value


def quads(a: int, bits: int, whole: bool) -> int:
    marks = [k for k in range(bits // 4) if a >> 4 * k & 15]
    return sum(15 << 4 * k if whole else 1 << k for k in marks)


# Result and SCC (None: SCC stays). Sources and result have 32 bits, or 64 where the name says so ("64" in third and fourth
# place).
Two = Callable[[int, int], tuple[int, int | None]]
nonzero = lambda value, bits=32: (value & (1 << bits) - 1, int(value & (1 << bits) - 1 != 0))  # noqa: E731
kept = lambda value: (value, None)  # noqa: E731

BINARY: dict[str, Two] = {
    "s_add_u32": lambda a, b: ((a + b) & M32, int(a + b > M32)),
    "s_sub_u32": lambda a, b: ((a - b) & M32, int(b > a)),
    "s_add_i32": lambda a, b: ((a + b) & M32, int(not -(1 << 31) <= signed(a) + signed(b) < 1 << 31)),
    "s_sub_i32": lambda a, b: ((a - b) & M32, int(not -(1 << 31) <= signed(a) - signed(b) < 1 << 31)),
    "s_min_i32": lambda a, b: (min(signed(a), signed(b)) & M32, int(signed(a) < signed(b))),
    "s_min_u32": lambda a, b: (min(a, b), int(a < b)),
    "s_max_i32": lambda a, b: (max(signed(a), signed(b)) & M32, int(signed(a) >= signed(b))),
    "s_max_u32": lambda a, b: (max(a, b), int(a >= b)),
    "s_and_b32": lambda a, b: nonzero(a & b), "s_or_b32": lambda a, b: nonzero(a | b),
    "s_xor_b32": lambda a, b: nonzero(a ^ b),
    "s_andn2_b32": lambda a, b: nonzero(a & ~b), "s_orn2_b32": lambda a, b: nonzero(a | ~b),
    "s_nand_b32": lambda a, b: nonzero(~(a & b)),
    "s_nor_b32": lambda a, b: nonzero(~(a | b)), "s_xnor_b32": lambda a, b: nonzero(~(a ^ b)),
    "s_lshl_b32": lambda a, b: nonzero(a << (b & 31)), "s_lshr_b32": lambda a, b: nonzero(a >> (b & 31)),
    "s_ashr_i32": lambda a, b: nonzero(signed(a) >> (b & 31)),
    "s_bfm_b32": lambda a, b: kept(((1 << (a & 31)) - 1) << (b & 31)),
    "s_mul_i32": lambda a, b: kept(a * b), "s_mul_hi_u32": lambda a, b: kept(a * b >> 32),
    "s_mul_hi_i32": lambda a, b: kept(signed(a) * signed(b) >> 32),
    "s_bfe_u32": lambda a, b: nonzero(extract(a, b, 32, False)), "s_bfe_i32": lambda a, b: nonzero(extract(a, b, 32, True)),
    "s_absdiff_i32": lambda a, b: nonzero(abs(signed((a - b) & M32))),
    "s_pack_ll_b32_b16": lambda a, b: kept(a & 0xFFFF | b << 16),
    "s_pack_lh_b32_b16": lambda a, b: kept(a & 0xFFFF | b & 0xFFFF0000),
    "s_pack_hh_b32_b16": lambda a, b: kept(a >> 16 | b & 0xFFFF0000),
    **{f"s_lshl{k}_add_u32": (lambda a, b, k=k: (((a << k) + b) & M32, int((a << k) + b > M32))) for k in range(1, 5)},
}  # fmt: skip
BINARY_64: dict[str, Two] = {
    "s_and_b64": lambda a, b: nonzero(a & b, 64), "s_or_b64": lambda a, b: nonzero(a | b, 64),
    "s_xor_b64": lambda a, b: nonzero(a ^ b, 64),
    "s_andn2_b64": lambda a, b: nonzero(a & ~b, 64), "s_orn2_b64": lambda a, b: nonzero(a | ~b, 64),
    "s_nand_b64": lambda a, b: nonzero(~(a & b), 64), "s_nor_b64": lambda a, b: nonzero(~(a | b), 64),
    "s_xnor_b64": lambda a, b: nonzero(~(a ^ b), 64),
}  # fmt: skip
SHIFT_64: dict[str, Two] = {  # b has 32 bits
    "s_lshl_b64": lambda a, b: nonzero(a << (b & 63), 64), "s_lshr_b64": lambda a, b: nonzero(a >> (b & 63), 64),
    "s_ashr_i64": lambda a, b: nonzero(signed(a, 64) >> (b & 63), 64),
    "s_bfe_u64": lambda a, b: nonzero(extract(a, b, 64, False), 64),
    "s_bfe_i64": lambda a, b: nonzero(extract(a, b, 64, True), 64),
}  # fmt: skip
UNARY: dict[str, Callable[[int], tuple[int, int | None]]] = {
    "s_mov_b32": kept, "s_not_b32": lambda a: nonzero(~a), "s_brev_b32": lambda a: kept(reverse(a, 32)),
    "s_bcnt0_i32_b32": lambda a: nonzero(32 - popcount(a)), "s_bcnt1_i32_b32": lambda a: nonzero(popcount(a)),
    "s_ff0_i32_b32": lambda a: kept(first_one(~a & M32, 32)), "s_ff1_i32_b32": lambda a: kept(first_one(a, 32)),
    "s_flbit_i32_b32": lambda a: kept(leading(a, 32)), "s_flbit_i32": lambda a: kept(leading_signed(a, 32)),
    "s_sext_i32_i8": lambda a: kept(signed(a & 255, 8)), "s_sext_i32_i16": lambda a: kept(signed(a & 0xFFFF, 16)),
    "s_abs_i32": lambda a: nonzero(abs(signed(a))), "s_quadmask_b32": lambda a: nonzero(quads(a, 32, False)),
    "s_wqm_b32": lambda a: nonzero(quads(a, 32, True)),
}  # fmt: skip
UNARY_64: dict[str, Callable[[int], tuple[int, int | None]]] = {
    "s_mov_b64": kept, "s_not_b64": lambda a: nonzero(~a, 64), "s_brev_b64": lambda a: kept(reverse(a, 64)),
    "s_quadmask_b64": lambda a: nonzero(quads(a, 64, False), 64), "s_wqm_b64": lambda a: nonzero(quads(a, 64, True), 64),
}  # fmt: skip
FROM_64: dict[str, Callable[[int], tuple[int, int | None]]] = {  # the result has 32 bits
    "s_bcnt0_i32_b64": lambda a: nonzero(64 - popcount(a)), "s_bcnt1_i32_b64": lambda a: nonzero(popcount(a)),
    "s_ff0_i32_b64": lambda a: kept(first_one(~a & M64, 64)), "s_ff1_i32_b64": lambda a: kept(first_one(a, 64)),
    "s_flbit_i32_b64": lambda a: kept(leading(a, 64)), "s_flbit_i32_i64": lambda a: kept(leading_signed(a, 64)),
}  # fmt: skip
CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}  # fmt: skip
COMPARE: dict[str, Callable[[int, int], bool]] = {
    **{f"s_cmp_{name}_u32": condition for name, condition in CONDITIONS.items()},
    **{f"s_cmp_{name}_i32": (lambda a, b, c=condition: c(signed(a), signed(b))) for name, condition in CONDITIONS.items()},
    "s_bitcmp0_b32": lambda a, b: not a >> (b & 31) & 1, "s_bitcmp1_b32": lambda a, b: bool(a >> (b & 31) & 1),
}  # fmt: skip
COMPARE_64: dict[str, Callable[[int, int], bool]] = {
    "s_cmp_eq_u64": lambda a, b: a == b,
    "s_cmp_lg_u64": lambda a, b: a != b,
}
BIT_64 = {"s_bitcmp0_b64": lambda a, b: not a >> (b & 63) & 1, "s_bitcmp1_b64": lambda a, b: bool(a >> (b & 63) & 1)}
COMPARE_IMMEDIATE = {f"s_cmpk_{name}_{t}": (condition, t) for name, condition in CONDITIONS.items() for t in ("i32", "u32")}
EXEC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, e: a & e, "or": lambda a, e: a | e, "xor": lambda a, e: a ^ e, "andn2": lambda a, e: a & ~e,
    "orn2": lambda a, e: a | ~e,
    "nand": lambda a, e: ~(a & e), "nor": lambda a, e: ~(a | e), "xnor": lambda a, e: ~(a ^ e), "andn1": lambda a, e: ~a & e,
    "orn1": lambda a, e: ~a | e,
}  # fmt: skip

ROUNDS = 12


def operands(name: str, count: int) -> list[int]:
    random = np.random.default_rng(abs(hash(name)) % (1 << 32) if False else sum(map(ord, name)))
    return [int(x) for x in random.choice(WORDS, count)]


def wide(name: str, count: int) -> list[int]:
    parts = operands(name + "wide", 2 * count)
    return [low | high << 32 for low, high in zip(parts[::2], parts[1::2], strict=True)]


def add(text: str, inputs: dict[str, object], outputs: tuple[str, ...], expected: dict[str, int | None]) -> None:
    name = f"{text.split()[0]} #{sum(key.split(' ')[0] == text.split()[0] for key in CASES)}"
    CASES[name] = Case(text, inputs, outputs)
    EXPECTED[name] = {register: value for register, value in expected.items() if value is not None}


def pair(register: int, value: int) -> dict[str, int]:
    return {f"s{register}": value & M32, f"s{register + 1}": value >> 32 & M32}


CASES: dict[str, Case] = {}
EXPECTED: dict[str, dict[str, int]] = {}
for name, function in BINARY.items():
    values = operands(name, 2 * ROUNDS)
    for a, b in zip(values[::2], values[1::2], strict=True):
        value, scc = function(a, b)
        for before in (0, 1):
            add(
                f"{name} s20, s16, s17",
                {"s16": a, "s17": b, "scc": before},
                ("s20", "scc"),
                {"s20": value & M32, "scc": before if scc is None else scc},
            )
for name, function in BINARY_64.items():
    values = wide(name, 2 * ROUNDS)
    for a, b in zip(values[::2], values[1::2], strict=True):
        value, scc = function(a, b)
        add(
            f"{name} s[20:21], s[16:17], s[18:19]",
            pair(16, a) | pair(18, b),
            ("s20", "s21", "scc"),
            pair(20, value) | {"scc": scc},
        )
for name, function in SHIFT_64.items():
    for a, b in zip(wide(name, ROUNDS), operands(name, ROUNDS), strict=True):
        value, scc = function(a, b)
        add(
            f"{name} s[20:21], s[16:17], s18",
            pair(16, a) | {"s18": b},
            ("s20", "s21", "scc"),
            pair(20, value) | {"scc": scc},
        )
for a, b in zip(operands("s_bfm_b64", ROUNDS), operands("other", ROUNDS), strict=True):
    add("s_bfm_b64 s[20:21], s16, s17", {"s16": a, "s17": b}, ("s20", "s21"), pair(20, ((1 << (a & 63)) - 1) << (b & 63)))
for name, one in UNARY.items():
    for a in operands(name, ROUNDS):
        value, scc = one(a)
        add(f"{name} s20, s16", {"s16": a, "scc": 1}, ("s20", "scc"), {"s20": value & M32, "scc": 1 if scc is None else scc})
for name, one in UNARY_64.items():
    for a in wide(name, ROUNDS):
        value, scc = one(a)
        add(
            f"{name} s[20:21], s[16:17]",
            pair(16, a) | {"scc": 1},
            ("s20", "s21", "scc"),
            pair(20, value) | {"scc": 1 if scc is None else scc},
        )
for name, one in FROM_64.items():
    for a in [*wide(name, ROUNDS), 0, M64]:
        value, scc = one(a)
        add(
            f"{name} s20, s[16:17]",
            pair(16, a) | {"scc": 1},
            ("s20", "scc"),
            {"s20": value & M32, "scc": 1 if scc is None else scc},
        )
for name, condition in COMPARE.items():
    values = operands(name, 2 * ROUNDS) + [5, 5]
    for a, b in zip(values[::2], values[1::2], strict=True):
        add(f"{name} s16, s17", {"s16": a, "s17": b}, ("scc",), {"scc": int(condition(a, b))})
for name, condition in COMPARE_64.items():
    for a, b in [*zip(wide(name, 3), wide(name[::-1], 3), strict=True), (M64, M64), (1 << 32, 0)]:
        add(f"{name} s[16:17], s[18:19]", pair(16, a) | pair(18, b), ("scc",), {"scc": int(condition(a, b))})
for name, condition in BIT_64.items():
    for a, b in zip(wide(name, ROUNDS), operands(name, ROUNDS), strict=True):
        add(f"{name} s[16:17], s18", pair(16, a) | {"s18": b}, ("scc",), {"scc": int(condition(a, b))})
for name, (condition, kind) in COMPARE_IMMEDIATE.items():
    for a, b in [(0, 0), (0xFFFF, 0xFFFF), (M32, 0xFFFF), (0x8000, 0x8000), (5, 7), (7, 5), (0x80000000, 1)]:
        right = condition(signed(a), signed(b, 16)) if kind == "i32" else condition(a, b)
        add(f"{name} s16, {b:#x}", {"s16": a}, ("scc",), {"scc": int(right)})
for name, change in EXEC.items():
    mask, lanes = 0x00FF00FF12345678, 0x0F0F0F0FF00FF00F
    after = change(mask, lanes) & M64
    add(
        f"s_{name}_saveexec_b64 s[20:21], s[16:17]",
        pair(16, mask) | {"exec": lanes},
        ("s20", "s21", "exec", "scc"),
        pair(20, lanes) | {"exec": after, "scc": int(after != 0)},
    )
for name in ("andn1", "andn2"):
    mask, lanes = 0x00FF00FF12345678, 0x0F0F0F0FF00FF00F
    after = EXEC[name](mask, lanes) & M64
    add(
        f"s_{name}_wrexec_b64 s[20:21], s[16:17]",
        pair(16, mask) | {"exec": lanes},
        ("s20", "s21", "exec", "scc"),
        pair(20, after) | {"exec": after, "scc": int(after != 0)},
    )
for scc in (0, 1):
    for a, b in [(M32, 1), (5, 6), (0, 0), (6, 5)]:
        add(
            "s_addc_u32 s20, s16, s17",
            {"s16": a, "s17": b, "scc": scc},
            ("s20", "scc"),
            {"s20": (a + b + scc) & M32, "scc": int(a + b + scc > M32)},
        )
        add(
            "s_subb_u32 s20, s16, s17",
            {"s16": a, "s17": b, "scc": scc},
            ("s20", "scc"),
            {"s20": (a - b - scc) & M32, "scc": int(b + scc > a)},
        )
    add(
        "s_addc_u32 s20, s16, 0x12345678", {"s16": 1, "scc": scc}, ("s20",), {"s20": 0x12345679 + scc}
    )  # LLVM prints lit(0x12345678)
    add("s_cselect_b32 s20, s16, s17", {"s16": 1, "s17": 2, "scc": scc}, ("s20",), {"s20": 1 if scc else 2})
    add(
        "s_cselect_b64 s[20:21], s[16:17], s[18:19]",
        pair(16, 1 << 40) | pair(18, 2) | {"scc": scc},
        ("s20", "s21"),
        pair(20, 1 << 40 if scc else 2),
    )
    add("s_cmov_b32 s20, s16", {"s16": 1, "s20": 9, "scc": scc}, ("s20",), {"s20": 1 if scc else 9})
    add(
        "s_cmov_b64 s[20:21], s[16:17]",
        pair(16, 1 << 40) | pair(20, 9) | {"scc": scc},
        ("s20", "s21"),
        pair(20, 1 << 40 if scc else 9),
    )
    add("s_cmovk_i32 s20, 0xfffe", {"s20": 9, "scc": scc}, ("s20",), {"s20": M32 - 1 if scc else 9})
for value in (0x7FFF, 0x8000, 0xFFFF, 3):
    for a in (5, 0x7FFFFFFF, 0x80000000):
        total = signed(a) + signed(value, 16)
        add(
            f"s_addk_i32 s20, {value:#x}",
            {"s20": a},
            ("s20", "scc"),
            {"s20": total & M32, "scc": int(total != signed(total & M32))},
        )
        add(f"s_mulk_i32 s20, {value:#x}", {"s20": a}, ("s20",), {"s20": a * signed(value, 16) & M32})
    add(f"s_movk_i32 s20, {value:#x}", {}, ("s20",), {"s20": signed(value, 16) & M32})
for bit in (0, 7, 31, 39):
    for a in (0, M32):
        add("s_bitset0_b32 s20, s16", {"s16": bit, "s20": a}, ("s20",), {"s20": a & ~(1 << (bit & 31))})
        add("s_bitset1_b32 s20, s16", {"s16": bit, "s20": a}, ("s20",), {"s20": a | 1 << (bit & 31)})
        add(
            "s_bitset0_b64 s[20:21], s16",
            {"s16": bit} | pair(20, a << 20),
            ("s20", "s21"),
            pair(20, a << 20 & ~(1 << (bit & 63))),
        )
        add(
            "s_bitset1_b64 s[20:21], s16",
            {"s16": bit} | pair(20, a << 20),
            ("s20", "s21"),
            pair(20, a << 20 | 1 << (bit & 63)),
        )
add("s_bitreplicate_b64_b32 s[20:21], s16", {"s16": 0x80000005}, ("s20", "s21"), pair(20, 0xC000000000000033))
add("s_mov_b64 s[20:21], 1.0", {}, ("s20", "s21"), pair(20, 0x3FF0000000000000))
add("s_mov_b64 s[20:21], -5", {}, ("s20", "s21"), pair(20, M64 - 4))
# AMD's operand syntax in LLVM: literals of 32 bits are extended with zeros for B64 and U64, by their sign for I64.
add("s_mov_b64 s[20:21], 0xfffffff0", {}, ("s20", "s21"), pair(20, 0xFFFFFFF0))
add("s_and_b64 s[20:21], s[22:23], 0xfffffff0", {"s22": 5, "s23": 7}, ("s20", "s21"), pair(20, 0))
add("s_mov_b32 s20, 0.15915494", {}, ("s20",), {"s20": 0x3E22F983})
add("s_movrels_b32 s20, s16", {"s16": 1, "s17": 2, "s18": 3, "m0": 2}, ("s20",), {"s20": 3})
add("s_movrels_b64 s[20:21], s[16:17]", pair(16, 1) | pair(18, 3 << 40) | {"m0": 2}, ("s20", "s21"), pair(20, 3 << 40))
add("s_movreld_b32 s16, s20", {"s16": 0, "s17": 0, "s20": 7, "m0": 1}, ("s16", "s17"), {"s16": 0, "s17": 7})
add(
    "s_movreld_b64 s[16:17], s[20:21]",
    pair(16, 0) | pair(18, 0) | pair(20, 7 << 40) | {"m0": 2},
    ("s18", "s19"),
    pair(18, 7 << 40),
)
add("s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 4)", {}, ("s20",), {"s20": 0xF})  # denormals are kept
add(
    "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s16\n s_nop 2\n s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 4)",
    {"s16": 0xFFFFFFFE},
    ("s20",),
    {"s20": 0xE},
)
add(
    "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n s_nop 2\n s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 4)",
    {},
    ("s20",),
    {"s20": 0xC},
)
add(
    "s_getpc_b64 s[16:17]\n s_add_u32 s16, s16, 16\n s_addc_u32 s17, s17, 0\n s_setpc_b64 s[16:17]\n s_mov_b32 s20, 5",
    {"s20": 1},
    ("s20",),
    {"s20": 1},
)
add(
    "s_getpc_b64 s[16:17]\n s_add_u32 s16, s16, 16\n s_addc_u32 s17, s17, 0\n s_swappc_b64 s[18:19], s[16:17]\n s_branch 2\n"
    " s_mov_b32 s20, 5\n s_setpc_b64 s[18:19]",
    {"s20": 1},
    ("s20",),
    {"s20": 5},
)
add(
    "s_call_b64 s[16:17], 1\n s_branch 2\n s_mov_b32 s20, 5\n s_setpc_b64 s[16:17]\n s_nop 0",
    {"s20": 1},
    ("s20",),
    {"s20": 5},
)
# Nothing that a kernel could see.
WITHOUT_EFFECT = """v_nop, s_nop 3, s_sleep 1, s_setprio 2, s_sethalt 0, s_setkill 0, s_wakeup, s_ttracedata, s_sendmsg 4,
  s_incperflevel 1, s_decperflevel 1, s_icache_inv, s_dcache_inv, s_dcache_wb, s_dcache_inv_vol, s_dcache_wb_vol, ds_nop,
  s_cbranch_cdbgsys 1, s_cbranch_cdbguser 1, v_clrexcp"""
for text in map(str.strip, WITHOUT_EFFECT.split(",")):
    state = {"scc": 1, "vcc": 0x123456789, "exec": 0xFF00FF, "m0": 7, "s20": 3}
    add(f"{text}\n s_add_u32 s20, s20, 0\n s_cmp_eq_u32 s20, 3", state, tuple(state), state)
# Time goes on.
for clock in ("s_memtime", "s_memrealtime"):
    later = f"{clock} s[16:17]\n s_nop 3\n {clock} s[18:19]\n s_waitcnt lgkmcnt(0)\n s_cmp_lt_u32 s16, s18\n"
    later += " s_cselect_b32 s20, 1, 0"
    add(later, {"s20": 0}, ("s20",), {"s20": 1})
for condition, taken in [
    ("scc0", {"scc": 0}),
    ("scc1", {"scc": 1}),
    ("vccz", {"vcc": 0}),
    ("vccnz", {"vcc": 1 << 40}),
    ("execz", {"exec": 0}),
    ("execnz", {}),
]:
    other = {
        "scc0": {"scc": 1},
        "scc1": {"scc": 0},
        "vccz": {"vcc": 1},
        "vccnz": {"vcc": 0},
        "execz": {},
        "execnz": {"exec": 0},
    }[condition]
    add(f"s_cbranch_{condition} 1\n s_mov_b32 s20, 5", taken | {"s20": 1}, ("s20",), {"s20": 1})
    add(f"s_cbranch_{condition} 1\n s_mov_b32 s20, 5", other | {"s20": 1}, ("s20",), {"s20": 5})


MNEMONICS = sorted({name.split()[0] for name in CASES})


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("mnemonic", MNEMONICS)
def test_scalar(mnemonic: str, architecture: str) -> None:
    for name in (name for name in CASES if name.split()[0] == mnemonic):
        got = run_case(__name__, name, architecture)
        for register, value in EXPECTED[name].items():
            result = int(got[register]) if register in ("exec", "vcc") else int(got[register][0])
            assert result == value, f"{CASES[name].text} {CASES[name].inputs}: {register} is {result:#x}, not {value:#x}"
