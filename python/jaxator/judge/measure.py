"""What can be said of a kernel without hardware: its metadata, a run with every check, and a trace for the issue model."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from jaxator.judge.emulator import ALL_CHECKS, TRACE, Code, EmulatorError, Geometry, Step
from jaxator.judge.instructions import Instruction, branch_target, matrix_passes, parse
from jaxator.judge.launch import Launch
from jaxator.judge.model import SIMDS, Assumptions, Schedule, simulate

WIDEST_LOAD = 16  # bytes of a lane
MCA = "llvm-mca-22"
MCA_LIMIT_S = 20  # it has been seen to run for minutes


@dataclasses.dataclass(frozen=True)
class Chip:
    """Public numbers of the accelerators that have these compute units."""

    lds_bytes: int
    hbm_bytes_per_clock: float
    """Of one compute unit: bandwidth / compute units / highest clock."""


CHIPS = {
    "gfx942": Chip(64 << 10, 5.3e12 / 304 / 2.1e9),  # MI300X
    "gfx950": Chip(160 << 10, 8.0e12 / 256 / 2.4e9),  # MI355X
}
_REGISTERS, _REGISTER_GRANULE, _MOST_WAVES = 512, 8, 8  # of a SIMD


@dataclasses.dataclass(frozen=True)
class Loop:
    """The innermost loop that executes most MFMAs, or most instructions where there are none."""

    begin: int
    end: int
    texts: tuple[str, ...]

    @property
    def matrix(self) -> int:
        return sum(parse(text).kind == "matrix" for text in self.texts)

    @property
    def copies(self) -> int:
        return sum(parse(text).copies for text in self.texts)


@dataclasses.dataclass(frozen=True)
class Memory:
    """What the traced workgroup moved by vector memory instructions, in bytes."""

    loaded: int
    loaded_distinct: int
    loaded_blocks: int
    """Distinct blocks of 64 bytes."""
    stored: int
    stored_distinct: int
    stored_blocks: int
    loaded_widest: int
    """By loads of 16 bytes a lane."""
    in_flight: int
    """Loads that all waves of the workgroups on a compute unit can have under way at once."""
    in_flight_needed: int
    """For the assumed latency at full bandwidth."""

    @property
    def wide_share(self) -> float:
        return self.loaded_widest / self.loaded if self.loaded else 1.0

    @property
    def moved_over_least(self) -> float:
        least = self.loaded_distinct + self.stored_distinct
        return (self.loaded + self.stored) / least if least else 1.0

    @property
    def block_share(self) -> float:
        """Share of the touched 64-byte blocks that is used."""
        blocks = self.loaded_blocks + self.stored_blocks
        return (self.loaded_distinct + self.stored_distinct) / (64 * blocks) if blocks else 1.0


@dataclasses.dataclass(frozen=True)
class Measures:
    kernel: str
    architecture: str
    geometry: Geometry
    vector_registers: int
    accumulation_registers: int
    scalar_registers: int
    lds_bytes: int
    scratch_bytes: int
    spills: int
    resident: int
    """Workgroups that fit on a compute unit."""
    findings: tuple[str, ...]
    lds_cycles: int
    lds_conflict_free_cycles: int
    loop: Loop | None
    matrix_instructions: int
    """Executed by the traced workgroup."""
    memory: Memory
    schedule: Schedule
    mca_share: float | None = None
    """llvm-mca's share of the loop's passes in which the matrix core is busy; it sees one wave alone."""

    @property
    def bound(self) -> str:
        """ "matrix" or "memory": which gates apply."""
        return "matrix" if self.matrix_instructions else "memory"


def measure(
    launch: Launch, *, seed: int = 0, traced_workgroup: int = 0, assumptions: Assumptions | None = None,
    with_mca: bool = False, time_limit_s: float = 0,
) -> Measures:  # fmt: skip
    """Runs a launch once with every check and a trace, and puts the trace through the model.

    Raises:
      EmulatorError: the launch is refused or does not come to its end.
    """
    assumptions = assumptions or Assumptions()
    code = Code(launch.image)
    info, instructions = code.kernel(launch.kernel), code.instructions(launch.kernel)
    options = {"seed": seed, "traced_workgroup": traced_workgroup, "time_limit_s": time_limit_s}
    report, _ = launch.run(checks=ALL_CHECKS | TRACE, **options)
    if not report.completed:
        raise EmulatorError(f"the launch of {launch.kernel} did not come to its end:\n{report.text}")
    resident = _resident(info, launch.geometry, code.architecture)
    loop = hottest_loop(report.trace, instructions)
    steps = [(parse(instructions[step.address]), step) for step in report.trace]
    has_matrix = any(i.kind == "matrix" for i, _ in steps)
    # A kernel for the matrix cores has the compute unit alone; others hide latency by all the waves that fit.
    groups = 1 if has_matrix else max(1, min(resident, launch.geometry.workgroups))
    return Measures(
        kernel=launch.kernel,
        architecture=code.architecture,
        geometry=launch.geometry,
        vector_registers=info["vector_registers"],
        accumulation_registers=info["accumulation_registers"],
        scalar_registers=info["scalar_registers"],
        lds_bytes=info["lds_bytes"] + launch.geometry.dynamic_lds,
        scratch_bytes=info["scratch_bytes"],
        spills=info["vector_spills"] + info["scalar_spills"],
        resident=resident,
        findings=tuple(f"{f['kind']} at {f['address']:#x} {f['instruction']}: {f['message']}" for f in report.findings),
        lds_cycles=sum(use["cycles"] for use in report.banks),
        lds_conflict_free_cycles=sum(use["conflict_free_cycles"] for use in report.banks),
        loop=loop,
        matrix_instructions=sum(i.kind == "matrix" for i, _ in steps),
        memory=_memory(steps, report.traffic, resident, code.architecture, assumptions),
        schedule=simulate(report.trace, instructions, code.architecture, groups, assumptions),
        mca_share=mca_share(loop, code.architecture) if with_mca and loop is not None and loop.matrix else None,
    )


def _resident(info: Mapping[str, int], geometry: Geometry, architecture: str) -> int:
    registers = info["vector_registers"] + info["accumulation_registers"]
    granules = -(-max(registers, 1) // _REGISTER_GRANULE)
    of_simd = min(_MOST_WAVES, _REGISTERS // (granules * _REGISTER_GRANULE))
    lds = info["lds_bytes"] + geometry.dynamic_lds
    by_lds = CHIPS[architecture].lds_bytes // lds if lds else _MOST_WAVES * SIMDS
    return min(of_simd * SIMDS // geometry.waves, by_lds)


# ---- loops -----------------------------------------------------------------------------------------------------------


def hottest_loop(trace: Sequence[Step], instructions: Mapping[int, str]) -> Loop | None:
    executed = Counter(step.address for step in trace)
    spans = []
    for address in executed:
        target = branch_target(address, parse(instructions[address]))
        # Executed at least twice as often as what is before the loop: its branch was taken.
        if target is not None and target <= address and executed[target] > 1:
            spans.append((target, address))
    innermost = [span for span in spans if not any(o != span and span[0] <= o[0] and o[1] <= span[1] for o in spans)]

    def heat(span: tuple[int, int]) -> tuple[int, int]:
        inside = [(count, parse(instructions[a])) for a, count in executed.items() if span[0] <= a <= span[1]]
        return sum(n for n, i in inside if i.kind == "matrix"), sum(n for n, _ in inside)

    if not innermost:
        return None
    begin, end = max(innermost, key=heat)
    return Loop(begin, end, tuple(text for address, text in instructions.items() if begin <= address <= end))


def mca_share(loop: Loop, architecture: str) -> float | None:
    """What llvm-mca thinks of the loop; None where it is missing or does not come to an end."""
    if shutil.which(MCA) is None:
        return None
    text = "\n".join(re.sub(r"^s_c?branch.*", "s_nop 0", line) for line in loop.texts) + "\n"
    rounds = 20
    command = [MCA, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={architecture}", f"-iterations={rounds}"]
    try:
        output = subprocess.run(command, input=text, capture_output=True, text=True, timeout=MCA_LIMIT_S).stdout
    except subprocess.TimeoutExpired:
        return None
    cycles = re.search(r"Total Cycles:\s+(\d+)", output)
    busy = sum(matrix_passes(line) for line in loop.texts if parse(line).kind == "matrix")
    return busy * rounds / int(cycles[1]) if cycles else None


# ---- memory ----------------------------------------------------------------------------------------------------------


def _memory(
    steps: Sequence[tuple[Instruction, Step]], traffic: Mapping[str, int], resident: int, architecture: str,
    assumptions: Assumptions,
) -> Memory:  # fmt: skip
    loads = [(i, step) for i, step in steps if i.kind == "vmem" and not i.is_store and not i.is_atomic]
    needed = CHIPS[architecture].hbm_bytes_per_clock * assumptions.vmem_latency
    return Memory(
        **traffic,
        loaded_widest=sum(step.global_bytes for i, step in loads if i.lane_bytes == WIDEST_LOAD),
        in_flight=max(resident, 1) * _in_flight(steps),
        in_flight_needed=int(needed),
    )


def _in_flight(steps: Sequence[tuple[Instruction, Step]]) -> int:
    """Bytes of loads that the waves of the workgroup have under way at the fullest moment of each."""
    queues: dict[int, deque[int]] = {}
    fullest: Counter[int] = Counter()
    for i, step in steps:
        queue = queues.setdefault(step.wave, deque())
        if i.kind == "vmem":
            queue.append(0 if i.is_store else step.global_bytes)
            fullest[step.wave] = max(fullest[step.wave], sum(queue))
        elif i.kind == "wait" and i.vmcnt is not None:
            while len(queue) > i.vmcnt:
                queue.popleft()
    return sum(fullest.values())
