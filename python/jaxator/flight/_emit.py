"""Text of one kernel: lines of operations in nested regions, constants in front, locations behind."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from jaxator.flight._errors import Frame
from jaxator.flight._types import DType


class Region:
    """A list of lines. Values that are made in it end with it."""

    __slots__ = ("_around", "_open", "known", "lines")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[str, str] = {}
        self._open = True
        self._around: Region | None = None

    @property
    def active(self) -> bool:
        return self._around.active if self._around else self._open

    @active.setter
    def active(self, is_open: bool) -> None:
        self._open = is_open

    def absorb(self, other: Region) -> None:
        """Another region that was left becomes part of this one."""
        self.lines += other.lines
        self.known |= other.known
        other._around = self


class Emitter:
    def __init__(self) -> None:
        self._count = 0
        self._constants: dict[tuple[str, str], str] = {}
        self._locations: dict[str, str] = {}
        self._regions = [Region()]
        self.front: list[str] = []
        """Operations that stand before all others: arrays of shared memory."""

    @property
    def region(self) -> Region:
        return self._regions[-1]

    @property
    def root(self) -> Region:
        """The function itself. What is added to it comes before whatever is open."""
        return self._regions[0]

    def new_names(self, count: int) -> list[str]:
        """Of the results of one operation."""
        first = self._count
        self._count += 1
        return [f"%{first}"] if count == 1 else [f"%{first}#{i}" for i in range(count)]

    def line(self, text: str, location: str) -> None:
        self.region.lines.append(f"{text} loc({location})")

    def op(self, text: str, location: str) -> str:
        """With one result."""
        (name,) = self.new_names(1)
        self.line(f"{name} = {text}", location)
        return name

    def pure(self, text: str, location: str) -> str:
        """With one result that depends on the operands alone: the same again is the same value."""
        for region in self._regions:
            if text in region.known:
                return region.known[text]
        name = self.region.known[text] = self.op(text, location)
        return name

    @contextlib.contextmanager
    def nested(self) -> Iterator[Region]:
        """What is emitted meanwhile goes into a region of its own, which the caller places."""
        region = Region()
        self._regions.append(region)
        try:
            yield region
        finally:
            region.active = False
            self._regions.pop()

    def block(self, header: str, parts: Sequence[tuple[str, list[str]]], location: str) -> None:
        """An operation with regions: header { lines } joint { lines }; each part is (what closes it, lines)."""
        lines = self.region.lines
        lines.append(header)
        for closing, inner in parts[:-1]:
            lines += ["  " + line for line in inner]
            lines.append(closing)
        closing, inner = parts[-1]
        lines += ["  " + line for line in inner]
        lines.append(f"{closing} loc({location})")

    def constant(self, literal: str, mlir: str) -> str:
        key = (literal, mlir)
        if key not in self._constants:
            self._constants[key] = f"%c{len(self._constants)}"
        return self._constants[key]

    def location(self, frames: Sequence[Frame]) -> str:
        """The alias of a chain of calls, innermost first."""
        if not frames:
            return "unknown"
        names = []
        for function, file, line, column in frames:
            names.append(self._alias(f"{json.dumps(function)}({json.dumps(file)}:{line}:{column})"))
        chain = names[-1]
        for name in names[-2::-1]:
            chain = self._alias(f"callsite({name} at {chain})")
        return chain

    def _alias(self, text: str) -> str:
        return self._locations.setdefault(text, f"#loc{len(self._locations)}")

    def module(self, header: str, location: str) -> str:
        """The whole text. The header is that of the function, without its brace."""
        constants = []
        for (number, mlir), name in self._constants.items():
            kind = "" if mlir == "i1" else f" : {mlir}"  # true and false say it themselves
            constants.append(f"{name} = arith.constant {number}{kind} loc({location})")
        body = ["    " + line for line in [*constants, *self.front, *self.region.lines, f"return loc({location})"]]
        aliases = [f"{name} = loc({text})" for text, name in self._locations.items()]
        return "\n".join(["module {", f"  {header} {{", *body, f"  }} loc({location})", "}", *aliases, ""])


def literal(value: Any, dtype: DType) -> str:
    """A number as MLIR writes it."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    value = float(value)
    if math.isfinite(value):
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e") if "e" in text else text + ".0"
    return _bits(value, dtype)


def _bits(value: float, dtype: DType) -> str:
    """Infinities and NaN have no decimal form."""
    widths = {"f64": ("<d", "<Q", 16), "f32": ("<f", "<I", 8), "f16": ("<e", "<H", 4)}
    if dtype.name == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return f"0x{bits >> 16:04X}"
    form, whole, digits = widths[dtype.name]
    (bits,) = struct.unpack(whole, struct.pack(form, value))
    return f"0x{bits:0{digits}X}"


def splat(text: str, count: int | None) -> str:
    """A constant of a vector with equal elements."""
    return text if count is None else f"dense<{text}>"
