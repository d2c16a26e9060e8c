"""Issue model of one CDNA compute unit: how busy can the matrix cores be under this stream of instructions?

Input is the trace of one workgroup on the emulator: real addresses, so LDS conflicts are exact. The unit of time is a
pass, 4 clocks, in which a SIMD issues at most one instruction of each kind, each from another wave; MFMA and vector
arithmetic share the issue slot, not the pipe. Not modelled: cache misses (one constant latency), instruction fetch, banks of
registers, power, clocks. The result is an upper bound of the instruction stream, not a speed: nothing of it was calibrated
on hardware.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from jaxator.judge.emulator import Step
from jaxator.judge.instructions import Instruction, Register, parse

PASS = 4  # clocks
SIMDS = 4
_MOST_PASSES = 3_000_000


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """In clocks, and bytes a clock and compute unit. Change one and look again: it shows how much an answer leans on it."""

    lds_latency: int = 64
    vmem_latency: int = 800
    smem_latency: int = 200
    vector_latency: int = 4
    matrix_tail: int = 8
    """From the end of an MFMA to its results' use by another kind of instruction."""
    barrier: int = 8
    vmem_bytes: int = 64
    lds_write_bytes: int = 128
    """Of a fetch to LDS."""
    lds_queue: int = 32
    vmem_queue: int = 256
    """Clocks of work that a queue takes before waves wait."""
    transcendental: Mapping[str, int] = dataclasses.field(default_factory=lambda: {"gfx942": 16, "gfx950": 8})


@dataclasses.dataclass(frozen=True)
class Schedule:
    clocks: int
    steady: float
    """Share of matrix-core time that is used between a quarter and three quarters of the MFMAs."""
    whole: float
    """The same from the first clock to the last."""
    bounds: dict[str, float]
    """Clocks that each unit needs over those of the matrix cores; no latency is in them. Above 1: this unit limits."""
    stalls: dict[str, float]
    """What waves wait for -> share of their time."""


class _Wave:
    __slots__ = ("program", "next", "simd", "group", "number", "free", "ready", "vmem", "lgkm", "priority", "barriers",
                 "at_barrier", "stalls")  # fmt: skip

    def __init__(self, program: list[tuple[Instruction, Step]], number: int, group: int, simd: int) -> None:
        self.program, self.number, self.group, self.simd = program, number, group, simd
        self.next = self.free = self.priority = self.barriers = 0
        self.ready: dict[Register, tuple[float, float]] = {}  # for other instructions, and for an MFMA that adds to it
        self.vmem: deque[float] = deque()
        self.lgkm: deque[float] = deque()
        self.at_barrier = False
        self.stalls: Counter[str] = Counter()

    @property
    def done(self) -> bool:
        return self.next >= len(self.program)


def _passes(clocks: float) -> int:
    return math.ceil(clocks / PASS)


