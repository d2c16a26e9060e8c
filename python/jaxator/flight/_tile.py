"""Tiles: values of a whole block, spread over its threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jaxator.flight import _access, _math, _ops, _spread, _state, _tensor
from jaxator.flight._errors import FlightError
from jaxator.flight._types import DType, TileType, dtype_of, i32, index
from jaxator.flight._value import Scalar, Value
from jaxator.flight.layout.values import ComposedLayout

Shape = tuple[int, ...]


class Tile(Value):
    """Numbers of a block, with the operators of numbers. Modes of size 1 are repeated to the other operand's size."""

    __slots__ = ("_rebuild",)

    def __init__(self, ssa: str, type: TileType, rebuild: Callable[[str], Tile] | None = None):
        super().__init__(ssa, type)
        self._rebuild = rebuild

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def spread(self) -> str:
        return self.type.spread

    def __repr__(self) -> str:
        return f"a tile {self.dtype}{list(self.shape)}"

    def __getitem__(self, coordinate: Any) -> Any:
        raise FlightError(
            f"{self!r} is spread over the block and has no elements to index; store it to shared memory and load there"
        )

    def respread(self, spread: Any) -> Tile:
        """The same values, held by other threads."""
        spread = str(spread)
        if spread == self.spread:
            return self
        if self._rebuild:
            return self._rebuild(spread)
        kind = TileType(self.dtype, self.shape, spread)
        return _emit(f"flight.respread {self.use()} : {self.type.mlir} -> {kind.mlir}", kind)

    def sum(self, axis: int) -> Tile:
        """Along a mode, which stays with size 1."""
        return self._reduce("add", axis)

    def max(self, axis: int) -> Tile:
        return self._reduce("max", axis)

    def min(self, axis: int) -> Tile:
        return self._reduce("min", axis)

    def prod(self, axis: int) -> Tile:
        return self._reduce("mul", axis)

    def _reduce(self, combine: str, axis: int) -> Tile:
        rank = len(self.shape)
        if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
            raise FlightError(f"axis {axis!r} is not one of the {rank} modes of {self!r}")
        if self.dtype.kind in "bs":
            raise FlightError(f"{self!r} cannot be reduced; convert it with .to(...) first")
        mode = axis % rank
        shape = tuple(1 if i == mode else size for i, size in enumerate(self.shape))
        kind = TileType(self.dtype, shape, _spread.reduced(self.shape, mode, self.spread))
        return _emit(f"flight.reduce {combine} {self.use()} along {mode} : {self.type.mlir} -> {kind.mlir}", kind)

    def transpose(self, *order: int) -> Tile:
        """Mode i of the result is mode order[i]; without an order the modes are reversed."""
        rank = len(self.shape)
        modes = tuple(order) or tuple(reversed(range(rank)))
        if sorted(modes) != list(range(rank)):
            raise FlightError(f"transpose: {modes} is no order of {rank} modes")
        shape = tuple(self.shape[i] for i in modes)
        kind = TileType(self.dtype, shape, _spread.transposed(self.shape, modes, self.spread))
        return _emit(f"flight.transpose {self.use()} {list(modes)} : {self.type.mlir} -> {kind.mlir}", kind)

    @property
    def T(self) -> Tile:  # noqa: N802 as in NumPy
        return self.transpose()

    def broadcast_to(self, shape: Any, spread: str | None = None) -> Tile:
        """Modes of size 1 repeated."""
        shape = _shape(shape)
        if len(shape) != len(self.shape) or any(a not in (1, b) for a, b in zip(self.shape, shape, strict=True)):
            raise FlightError(f"{self!r} cannot be repeated to the shape {list(shape)}")
        spread = spread or _default(shape, self.dtype)
        if shape == self.shape:
            return self.respread(spread)
        source = self.respread(_spread.along(shape, _spread.projection(shape, self.shape), spread))
        kind = TileType(self.dtype, shape, spread)
        return _emit(f"flight.broadcast {source.use()} : {source.type.mlir} -> {kind.mlir}", kind)


def _emit(text: str, kind: TileType) -> Tile:
    return Tile(_state.current("a tile").op(text), kind)


def _shape(shape: Any) -> Shape:
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise FlightError(f"the tile's shape {sizes!r} must be of positive Python ints")
    return sizes


def _default(shape: Shape, dtype: DType, fastest: int = -1) -> str:
    return _spread.default(shape, _state.current("a tile").threads, dtype.bits, fastest % len(shape))


# ---- making tiles ----------------------------------------------------------------------------------------------------


def full(shape: Any, value: Any, dtype: Any = None, spread: Any = None) -> Tile:
    """One value everywhere."""
    shape = _shape(shape)
    dtype = dtype_of(dtype) if dtype is not None else value.dtype if isinstance(value, Value) else _ops.default_type(value)
    scalar = _ops.scalar(value, dtype)

    def build(chosen: str) -> Tile:
        kind = TileType(dtype, shape, chosen)
        text = f"flight.splat {scalar.use()} : {dtype.mlir} -> {kind.mlir}"
        return Tile(_state.current("a tile").op(text), kind, build)

    return build(str(spread) if spread else _default(shape, dtype))


