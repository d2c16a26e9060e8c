"""The issue model on traces made by hand, where the right answer can be counted, and how it reads instructions."""

from __future__ import annotations

import pytest

from jaxator.judge import Assumptions, simulate
from jaxator.judge.emulator import Step
from jaxator.judge.instructions import branch_target, matrix_passes, parse

ASSUMED = Assumptions()


def run(
    programs: list[list[str]], architecture: str = "gfx942", steps: dict[str, dict[str, int]] | None = None, **assumed: int
):
    """One wave for each list of instructions; `steps` says what an instruction moves."""
    texts = sorted({text for program in programs for text in program})
    addresses = {text: 4 * k for k, text in enumerate(texts)}
    trace = [
        Step(addresses[text], wave, **(steps or {}).get(text, {}))
        for wave, program in enumerate(programs)
        for text in program
    ]
    return simulate(trace, {a: t for t, a in addresses.items()}, architecture, assumptions=Assumptions(**assumed))


def chain(count: int, base: int = 0) -> list[str]:
    return [f"v_mfma_f32_16x16x16_bf16 v[{base}:{base + 3}], v[40:41], v[42:43], v[{base}:{base + 3}]"] * count


# ---- instructions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "passes"),
    {
        # 16, 32, 64 and 8 clocks, as AMD's matrix instruction calculator has them.
        "v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], 0": 4,
        "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], 0": 8,
        "v_mfma_f32_16x16x4_f32 v[0:3], v4, v5, 0": 8,
        "v_mfma_f32_32x32x2_f32 v[0:15], v16, v17, 0": 16,
        "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[4:5], v[6:7], 0": 2,
        "v_mfma_f32_32x32x4_2b_bf16 a[0:31], v[4:5], v[6:7], 0": 16,
        "v_mfma_f32_16x16x32_bf16 v[0:3], v[4:7], v[8:11], 0": 4,
        "v_mfma_f32_32x32x16_fp8_fp8 v[0:15], v[16:17], v[18:19], 0": 8,
        "v_mfma_f64_16x16x4_f64 v[0:7], v[8:9], v[10:11], 0": 8,
        "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:7], v[8:11], 0 cbsz:4 blgp:4": 4,
        "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], 0": 8,
        "v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[16:23], v[24:27], 0, v28, v29 op_sel_hi:[0,0,0] blgp:4": 16,
    }.items(),
)
def test_passes_of_matrix_instructions(name: str, passes: int) -> None:
    assert matrix_passes(name) == passes == parse(name).passes


def test_instructions_are_read() -> None:
    mfma = parse("v_mfma_f32_16x16x16_bf16 a[0:3], v[4:5], v[6:7], a[0:3]")
    assert mfma.kind == "matrix" and mfma.results == mfma.accumulator == tuple(("a", k) for k in range(4))
    assert mfma.sources == (("v", 4), ("v", 5), ("v", 6), ("v", 7))
    fetch = parse("buffer_load_dwordx4 v1, s[4:7], s8 offen lds")
    assert fetch.to_lds and not fetch.results and ("v", 1) in fetch.sources and fetch.lane_bytes == 16 and fetch.writes_lds
    wait = parse("s_waitcnt vmcnt(3) lgkmcnt(0)")
    assert (wait.vmcnt, wait.lgkmcnt) == (3, 0) and parse("s_waitcnt lgkmcnt(1)").vmcnt is None
    store = parse("global_store_dwordx2 v2, v[4:5], s[6:7]")
    assert store.is_store and not store.results and ("v", 5) in store.sources and store.lane_bytes == 8
    write = parse("ds_write_b64 v1, v[2:3] offset:8")
    assert write.kind == "lds" and write.writes_lds and not write.results
    read = parse("ds_read_b64_tr_b16 v[2:3], v1")
    assert read.results == (("v", 2), ("v", 3)) and not read.writes_lds
    assert parse("v_exp_f32_e32 v1, v2").transcendental and parse("s_nop 7").passes == 8
    assert parse("v_mov_b32_e32 v1, v2").copies and parse("v_accvgpr_read_b32 v1, a2").copies
    assert not parse("v_mov_b32_e32 v1, 0").copies and not parse("v_mov_b32_e32 v1, s2").copies
    assert ("vcc", 0) in parse("s_cbranch_vccnz 12").touched
    assert branch_target(0x100, parse("s_cbranch_scc1 65533")) == 0x100 + 4 - 12
    assert branch_target(0x100, parse("s_endpgm")) is None


# ---- matrix cores ----------------------------------------------------------------------------------------------------


