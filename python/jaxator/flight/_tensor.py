"""Tensors: memory seen through a layout."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jaxator.flight import _access, _fragment, _layouts
from jaxator.flight._errors import FlightError
from jaxator.flight._layouts import is_multiple, mode_shapes, mode_size, tiler_text, tuple_text
from jaxator.flight._types import DType, Pointer, bool_
from jaxator.flight._value import Fragment, Scalar, Value, size_of
from jaxator.flight.layout._call import IntTuple, to_text
from jaxator.flight.layout.values import AnyLayout, Layout


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """Where a tensor's elements are."""

    name: str
    ssa: str
    type: Pointer
    extents: tuple[Any, ...] = ()
    """Of an array, for bounds: its dimensions."""
    array: int | None = None
    """Number of the launcher's array; None of shared memory."""
    read_only: bool = False
    is_bool: bool = False
    """The bytes hold 0 or 1."""

    @property
    def dtype(self) -> DType:
        return bool_ if self.is_bool else self.type.dtype


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Tensor:
    """Elements of an array or of shared memory, seen through a layout. Cutting it up moves nothing.

    t[i, j] is an element and t[i, j] = x stores one; with None (or ':') in the place of a coordinate it is a smaller tensor.
    Coordinates may be of run time. Static ones are checked.
    """

    memory: Memory
    offset: Any
    """Elements before the layout begins, static or of run time."""
    layout: AnyLayout
    history: tuple[tuple[Any, ...], ...] = ()
    """How the layout was cut out of the array's: (operation, argument)."""
    overhang: frozenset[int] = frozenset()
    """Dimensions of the array that a tile may reach past; loads and stores check these."""
    dims: tuple[int | None, ...] = ()
    """For each mode the dimension of the array that it runs along."""

    @property
    def dtype(self) -> DType:
        return self.memory.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """Size of each mode: static or of run time."""
        return tuple(map(mode_size, mode_shapes(self.layout)))

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        return self.layout.rank

    def __repr__(self) -> str:
        return f"{self.memory.name}: {self.dtype} {_layouts._HANDLE.sub('?', str(self.layout))}"

    def __bool__(self) -> bool:
        raise FlightError(f"the tensor {self!r} has no truth value")

    def __iter__(self) -> Any:
        raise FlightError(
            f"the tensor {self!r} cannot be iterated over; use flight.static_range(...) and its element or slice"
        )

    # ---- cutting up

    def __getitem__(self, coordinate: Any) -> Any:
        coordinate = _coordinate(self, coordinate)
        return self._slice(coordinate) if _has_none(coordinate) else _load_element(self, coordinate)

    def _slice(self, coordinate: Any) -> Tensor:
        text = tuple_text(coordinate)
        parts = coordinate if isinstance(coordinate, tuple) else (coordinate,)
        dims: tuple[int | None, ...] = ()
        if len(parts) == len(self.dims):
            for part, dim in zip(parts, self.dims, strict=True):
                dims += _dims_of(part, dim)
        lines = _layouts.record("slice", str(self.layout), text)
        offset = self.offset if len(lines) == 1 else self.offset + _layouts.numbers(_layouts.from_text(lines[1]))
        layout = _layouts.as_layout(lines[0])
        return dataclasses.replace(self, offset=offset, layout=layout, history=(*self.history, ("slice", text)), dims=dims)

    def _apply(self, operation: str, argument: str, **changes: Any) -> Tensor:
        layout = _layouts.apply(operation, self.layout, argument)
        return dataclasses.replace(self, layout=layout, history=(*self.history, (operation, argument)), **changes)

    def tile(self, tiler: Any) -> Tensor:
        """Two modes: (the elements of one tile, the tiles). The tiler has a size, a layout or None for each mode."""
        tiler = tuple(tiler) if isinstance(tiler, tuple | list) else (tiler,)
        overhang = self.overhang | _overhanging(self, tiler)
        text = tiler_text(tiler if self.rank > 1 else tiler[0])
        return self._apply("zipped_divide", text, overhang=overhang, dims=(None, None))

    def local_tile(self, tile: Any, coordinate: Any) -> Tensor:
        """The tile with this number in each mode, as a tensor of the tile's shape. A tile may reach past the array's end:
        loads and stores then leave out what is not there."""
        tile = tuple(tile) if isinstance(tile, tuple | list) else (tile,)
        coordinate = tuple(coordinate) if isinstance(coordinate, tuple | list) else (coordinate,)
        if len(tile) != self.rank or len(coordinate) != self.rank:
            raise FlightError(
                f"local_tile: {self!r} has {self.rank} modes, the tile {len(tile)} and the coordinate {len(coordinate)}"
            )
        dims = self.dims
        tiled = self.tile(tile)
        inner = tiled[None, coordinate if self.rank > 1 else coordinate[0]]
        return dataclasses.replace(inner, dims=dims)

    def window(self, start: Any, shape: Any) -> Tensor:
        """The part of this static shape that begins at any coordinate. As a tile, it may reach past the array's end."""
        start = tuple(start) if isinstance(start, tuple | list) else (start,)
        shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        return _window(self, start, shape)

    def partition(self, spread: Any, thread: Any) -> Tensor:
        """The elements of one thread. The spread is a layout (thread, value) -> number of the element, the leftmost mode of
        the tensor fastest."""
        if spread.rank != 2 or not isinstance(spread.shape, tuple):
            raise FlightError(f"partition: the spread {spread} must have two modes, (thread, value)")
        size = self.size
        if isinstance(size, int) and (spread.cosize != size):
            raise FlightError(
                f"partition: the spread {spread} is of {spread.cosize} elements, the tensor {self!r} has {size}"
            )
        return self._apply("composition", str(spread), dims=(None, None))[thread, None]

    def compose(self, layout: Any) -> Tensor:
        """The same elements in the order of another layout: t.compose(b)[i] is t[b(i)]."""
        return self._apply("composition", tiler_text(layout), dims=())

    # ---- memory

    def load(self, other: Any = None, bounds: bool = True) -> Fragment:
        """All elements into registers of this thread. What lies past the array's end is `other` (0)."""
        return _access.load(self, other, bounds)

    def store(self, value: Any, bounds: bool = True) -> None:
        """A fragment of the same size, or one number for all. What lies past the array's end is left out."""
        _access.store(self, value, bounds)

    def load_tile(self, other: Any = None, spread: Any = None, bounds: Any = True) -> Any:
        """The whole block reads the tensor, which must have static sizes, as one tile. What lies past the array's end is
        `other` (0). `bounds` may be a tuple: for each mode how many elements are there, None where the array says it. `spread`
        may be a tile with which this one, or its broadcast, is combined: no value then moves between threads."""
        from jaxator.flight import _tile

        return _tile.load(self, other, spread, bounds)

    def store_tile(self, value: Any, bounds: Any = True) -> None:
        """The whole block writes a tile."""
        from jaxator.flight import _tile

        _tile.store(self, value, bounds)


