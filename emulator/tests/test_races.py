"""Kernels whose accesses to LDS or to global memory nothing orders, and the same ones with what orders them."""

from __future__ import annotations

import numpy as np
import pytest
from assembly import assemble, kernel_text
from emulator import ALL, Report, launch
from planted import BARRIER, LDS_WAIT, START, STORE, WAIT, only, run

# Each wave writes its part of LDS and reads the next wave's.
EXCHANGE = (
    START
    + " ds_write_b32 v1, v0\n{first}{barrier} v_xor_b32_e32 v3, 0x100, v1\n ds_read_b32 v2, v3\n s_waitcnt lgkmcnt(0)\n"
    + STORE
)


def test_lds_exchange_is_ordered_by_wait_and_barrier() -> None:
    for seed in range(4):
        assert run(EXCHANGE.format(first=LDS_WAIT, barrier=BARRIER), threads=128, lds=512, seed=seed).clean


@pytest.mark.parametrize(("first", "barrier"), [("", BARRIER), (LDS_WAIT, ""), ("", "")])
def test_lds_race(first: str, barrier: str) -> None:
    for seed in range(4):
        report = run(EXCHANGE.format(first=first, barrier=barrier), threads=128, lds=512, seed=seed, checks=ALL & ~8)
        assert report.kinds() == {"LDS race"}, report.text
    assert any(
        f["instruction"] == "ds_read_b32 v2, v3" or f["instruction"] == "ds_write_b32 v1, v0" for f in report.findings
    )
    assert "nothing orders" in report.text


def test_lds_written_again_before_it_was_read() -> None:
    body = EXCHANGE.format(first=LDS_WAIT, barrier=BARRIER) + " {}ds_write_b32 v1, v1\n" + LDS_WAIT
    assert run(body.format("s_barrier\n "), threads=128, lds=512).clean
    assert run(body.format(""), threads=128, lds=512).kinds() == {"LDS race"}


# Wave 0 writes bytes that begin at `own`, wave 1 touches those that begin at `other`; no barrier between them.
TWO_WAVES = (
    START + " v_mov_b32_e32 v3, {own}\n v_readfirstlane_b32 s8, v0\n s_mov_b64 exec, 1\n s_cmp_eq_u32 s8, 0\n"
    " s_cbranch_scc0 .Lother\n ds_write_{first} v3, v3\n s_waitcnt lgkmcnt(0)\n s_endpgm\n"
    ".Lother:\n v_mov_b32_e32 v3, {other}\n {second}\n s_waitcnt lgkmcnt(0)\n"
)


@pytest.mark.parametrize("second", ["ds_write_b8 v3, v3", "ds_read_u8 v4, v3"])
@pytest.mark.parametrize("own", [32, 33, 34, 35])
def test_lds_races_are_told_to_a_byte(second: str, own: int) -> None:
    for other in range(30, 38):
        for seed in range(2):
            body = TWO_WAVES.format(first="b8", own=own, second=second, other=other)
            report = run(body, threads=128, lds=64, seed=seed, checks=2)
            assert report.kinds() == ({"LDS race"} if other == own else set()), (own, other, report.text)


@pytest.mark.parametrize(("first", "size"), [("b16", 2), ("b32", 4)])
def test_lds_races_of_a_byte_and_of_more(first: str, size: int) -> None:
    for other in range(30, 38):
        for seed in range(2):
            body = TWO_WAVES.format(first=first, own=32, second="ds_write_b8 v3, v3", other=other)
            report = run(body, threads=128, lds=64, seed=seed, checks=2)
            assert report.kinds() == ({"LDS race"} if 32 <= other < 32 + size else set()), (other, report.text)


def test_a_byte_after_many_at_once_in_lds() -> None:
    """What was known of 16 bytes as a whole holds for each: wave 1 writes one byte of what wave 0 read, or one behind it."""
    for other in (*range(16, 32), 15, 32):
        body = TWO_WAVES.format(first="b8", own=0, second="ds_write_b8 v3, v3", other=other)
        body = body.replace("ds_write_b8 v3, v3", "v_mov_b32_e32 v3, 16\n ds_read_b128 v[4:7], v3", 1)
        for seed in range(2):
            report = run(body, threads=128, lds=64, seed=seed, checks=2)
            assert report.kinds() == ({"LDS race"} if 16 <= other < 32 else set()), (other, report.text)


