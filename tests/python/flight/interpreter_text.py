"""Reads the text IR that the tracer writes: one operation a line, regions in braces."""

from __future__ import annotations

import dataclasses
import re

import ml_dtypes
import numpy as np

_NAME = re.compile(r"%[A-Za-z_0-9#]+")
_LINE = re.compile(r"(?:(%\w+)(?::(\d+))? = )?([\w.]+)(.*)")

_DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


def dtype_of(text: str) -> np.dtype:
    """Of a number, a vector's or a tile's elements, or what a pointer points to."""
    inner = re.search(
        r"(?:vector<\d+x|<)?(\w+)",
        text.removeprefix("!flight.ptr").removeprefix("!flight.tile").removeprefix("!flight.view"),
    )
    if text.startswith("vector"):
        inner = re.match(r"vector<\d+x(\w+)>", text)
    return np.dtype(_DTYPES[inner[1]])


@dataclasses.dataclass
class Region:
    arguments: list[str]
    operations: list[Operation]


@dataclasses.dataclass
class Operation:
    name: str
    results: list[str]
    operands: list[str]
    text: str
    """Behind the name, without the location."""
    regions: list[Region] = dataclasses.field(default_factory=list)

    @property
    def types(self) -> str:
        """Behind the last colon that is not in quotes or brackets."""
        return split_types(self.text)[1]


@dataclasses.dataclass
class Function:
    name: str
    arguments: list[tuple[str, str]]
    block: tuple[int, int, int]
    operations: list[Operation]


def split_types(text: str) -> tuple[str, str]:
    quoted = False
    for i, c in enumerate(text):
        quoted ^= c == '"'
        if not quoted and text.startswith(" : ", i) and text[:i].count("(") == text[:i].count(")"):
            return text[:i], text[i + 3 :]
    return text, ""


def _split_arguments(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"(%\w+): (!flight\.ptr<[^>]*>|[\w]+)", text)
    return [(name, kind) for name, kind in found]


def _plain(line: str) -> str:
    return re.sub(r" loc\(#?\w+\)$", "", line.strip())


def parse(text: str) -> Function:
    lines = [_plain(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert lines[0] == "module {"
    header = lines[1]
    name = re.match(r"func\.func @(\w+)\(", header)[1]
    arguments = _split_arguments(header[header.index("(") : header.index(") attributes")])
    block = tuple(map(int, re.search(r"flight\.block = array<i64: (\d+), (\d+), (\d+)>", header).groups()))
    operations, _ = _block(lines, 2)
    return Function(name, arguments, block, operations)


def _block(lines: list[str], i: int) -> tuple[list[Operation], int]:
    """Operations up to the closing brace, and its line."""
    found = []
    while not lines[i].startswith("}"):
        operation, i = _operation(lines, i)
        found.append(operation)
    return found, i


def _operation(lines: list[str], i: int) -> tuple[Operation, int]:
    line = lines[i]
    opens = line.endswith(" {")
    first, count, name, rest = _LINE.fullmatch(line.removesuffix(" {")).groups()
    results = [] if first is None else [first] if count is None else [f"{first}#{k}" for k in range(int(count))]
    operation = Operation(name, results, _NAME.findall(split_types(rest)[0]), rest)
    if name == "scf.for":
        _for_operands(operation, rest)
    if name == "scf.while":
        pairs = re.findall(r"(%\w+) = (%[\w#]+)", rest)
        operation.operands = [b for _, b in pairs]
    if not opens:
        return operation, i + 1
    before = [a for a, _ in re.findall(r"(%\w+) = (%[\w#]+)", rest)] if name in ("scf.while", "scf.for") else []
    i += 1
    while True:
        arguments = before
        before = []
        if lines[i].startswith("^bb0("):
            arguments = _NAME.findall(re.sub(r": [^%]*", " ", lines[i]))
            i += 1
        if name == "scf.for":
            arguments = arguments[1:]
        operations, i = _block(lines, i)
        operation.regions.append(Region(arguments, operations))
        if lines[i] == "}":
            return operation, i + 1
        i += 1


def _for_operands(operation: Operation, rest: str) -> None:
    found = re.match(r" (%\w+) = (%[\w#]+) to (%[\w#]+) step (%[\w#]+)(.*)", rest)
    initial = re.findall(r"%\w+ = (%[\w#]+)", found[5])
    operation.operands = [found[1], found[2], found[3], found[4], *initial]
