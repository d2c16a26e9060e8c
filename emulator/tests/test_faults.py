"""Faults that end a launch, requests that are refused, bank conflicts."""

from __future__ import annotations

import pytest
from assembly import assemble, kernel_text
from emulator import ARCHITECTURES, EmulatorError, launch
from planted import LDS_WAIT, LOAD, START, WAIT, only, run

# ---- faults that end a launch ----------------------------------------------------------------------------------------


def test_out_of_bounds_global() -> None:
    report = run(START + " v_add_u32_e32 v1, 4, v1\n" + LOAD + WAIT)
    finding = only(report)
    assert not report.completed and finding["kind"] == "out of bounds"
    assert "byte 256 of argument 0 (256 bytes)" in finding["message"] and finding["lane"] == 63


def test_out_of_bounds_lds() -> None:
    finding = only(run(START + " ds_write_b32 v1, v0 offset:4\n" + WAIT, lds=256))
    assert finding["kind"] == "out of bounds" and "offset 256 of LDS, which has 256" in finding["message"]


def test_out_of_bounds_scratch() -> None:
    finding = only(run(START + " scratch_store_dword off, v0, off offset:16\n" + WAIT, scratch=16))
    assert finding["kind"] == "out of bounds" and "scratch" in finding["message"]


def test_register_that_the_kernel_does_not_have() -> None:
    finding = only(run(START + " v_mov_b32_e32 v40, v0\n", registers=32, accumulators_at=32))
    assert finding["kind"] == "out of bounds" and "v40" in finding["message"]


def test_unknown_instruction() -> None:
    report = run(START + " s_atomic_add s8, s[4:5], 0x0\n" + WAIT)
    finding = only(report)
    assert not report.completed and finding["kind"] == "unknown instruction" and "s_atomic_add" in finding["message"]


def test_unknown_modifier() -> None:
    finding = only(run(START + " ds_swizzle_b32 v2, v0 offset:0xe000\n" + WAIT))
    assert finding["kind"] == "unknown instruction" and "FFT" in finding["message"]


def test_trap() -> None:
    assert only(run(" s_trap 2\n"))["kind"] == "trap"


def test_endless_loop_ends() -> None:
    report = run(START + ".Lloop:\n s_nop 0\n s_branch .Lloop\n", time_limit_s=0.2)
    finding = only(report)
    assert (
        not report.completed
        and finding["kind"] == "no progress"
        and "0 of 1 workgroups are done; wave 0 at" in finding["message"]
    )


def test_barrier_that_not_all_waves_meet() -> None:
    body = START + " v_readfirstlane_b32 s8, v0\n s_cmp_eq_u32 s8, 0\n s_cbranch_scc1 .Lend\n s_barrier\n.Lend:\n"
    finding = only(run(body, threads=128))
    assert finding["kind"] == "mismatched barrier" and "wave 0 has ended after 0" in finding["message"]


# ---- requests that are refused ---------------------------------------------------------------------------------------


def test_too_much_lds() -> None:
    with pytest.raises(EmulatorError, match="LDS bytes=65792: gfx942 has 65536"):
        run(START, lds=65536, dynamic_lds=256)
    assert run(START, "gfx950", lds=65536, dynamic_lds=256).clean


def test_too_many_threads() -> None:
    with pytest.raises(EmulatorError, match="threads in a block=2048: the kernel was compiled for at most 1024"):
        code = assemble("gfx942", kernel_text("k", START))
        launch(code, "k", [], (1,), (1024, 2))


def test_too_many_registers_for_the_waves() -> None:
    with pytest.raises(EmulatorError, match="vector registers=512: with 8 waves in a workgroup a vector unit needs 1024"):
        run(START, threads=512, registers=512)


# ---- bank conflicts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bank_cycles(architecture: str) -> None:
    def cycles(shift: int) -> tuple[int, int]:
        body = START + f" v_lshlrev_b32_e32 v3, {shift}, v0\n ds_write_b32 v1, v0\n{LDS_WAIT} ds_read_b32 v2, v3\n{LDS_WAIT}"
        report = run(body, architecture, lds=16384, checks=4)
        use = next(b for b in report.banks if b["instruction"].startswith("ds_read"))
        return use["cycles"], use["conflict_free_cycles"]

    banks = 64 if architecture == "gfx950" else 32
    assert cycles(2) == (64 // banks, 64 // banks)  # a word a lane
    assert cycles(8)[0] == 64  # all lanes in one bank
    report = run(
        START + f" v_lshlrev_b32_e32 v3, 8, v0\n ds_write_b32 v3, v0\n{LDS_WAIT}", architecture, lds=16384, checks=4
    )
    assert "bank conflict at" in report.text