# ---- coordinates -----------------------------------------------------------------------------------------------------


def _coordinate(tensor: Tensor, coordinate: Any) -> Any:
    """One coordinate for each mode, static ones checked."""
    if isinstance(coordinate, list):
        coordinate = tuple(coordinate)
    shapes = mode_shapes(tensor.layout)
    if isinstance(coordinate, tuple) and coordinate == () and not tensor.memory.extents:
        return 0  # the one element of an array without dimensions
    if not isinstance(coordinate, tuple):
        _check_range(tensor, coordinate, shapes if len(shapes) > 1 else shapes[0])
        return coordinate
    if len(coordinate) == 1 and len(shapes) == 1:
        return _coordinate(tensor, coordinate[0])
    if len(coordinate) != len(shapes):
        raise FlightError(f"{len(coordinate)} coordinates are given for the {len(shapes)} modes of {tensor!r}")
    _check_range(tensor, coordinate, shapes)
    return coordinate


def _check_range(tensor: Tensor, coordinate: Any, shape: IntTuple) -> None:
    if isinstance(coordinate, tuple):
        if not isinstance(shape, tuple) or len(shape) != len(coordinate):
            raise FlightError(f"the coordinate {_show(coordinate)} does not fit the mode {to_text(shape)} of {tensor!r}")
        for part, inner in zip(coordinate, shape, strict=True):
            _check_range(tensor, part, inner)
        return
    if isinstance(coordinate, bool | float):
        raise FlightError(f"the coordinate {coordinate!r} must be an integer")
    if isinstance(coordinate, int):
        size = mode_size(shape)
        if coordinate < 0 or (isinstance(size, int) and coordinate >= size):
            raise FlightError(f"the coordinate {coordinate} is out of range: the mode has the size {size!r}, in {tensor!r}")


