"""A proof, from traces alone, that a kernel does not need a wait or a barrier, or that a looser count does.

It does not use the emulator's checks: for each workgroup it walks through what each wave executed, once as it is and once
with the changed instruction, and asks what is newly out of order: a register that is touched while a load into it is under
way, or two accesses to the same memory of which one is a write. Accesses are ranges from their first to their last byte.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from jaxator.judge.emulator import TRACE, Code, Step
from jaxator.judge.instructions import MAX_LGKMCNT, MAX_VMCNT, Instruction, Register, parse
from jaxator.judge.launch import Launch

COVERED = "what it waits for is covered by a later wait, and nothing touches it before"
PACING = "it only keeps the waves' pace: no wave touches between it and its neighbours what another one did"
MOST_WORKGROUPS = 16
"""Of a larger grid so many are looked at, spread over it."""
_LIMITS = {"vmcnt": MAX_VMCNT, "lgkmcnt": MAX_LGKMCNT}


@dataclasses.dataclass
class _Operation:
    """A memory operation of one wave."""

    instruction: Instruction
    step: Step
    position: int
    """In the wave's program."""
    epoch: int
    """Barriers that the wave has passed."""
    done_position: float = math.inf
    """Of the wait that covers it."""
    done_epoch: float = math.inf


def why_redundant(launch: Launch, address: int, replacement: Instruction) -> str:
    """COVERED or PACING if the launch does not need the wait or barrier at an address; "" if that cannot be shown.

    Args:
      replacement: what is there instead.
    """
    instructions = _instructions(launch)
    if any(_orders_workgroups(i) for i in instructions.values()):
        return ""
    for programs, before in _traced(launch):
        after = [_walk(steps, instructions, {address: replacement}) for steps in programs]
        if any(new[1] - old[1] for old, new in zip(before, after, strict=True)):
            return ""
        if _newly_unordered([operations for operations, _ in before], [operations for operations, _ in after]):
            return ""
    return PACING if instructions[address].kind == "barrier" else COVERED


def _instructions(launch: Launch) -> dict[int, Instruction]:
    return {at: parse(text) for at, text in Code(launch.image).instructions(launch.kernel).items()}


@functools.lru_cache(maxsize=16)
def _traced(launch: Launch) -> list[tuple[list[list[Step]], list[_Walk]]]:
    """For each workgroup that is looked at what its waves executed, and what that means for the kernel as it is."""
    instructions, workgroups = _instructions(launch), []
    for workgroup in _chosen(launch.geometry.workgroups):
        report, _ = launch.run(checks=TRACE, traced_workgroup=workgroup)
        programs = _programs(report.trace)
        workgroups.append((programs, [_walk(steps, instructions, {}) for steps in programs]))
    return workgroups


def _chosen(workgroups: int) -> list[int]:
    if workgroups <= MOST_WORKGROUPS:
        return list(range(workgroups))
    return sorted({round(k * (workgroups - 1) / (MOST_WORKGROUPS - 1)) for k in range(MOST_WORKGROUPS)})


def _orders_workgroups(i: Instruction) -> bool:
    """Part of an order between workgroups, which is not followed here."""
    return i.is_atomic or i.name.startswith(("buffer_wbl2", "buffer_inv")) or "sc1" in i.text.split()


def _programs(trace: Sequence[Step]) -> list[list[Step]]:
    programs: dict[int, list[Step]] = {}
    for step in trace:
        programs.setdefault(step.wave, []).append(step)
    return list(programs.values())


# ---- one wave --------------------------------------------------------------------------------------------------------


