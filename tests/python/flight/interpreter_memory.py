"""Memory of the interpreter: flat arrays, views through layouts, copies that are done later."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from jaxator.flight.layout import ComposedLayout, Layout
from jaxator.flight.layout.values import parse


@dataclasses.dataclass
class Memory:
    array: np.ndarray
    name: str

    @staticmethod
    def poisoned(shape, dtype) -> np.ndarray:
        """What a kernel must not read: NaN, or a pattern."""
        array = np.empty(shape, dtype)
        if array.dtype.kind in "fV":
            array[...] = np.array(np.nan).astype(dtype)
        else:
            array.reshape(-1).view(np.uint8)[...] = 0x5A if array.dtype != bool else 1
        return array

    def _check(self, places: np.ndarray, mask: np.ndarray) -> np.ndarray:
        wrong = mask & ((places < 0) | (places >= self.array.size))
        if wrong.any():
            raise IndexError(f"{self.name}: element {places[wrong][0]} of {self.array.size}")
        return np.where(mask, places, 0)

    def load(self, places: np.ndarray, mask: np.ndarray, other) -> np.ndarray:
        values = self.array[self._check(places, mask)]
        return np.where(mask, values, other).astype(self.array.dtype)

    def store(self, places: np.ndarray, mask: np.ndarray, values: np.ndarray) -> None:
        self._check(places, mask)
        self.array[places[mask]] = values[mask]


@dataclasses.dataclass
class Pointer:
    memory: Memory


@dataclasses.dataclass
class View:
    """Elements of the layout in order: (threads, elements)."""

    memory: Memory
    places: np.ndarray
    shape: tuple[int, ...]
    """Size of each mode."""


def make_view(pointer: Pointer, offset: np.ndarray, layout: str, dims: list[np.ndarray]) -> View:
    parts = layout.split(" o ")
    inside = np.zeros_like(offset)
    if len(parts) == 3 and parts[1].startswith("?"):
        inside, *dims = dims
        parts[1] = "0"
    numbers = []
    for dim in dims:
        assert (dim == dim[0]).all(), "a layout's sizes and strides are the same in all threads"
        numbers.append(int(dim[0]))
    remaining = iter(numbers)
    text = re.sub(r"\?(\{div=\d+\})?", lambda _: str(next(remaining)), " o ".join(parts))
    made = parse(text)
    outer = made.outer if isinstance(made, ComposedLayout) else made
    places = inside[:, None] + outer.indices()[None, :]
    if isinstance(made, ComposedLayout):
        places = places + made.offset
        bits, base, shift = made.inner.bits, made.inner.base, made.inner.shift
        mask = ((1 << bits) - 1) << (base + max(shift, 0))
        moved = (places & mask) >> shift if shift > 0 else (places & mask) << -shift
        places = places ^ moved
    return View(pointer.memory, offset[:, None] + places, mode_sizes(outer))


def mode_sizes(layout: Layout) -> tuple[int, ...]:
    return tuple(layout.mode(i).size for i in range(layout.rank))


class Queue:
    """Asynchronous copies: done when waited for, or at once."""

    def __init__(self, eager: bool):
        self._eager = eager
        self._open: list = []
        self._groups: list[list] = []

    def add(self, copy) -> None:
        if self._eager:
            copy()
        else:
            self._open.append(copy)

    def commit(self) -> None:
        self._groups.append(self._open)
        self._open = []

    def wait(self, pending: int) -> None:
        while len(self._groups) > pending:
            for copy in self._groups.pop(0):
                copy()