def test_fetch_to_lds_needs_its_wait() -> None:
    body = (
        START
        + " s_mov_b32 m0, 0\n s_nop 1\n global_load_lds_dword v1, s[4:5]\n{} ds_read_b32 v2, v1\n s_waitcnt lgkmcnt(0)\n"
        + STORE
    )
    assert run(body.format(" s_waitcnt vmcnt(0)\n"), lds=256).clean
    finding = only(run(body.format(""), lds=256))
    assert finding["kind"] == "LDS race" and "fetch of wave 0" in finding["message"]


def test_lds_atomics_do_not_race() -> None:
    body = (
        START + " v_mov_b32_e32 v2, 0\n ds_write_b32 v2, v2\n s_waitcnt lgkmcnt(0)\n s_barrier\n ds_add_u32 v2, v0\n"
        " s_waitcnt lgkmcnt(0)\n"
    )
    zero = START + " v_mov_b32_e32 v2, 0\n v_mov_b32_e32 v3, 1\n s_barrier\n ds_add_u32 v2, v3\n s_waitcnt lgkmcnt(0)\n"
    assert run(zero, threads=256, lds=256, checks=ALL & ~8).clean
    assert run(body, threads=256, lds=256).kinds() == {"LDS race"}  # all waves write the zero


def test_global_race_within_a_workgroup() -> None:
    body = (
        START
        + " global_store_dword v1, v0, s[6:7]\n{} v_xor_b32_e32 v3, 0x100, v1\n global_load_dword v2, v3, s[6:7]\n"
        + WAIT
    )
    assert run(body.format(" s_waitcnt vmcnt(0)\n s_barrier\n"), threads=128).clean
    for between in (" s_barrier\n", " s_waitcnt vmcnt(0)\n"):
        report = run(body.format(between), threads=128, checks=2)
        assert report.kinds() == {"global memory race"}, report.text
    assert "of argument 1" in report.text


def test_global_race_between_workgroups() -> None:
    finding = only(run(START + " v_mov_b32_e32 v2, s2\n global_store_dword v1, v2, s[6:7]\n", grid=2, checks=2))
    assert finding["kind"] == "global memory race" and "workgroup (" in finding["message"] and finding["count"] >= 1


def test_release_and_acquire_between_workgroups() -> None:
    # Workgroup 0 writes, releases and raises a flag; workgroup 1 waits for it, acquires and reads.
    writer = (
        " v_mov_b32_e32 v2, 7\n global_store_dword v1, v2, s[6:7] offset:256\n{wbl2} s_waitcnt vmcnt(0)\n"
        " v_mov_b32_e32 v4, 0\n v_mov_b32_e32 v5, 1\n global_store_dword v4, v5, s[6:7] sc1\n s_endpgm\n"
    )
    reader = (
        ".Lreader:\n v_mov_b32_e32 v4, 0\n.Lspin:\n global_load_dword v5, v4, s[6:7] sc1\n s_waitcnt vmcnt(0)\n"
        " v_cmp_ne_u32_e32 vcc, 1, v5\n s_nop 4\n s_cbranch_vccnz .Lspin\n"
        "{inv} global_load_dword v2, v1, s[6:7] offset:256\n s_waitcnt vmcnt(0)\n"
    )
    body = START + " s_cmp_eq_u32 s2, 0\n s_cbranch_scc0 .Lreader\n" + writer + reader
    wbl2, inv = " buffer_wbl2 sc1\n", " buffer_inv sc1\n"

    def go(**parts: str) -> Report:
        code = assemble("gfx942", kernel_text("k", body.format(**parts)))
        return launch(code, "k", [np.zeros(64, np.uint32), np.zeros(128, np.uint32)], (2,), (64,), checks=ALL)

    assert go(wbl2=wbl2, inv=inv).clean
    assert go(wbl2="", inv=inv).kinds() == {"global memory race"}
    assert go(wbl2=wbl2, inv="").kinds() == {"global memory race"}