class _ComputeUnit:
    def __init__(self, architecture: str, waves: list[_Wave], waves_of_group: int, assumptions: Assumptions) -> None:
        self.assumptions, self.waves, self.waves_of_group = assumptions, waves, waves_of_group
        self.transcendental = _passes(assumptions.transcendental[architecture])
        self.matrix_free, self.vector_free = [0] * SIMDS, [0] * SIMDS
        self.lds_free = self.vmem_free = 0.0
        self.arrivals: dict[tuple[int, int], list[int]] = {}
        self.matrix_work: list[tuple[int, int]] = []  # (start, passes)

    def run(self) -> int:
        """Passes until all waves are done."""
        time = 0
        live = list(self.waves)
        while live:
            for simd in ((time + k) % SIMDS for k in range(SIMDS)):  # a fair order for the units that they share
                ports: set[str] = set()
                mine = [w for w in live if w.simd == simd and not w.done and w.free <= time]
                for wave in sorted(mine, key=lambda w: (-w.priority, (w.number // SIMDS + time) % SIMDS)):
                    reason = self._retire(wave, time)
                    if reason is None and not wave.done:
                        reason = self._issue(wave, time, ports)
                    if reason is not None:
                        wave.stalls[reason] += 1
            live = [w for w in live if not w.done]
            time += 1
            if time > _MOST_PASSES:
                raise RuntimeError(f"no end after {time * PASS} clocks of the model")
        return time

    def _retire(self, wave: _Wave, time: int) -> str | None:
        """Passes waits, priorities and barriers, which take no slot. Returns what holds the wave up."""
        while not wave.done:
            i = wave.program[wave.next][0]
            if i.kind == "wait":
                for name, queue, count in (("vmcnt", wave.vmem, i.vmcnt), ("lgkmcnt", wave.lgkm, i.lgkmcnt)):
                    if count is None:
                        continue
                    while len(queue) > count and queue[0] <= time:
                        queue.popleft()
                    if len(queue) > count:
                        return name
            elif i.kind == "priority":
                wave.priority = i.priority
            elif i.kind == "barrier":
                if not self._passes_barrier(wave, time):
                    return "barrier"
            else:
                return None
            wave.next += 1
        return None

    def _passes_barrier(self, wave: _Wave, time: int) -> bool:
        arrivals = self.arrivals.setdefault((wave.group, wave.barriers), [])
        if not wave.at_barrier:
            arrivals.append(time)
            wave.at_barrier = True
        others_done = sum(w.done for w in self.waves if w.group == wave.group)
        if len(arrivals) < self.waves_of_group - others_done or time < arrivals[-1] + _passes(self.assumptions.barrier):
            return False
        wave.at_barrier = False
        wave.barriers += 1
        return True

    def _issue(self, wave: _Wave, time: int, ports: set[str]) -> str | None:
        i, step = wave.program[wave.next]
        port = "vector" if i.kind == "matrix" else i.kind
        if port in ports:
            return "issue slot"
        if self._needed_at(wave, i) > time:
            return "dependence"
        wave.free = time + 1
        if i.kind == "matrix":
            reason = self._matrix(wave, i, time)
        elif i.kind == "vector":
            reason = self._vector(wave, i, time)
        elif i.kind == "lds":
            reason = self._lds(wave, step, time)
        elif i.kind == "vmem":
            reason = self._vmem(wave, i, step, time)
        else:
            reason = None
            self._scalar(wave, i, time)
        if reason is None:
            if i.kind != "nop":
                ports.add(port)
            wave.next += 1
        return reason

    @staticmethod
    def _needed_at(wave: _Wave, i: Instruction) -> float:
        """When all that it reads (and, but for MFMAs, writes) is there."""
        ready, at = wave.ready, 0.0
        for register in i.sources if i.kind == "matrix" else i.sources + i.results:
            if register in ready:
                at = max(at, ready[register][0])
        chained = i.kind == "matrix" and i.accumulator == i.results
        for register in i.accumulator:
            if register in ready:
                at = max(at, ready[register][1 if chained else 0])
        return at

    def _matrix(self, wave: _Wave, i: Instruction, time: int) -> str | None:
        if self.matrix_free[wave.simd] > time:
            return "matrix core"
        self.matrix_free[wave.simd] = time + i.passes
        self.matrix_work.append((time, i.passes))
        for register in i.results:
            wave.ready[register] = (time + i.passes + _passes(self.assumptions.matrix_tail), time + i.passes)
        return None

    def _vector(self, wave: _Wave, i: Instruction, time: int) -> str | None:
        if self.vector_free[wave.simd] > time:
            return "vector unit"
        passes = self.transcendental if i.transcendental else i.passes
        self.vector_free[wave.simd] = time + passes
        done = time + max(passes, _passes(self.assumptions.vector_latency))
        for register in i.results:
            wave.ready[register] = (done, done)
        return None

    def _lds(self, wave: _Wave, step: Step, time: int) -> str | None:
        if self.lds_free > time + self.assumptions.lds_queue / PASS:
            return "LDS queue"
        self.lds_free = max(self.lds_free, time) + max(step.lds_cycles, 1) / PASS
        wave.lgkm.append(self.lds_free + _passes(self.assumptions.lds_latency))
        return None

    def _vmem(self, wave: _Wave, i: Instruction, step: Step, time: int) -> str | None:
        assumed = self.assumptions
        if self.vmem_free > time + assumed.vmem_queue / PASS:
            return "VMEM queue"
        if i.to_lds:
            self.lds_free = max(self.lds_free, time) + step.global_bytes / assumed.lds_write_bytes / PASS
        self.vmem_free = max(self.vmem_free, time) + step.global_bytes / assumed.vmem_bytes / PASS
        done = self.vmem_free + _passes(assumed.vmem_latency)
        wave.vmem.append(max(done, wave.vmem[-1]) if wave.vmem else done)  # in order
        return None

    def _scalar(self, wave: _Wave, i: Instruction, time: int) -> None:
        if i.kind == "smem":
            wave.lgkm.append(time + _passes(self.assumptions.smem_latency))
        elif i.kind == "nop":
            wave.free = time + i.passes
        elif i.kind == "branch":
            wave.free = time + 4
        else:
            for register in i.results:
                wave.ready[register] = (time + 1, time + 1)


def _needs(steps: Sequence[tuple[Instruction, Step]], architecture: str, assumed: Assumptions) -> Counter[str]:
    """Clocks that each unit needs, without any waiting. Matrix cores and vector units are four: their passes are clocks."""
    need: Counter[str] = Counter()
    for i, step in steps:
        if i.kind == "matrix":
            need["matrix"] += i.passes
        elif i.kind == "vector":
            need["vector"] += assumed.transcendental[architecture] // PASS if i.transcendental else i.passes
        need["lds"] += step.lds_cycles + (step.global_bytes / assumed.lds_write_bytes if i.to_lds else 0)
        need["vmem"] += step.global_bytes / assumed.vmem_bytes
    return need


def simulate(
    trace: Sequence[Step], instructions: Mapping[int, str], architecture: str,
    groups: int = 1, assumptions: Assumptions = Assumptions(),
) -> Schedule:  # fmt: skip
    """Runs the trace of one workgroup as `groups` of them on one compute unit."""
    parsed = {address: parse(text) for address, text in instructions.items()}
    steps = [(parsed[step.address], step) for step in trace]
    programs: dict[int, list[tuple[Instruction, Step]]] = {}
    for i, step in steps:
        programs.setdefault(step.wave, []).append((i, step))
    count = len(programs)
    waves = [
        _Wave(programs[wave], wave, group, (wave + group * count) % SIMDS)
        for group in range(groups)
        for wave in sorted(programs)
    ]
    unit = _ComputeUnit(architecture, waves, count, assumptions)
    passes = unit.run()
    stalls = sum((wave.stalls for wave in waves), Counter())
    need = _needs(steps, architecture, assumptions)
    matrix = need["matrix"]
    return Schedule(
        clocks=passes * PASS,
        steady=_steady(unit.matrix_work),
        whole=groups * matrix / (SIMDS * passes),
        bounds={name: need[name] / matrix for name in ("vector", "lds", "vmem")} if matrix else {},
        stalls={reason: time / passes / len(waves) for reason, time in stalls.most_common()},
    )


def _steady(work: list[tuple[int, int]]) -> float:
    """Over the middle half of the MFMAs, where neither prologue nor epilogue counts."""
    if not work:
        return 0.0
    begin, end = work[len(work) // 4][0], work[len(work) * 3 // 4][0]
    if begin == end:
        return 0.0
    return sum(passes for start, passes in work if begin <= start < end) / (SIMDS * (end - begin))
