"""What a trace has of each instruction of a workgroup, what the workgroup moved, and launches of a part of the grid."""

from __future__ import annotations

import numpy as np
import pytest
from emulator import ALL, COVERAGE, TRACE, Report, kernel_code, launch, output
from planted import LOAD, START, STORE, WAIT, run


def moved(report: Report) -> tuple[list[int], list[int]]:
    """(bytes, distinct bytes) of loads and of stores."""
    loaded, stored = ([report.traffic[way + what] for what in ("", "_distinct")] for way in ("loaded", "stored"))
    return loaded, stored


def blocks(*ranges: tuple[int, int]) -> int:
    """Of 64 bytes, which ranges of addresses touch."""
    return sum((end - 1) // 64 - begin // 64 + 1 for begin, end in ranges)


def test_trace() -> None:
    n = 512
    a, b, c = np.zeros(n, np.float32), np.zeros(n, np.float32), output(n)
    code = kernel_code("vector_add", "gfx942", "-O3")
    report = launch(code, "vadd", [a, b, c, np.int32(n)], (2,), (256,), checks=ALL | TRACE, traced_workgroup=1)
    assert report.clean
    assert moved(report) == ([2048, 2048], [1024, 1024])
    halves = [(array.ctypes.data + 1024, array.ctypes.data + 2048) for array in (a, b, c)]
    assert report.traffic["loaded_blocks"] == blocks(*halves[:2]) and report.traffic["stored_blocks"] == blocks(halves[2])
    lines = dict(line.split(maxsplit=1) for line in code.disassembly("vadd").splitlines())
    texts = {int(address, 16): text for address, text in lines.items()}
    waves = {wave: [step for step in report.trace if step[1] == wave] for wave in range(4)}
    assert sum(map(len, waves.values())) == len(report.trace) == report.instructions // 2
    for steps in waves.values():
        names = [texts[step[0]].split()[0] for step in steps]
        assert names[-1] == "s_endpgm" and names.count("global_store_dword") == 1
        memory = [step for step in steps if texts[step[0]].startswith("global")]
        assert sum(step[3] for step in memory) == 3 * 256
        (stored,) = [step for step in memory if "store" in texts[step[0]]]
        begin = c.ctypes.data + 1024 + 256 * stored[1]
        assert stored[4:] == [0, 0, begin, begin + 256]
        assert all(len(step) == 2 for step in steps if not texts[step[0]].startswith(("global", "ds_")))


def test_coverage_is_of_all_waves_and_workgroups() -> None:
    branches = "".join(
        f" s_cmp_eq_u32 s2, {group}\n s_cbranch_scc0 .Lnot{group}\n s_nop {group}\n.Lnot{group}:\n" for group in range(4)
    )
    launches = {
        checks: run(START + branches, threads=128, grid=3, checks=checks) for checks in (COVERAGE, ALL | COVERAGE, ALL)
    }
    assert all(report.clean for report in launches.values())
    covered = launches[COVERAGE].executed
    # 3 instructions to begin with, 3 for each workgroup's number, of which nobody has the last one, and the end.
    assert len(covered) == 3 + 12 - 1 + 1 and covered == sorted(covered) == launches[ALL | COVERAGE].executed
    assert launches[ALL].executed == []


def test_traffic_counts_each_byte_once() -> None:
    body = START + LOAD + WAIT + LOAD + WAIT + " v_and_b32_e32 v1, 0x7c, v1\n" + STORE
    report = run(body, checks=TRACE)
    assert moved(report) == ([512, 256], [256, 128])


def test_trace_of_lds() -> None:
    fetch = " s_mov_b32 m0, 0\n s_nop 1\n global_load_lds_dword v1, s[4:5]\n"
    report = run(START + fetch + WAIT + " ds_read_b32 v2, v1\n" + WAIT + STORE, lds=256, checks=TRACE)
    ranges = [(step[4:6], step[7] - step[6]) for step in report.trace if len(step) > 2]
    assert ranges == [([0, 256], 256), ([0, 256], 0), ([0, 0], 256)]


@pytest.mark.parametrize(("first", "count", "run_there"), [(0, 0, 7), (2, 3, 3), (5, 9, 2), (6, 0, 1)])
def test_a_part_of_the_grid(first: int, count: int, run_there: int) -> None:
    n = 7 * 256
    a, b, c = np.ones(n, np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
    code = kernel_code("vector_add", "gfx942", "-O3")
    arguments = [a, b, c, np.int32(n)]
    report = launch(code, "vadd", arguments, (7,), (256,), first_workgroup=first, workgroups=count)
    assert report.clean
    assert np.flatnonzero(c).tolist() == list(range(256 * first, 256 * (first + run_there)))
