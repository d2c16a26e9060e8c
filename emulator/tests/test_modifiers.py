"""DPP and SDWA: which lane or part of a register a source comes from and where a result goes, after the tables of AMD's
CDNA3 ISA document (sections DPP and SDWA)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from assembly import LANES, Case, on_each_architecture, run_case, words
from emulator import Array

A, B, BEFORE = words(1), words(2), words(3)
ALL_LANES = (1 << LANES) - 1
NONE = -1

CONTROLS: dict[str, Callable[[int], int]] = {
    "quad_perm:[1,0,3,2]": lambda k: k ^ 1,
    "quad_perm:[3,3,0,1]": lambda k: k & ~3 | (3, 3, 0, 1)[k & 3],
    "row_shl:3": lambda k: k + 3 if k % 16 + 3 < 16 else NONE,
    "row_shr:1": lambda k: k - 1 if k % 16 else NONE,
    "row_shr:15": lambda k: k - 15 if k % 16 == 15 else NONE,
    "row_ror:8": lambda k: k & ~15 | (k - 8) % 16,
    "row_ror:3": lambda k: k & ~15 | (k - 3) % 16,
    "wave_shl:1": lambda k: k + 1 if k < 63 else NONE,
    "wave_rol:1": lambda k: (k + 1) % 64,
    "wave_shr:1": lambda k: k - 1 if k else NONE,
    "wave_ror:1": lambda k: (k - 1) % 64,
    "row_mirror": lambda k: k & ~15 | 15 - k % 16,
    "row_half_mirror": lambda k: k & ~7 | 7 - k % 8,
    "row_bcast:15": lambda k: (k & ~15) - 1 if k >= 16 else NONE,
    "row_bcast:31": lambda k: 31 if k >= 32 else NONE,
    "row_newbcast:3": lambda k: k & ~15 | 3,
}
CASES: dict[str, Case] = {}
EXPECTED: dict[str, dict[str, Array]] = {}


def moved(
    source: Callable[[int], int], exec_mask: int, rows: int, banks: int, bound: bool, compute: Callable[[int, int], int]
) -> Array:
    out = BEFORE.copy()
    for lane in range(LANES):
        enabled = exec_mask >> lane & 1 and rows >> lane // 16 & 1 and banks >> lane // 4 % 4 & 1
        at = source(lane)
        readable = at != NONE and exec_mask >> at & 1
        if enabled and (readable or bound):
            out[lane] = compute(int(A[at]) if readable else 0, lane) & 0xFFFFFFFF
    return out


for control, source in CONTROLS.items():
    for rows, banks, bound, exec_mask in (
        (15, 15, False, ALL_LANES),
        (15, 15, True, ALL_LANES),
        (0xA, 0x5, False, ALL_LANES),
        (15, 15, False, 0xF0F0FFFF0FF0FFFE),
    ):
        text = f"{control} row_mask:{rows:#x} bank_mask:{banks:#x}{' bound_ctrl:0' if bound else ''}"
        name = f"{text} exec {exec_mask:#x}"
        CASES[name] = Case(f"v_mov_b32_dpp v0, v1 {text}", {"v0": BEFORE, "v1": A, "exec": exec_mask})
        EXPECTED[name] = {"v0": moved(source, exec_mask, rows, banks, bound, lambda a, lane: a)}
text = "row_shr:1 row_mask:0xf bank_mask:0xf"
CASES["second source is not moved"] = Case(f"v_sub_u32_dpp v0, v1, v2 {text}", {"v0": BEFORE, "v1": A, "v2": B})
EXPECTED["second source is not moved"] = {
    "v0": moved(CONTROLS["row_shr:1"], ALL_LANES, 15, 15, False, lambda a, lane: a - int(B[lane]))
}
CASES["negated"] = Case(f"v_max_u32_dpp v0, v1, v2 {text}", {"v0": BEFORE, "v1": A, "v2": B})
EXPECTED["negated"] = {"v0": moved(CONTROLS["row_shr:1"], ALL_LANES, 15, 15, False, lambda a, lane: max(a, int(B[lane])))}
for control in ("row_newbcast:3",):
    low, high = A, B
    at = np.array([CONTROLS[control](k) for k in range(LANES)])
    CASES["64 bits"] = Case(
        f"v_mov_b64_dpp v[4:5], v[2:3] {control} row_mask:0xf bank_mask:0xf",
        {"v2": A, "v3": B, "v4": 0, "v5": 0},
        ("v4", "v5"),
    )
    EXPECTED["64 bits"] = {"v4": low[at], "v5": high[at]}

PARTS = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def part(value: Array, selection: str, extend: bool = False) -> Array:
    at, count = PARTS[selection]
    picked = value.astype(np.int64) >> at & (1 << count) - 1
    return np.where(picked >> count - 1, picked - (1 << count), picked) if extend else picked


def placed(value: Array, selection: str, unused: str) -> Array:
    at, count = PARTS[selection]
    mask = (1 << count) - 1 << at
    shifted = value.astype(np.int64) << at & mask
    if unused == "UNUSED_PRESERVE":
        shifted |= BEFORE.astype(np.int64) & ~mask
    if unused == "UNUSED_SEXT":
        shifted |= np.where(value.astype(np.int64) >> count - 1 & 1, ~((1 << at + count) - 1), 0)
    return (shifted & 0xFFFFFFFF).astype(np.uint32)


for first in PARTS:
    for second in ("BYTE_1", "WORD_1", "DWORD"):
        name = f"sources {first} {second}"
        CASES[name] = Case(
            f"v_sub_u32_sdwa v0, v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{first} src1_sel:{second}",
            {"v0": BEFORE, "v1": A, "v2": B},
        )
        EXPECTED[name] = {"v0": (part(A, first) - part(B, second) & 0xFFFFFFFF).astype(np.uint32)}
    name = f"sign-extended {first}"
    CASES[name] = Case(
        f"v_sub_u32_sdwa v0, sext(v1), v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{first} src1_sel:DWORD",
        {"v0": BEFORE, "v1": A, "v2": B},
    )
    EXPECTED[name] = {"v0": (part(A, first, True) - B.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)}
    for unused in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"):
        if first == "DWORD":
            continue
        name = f"destination {first} {unused}"
        CASES[name] = Case(
            f"v_xor_b32_sdwa v0, v1, v2 dst_sel:{first} dst_unused:{unused} src0_sel:DWORD src1_sel:DWORD",
            {"v0": BEFORE, "v1": A, "v2": B},
        )
        EXPECTED[name] = {"v0": placed(A ^ B, first, unused)}
HALF = np.float16([1.5, -2, 0.25, 1000] * 16)
CASES["half of a float"] = Case(
    "v_cvt_f32_f16_sdwa v0, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
    {"v1": HALF.view(np.uint16).astype(np.uint32) << 16},
)
EXPECTED["half of a float"] = {"v0": HALF.astype(np.float32).view(np.uint32)}
CASES["float modifiers"] = Case(
    "v_add_f32_sdwa v0, -v1, |v2| dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD",
    {"v1": HALF.astype(np.float32), "v2": -HALF.astype(np.float32)},
)
EXPECTED["float modifiers"] = {"v0": (-HALF.astype(np.float32) + np.abs(HALF.astype(np.float32))).view(np.uint32)}
CASES["comparison"] = Case(
    "v_cmp_eq_u32_sdwa s[20:21], v1, v2 src0_sel:BYTE_0 src1_sel:BYTE_1", {"v1": A, "v2": A << np.uint32(8)}, ("s20", "s21")
)
EXPECTED["comparison"] = {"s20": np.full(LANES, 0xFFFFFFFF, np.uint32), "s21": np.full(LANES, 0xFFFFFFFF, np.uint32)}


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_modifier(name: str, architecture: str) -> None:
    got = run_case(__name__, name, architecture)
    for register, value in EXPECTED[name].items():
        np.testing.assert_array_equal(got[register], value, err_msg=f"{CASES[name].text}: {register}")
