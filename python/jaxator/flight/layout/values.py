"""Layouts, swizzles and swizzled layouts as values: immutable, hashable, picklable, equal where they are written alike."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxator.flight.layout._call import IntTuple, call, from_text, to_text


def _index(layout: Any, coordinates: tuple[Any, ...]) -> int | tuple[Any, ...]:
    if not coordinates:
        raise TypeError("an index or a coordinate is missing")
    coordinate = coordinates[0] if len(coordinates) == 1 else coordinates
    return from_text(call("crd2idx", str(layout), to_text(coordinate)))


def _indices(layout: Any) -> np.ndarray:
    return np.array(call("indices", str(layout)).split(" "), dtype=np.int64)


def _depth(shape: IntTuple) -> int:
    return 1 + max(map(_depth, shape), default=0) if isinstance(shape, tuple) else 0


@dataclasses.dataclass(frozen=True, slots=True, init=False, repr=False)
class Layout:
    """A function from coordinates to indices, given by a shape and a stride of the same nesting. The leftmost mode is the
    fastest. Without a stride the layout is compact.

    >>> a = Layout(((4, 2), 8), ((2, 1), 8))
    >>> print(a)
    ((4,2),8):((2,1),8)
    >>> a(5), a(1, 0), a((1, 1), 3)
    (3, 2, 27)
    >>> a == Layout.parse("((4, 2), 8) : ((2, 1), 8)")
    True
    >>> Layout((4, 8)).stride
    (1, 4)

    Raises ValueError with the library's words where shape or stride break a rule.

    >>> Layout((4, 0), (1, 4))
    Traceback (most recent call last):
      ...
    ValueError: layout: leaf 1: shape 0 must be a positive number
    """

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: Any, stride: Any = None) -> None:
        if stride is None:
            self._set(call("compact", to_text(shape)))
        else:
            self._set(call("normalize", to_text(shape) + ":" + to_text(stride)))

    def _set(self, text: str) -> None:
        shape, stride = text.split(":")
        object.__setattr__(self, "shape", from_text(shape))
        object.__setattr__(self, "stride", from_text(stride))

    @staticmethod
    def parse(text: str) -> Layout:
        """Reads what str() writes."""
        layout = parse(text)
        if not isinstance(layout, Layout):
            raise ValueError(f"{text} is no plain layout (shape):(stride)")
        return layout

    def __call__(self, *coordinates: Any) -> int | tuple[Any, ...]:
        """The index of a number, which counts through all modes, or of a coordinate: one argument a mode, or one nested
        tuple. None counts as 0. With basis strides the index is a tuple."""
        return _index(self, coordinates)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return from_text(call("size", str(self)))

    @property
    def cosize(self) -> int:
        """One more than the distance from the smallest to the largest index."""
        return from_text(call("cosize", str(self)))

    @property
    def rank(self) -> int:
        """Number of modes; 1 of a single leaf."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def depth(self) -> int:
        """Levels of tuples; 0 of a single leaf."""
        return _depth(self.shape)

    def mode(self, i: int) -> Layout:
        """
        >>> print(Layout.parse("((4,2),8):((2,1),8)").mode(0))
        (4,2):(2,1)
        """
        if not 0 <= i < self.rank:
            raise ValueError(f"mode: {i} is not one of {self.rank} modes")
        return Layout(self.shape[i], self.stride[i]) if isinstance(self.shape, tuple) else self

    def indices(self) -> np.ndarray:
        """The index of every number below the size, in order."""
        return _indices(self)

    def __str__(self) -> str:
        return to_text(self.shape) + ":" + to_text(self.stride)

    def __repr__(self) -> str:
        return f"Layout({self.shape!r}, {self.stride!r})"


@dataclasses.dataclass(frozen=True, slots=True)
class Swizzle:
    """The `bits` bits of an index from base + shift on, added without carry to those from base on. Its own inverse.

    >>> Swizzle(3, 4, 3)(0x90)
    128
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        call("normalize", str(self))

    def __call__(self, index: int) -> int:
        return _index(self, (index,))

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}>"


@dataclasses.dataclass(frozen=True, slots=True)
class ComposedLayout:
    """coordinate -> inner(offset + outer(coordinate)): a layout whose indices are swizzled. Made by `composition`.

    >>> a = ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 4), (4, 1)))
    >>> print(a)
    S<1,0,1> o 0 o (2,4):(4,1)
    >>> a.indices()
    array([0, 4, 1, 5, 3, 7, 2, 6])
    """

    inner: Swizzle
    offset: int
    outer: Layout

    def __post_init__(self) -> None:
        call("normalize", str(self))

    def __call__(self, *coordinates: Any) -> int | tuple[Any, ...]:
        return _index(self, coordinates)

    @property
    def shape(self) -> IntTuple:
        return self.outer.shape

    @property
    def size(self) -> int:
        return self.outer.size

    @property
    def rank(self) -> int:
        return self.outer.rank

    def indices(self) -> np.ndarray:
        return _indices(self)

    def __str__(self) -> str:
        return f"{self.inner} o {to_text(self.offset)} o {self.outer}"


AnyLayout = Layout | ComposedLayout


def parse(text: str) -> Layout | ComposedLayout | Swizzle:
    """Any of the three from its text.

    >>> parse("S<1,0,1>")
    Swizzle(bits=1, base=0, shift=1)
    >>> parse("S<1,0,1> o 0 o (2,4):(4,1)").outer
    Layout((2, 4), (4, 1))
    """
    parts = call("normalize", text).split(" o ")
    if parts[0].startswith("S"):
        swizzle = Swizzle(*map(int, parts[0][2:-1].split(",")))
        return swizzle if len(parts) == 1 else ComposedLayout(swizzle, from_text(parts[1]), Layout.parse(parts[2]))
    layout = object.__new__(Layout)
    layout._set(parts[0])
    return layout