def iota(shape: Any, mode: int, spread: Any = None) -> Tile:
    """Each element's coordinate in a mode, i32."""
    shape = _shape(shape)
    if not 0 <= mode < len(shape):
        raise FlightError(f"mode {mode!r} is not one of the {len(shape)} of the shape {list(shape)}")

    def build(chosen: str) -> Tile:
        kind = TileType(i32, shape, chosen)
        return Tile(_state.current("a tile").op(f"flight.iota {mode} : {kind.mlir}"), kind, build)

    return build(str(spread) if spread else _default(shape, i32))


# ---- element by element ----------------------------------------------------------------------------------------------


def map_tiles(apply: Callable[..., Any], operands: list[Any]) -> Any:
    """apply(element of each operand) for all elements. Operands that are numbers are the same for all."""
    tiles = _alike([x for x in operands if isinstance(x, Tile)])
    emitter = _state.current("a tile").emitter
    names = [emitter.new_names(1)[0] for _ in tiles]
    with emitter.nested() as region:
        elements = iter([Scalar(name, tile.dtype) for name, tile in zip(names, tiles, strict=True)])
        result = apply(*(next(elements) if isinstance(x, Tile) else x for x in operands))
        several = result if isinstance(result, tuple) else (result,)
        values = [_ops.scalar(x) for x in several]
        types = ", ".join(x.dtype.mlir for x in values)
        location = _state.current().location()
        emitter.line(f"flight.yield {', '.join(x.use() for x in values)} : {types}", location)
    kinds = [TileType(x.dtype, tiles[0].shape, tiles[0].spread) for x in values]
    arguments = ", ".join(f"{name}: {tile.dtype.mlir}" for name, tile in zip(names, tiles, strict=True))
    results = emitter.new_names(len(kinds))
    inputs = ", ".join(tile.use() for tile in tiles)
    outputs = ", ".join(kind.mlir for kind in kinds)
    target = results[0] if len(results) == 1 else f"{results[0].split('#')[0]}:{len(results)}"
    header = f"{target} = flight.map({inputs}) : ({', '.join(tile.type.mlir for tile in tiles)}) -> "
    header += (outputs if len(kinds) == 1 else f"({outputs})") + " {"
    emitter.block(header, [("}", [f"^bb0({arguments}):", *region.lines])], location)
    made = [Tile(name, kind) for name, kind in zip(results, kinds, strict=True)]
    return tuple(made) if isinstance(result, tuple) else made[0]


def elements(function: Callable[..., Any], *operands: Any) -> Any:
    """function(element of each operand) for every element of tiles or fragments, as one operation; it may return a tuple."""
    from jaxator.flight import _call

    if not any(isinstance(x, Tile) for x in operands):
        return _call.call(function, *operands)
    return map_tiles(functools.partial(_call.call, function), list(operands))


def _alike(tiles: list[Tile]) -> list[Tile]:
    """In one shape and one spread: that of the first tile which has the whole shape and was not made of nothing."""
    shape = _common_shape(tiles)
    whole = [tile for tile in tiles if tile.shape == shape]
    leader = next((tile for tile in whole if not tile._rebuild), whole[0] if whole else None)
    spread = leader.spread if leader is not None else _default(shape, tiles[0].dtype)
    return [tile.broadcast_to(shape, spread) for tile in tiles]


def _common_shape(tiles: list[Tile]) -> Shape:
    rank = len(tiles[0].shape)
    for other in tiles[1:]:
        if len(other.shape) != rank:
            raise FlightError(f"{tiles[0]!r} and {other!r} have different numbers of modes")
    shape = []
    for i in range(rank):
        sizes = {tile.shape[i] for tile in tiles} - {1}
        if len(sizes) > 1:
            shapes = " and ".join(repr(tile) for tile in tiles)
            raise FlightError(f"{shapes} have different sizes in mode {i}: {sorted(sizes)}")
        shape.append(sizes.pop() if sizes else 1)
    return tuple(shape)


# ---- memory ----------------------------------------------------------------------------------------------------------


def _tile_shape(tensor: _tensor.Tensor, what: str) -> Shape:
    _access.static_shape(tensor, what)
    return tuple(tensor.shape)


def fastest_mode(tensor: _tensor.Tensor) -> int:
    """The mode that is contiguous in memory; the last one if none is."""
    outer = tensor.layout.outer if isinstance(tensor.layout, ComposedLayout) else tensor.layout
    strides = outer.stride if isinstance(outer.shape, tuple) else (outer.stride,)
    for i, stride in enumerate(strides):
        first = stride
        while isinstance(first, tuple):
            first = first[0]
        if first == 1 and tensor.shape[i] != 1:
            return i
    return len(strides) - 1