class _Counters:
    """What is under way, by counter, oldest first."""

    def __init__(self) -> None:
        self.queues: dict[str, list[_Operation]] = {"vmcnt": [], "lgkmcnt": []}

    def issue(self, operation: _Operation) -> None:
        i = operation.instruction
        names = ("vmcnt", "lgkmcnt") if i.name.startswith("flat_") else ("vmcnt",) if i.kind == "vmem" else ("lgkmcnt",)
        for name in names:
            self.queues[name].append(operation)
            # A counter that is at its most holds up what would count further: the oldest is then done.
            self._retire(name, _LIMITS[name], operation.position, operation.epoch)

    def wait(self, name: str, count: int, position: int, epoch: int) -> None:
        queue = self.queues[name]
        if count and any(o.instruction.kind == "smem" or o.instruction.name.startswith("flat_") for o in queue):
            return  # operations that may overtake others are known to be done only when all are
        self._retire(name, count, position, epoch)

    def _retire(self, name: str, count: int, position: int, epoch: int) -> None:
        queue = self.queues[name]
        while len(queue) > count:
            operation = queue.pop(0)
            if not any(operation in other for other in self.queues.values()):
                operation.done_position, operation.done_epoch = position, epoch

    def conflicts(self, i: Instruction) -> set[Register]:
        """Registers that it touches while a load into them is under way."""
        own = "vmcnt" if i.kind == "vmem" else "lgkmcnt" if i.kind == "lds" else ""
        found: set[Register] = set()
        for name, queue in self.queues.items():
            # Loads of one counter return in order, so that one may write what an earlier one still has to.
            touched = i.sources if name == own else i.touched
            for operation in queue:
                found |= set(operation.instruction.results).intersection(touched)
        return found


_Walk = tuple[list[_Operation], set[tuple[int, Register]]]


def _walk(steps: Sequence[Step], instructions: dict[int, Instruction], changed: dict[int, Instruction]) -> _Walk:
    """The wave's memory operations with their times, and the registers that are touched too early, with the position."""
    counters, operations, epoch = _Counters(), [], 0
    early: set[tuple[int, Register]] = set()
    for position, step in enumerate(steps):
        i = changed.get(step.address) or instructions[step.address]
        if i.kind == "wait":
            for name, count in (("vmcnt", i.vmcnt), ("lgkmcnt", i.lgkmcnt)):
                if count is not None and count < _LIMITS[name]:
                    counters.wait(name, count, position, epoch)
            continue
        if i.kind == "barrier":
            epoch += 1
            continue
        early |= {(position, register) for register in counters.conflicts(i)}
        if i.kind in ("vmem", "lds", "smem"):
            operation = _Operation(i, step, position, epoch)
            operations.append(operation)
            counters.issue(operation)
    return operations, early


# ---- between operations ----------------------------------------------------------------------------------------------


class _Accesses:
    """Ranges in one memory, as arrays."""

    def __init__(self, waves: Sequence[Sequence[_Operation]], space: str) -> None:
        all_operations = [o for operations in waves for o in operations]
        times = [(o.epoch, o.done_epoch, o.position, o.done_position) for o in all_operations]
        self.epoch, self.done_epoch, self.position, self.done = np.array(times, np.float64).reshape(-1, 4).T
        ranges = [(getattr(o.step, f"{space}_begin"), getattr(o.step, f"{space}_end")) for o in all_operations]
        self.begin, self.end = np.array(ranges, np.uint64).reshape(-1, 2).T
        self.wave = np.array([wave for wave, operations in enumerate(waves) for _ in operations])
        self.writes = np.array([_writes(o, space) for o in all_operations], bool)
        self.by_lds = np.array([o.instruction.kind == "lds" for o in all_operations], bool)

    def unordered(self, k: int) -> np.ndarray:
        """Which accesses nothing orders with access k."""
        between = (self.done_epoch >= self.epoch[k]) & (self.done_epoch[k] >= self.epoch)
        # In a wave, one counter keeps the order; two need a wait.
        later = np.maximum(self.position, self.position[k])
        first_done = np.where(self.position < self.position[k], self.done, self.done[k])
        within = (self.by_lds != self.by_lds[k]) & (first_done >= later)
        return np.where(self.wave == self.wave[k], within, between)

    def overlap(self, k: int) -> np.ndarray:
        same = (self.begin < self.end[k]) & (self.end > self.begin[k])
        same[k] = False
        return same


def _writes(operation: _Operation, space: str) -> bool:
    i = operation.instruction
    return i.writes_lds if space == "lds" else i.is_store


def _newly_unordered(before: Sequence[Sequence[_Operation]], after: Sequence[Sequence[_Operation]]) -> bool:
    """Whether a write and another access to the same range are in order before the change and not after it. Those that were
    never in order touch different bytes, or the kernel has a race as it is."""
    for space in ("lds", "global"):
        old, new = _Accesses(before, space), _Accesses(after, space)
        for k in np.flatnonzero(new.writes & (new.end > new.begin)):
            if np.any(new.overlap(k) & new.unordered(k) & ~old.unordered(k)):
                return True
    return False
