"""Kernels in which a wait is missing. The report has to name the register and the instruction; with the wait the kernel is
clean."""

from __future__ import annotations

import pytest
from emulator import ARCHITECTURES
from planted import LOAD, START, STORE, WAIT, only, run


def test_clean_kernel() -> None:
    assert run(START + LOAD + WAIT + STORE).clean


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_missing_vmcnt(architecture: str) -> None:
    finding = only(run(START + LOAD + " v_add_u32_e32 v2, 1, v2\n" + STORE, architecture, checks=1))
    assert finding["kind"] == "missing wait" and "v2 is used" in finding["message"] and "vmcnt" in finding["message"]
    assert finding["instruction"] == "v_add_u32_e32 v2, 1, v2" and finding["kernel"] == "k" and finding["wave"] == 0


def test_missing_lgkmcnt_of_scalar_load() -> None:
    finding = only(run(" s_load_dwordx2 s[4:5], s[0:1], 0x0\n s_add_u32 s8, s4, 1\n" + WAIT, checks=1))
    assert finding["kind"] == "missing wait" and "s4 is used" in finding["message"] and "lgkmcnt" in finding["message"]


def test_missing_lgkmcnt_of_lds() -> None:
    body = START + " ds_write_b32 v1, v0\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v2, v1\n" + STORE
    finding = only(run(body, lds=256, checks=1))
    assert "v2 is used" in finding["message"] and finding["instruction"].startswith("global_store_dword")


def test_wait_for_too_many() -> None:
    two = LOAD + " global_load_dword v3, v1, s[4:5]\n"
    assert run(START + two + " s_waitcnt vmcnt(1)\n" + STORE + WAIT).clean
    finding = only(run(START + two + " s_waitcnt vmcnt(1)\n v_add_u32_e32 v2, v2, v3\n" + STORE + WAIT, checks=1))
    assert "v3 is used" in finding["message"]


def test_overwritten_before_wait() -> None:
    finding = only(run(START + LOAD + " v_mov_b32_e32 v2, 0\n" + WAIT + STORE, checks=1))
    assert "v2 is written" in finding["message"]


def test_loads_of_one_queue_may_overwrite_each_other() -> None:
    halves = " global_load_short_d16 v2, v1, s[4:5]\n global_load_short_d16_hi v2, v1, s[4:5]\n"
    assert run(START + " v_mov_b32_e32 v2, 0\n" + halves + WAIT + STORE).clean
