"""What an optimised HLO module does between devices, and which kernels it calls on which local shapes."""

from __future__ import annotations

import collections
import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
    "send",
    "recv",
)
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "f64": 8, "s64": 8, "u64": 8}
_SHAPE = re.compile(r"\b([a-z]+[0-9]*)\[([0-9,]*)\]")


class Collective(NamedTuple):
    """One array that one collective moves; a combined collective counts once for each of its arrays."""

    kind: str
    """Without "-start"."""
    bytes: int
    """Of the result, on one device."""
    groups: frozenset[tuple[int, ...]]
    """Partitions that take part together."""


class CustomCall(NamedTuple):
    target: str
    operands: tuple[str, ...]
    """Local shapes, such as "bf16[2,64]"."""
    results: tuple[str, ...]


def _bytes(dtype: str, dims: str) -> int:
    return BYTES[dtype] * math.prod(int(d) for d in dims.split(",") if d)


def _groups(line: str) -> frozenset[tuple[int, ...]]:
    if found := re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\S+)? \{([^}]*)\}", line):
        sizes = {name: int(n) for name, n in re.findall(r"'([^']+)'=(\d+)", found[1])}
        names, inside = list(sizes), re.findall(r"'([^']+)'", found[2])
        ids = np.arange(math.prod(sizes.values())).reshape(*sizes.values())
        order = [n for n in names if n not in inside] + inside
        rows = ids.transpose([names.index(n) for n in order]).reshape(-1, math.prod(sizes[n] for n in inside))
    elif found := re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line):
        shape, reshape = ([int(n) for n in found[i].split(",")] for i in (1, 2))
        ids = np.arange(math.prod(shape)).reshape(reshape)
        rows = (ids.transpose([int(n) for n in found[3].split(",")]) if found[3] else ids).reshape(shape)
    elif found := re.search(r"replica_groups=\{(\{[\d,{}]*\})\}", line):
        rows = [[int(n) for n in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", found[1])]
    else:
        return frozenset()
    return frozenset(tuple(sorted(map(int, row))) for row in rows)


def _instructions(text: str) -> list[tuple[str, str, str]]:
    """(result type, opcode, rest) of every instruction."""
    pattern = re.compile(r"^\s*(?:ROOT )?%?[\w.\-]+ = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)$", re.MULTILINE)
    return pattern.findall(text)


def collectives(text: str) -> collections.Counter[Collective]:
    found: list[Collective] = []
    for result, opcode, rest in _instructions(text):
        kind = opcode.removesuffix("-start")
        if kind not in KINDS:
            continue
        shapes = _SHAPE.findall(result)
        if opcode.endswith("-start") and kind != "all-reduce":
            shapes = shapes[len(shapes) // 2 :]  # (operands, results)
        found += [Collective(kind, _bytes(*shape), _groups(rest)) for shape in shapes]
    return collections.Counter(found)


def custom_calls(text: str, prefix: str = "jaxator.") -> list[CustomCall]:
    calls = []
    for result, opcode, rest in _instructions(text):
        target = re.search(r'custom_call_target="([^"]*)"', rest)
        if opcode == "custom-call" and target and target[1].startswith(prefix):
            layouts = re.search(r"operand_layout_constraints=\{(.*?)\}, \w+=", rest)
            shapes = [
                tuple(f"{t}[{d}]" for t, d in _SHAPE.findall(part)) for part in (layouts[1] if layouts else "", result)
            ]
            calls.append(CustomCall(target[1], *shapes))
    return calls


def groups_of(mesh: Any, axes: Sequence[str]) -> frozenset[tuple[int, ...]]:
    """The partitions that a collective over these mesh axes joins."""
    sizes = dict(mesh.shape)
    ids = np.arange(math.prod(sizes.values())).reshape(*sizes.values())
    groups = []
    for fixed in itertools.product(*(range(n) for name, n in sizes.items() if name not in axes)):
        rest = iter(fixed)
        groups.append(ids[tuple(slice(None) if name in axes else next(rest) for name in sizes)].ravel())
    return frozenset(tuple(sorted(map(int, group))) for group in groups)


def shape_text(dtype: str, shape: Sequence[int]) -> str:
    short = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "int32": "s32"}[dtype]
    return f"{short}[{','.join(map(str, shape))}]"
