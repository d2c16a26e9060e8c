"""Is every wait and barrier of a kernel needed, and do the emulator's checks notice when one is missing? Each mutant of a
code object has one wait or barrier removed, or one count loosened by one, and runs on what the kernel was really given."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxator.judge.emulator import COVERAGE, POISON, RACES, WAITS, Code, EmulatorError, Report
from jaxator.judge.instructions import MAX_LGKMCNT, MAX_VMCNT, Instruction, parse
from jaxator.judge.launch import Launch
from jaxator.judge.redundancy import why_redundant

CHECKS = WAITS | RACES | POISON
TIME_LIMIT_S = 2.0
MOST_TRIED = 4
"""Launches on which a mutation is tried until one notices it."""
_NOP = 0xBF800000


@dataclasses.dataclass(frozen=True)
class Mutation:
    address: int
    text: str
    """Of the instruction as it was."""
    change: str
    """ "no vmcnt", "no lgkmcnt", "no barrier", "vmcnt + 1" or "lgkmcnt + 1"."""
    replacement: Instruction
    word: int

    def __str__(self) -> str:
        return f"{self.address:#x} {self.text}: {self.change}"


@dataclasses.dataclass(frozen=True)
class Outcome:
    mutation: Mutation
    noticed: str
    """What a check found, "" if nothing."""
    wrong_result: bool
    reached: bool
    """False: no launch executes the instruction, so nothing can be said."""
    redundant: str
    """Why the kernel does not need what was changed, "" if that could not be proved."""

    @property
    def survived(self) -> bool:
        """Reached, not noticed and not proved to be redundant: what the checks should have seen, or cannot."""
        return self.reached and not self.noticed and not self.wrong_result and not self.redundant


# ---- code objects ----------------------------------------------------------------------------------------------------


def _file_offset(image: bytes, address: int) -> int:
    """Where the byte of a virtual address is in the ELF file."""
    (table,), (size, count) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<HH", image, 54)
    for k in range(count):
        kind, _, offset, begin, _, length = struct.unpack_from("<IIQQQQ", image, table + k * size)
        if kind == 1 and begin <= address < begin + length:
            return offset + address - begin
    raise EmulatorError(f"address {address:#x} is in no segment of the code object")


def _with_word(image: bytes, address: int, word: int) -> bytes:
    changed = bytearray(image)
    struct.pack_into("<I", changed, _file_offset(image, address), word)
    return bytes(changed)


def _wait_word(vmcnt: int | None, lgkmcnt: int | None) -> int:
    vm, lgkm = MAX_VMCNT if vmcnt is None else vmcnt, MAX_LGKMCNT if lgkmcnt is None else lgkmcnt
    return 0xBF8C0000 | (vm & 15) | 7 << 4 | lgkm << 8 | (vm >> 4) << 14


def mutations(launch: Launch) -> list[Mutation]:
    """All mutations of the launch's kernel, in order of address."""
    instructions = Code(launch.image).instructions(launch.kernel)
    return [m for address, text in instructions.items() for m in _of_instruction(address, text)]


def _of_instruction(address: int, text: str) -> Iterator[Mutation]:
    i = parse(text)
    if i.kind == "barrier":
        yield Mutation(address, text, "no barrier", Instruction("s_nop 0", "s_nop", "nop"), _NOP)
    if i.kind != "wait":
        return
    counts = {"vmcnt": i.vmcnt, "lgkmcnt": i.lgkmcnt}
    for name, most in (("vmcnt", MAX_VMCNT), ("lgkmcnt", MAX_LGKMCNT)):
        count = counts[name]
        if count is None:
            continue
        # One more than the last count that waits is no wait at all: the same mutation.
        for change, value in ((f"no {name}", None), (f"{name} + 1", count + 1)):
            if value == most:
                continue
            left = {**counts, name: value}
            yield Mutation(address, text, change, Instruction(text, i.name, "wait", **left), _wait_word(**left))


# ---- runs ------------------------------------------------------------------------------------------------------------


def _first_news(report: Report, known: set[tuple[str, int]]) -> str:
    """The first finding that the kernel as it is does not have."""
    for finding in report.findings:
        if (finding["kind"], finding["address"]) not in known:
            return f"{finding['kind']}: {finding['message']}"
    return "" if report.completed else "the launch does not end"


@functools.lru_cache(maxsize=1024)
def executed(launch: Launch) -> frozenset[int]:
    """Addresses of the instructions that any wave of any workgroup executes."""
    report, _ = launch.run(checks=COVERAGE)
    return frozenset(report.executed)


def try_all(launches: Sequence[Launch], chosen: Iterable[Mutation] | None = None, seed: int = 0) -> list[Outcome]:
    """Tries mutations of one kernel on launches of it.

    Args:
      launches: of the same kernel in the same code object. Each mutation is tried on the first ones that execute it.
      chosen: some of `mutations`; None: all.
      seed: of the order of waves.
    """
    options: dict[str, Any] = {"checks": CHECKS, "seed": seed, "time_limit_s": TIME_LIMIT_S}
    originals: dict[int, _Original] = {}

    def original(k: int) -> _Original:
        if k not in originals:
            report, contents = launches[k].run(**options)
            if not report.completed:
                raise EmulatorError(f"{launches[k].kernel} does not come to its end before any mutation:\n{report.text}")
            known = {(finding["kind"], finding["address"]) for finding in report.findings}
            originals[k] = _Original(launches[k], contents, known)
        return originals[k]

    outcomes = []
    for mutation in mutations(launches[0]) if chosen is None else chosen:
        reached = [k for k, launch in enumerate(launches) if mutation.address in executed(launch)]
        outcomes.append(_try(mutation, map(original, reached[:MOST_TRIED]), options))
    return outcomes


@dataclasses.dataclass(frozen=True)
class _Original:
    """What a launch does with the kernel as it is."""

    launch: Launch
    contents: list[bytes]
    known: set[tuple[str, int]]
    """Kind and address of its findings."""


def _try(mutation: Mutation, originals: Iterable[_Original], options: dict[str, Any]) -> Outcome:
    tried = []
    for original in originals:
        launch = original.launch
        report, found = launch.run(_with_word(launch.image, mutation.address, mutation.word), **options)
        noticed = _first_news(report, original.known)
        if noticed or found != original.contents:
            return Outcome(mutation, noticed, found != original.contents, True, "")
        tried.append(launch)
    reasons = [why_redundant(launch, mutation.address, mutation.replacement) for launch in tried]
    return Outcome(mutation, "", False, bool(tried), "; ".join(sorted(set(reasons))) if all(reasons) else "")