def test_a_wave_on_each_simd_keeps_all_matrix_cores_busy() -> None:
    schedule = run([chain(64)] * 4)
    assert schedule.steady == 1 and schedule.clocks == pytest.approx(64 * 16, abs=16)


def test_one_wave_has_one_of_four_matrix_cores() -> None:
    assert run([chain(64)]).steady == pytest.approx(0.25)


def test_a_product_that_is_a_factor_waits_for_the_last_pass_and_the_tail() -> None:
    through = [
        "v_mfma_f32_16x16x16_bf16 v[0:3], v[0:1], v[42:43], v[4:7]",
        "v_mfma_f32_16x16x16_bf16 v[4:7], v[2:3], v[42:43], v[0:3]",
    ]
    # 4 passes, then 8 clocks: 6 passes from one to the next.
    assert run([through * 32] * 4).steady == pytest.approx(4 / 6, rel=0.05)
    assert run([through * 32] * 4, matrix_tail=24).steady == pytest.approx(4 / 10, rel=0.05)


def test_arithmetic_between_products_of_one_wave_is_hidden_by_another_wave() -> None:
    # A product has the pipe for 4 passes; three additions that depend on each other fit beside it.
    body = [*chain(1), *["v_add_f32_e32 v50, v50, v51"] * 3]
    alone, two = run([body * 32] * 4), run([body * 32] * 8)
    assert two.steady >= alone.steady == pytest.approx(1, rel=0.05)
    busy = run([[*chain(1), *["v_add_f32_e32 v50, v50, v51"] * 7] * 32] * 8)
    assert busy.bounds["vector"] == pytest.approx(7 / 4) and busy.steady == pytest.approx(4 / 8, rel=0.06)


def test_transcendentals_take_longer_on_gfx942() -> None:
    body = [*chain(1), "v_exp_f32_e32 v50, v51"]
    assert run([body * 8] * 4, "gfx942").bounds["vector"] == 1 and run([body * 8] * 4, "gfx950").bounds["vector"] == 0.5


# ---- memory, waits, barriers -----------------------------------------------------------------------------------------


def test_a_load_takes_its_latency() -> None:
    load, wait = "global_load_dword v1, v2, s[4:5]", "s_waitcnt vmcnt(0)"
    steps = {load: {"global_bytes": 256}}
    one = run([[load, wait]], steps=steps)
    assert one.clocks == pytest.approx(800 + 256 / 64, abs=8) and one.stalls["vmcnt"] > 0.9
    assert run([[load] * 4 + [wait]], steps=steps).clocks == pytest.approx(800 + 4 * 256 / 64, abs=16)
    assert run([[load, wait] * 4], steps=steps).clocks == pytest.approx(4 * (800 + 256 / 64), abs=64)
    assert run([[load, wait]], steps=steps, vmem_latency=1500).clocks == pytest.approx(1500, abs=16)


def test_a_wait_with_a_count_lets_younger_loads_go_on() -> None:
    load = "global_load_dword v1, v2, s[4:5]"
    steps = {load: {"global_bytes": 6400}}  # 100 clocks each
    early = run([[load] * 3 + ["s_waitcnt vmcnt(2)"]], steps=steps)
    late = run([[load] * 3 + ["s_waitcnt vmcnt(0)"]], steps=steps)
    assert late.clocks - early.clocks == pytest.approx(200, abs=8)


def test_lds_conflicts_cost_time() -> None:
    body = ["ds_read_b128 v[0:3], v9"] * 64
    good, bad = (run([body], steps={body[0]: {"lds_cycles": cycles}}) for cycles in (8, 32))
    assert good.clocks == pytest.approx(64 * 8, rel=0.1) and bad.clocks == pytest.approx(64 * 32, rel=0.1)
    assert bad.stalls["LDS queue"] > 0.8


def test_waves_wait_at_a_barrier() -> None:
    schedule = run([["s_barrier"], chain(50) + ["s_barrier"]])
    assert schedule.clocks == pytest.approx(50 * 16, abs=40) and schedule.stalls["barrier"] > 0.4


def test_a_wave_that_ended_holds_nobody_up() -> None:
    assert run([["s_nop 0"], ["s_nop 0", "s_barrier", "s_nop 0"]]).clocks < 100


def test_priority_decides_who_issues() -> None:
    body = ["v_add_f32_e32 v50, v50, v51"] * 40
    quiet = ["s_nop 0"] * 3
    # Waves 0 and 4 are on one SIMD. The one with priority is never held up by the other.
    schedule = run([body, quiet, quiet, quiet, ["s_setprio 3", *body]])
    assert schedule.stalls["issue slot"] * 5 * schedule.clocks / 4 == pytest.approx(40, abs=4)