def _show(x: Any) -> str:
    return (
        "(" + ",".join(map(_show, x)) + ")"
        if isinstance(x, tuple)
        else "*"
        if x is None
        else "?"
        if not isinstance(x, int)
        else str(x)
    )


def _has_none(x: Any) -> bool:
    return any(map(_has_none, x)) if isinstance(x, tuple) else x is None or isinstance(x, slice)


def _dims_of(part: Any, dim: int | None) -> tuple[int | None, ...]:
    """Of what is left of a mode that a coordinate was given for."""
    if part is None or isinstance(part, slice):
        return (dim,)
    return (None,) * sum(map(_has_none, part)) if isinstance(part, tuple) else ()


def _overhanging(tensor: Tensor, tiler: tuple[Any, ...]) -> frozenset[int]:
    """Dimensions that the tile does not divide."""
    found = set()
    if len(tiler) > tensor.rank:
        raise FlightError(f"a tile of {len(tiler)} modes does not fit {tensor!r}")
    for i, (part, shape) in enumerate(zip(tiler, mode_shapes(tensor.layout), strict=False)):
        if part is None:
            continue
        if isinstance(part, Value):
            raise FlightError(
                f"the tile's size, {part!r}, must be static: a Python int, or a parameter with flight.Constexpr"
            )
        step = part if isinstance(part, int) else part.cosize if hasattr(part, "cosize") else size_of(part)
        size = mode_size(shape)
        if step < 1:
            raise FlightError(f"the tile's size {step} must be positive")
        if is_multiple(size, step):
            continue
        dim = tensor.dims[i] if i < len(tensor.dims) else None
        entire = dim is not None and not isinstance(shape, tuple) and _same_number(size, tensor.memory.extents[dim])
        if not entire:
            raise FlightError(f"the tile's size {step} does not divide {size!r}, mode {i} of {tensor!r}")
        found.add(dim)
    return frozenset(found)


def _window(tensor: Tensor, start: tuple[Any, ...], shape: tuple[Any, ...]) -> Tensor:
    modes = mode_shapes(tensor.layout)
    if len(start) != len(modes) or len(shape) != len(modes):
        raise FlightError(f"window: {tensor!r} has {len(modes)} modes, the start {len(start)} and the shape {len(shape)}")
    plain = isinstance(tensor.layout, Layout) and not any(isinstance(mode, tuple) for mode in modes)
    if not plain or not all(dim is not None for dim in tensor.dims) or len(tensor.dims) != len(modes):
        raise FlightError(f"window: {tensor!r} is no array or part of one with its dimensions")
    strides = tensor.layout.stride if isinstance(tensor.layout.stride, tuple) else (tensor.layout.stride,)
    offset = tensor.offset
    for first, stride in zip(start, strides, strict=True):
        offset = offset + first * _layouts.number(stride)
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise FlightError(f"window: the shape {_show(shape)} must be of positive Python ints")
    sizes, steps = (shape, strides) if len(shape) > 1 else (shape[0], strides[0])
    layout = _layouts.as_layout(f"{tuple_text(sizes)}:{to_text(steps)}")
    overhang = tensor.overhang | {
        dim
        for dim, first, size, extent in zip(tensor.dims, start, shape, tensor.shape, strict=True)
        if not (isinstance(first, int) and isinstance(extent, int) and 0 <= first <= extent - size)
    }
    history = (*tensor.history, ("window", tuple_text(sizes), start))
    return dataclasses.replace(tensor, offset=offset, layout=layout, overhang=frozenset(overhang), history=history)


def _same_number(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


# ---- elements ---------------------------------------------------------------------------------------------------------


def _element(tensor: Tensor, coordinate: Any) -> Tensor:
    lines = _layouts.record("crd2idx", str(tensor.layout), tuple_text(coordinate))
    offset = tensor.offset + _layouts.number(_layouts.from_text(lines[0]))
    return Tensor(tensor.memory, offset, _layouts.as_layout("1:0"))


def _load_element(tensor: Tensor, coordinate: Any) -> Scalar:
    return _fragment.get(_element(tensor, coordinate).load(), 0)


def store_element(tensor: Tensor, coordinate: Any, value: Any) -> None:
    coordinate = _coordinate(tensor, coordinate)
    target = tensor._slice(coordinate) if _has_none(coordinate) else _element(tensor, coordinate)
    if _has_none(coordinate) and isinstance(value, Tensor):
        raise FlightError("a tensor cannot be assigned to a tensor: load it first, or use flight.copy")
    target.store(value)
