"""Shared memory, and copies that go on while the block computes."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxator.flight import _access, _layouts, _ops, _state
from jaxator.flight._errors import FlightError
from jaxator.flight._tensor import Memory, Tensor
from jaxator.flight._types import Pointer, dtype_of
from jaxator.flight.layout import ComposedLayout, Layout, Swizzle, make_ordered_layout

ALIGN = 128
"""Bytes: the start of a row of all banks, for any array."""
MOST_ALIGN = 1024
"""What the widest swizzle of sm_90a asks for: eight rows of 128 bytes."""


def shared(layout: Any, dtype: Any, swizzle: Swizzle | None = None) -> Tensor:
    """An array in the block's shared memory. The layout is a layout with static sizes, or a shape (then the last mode is
    contiguous). A swizzle permutes the elements' numbers."""
    trace = _state.current("flight.shared")
    if isinstance(layout, ComposedLayout):
        swizzle, layout = layout.inner, layout.outer
    if not isinstance(layout, Layout):
        shape = tuple(layout) if isinstance(layout, tuple | list) else layout
        order = tuple(range(len(shape) - 1, -1, -1)) if isinstance(shape, tuple) else 0
        layout = make_ordered_layout(shape, order)
    dtype = dtype_of(dtype)
    count = _extent(layout, swizzle)
    size = -(-count * dtype.stored.bits // 8)
    align = ALIGN
    if swizzle is not None:
        align = max(ALIGN, min(MOST_ALIGN, _period(swizzle) * dtype.stored.bits // 8))
    start = -(-trace.shared_bytes // align) * align
    trace.shared_bytes = start + size
    if trace.shared_bytes > trace.target.shared_bytes:
        raise FlightError(
            f"shared memory: {trace.shared_bytes} bytes with these {size} are more than the {trace.target.shared_bytes} of "
            "a block "
            f"on {trace.target.name}"
        )
    kind = Pointer(dtype.stored, "shared", align)
    (ssa,) = trace.emitter.new_names(1)
    trace.emitter.front.append(f"{ssa} = flight.shared {count} : {kind.mlir} loc({trace.location()})")
    return Tensor(
        Memory("shared", ssa, kind, is_bool=dtype == _ops.bool_),
        0,
        ComposedLayout(swizzle, 0, layout) if swizzle else layout,
    )


def _extent(layout: Layout, swizzle: Swizzle | None) -> int:
    """Elements of memory; a swizzle stays inside its period."""
    count = layout.cosize
    if not isinstance(count, int):
        raise FlightError(f"flight.shared: the layout {layout} must have static sizes")
    if swizzle is None or swizzle.bits == 0:
        return count
    return -(-count // _period(swizzle)) * _period(swizzle)


def _period(swizzle: Swizzle) -> int:
    """What moves an index by this moves its image by the same."""
    return 1 << (swizzle.base + swizzle.bits + abs(swizzle.shift))


def copy_async(source: Tensor, destination: Tensor, mask: Any = None) -> None:
    """This thread's elements of global memory to shared memory, element by element, without registers where the target can.
    They are there after flight.commit, flight.wait and, for other threads, flight.barrier. Where the mask, one bool, is
    false zeros are written; elements past the array's end are not allowed here, use flight.copy for those."""
    spaces = (source.memory.type.space, destination.memory.type.space)
    if spaces != ("global", "shared"):
        raise FlightError(f"copy_async goes from global to shared memory, not from {source!r} to {destination!r}")
    if source.dtype != destination.dtype or source.size != destination.size:
        raise FlightError(f"copy_async: {source!r} and {destination!r} differ in type or size")
    if source.overhang:
        raise FlightError(f"copy_async: {source!r} may reach past the array's end; use flight.copy, which fills in zeros")
    (a, a_view), (b, b_view) = _access.view(source), _access.view(destination)
    condition = f" mask({_ops.scalar(mask, _ops.bool_).use()})" if mask is not None else ""
    _state.current("copy_async").line(f"flight.copy_async {a} to {b}{condition} : {a_view.mlir} to {b_view.mlir}")


def commit() -> None:
    """The asynchronous copies since the last commit become one group."""
    _state.current("commit").line("flight.commit")


def wait(pending: int = 0) -> None:
    """Until at most so many groups of this thread are under way. A barrier makes the data visible to other threads."""
    if isinstance(pending, bool) or not isinstance(pending, int) or pending < 0:
        raise FlightError(f"wait({pending!r}): the number of groups must be a Python int from 0 up")
    _state.current("wait").line(f"flight.wait {pending}")


def reinterpret(tensor: Tensor, layout: Any) -> Tensor:
    """The same memory from the same element on, through another layout with static sizes."""
    if not isinstance(layout, Layout | ComposedLayout):
        raise FlightError(f"reinterpret: {layout!r} is no layout")
    if isinstance(tensor.layout, ComposedLayout) or tensor.overhang:
        raise FlightError(f"reinterpret: {tensor!r} is swizzled or may reach past the array's end")
    return dataclasses.replace(tensor, layout=_layouts.as_layout(str(layout)), history=(), dims=())
