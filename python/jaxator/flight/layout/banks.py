"""What an access by a thread-value layout costs in shared memory, and the swizzle that makes it cost least.

The memory serves the lanes of a wave in phases. In a phase each bank gives one word in a pass; other words of the same bank
wait for further passes. Conflicts are the passes beyond one a phase. Which lanes share a phase depends on the chip, on the
width of the access and on its direction; `phases` says it, and how it is known.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from jaxator.flight.layout._call import call
from jaxator.flight.layout.algebra import _text
from jaxator.flight.layout.values import AnyLayout, Layout, Swizzle, parse

Target = Literal["gfx942", "gfx950", "sm_90", "x86-64"]
Direction = Literal["read", "write"]


@dataclasses.dataclass(frozen=True)
class Phases:
    banks: int
    bank_bytes: int
    evidence: Literal["measured", "documented", "assumed"]
    lanes: tuple[tuple[int, ...], ...]
    """Of each phase."""


@dataclasses.dataclass(frozen=True)
class Cost:
    instructions: int
    phases: int
    passes: int

    @property
    def conflicts(self) -> int:
        return self.passes - self.phases


def phases(target: Target, width: int, direction: Direction = "read") -> Phases:
    """The lanes that are served together when each moves `width` bytes. On x86-64 a lane is an element of a vector of 64
    bytes, and the one bank gives a line of 64 bytes in a pass.

    >>> p = phases("sm_90", 16)
    >>> p.banks, len(p.lanes), p.lanes[1]
    (32, 4, (8, 9, 10, 11, 12, 13, 14, 15))
    >>> phases("gfx950", 16).lanes[0]
    (0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27)
    """
    banks, bank_bytes, evidence, *phase_of = call("phases", target, str(width), direction).split(" ")
    lanes: dict[int, list[int]] = {}
    for lane, phase in enumerate(phase_of):
        lanes.setdefault(int(phase), []).append(lane)
    return Phases(int(banks), int(bank_bytes), evidence, tuple(tuple(lanes[phase]) for phase in sorted(lanes)))


def cost(layout: AnyLayout, target: Target, width: int = 16, *, element: int = 1, direction: Direction = "read") -> Cost:
    """Of touching every index of a thread-value layout once: mode 0 counts threads, mode 1 the values of each, in elements
    of `element` bytes from an aligned address. Each access moves `width` bytes of neighbouring values. A layout of one mode
    gives the first index of each thread's only access.

    >>> columns = Layout((8, 8), (64, 1))  # eight rows of 64 bfloat16, eight columns: a matrix of ldmatrix
    >>> cost(columns, "sm_90", 16, element=2)
    Cost(instructions=1, phases=1, passes=8)
    """
    return Cost(*map(int, call("cost", _text(layout), target, str(width), str(element), direction).split(" ")))


def conflicts(layout: AnyLayout, target: Target, width: int = 16, *, element: int = 1, direction: Direction = "read") -> int:
    """The passes beyond one a phase; see `cost`.

    >>> from jaxator.flight.layout import composition
    >>> columns = Layout((8, 8), (64, 1))
    >>> conflicts(columns, "sm_90", 16, element=2), conflicts(composition(Swizzle(3, 3, 3), columns), "sm_90", 16, element=2)
    (7, 0)
    """
    return cost(layout, target, width, element=element, direction=direction).conflicts


def propose_swizzle(
    write: Layout, read: Layout, target: Target, *, element: int = 1, write_width: int = 16, read_width: int = 16
) -> Swizzle | None:
    """The first swizzle with which neither the access that writes a tile nor the one that reads it has a conflict; the
    fewest bits come first. Swizzle(0, 0, 0) is none at all; None means that no swizzle serves. No index leaves its row of
    all banks (128 or 256 bytes).

    >>> rows, columns = Layout(((8, 4), 8), ((8, 64), 1)), Layout(((8, 4), 8), ((64, 8), 1))
    >>> propose_swizzle(rows, columns, "sm_90", element=2)
    Swizzle(bits=3, base=3, shift=3)
    """
    text = call(
        "propose_swizzle",
        target,
        str(element),
        _text(write, Layout),
        str(write_width),
        _text(read, Layout),
        str(read_width),
    )
    return parse(text) if text else None
