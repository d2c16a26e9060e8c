"""What the tracer makes of a launcher: kernels as text, and how they are launched."""

from __future__ import annotations

import dataclasses

import numpy as np

Extents = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Target:
    """What a kernel may ask about the machine that it is compiled for."""

    name: str
    """As the compiler knows it."""
    platform: str
    """As JAX knows it."""
    wave: int
    """Lanes of a wave (warp)."""
    shared_bytes: int
    """The most shared memory of a block."""


TARGETS = {
    target.name: target
    for target in (
        Target("x86-64", "cpu", 32, 256 * 1024),
        Target("gfx942", "rocm", 64, 64 * 1024),
        Target("gfx950", "rocm", 64, 160 * 1024),
        Target("sm_90a", "cuda", 32, 227 * 1024),
    )
}


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """A dense row-major array that a launcher gets."""

    shape: tuple[int, ...]
    dtype: np.dtype


@dataclasses.dataclass(frozen=True)
class ArrayArgument:
    """A kernel gets the address of array `index`: operands first, then scalars that are arrays, then results, then temporaries."""

    index: int


@dataclasses.dataclass(frozen=True)
class ScalarArgument:
    """A kernel gets the value itself."""

    value: np.generic


@dataclasses.dataclass(frozen=True)
class Launch:
    """One kernel over a grid."""

    text: str
    """The module in text form. Equal texts are compiled once."""
    name: str
    arguments: tuple[ArrayArgument | ScalarArgument, ...]
    grid: Extents
    block: Extents
    writes: tuple[int, ...]
    """Arrays that the kernel may write, by index."""


@dataclasses.dataclass(frozen=True)
class Program:
    """The launches of a launcher for given shapes, in order.

    `_trace.trace(launcher, target, operands, results, scalars)` makes it. `scalars` maps the launcher's keyword arguments to a
    number, which becomes a `ScalarArgument` or a constant, or to a dtype: then the value lies in an array of no dimensions,
    read by the kernel when it runs; those arrays are numbered in the order of the mapping.
    """

    launches: tuple[Launch, ...]
    temporaries: tuple[ArraySpec, ...] = ()
