"""Gates that a kernel has to pass, and floors that it was above when they were written: no claim of speed."""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
import tomllib
from collections.abc import Sequence
from typing import Any

from jaxator.judge.measure import Measures


@dataclasses.dataclass(frozen=True)
class Floors:
    """What one kernel on one architecture must keep. None: not asked of it.

    The defaults of the kinds: a kernel for the matrix cores copies no register in its hottest loop; one that is limited by
    memory loads 16 bytes a lane, moves each byte once, uses every 64-byte block that it touches, and has enough bytes under
    way.
    """

    share: float | None = None
    """Modelled share of matrix-core time, at least."""
    copies: int = 0
    """Copies of registers in the hottest loop, at most."""
    vector_registers: int | None = None
    """Of both files, at most."""
    wide: float = 1.0
    """Share of the loaded bytes that comes 16 bytes a lane, at least."""
    moved: float = 1.0
    """Bytes moved over the bytes that have to move, at most."""
    blocks: float = 1.0
    """Share of the 64-byte blocks that is used, at least."""
    in_flight: float = 1.0
    """Bytes of loads under way over those that the assumed latency needs, at least."""
    reason: str = ""
    """Why a floor is below the default."""


@dataclasses.dataclass(frozen=True)
class Gate:
    name: str
    value: float
    rule: str
    """ "<=" or ">="."""
    limit: float

    @property
    def passed(self) -> bool:
        return self.value <= self.limit if self.rule == "<=" else self.value >= self.limit

    def __str__(self) -> str:
        number = "{:g}" if float(self.value).is_integer() else "{:.3f}"
        return f"{self.name} {number.format(self.value)} (must be {self.rule} {self.limit:g})"


def gates(m: Measures, floors: Floors | None = None) -> list[Gate]:
    floors = floors or Floors()
    found = [
        Gate("findings", len(m.findings), "<=", 0),
        Gate("scratch bytes", m.scratch_bytes, "<=", 0),
        Gate("spilled registers", m.spills, "<=", 0),
        Gate("LDS cycles", m.lds_cycles, "<=", m.lds_conflict_free_cycles),
    ]
    if floors.vector_registers is not None:
        found.append(Gate("vector registers", m.vector_registers + m.accumulation_registers, "<=", floors.vector_registers))
    if m.bound == "matrix":
        found.append(Gate("copies in the loop", m.loop.copies if m.loop else 0, "<=", floors.copies))
        if floors.share is not None:
            found.append(Gate("matrix-core share", m.schedule.steady, ">=", floors.share))
        return found
    memory = m.memory
    return found + [
        Gate("share of 16-byte loads", memory.wide_share, ">=", floors.wide),
        Gate("bytes moved over the least", memory.moved_over_least, "<=", floors.moved),
        Gate("share of 64-byte blocks used", memory.block_share, ">=", floors.blocks),
        Gate("bytes in flight over those needed", memory.in_flight / memory.in_flight_needed, ">=", floors.in_flight),
    ]


@dataclasses.dataclass(frozen=True)
class Rule:
    """Floors of some kernels."""

    kernels: str
    """A pattern such as "*_elements_*"."""
    architectures: tuple[str, ...]
    """None given: all."""
    values: dict[str, Any]


def read_rules(path: pathlib.Path) -> list[Rule]:
    """The rules of a TOML file: [[kernels]] tables with a `name`, perhaps `architectures`, and fields of Floors.

    Raises:
      ValueError: a key that is no floor, or a table without a name.
    """
    known = {field.name for field in dataclasses.fields(Floors)}
    rules = []
    for table in tomllib.loads(path.read_text()).get("kernels", []):
        values = dict(table)
        name, architectures = values.pop("name", None), values.pop("architectures", [])
        if name is None:
            raise ValueError(f"{path.name}: a table without the name of kernels: {table}")
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"{path.name}, {name}: {', '.join(unknown)}: must be one of {', '.join(sorted(known))}")
        rules.append(Rule(name, tuple(architectures), values))
    return rules


def floors_for(rules: Sequence[Rule], kernel: str, architecture: str) -> Floors:
    """What all rules together ask of a kernel; later ones win."""
    values: dict[str, Any] = {}
    for rule in rules:
        if fnmatch.fnmatchcase(kernel, rule.kernels) and (not rule.architectures or architecture in rule.architectures):
            values |= rule.values
    return Floors(**values)