def bounds_of(tensor: _tensor.Tensor, bounds: Any = True) -> str:
    """The operand `bounds` of an operation on tiles: for each mode how many elements are there."""
    given = bounds if isinstance(bounds, tuple) else (None,) * tensor.rank
    if len(given) != tensor.rank:
        raise FlightError(f"bounds: {len(given)} numbers are given for the {tensor.rank} modes of {tensor!r}")
    if bounds is False or (not tensor.overhang and all(x is None for x in given)):
        return ""
    start = _access.origin(tensor)[1] if tensor.overhang else ()
    limits: list[Any] = list(tensor.shape)
    for dim in sorted(tensor.overhang):
        left = tensor.memory.extents[dim] - start[dim]
        if dim in tensor.dims:
            limits[tensor.dims.index(dim)] = left
        else:
            limits[0] = _math.where(_ops.scalar(left, index) > 0, limits[0], 0)
    limits = [a if b is None else _math.minimum(a, b) for a, b in zip(limits, given, strict=True)]
    return f" bounds({', '.join(_ops.scalar(x, index).use() for x in limits)})"


def _spread_as(spread: Any, shape: tuple[int, ...]) -> str:
    """A spread that was named; of a tile, the one in which threads hold what they need beside their parts of it."""
    if not isinstance(spread, Tile):
        return str(spread)
    whole = spread.shape
    if len(whole) != len(shape) or any(a not in (1, b) for a, b in zip(shape, whole, strict=True)):
        raise FlightError(f"load_tile: a tile of {list(shape)} has no spread of {spread!r}: its modes must be equal or 1")
    return spread.spread if shape == whole else _spread.along(whole, _spread.projection(whole, shape), spread.spread)


def load(tensor: _tensor.Tensor, other: Any, spread: Any, bounds: Any) -> Tile:
    shape = _tile_shape(tensor, "load_tile")
    limits = bounds_of(tensor, bounds)
    source, view = _access.view(tensor)
    chosen = _spread_as(spread, shape) if spread is not None else _default(shape, view.dtype, fastest_mode(tensor))
    kind = TileType(view.dtype, shape, chosen)
    text = f"flight.tile_load {source}{limits}"
    if limits and other is not None:
        filler = _ops.scalar(int(other) if tensor.memory.is_bool else other, view.dtype)
        text += f" other({filler.use()} : {view.dtype.mlir})"
    return _ops.to(_emit(f"{text} : {view.mlir} -> {kind.mlir}", kind), tensor.dtype)


def store(tensor: _tensor.Tensor, value: Any, bounds: Any) -> None:
    shape = _tile_shape(tensor, "store_tile")
    _access.note_write(tensor)
    if not isinstance(value, Tile):
        value = full(shape, value, tensor.dtype)
    _access.check_dtype(tensor, value)
    if value.shape != shape:
        if len(value.shape) != len(shape) or any(a not in (1, b) for a, b in zip(value.shape, shape, strict=True)):
            raise FlightError(f"store_tile: {value!r} does not have the shape {list(shape)} of {tensor!r}")
        value = value.broadcast_to(shape)
    limits = bounds_of(tensor, bounds)
    destination, view = _access.view(tensor)
    value = _access.stored(tensor, value)
    _state.current("store_tile").line(
        f"flight.tile_store {value.use()}, {destination}{limits} : {value.type.mlir}, {view.mlir}"
    )


def copy(source: _tensor.Tensor, destination: _tensor.Tensor, *, asynchronous: bool = False, spread: Any = None) -> None:
    """The block copies a tensor of global memory to one of shared memory, with zeros for what lies past the array's end.
    With `asynchronous` it goes on meanwhile: flight.commit, flight.wait, then flight.barrier. Without, a barrier is still
    needed before other threads read."""
    shape = _tile_shape(source, "copy")
    if (source.memory.type.space, destination.memory.type.space) != ("global", "shared"):
        raise FlightError(f"copy goes from global to shared memory, not from {source!r} to {destination!r}")
    if _tile_shape(destination, "copy") != shape:
        raise FlightError(
            f"copy: the shapes of {source!r} and {destination!r} differ: {list(shape)} and {list(destination.shape)}"
        )
    if source.dtype != destination.dtype:
        raise FlightError(f"copy: {source!r} holds {source.dtype}, {destination!r} holds {destination.dtype}")
    chosen = str(spread) if spread else _default(shape, source.dtype, fastest_mode(source))
    limits = bounds_of(source)
    source_ssa, source_view = _access.view(source)
    destination_ssa, view = _access.view(destination)
    text = f'flight.tile_copy {source_ssa} to {destination_ssa}{limits} spread "{chosen}"{" async" if asynchronous else ""}'
    _state.current("copy").line(f"{text} : {source_view.mlir} to {view.mlir}")
