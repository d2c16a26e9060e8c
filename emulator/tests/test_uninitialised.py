"""Kernels in which a value that nobody wrote decides something, and some in which it does not."""

from __future__ import annotations

import pytest
from planted import START, STORE, WAIT, only, run


def test_uninitialised_register_is_stored() -> None:
    finding = only(run(START + " v_add_u32_e32 v2, v5, v1\n" + STORE))
    assert finding["kind"] == "uninitialised value" and "argument 1" in finding["message"] and finding["lane"] == 0


def test_uninitialised_address() -> None:
    finding = only(run(START + " v_and_b32_e32 v3, 0xfc, v9\n global_load_dword v2, v3, s[4:5]\n" + WAIT))
    assert finding["kind"] == "uninitialised value" and "v3" in finding["message"]


def test_uninitialised_branch() -> None:
    finding = only(run(START + " s_cmp_eq_u32 s30, 0\n s_cbranch_scc1 .Lend\n s_nop 0\n.Lend:\n"))
    assert "branch" in finding["message"] and finding["instruction"].startswith("s_cbranch_scc1")


def test_uninitialised_exec() -> None:
    finding = only(run(START + " v_cmp_gt_u32_e32 vcc, v0, v9\n s_nop 4\n s_and_saveexec_b64 s[8:9], vcc\n"))
    assert "EXEC" in finding["message"]


# Each comes out the same for zeros and NaNs, and decides whether there is a branch.
FLOAT_DECISIONS = {
    "not_greater": "v_cmp_ngt_f32_e32 vcc, v9, v4",
    "not_less": "v_cmp_nlt_f32_e32 vcc, v9, v5",
    "not_greater_half": "v_cmp_ngt_f16_e32 vcc, v9, v6",
    "not_greater_double": "v_cmp_ngt_f64_e32 vcc, v[10:11], v[12:13]",
    "greatest": "v_max_f32_e32 v2, v9, v4\n v_cmp_gt_f32_e32 vcc, v2, v4",
    "least": "v_min_f32_e32 v2, v9, v5\n v_cmp_lt_f32_e32 vcc, v2, v5",
    "conversion": "v_cvt_u32_f32_e32 v2, v9\n v_cmp_lt_u32_e32 vcc, 5, v2",
}


@pytest.mark.parametrize("name", FLOAT_DECISIONS)
def test_uninitialised_float_decides(name: str) -> None:
    """v9 to v11 of each lane are from memory that nobody wrote."""
    constants = " v_mov_b32_e32 v4, 2.0\n v_mov_b32_e32 v5, -2.0\n v_mov_b32_e32 v6, 0x4000\n v_mov_b32_e32 v12, 0\n"
    constants += " v_mov_b32_e32 v13, 0x40000000\n"
    load = " global_load_dword v9, v1, s[6:7]\n global_load_dwordx2 v[10:11], v1, s[6:7]\n" + WAIT
    body = START + constants + load + f" {FLOAT_DECISIONS[name]}\n s_nop 4\n s_cbranch_vccnz .Lend\n s_nop 0\n.Lend:\n"
    finding = only(run(body, words=80))
    assert finding["kind"] == "uninitialised value" and "branch" in finding["message"]


def test_uninitialised_lds() -> None:
    body = START + " ds_read_b32 v2, v1\n s_waitcnt lgkmcnt(0)\n" + STORE
    assert only(run(body, lds=256))["kind"] == "uninitialised value"


def test_uninitialised_global_memory() -> None:
    body = START + " global_load_dword v2, v1, s[6:7]\n" + WAIT + STORE
    assert only(run(body))["kind"] == "uninitialised value"


def test_uninitialised_bits_that_decide_nothing() -> None:
    masked = START + " v_and_b32_e32 v2, 0, v9\n" + STORE
    same = START + " v_xor_b32_e32 v2, v9, v9\n" + STORE
    halves = START + " v_lshl_or_b32 v3, v9, 16, v0\n v_and_b32_e32 v2, 0xffff, v3\n" + STORE
    inactive = START + " s_mov_b64 exec, 0xff\n v_mov_b32_e32 v2, 1\n" + STORE
    for body in (masked, same, halves, inactive):
        assert run(body).clean


def test_a_column_that_nobody_stores_may_be_uninitialised() -> None:
    # Lanes 0 to 15 hold the columns of B: only column 3 (v6 of lanes 3, 19, 35, 51) is not set.
    body = (
        START
        + """ v_mov_b32_e32 v4, 1.0
 v_mov_b32_e32 v5, 1.0
 v_and_b32_e32 v7, 15, v0
 v_cmp_ne_u32_e32 vcc, 3, v7
 s_nop 4
 s_and_saveexec_b64 s[8:9], vcc
 v_mov_b32_e32 v6, 1.0
 v_mov_b32_e32 v7, 1.0
 s_mov_b64 exec, -1
 s_nop 7
 v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], 0
 s_nop 15
 v_mov_b32_e32 v2, v8
 {}s_and_saveexec_b64 s[8:9], vcc
"""
        + STORE
    )
    assert run(body.format("")).clean
    assert run(body.format("s_mov_b64 vcc, -1\n ")).kinds() == {"uninitialised value"}
