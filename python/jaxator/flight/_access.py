"""How tensors become loads and stores: views of memory with derived alignment, masks at the ends of arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from jaxator.flight import _layouts, _ops, _state
from jaxator.flight._errors import FlightError
from jaxator.flight._layouts import is_multiple, tuple_text
from jaxator.flight._types import DType, Vector, View, bool_, u8
from jaxator.flight._value import Fragment, size_of
from jaxator.flight.layout._call import IntTuple, to_text
from jaxator.flight.layout.values import ComposedLayout

if TYPE_CHECKING:
    from jaxator.flight._tensor import Tensor


def origin(tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """(the layout that gives each element's coordinate in the array, the coordinate of the first one)."""
    extents = tensor.memory.extents
    rank = len(extents)
    shape = tuple_text(extents) if rank > 1 else tuple_text(extents[0])
    basis = "(" + ",".join(f"E{i}" for i in range(rank)) + ")" if rank > 1 else "E0"
    layout = f"{shape}:{basis}"
    start: list[Any] = [0] * rank
    for operation, argument, *starts in tensor.history:
        if operation == "window":
            inner = _layouts.as_layout(layout)
            strides = inner.stride if isinstance(inner.stride, tuple) else (inner.stride,)
            for stride, first in zip(strides, starts[0], strict=True):
                dim = int(str(stride).removeprefix("E"))
                start[dim] = start[dim] + first
            layout = f"{argument}:{to_text(inner.stride)}"
            continue
        lines = _layouts.record(operation, layout, argument)
        layout = lines[0]
        if operation == "slice":
            index = _layouts.numbers(_layouts.from_text(lines[1]))
            for i, x in enumerate(index if isinstance(index, tuple) else ()):
                start[i] = start[i] + x
    return _layouts.as_layout(layout), tuple(start)


def view(tensor: Tensor) -> tuple[str, View]:
    """Emits the view of a tensor."""
    layout, offset = tensor.layout, tensor.offset
    if isinstance(layout, ComposedLayout):
        inside = _layouts.number(layout.offset) if isinstance(layout.offset, int | str) else 0
        swizzle = layout.inner
        period = 1 << (swizzle.base + swizzle.bits + abs(swizzle.shift))
        if is_multiple(inside, period):
            layout, offset = ComposedLayout(swizzle, 0, layout.outer), offset + inside
    memory = tensor.memory.type
    text, dims = _layouts.static_text(layout)
    align = math.gcd(memory.align, _ops.facts(offset)[0] * memory.dtype.bits // 8) or memory.align
    kind = View(memory.dtype, memory.space, text, align)
    place = _ops.scalar(offset, _ops.index).use()
    operands = f" dims({', '.join(x.use() for x in dims)})" if dims else ""
    op = _state.current("memory").pure
    return op(f"flight.view {tensor.memory.ssa}[{place}]{operands} : {memory.mlir} -> {kind.mlir}"), kind


def _mask(tensor: Tensor, shape: IntTuple) -> str | None:
    """Which elements are in the array, as a vector of bool; None if all are."""
    if not tensor.overhang:
        return None
    count, op = size_of(shape), _state.current().pure
    layout, start = origin(tensor)
    places = [layout(i) for i in range(layout.size)]
    mask = None
    for dim in sorted(tensor.overhang):
        steps = [place[dim] if isinstance(place, tuple) and dim < len(place) else 0 for place in places]
        limit = _ops.scalar(tensor.memory.extents[dim], _ops.index)
        first = _ops.scalar(start[dim], _ops.index)
        if any(steps):
            wide = Vector(_ops.index, count).mlir
            shown = _state.current().emitter.constant(f"dense<[{', '.join(map(str, steps))}]>", wide)
            at = op(f"arith.addi {_ops.spread_out(first, _ops.index, _like(shape))}, {shown} : {wide}")
            inside = op(f"arith.cmpi slt, {at}, {_ops.spread_out(limit, _ops.index, _like(shape))} : {wide}")
        else:
            inside = _ops.spread_out(first < limit, _ops.bool_, _like(shape))
        mask = inside if mask is None else op(f"arith.andi {mask}, {inside} : vector<{count}xi1>")
    return mask


def _like(shape: IntTuple) -> Fragment:
    return Fragment("%none", _ops.index, shape)


def static_shape(tensor: Tensor, what: str) -> IntTuple:
    shape = tensor.layout.shape
    if any(isinstance(size, str) for size in _leaves(shape)):
        raise FlightError(f"{what}: {tensor!r} must have static sizes; take a part of it with local_tile or partition")
    return shape


def _leaves(shape: IntTuple) -> list[Any]:
    return [x for part in shape for x in _leaves(part)] if isinstance(shape, tuple) else [shape]


def load(tensor: Tensor, other: Any, bounds: bool) -> Fragment:
    shape = static_shape(tensor, "load")
    mask = _mask(tensor, shape) if bounds else None
    source, kind = view(tensor)
    element = kind.dtype
    result = Vector(element, size_of(shape))
    text = f"flight.load {source}"
    if mask is not None:
        text += f" mask({mask} : vector<{result.count}xi1>)"
        filler = _ops.scalar(0 if other is None else int(other) if tensor.memory.is_bool else other, element)
        text += f" other({filler.use()} : {element.mlir})"
    loaded = Fragment(_state.current("load").op(f"{text} : {kind.mlir} -> {result.mlir}"), element, shape)
    return _ops.to(loaded, tensor.dtype)


def note_write(tensor: Tensor) -> None:
    memory = tensor.memory
    if memory.read_only:
        raise FlightError(
            f"{memory.name} is an operand of the program, which may not be written: make it a result (and alias the two "
            "if the kernel works in place)"
        )
    if memory.array is not None:
        _state.current("store").written.add(memory.array)


def store(tensor: Tensor, value: Any, bounds: bool) -> None:
    shape = static_shape(tensor, "store")
    note_write(tensor)
    count = size_of(shape)
    if isinstance(value, Fragment) and value.size != count:
        raise FlightError(f"store: {value!r} has {value.size} elements, the tensor {tensor!r} has {count}")
    check_dtype(tensor, value)
    mask = _mask(tensor, shape) if bounds else None
    destination, kind = view(tensor)
    ssa = _ops.spread_out(stored(tensor, value), kind.dtype, _like(shape))
    text = f"flight.store {ssa}, {destination}"
    if mask is not None:
        text += f" mask({mask} : vector<{count}xi1>)"
    _state.current("store").line(f"{text} : {Vector(kind.dtype, count).mlir}, {kind.mlir}")


def check_dtype(tensor: Tensor, value: Any) -> None:
    """Stores do not convert, except a Python number."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, DType) and dtype != tensor.dtype:
        raise FlightError(
            f"store: the value is {dtype}, {tensor.memory.name} holds {tensor.dtype}; "
            f"convert it with .to(flight.{tensor.dtype})"
        )


def stored(tensor: Tensor, value: Any) -> Any:
    """As it stands in memory."""
    return _ops.to(_ops.to(value, bool_), u8) if tensor.memory.is_bool else value
