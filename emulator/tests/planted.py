"""What the tests with planted faults share: how a body of instructions is run."""

from __future__ import annotations

import numpy as np
from assembly import assemble, kernel_text
from emulator import ALL, Report, launch, output

# v1 = 4 * thread; arguments: s[4:5] input, s[6:7] output.
START = " v_lshlrev_b32_e32 v1, 2, v0\n s_load_dwordx4 s[4:7], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n"
LOAD = " global_load_dword v2, v1, s[4:5]\n"
STORE = " global_store_dword v1, v2, s[6:7]\n"
WAIT = " s_waitcnt vmcnt(0) lgkmcnt(0)\n"
LDS_WAIT, BARRIER = " s_waitcnt lgkmcnt(0)\n", " s_barrier\n"


def run(
    body: str,
    architecture: str = "gfx942",
    *,
    threads: int = 64,
    grid: int = 1,
    lds: int = 0,
    words: int = 0,
    **options: object,
) -> Report:
    frame = {k: options.pop(k) for k in ("registers", "accumulators_at", "scratch", "directives") if k in options}
    code = assemble(architecture, kernel_text("k", body, lds=lds, **frame))
    count = words or threads * grid
    arguments = [np.arange(count, dtype=np.uint32), output(count, np.uint32)]
    options.setdefault("checks", ALL)
    return launch(code, "k", arguments, (grid,), (threads,), **options)


def only(report: Report) -> dict[str, object]:
    assert len(report.findings) == 1, report.text
    return report.findings[0]
