"""Kernels in which wait states (s_nop) are missing that hardware does not insert. How many are needed is from LLVM's
GCNHazardRecognizer.cpp."""

from __future__ import annotations

import pytest
from planted import START, only, run

ZEROS = "".join(f" v_mov_b32_e32 v{k}, 0\n" for k in (4, 5, 12, 13, 14, 15))
PRODUCT = "v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[4:5],"
WRITES = " ".join(f"v_mov_b32_e32 v{k}, v0\n" for k in (3, 4, 5, 2))
# What is executed, the wait states that it needs at {nops}, and what the report speaks of.
HAZARDS = {
    "lane_number": ("v_readfirstlane_b32 s8, v0\n{nops} v_readlane_b32 s9, v1, s8", 4, "lane's number"),
    "vcc_and_div_fmas": ("v_cmp_eq_u32_e32 vcc, v0, v1\n{nops} v_div_fmas_f32 v2, v0, v0, v0", 4, "VCC"),
    "scalar_and_vector": ("v_readfirstlane_b32 s8, v0\n{nops} v_add_u32_e32 v2, s8, v0", 2, "s8"),
    "dpp": ("v_mov_b32_e32 v2, v0\n{nops} v_mov_b32_dpp v3, v2 row_shr:1 row_mask:0xf bank_mask:0xf", 2, "v2"),
    "exec_and_dpp": (
        "v_cmpx_eq_u32_e32 v0, v0\n{nops} v_mov_b32_dpp v2, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0",
        5,
        "EXEC",
    ),
    "swap": ("v_mov_b32_e32 v2, v0\n v_mov_b32_e32 v3, v0\n{nops} v_permlane32_swap_b32_e32 v2, v3", 2, "v3"),
    "exec_and_swap": ("v_cmpx_eq_u32_e32 v0, v0\n{nops} v_permlane16_swap_b32_e32 v0, v1", 4, "EXEC"),
    "transcendental": ("v_rcp_f32_e32 v2, v0\n{nops} v_add_f32_e32 v3, v2, v2", 1, "transcendental"),
    "part": (
        "v_mov_b32_e32 v2, 0\n s_nop 3\n v_mov_b32_sdwa v2, v0 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0\n"
        "{nops} v_add_u32_e32 v3, v2, v2",
        1,
        "in part",
    ),
    "readlane": ("v_mov_b32_e32 v2, v0\n{nops} v_readlane_b32 s8, v2, 3", 1, "v2"),
    "m0": ("s_mov_b32 m0, 0\n{nops} global_load_lds_dword v1, s[4:5]\n s_waitcnt vmcnt(0)", 1, "M0"),
    "matrix_after_vector": (f"v_mov_b32_e32 v5, 0\n{ZEROS}{{nops}} {PRODUCT} v[12:15]\n s_nop 15", 2, "v15"),
    "vector_after_matrix": (f"{ZEROS} s_nop 3\n {PRODUCT} 0\n{{nops}} v_add_f32_e32 v2, v8, v8\n s_nop 15", 7, "v8"),
    "matrix_after_matrix": (
        f"{ZEROS} s_nop 3\n v_mfma_f32_32x32x8_f16 v[16:31], v[4:5], v[4:5], 0\n"
        "{nops} v_mfma_f32_16x16x16_f16 v[8:11], v[16:17], v[4:5], 0\n s_nop 15\n s_nop 7",
        11,
        "v16",
    ),
    "overwritten_accumulator": (
        f"{ZEROS} s_nop 3\n {PRODUCT} v[12:15]\n{{nops}} v_mov_b32_e32 v12, 1\n s_nop 15",
        3,
        "v12",
    ),
    "wide_store": (
        f"{WRITES} v_lshlrev_b32_e32 v6, 4, v0\n global_store_dwordx4 v6, v[2:5], s[6:7]\n{{nops}} v_mov_b32_e32 v5, 1",
        2,
        "v5",
    ),
}


ONLY_GFX950 = {"swap", "exec_and_swap"}


@pytest.mark.parametrize("name", HAZARDS)
def test_hazard(name: str) -> None:
    text, needed, part = HAZARDS[name]
    architecture = "gfx950" if name in ONLY_GFX950 else "gfx942"
    for given in range(needed + 1):
        nops = f" s_nop {given - 1}\n" if given else ""
        report = run(START + " " + text.format(nops=nops) + "\n s_nop 15\n", architecture, lds=256, words=1024, checks=1)
        if given < needed:
            finding = only(report)
            assert finding["kind"] == "hazard" and part in finding["message"]
            assert f"{given} wait states before, {needed} are needed" in finding["message"]
        else:
            assert report.clean, report.text


def test_matrix_results_take_longer_on_gfx950() -> None:
    text, needed, _ = HAZARDS["vector_after_matrix"]
    body = START + " " + text.format(nops=f" s_nop {needed - 1}\n")
    assert run(body, "gfx942", checks=1).clean
    assert only(run(body, "gfx950", checks=1))["kind"] == "hazard"
