"""Spreads: which thread of the block holds which elements of a tile. A spread is a layout (thread, value) -> number of the
element, the leftmost mode of the tile fastest."""

from __future__ import annotations

import functools
import math

from jaxator.flight._errors import FlightError
from jaxator.flight.layout import Layout, composition, raked_product, right_inverse
from jaxator.flight.layout._call import IntTuple


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[:i]) for i in range(len(shape))]


@functools.lru_cache(1024)
def default(shape: tuple[int, ...], threads: int, bits: int, fastest: int) -> str:
    """Each thread has 16 bytes along the mode that is contiguous in memory, neighbours are next to each other there, then
    along the other modes. Threads that are too many hold copies."""
    total = math.prod(shape)
    widest = max(1, 128 // bits)
    width = math.gcd(widest, shape[fastest])
    while width > 1 and total // width < threads:
        width //= 2
    strides = _strides(shape)
    rest = list(shape)
    rest[fastest] //= width
    thread_modes: list[tuple[int, int]] = []
    value_modes = [(width, strides[fastest])]
    left = threads
    order = [fastest, *(i for i in reversed(range(len(shape))) if i != fastest)]
    for i in order:
        step = strides[i] * (width if i == fastest else 1)
        taken = math.gcd(left, rest[i])
        thread_modes.append((taken, step))
        value_modes.append((rest[i] // taken, step * taken))
        left //= taken
    thread_modes.append((left, 0))
    return _text(thread_modes, value_modes)


def _text(thread: list[tuple[int, int]], value: list[tuple[int, int]]) -> str:
    """Modes of one element are left out."""

    def modes(pairs: list[tuple[int, int]]) -> tuple[IntTuple, IntTuple]:
        kept = [pair for pair in pairs if pair[0] != 1] or [(1, 0)]
        if len(kept) == 1:
            return kept[0]
        return tuple(size for size, _ in kept), tuple(stride for _, stride in kept)

    (threads, thread_strides), (values, value_strides) = modes(thread), modes(value)
    return str(Layout((threads, values), (thread_strides, value_strides)))


def _leaves(shape: IntTuple, stride: IntTuple) -> list[tuple[int, int]]:
    if isinstance(shape, tuple):
        return [leaf for s, d in zip(shape, stride, strict=True) for leaf in _leaves(s, d)]  # type: ignore[arg-type]
    return [(shape, stride)]  # type: ignore[list-item]


@functools.lru_cache(1024)
def along(shape: tuple[int, ...], strides: tuple[int, ...], spread: str) -> str:
    """The spread of what has element i at the sum of coordinate times stride: every thread keeps what it had, once."""
    try:
        moved = composition(Layout(shape, strides), Layout.parse(spread))
    except ValueError as error:
        raise FlightError(f"the spread {spread} of a tile {shape} cannot be followed: {error}") from None
    thread, value = moved.mode(0), moved.mode(1)
    values = [leaf for leaf in _leaves(value.shape, value.stride) if leaf[1] != 0]
    return _text(_leaves(thread.shape, thread.stride), values)


def reduced(shape: tuple[int, ...], mode: int, spread: str) -> str:
    """Where every thread with a part of a row gets the row's result."""
    return along(shape, projection(shape, tuple(1 if i == mode else size for i, size in enumerate(shape))), spread)


def projection(shape: tuple[int, ...], smaller: tuple[int, ...]) -> tuple[int, ...]:
    """Strides from coordinates of a shape to elements of one that has size 1 in some modes."""
    strides = _strides(smaller)
    return tuple(0 if small == 1 else stride for small, stride in zip(smaller, strides, strict=True))


def transposed(shape: tuple[int, ...], order: tuple[int, ...], spread: str) -> str:
    """Mode i of the result is mode order[i]."""
    strides = _strides(tuple(shape[i] for i in order))
    return along(shape, tuple(strides[order.index(i)] for i in range(len(shape))), spread)


def thread_values(threads: Layout, values: Layout) -> Layout:
    """The spread of a tile in which the threads stand as the one layout says (coordinate -> thread), each with a block of
    values in the order of the other. The tile's size is the product of both, mode by mode.

    >>> print(thread_values(Layout((4, 8), (8, 1)), Layout((1, 4), (4, 1))))
    ((8,4),4):((16,1),4)
    """
    place = right_inverse(raked_product(threads, values))
    result = composition(place, Layout((threads.size, values.size)))
    assert isinstance(result, Layout)
    return result
