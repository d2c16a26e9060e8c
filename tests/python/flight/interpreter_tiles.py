"""Operations of the interpreter on whole tiles and by matrix instructions."""

from __future__ import annotations

import re

import numpy as np
from interpreter_memory import View
from interpreter_text import Operation

from jaxator.flight._atoms import atoms
from jaxator.flight._program import TARGETS

COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def operands_in(operation: Operation, word: str) -> list[str]:
    found = re.search(rf"\b{word}\(([^)]*?)(?: : [^)]*)?\)", operation.text)
    return [x.strip() for x in found[1].split(",")] if found else []


class TileOperations:
    def _bounded(self, view: View, operation: Operation, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places and which of them are inside, in the tile's shape."""
        places = view.places[mask][0].reshape(view.shape, order="F")
        assert (view.places[mask] == view.places[mask][0]).all(), "threads disagree about the view of a tile"
        inside = np.ones(view.shape, bool)
        for mode, name in enumerate(operands_in(operation, "bounds")):
            limit = self._block.values[name][mask][0]
            along = np.arange(view.shape[mode]).reshape([-1 if i == mode else 1 for i in range(len(view.shape))])
            inside &= along < limit
        return places, inside

    def flight_tile_load(self, operation: Operation, mask: np.ndarray):
        view = self._in(operation)[0]
        other = [self._block.values[x][0] for x in operands_in(operation, "other")]
        return view.memory.load(
            *self._bounded(view, operation, mask), other[0] if other else np.zeros(1, view.memory.array.dtype)
        )

    def flight_tile_store(self, operation: Operation, mask: np.ndarray):
        value, view = self._in(operation)[:2]
        places, inside = self._bounded(view, operation, mask)
        view.memory.store(places, inside, value)

    def flight_tile_copy(self, operation: Operation, mask: np.ndarray):
        source, target = self._in(operation)[:2]
        places, inside = self._bounded(source, operation, mask)
        into = target.places[mask][0].reshape(target.shape, order="F")

        def copy():
            values = source.memory.load(places, inside, np.zeros(1, source.memory.array.dtype))
            target.memory.store(into, np.ones(target.shape, bool), values)

        if re.search(r'" async\b', operation.text):
            self._block.queue.add(copy)
        else:
            copy()

    def _shape(self, operation: Operation) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r'tile<\w+, "\(([\d,]+)\)"', operation.types)[-1].split(",")))

    def flight_splat(self, operation: Operation, mask: np.ndarray):
        value = self._in(operation)[0][mask]
        assert value[0] != value[0] or (value == value[0]).all(), "threads disagree about a tile's value"
        return np.full(self._shape(operation), value[0])

    def flight_iota(self, operation: Operation, mask: np.ndarray):
        return np.indices(self._shape(operation), np.int32)[int(operation.text.split()[0])]

    def flight_reduce(self, operation: Operation, mask: np.ndarray):
        combine, mode = re.match(r" (\w+) .* along (\d+)", operation.text).groups()
        (x,) = self._in(operation)
        return COMBINE[combine].reduce(x, axis=int(mode), keepdims=True, dtype=x.dtype)

    def flight_broadcast(self, operation: Operation, mask: np.ndarray):
        return np.broadcast_to(self._in(operation)[0], self._shape(operation)).copy()

    def flight_transpose(self, operation: Operation, mask: np.ndarray):
        order = [int(x) for x in re.search(r"\[([\d, ]+)\]", operation.text)[1].split(",")]
        return self._in(operation)[0].transpose(order)

    def flight_respread(self, operation: Operation, mask: np.ndarray):
        return self._in(operation)[0]

    def flight_tile_mma(self, operation: Operation, mask: np.ndarray):
        a, b, c = self._in(operation)
        a, b = (self._operand(x, mask) for x in (a, b))
        integer = c.dtype.kind == "i"
        wide = np.int64 if integer else np.float64
        return (c.astype(wide) + a.astype(wide) @ b.astype(wide).T).astype(c.dtype)

    def flight_mma(self, operation: Operation, mask: np.ndarray):
        """Each group of lanes brings its matrices together, and takes its part of the result."""
        name = re.match(r' "(\w+)"', operation.text)[1]
        atom = next(found[name] for target in TARGETS if name in (found := atoms(target)))
        a, b, c = self._in(operation)
        result = c.copy()
        for first in range(0, self._count, atom.lanes):
            lanes = slice(first, first + atom.lanes)
            left = _gathered(a[lanes], atom.a, (atom.m, atom.k))
            right = _gathered(b[lanes], atom.b, (atom.n, atom.k))
            total = _gathered(c[lanes], atom.c, (atom.m, atom.n)) + left @ right.T
            result[lanes] = total.reshape(-1, order="F")[_places(atom.c)]
        return result

    def _operand(self, x, mask: np.ndarray):
        if not isinstance(x, View):
            return x
        places = x.places[mask][0].reshape(x.shape, order="F")
        return x.memory.load(places, np.ones(x.shape, bool), np.zeros(1, x.memory.array.dtype))


def _places(spread) -> np.ndarray:
    """Element of each (lane, value)."""
    return spread.indices().reshape(spread.mode(1).size, spread.mode(0).size).T


def _gathered(values: np.ndarray, spread, shape: tuple[int, int]) -> np.ndarray:
    matrix = np.zeros(shape[0] * shape[1])
    matrix[_places(spread)] = values
    return matrix.reshape(shape, order="F")
