"""The judgement of a kernel as text, as a table and for machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxator.judge.gates import Gate
from jaxator.judge.measure import Measures

DISCLAIMER = "emulator-verified, schedule-modelled, not run on hardware"


def text(m: Measures, gates: Sequence[Gate]) -> str:
    grid, block = ("x".join(map(str, extent)) for extent in (m.geometry.grid, m.geometry.block))
    lines = [
        f"{m.kernel} on {m.architecture}, grid {grid}, block {block}",
        f"  {DISCLAIMER}",
        f"  registers   {m.vector_registers} vector, {m.accumulation_registers} accumulation, "
        f"{m.scalar_registers} scalar; {m.spills} spilled, {m.scratch_bytes} bytes of scratch",
        f"  LDS         {m.lds_bytes} bytes, {m.lds_cycles} cycles, {m.lds_conflict_free_cycles} without bank conflicts",
        f"  residency   {m.resident} workgroups of {m.geometry.waves} waves on a compute unit",
    ]
    if m.loop is not None:
        inside = f"{len(m.loop.texts)} instructions from {m.loop.begin:#x}, {m.loop.matrix} MFMA, {m.loop.copies} copies"
        lines.append(f"  loop        {inside}")
    lines += _matrix_lines(m) if m.bound == "matrix" else _memory_lines(m)
    if m.mca_share is not None:
        lines.append(f"  llvm-mca    {m.mca_share:.3f} for the loop of one wave alone")
    stalls = ", ".join(f"{name} {share:.3f}" for name, share in m.schedule.stalls.items() if share >= 0.0005)
    lines.append(f"  waits       {stalls or 'none'} (share of a wave's time, modelled)")
    lines += [f"  finding     {finding}" for finding in m.findings]
    lines += [f"  {'passed' if gate.passed else 'FAILED':10}  {gate}" for gate in gates]
    return "\n".join(lines)


def _matrix_lines(m: Measures) -> list[str]:
    needs = ", ".join(f"{name} {need:.2f}" for name, need in m.schedule.bounds.items())
    return [
        f"  matrix      {m.schedule.steady:.3f} of matrix-core time in the steady part, {m.schedule.whole:.3f} in all "
        f"({m.schedule.clocks} clocks, modelled)",
        f"  needs       {needs} (clocks over those of the matrix cores)",
    ]


def _memory_lines(m: Measures) -> list[str]:
    memory = m.memory
    loaded = f"{memory.loaded} bytes loaded ({memory.loaded_distinct} distinct, {memory.wide_share:.0%} by 16 a lane)"
    stored = f"{memory.stored} stored ({memory.stored_distinct} distinct)"
    return [
        f"  moved       {loaded}, {stored}, {memory.block_share:.0%} of the 64-byte blocks used",
        f"  in flight   up to {memory.in_flight} bytes of loads on a compute unit; at the assumed latency "
        f"{memory.in_flight_needed} keep HBM busy",
    ]


def table(judged: Sequence[tuple[Measures, Sequence[Gate]]]) -> str:
    """Markdown, one line a kernel."""
    rows = [
        "| kernel | target | registers | scratch, spills | LDS cycles | copies | share or bytes in flight | gates |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for m, gates in judged:
        failed = [gate.name for gate in gates if not gate.passed]
        if m.bound == "matrix":
            figure = f"{m.schedule.steady:.3f} of matrix-core time"
        else:
            figure = f"{m.memory.in_flight} of {m.memory.in_flight_needed} bytes"
        cells = [
            f"`{m.kernel}`",
            m.architecture,
            f"{m.vector_registers} + {m.accumulation_registers}",
            f"{m.scratch_bytes}, {m.spills}",
            f"{m.lds_cycles} / {m.lds_conflict_free_cycles}",
            str(m.loop.copies if m.loop else 0),
            figure,
            ", ".join(failed) or "passed",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def as_dict(m: Measures, gates: Sequence[Gate]) -> dict[str, Any]:
    """For JSON."""
    fields = dataclasses.asdict(m) | {"bound": m.bound, "disclaimer": DISCLAIMER}
    if m.loop is not None:
        begin, end, length = m.loop.begin, m.loop.end, len(m.loop.texts)
        fields["loop"] = dict(begin=begin, end=end, instructions=length, matrix=m.loop.matrix, copies=m.loop.copies)
    fields["gates"] = [dataclasses.asdict(gate) | {"passed": gate.passed} for gate in gates]
    return fields
