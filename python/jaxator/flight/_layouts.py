"""Layouts with leaves of run time. The algebra is the layout library's (jaxator.flight.layout); a leaf `?12{div=4}` holds
the number of a scalar of the kernel, and what the library computes of such leaves is emitted here."""

from __future__ import annotations

import re
from typing import Any

from jaxator.flight import _ops, _state
from jaxator.flight._errors import FlightError
from jaxator.flight._types import index
from jaxator.flight._value import Scalar, Value
from jaxator.flight.layout._call import IntTuple, Leaf, call, from_text, to_text
from jaxator.flight.layout.values import AnyLayout, ComposedLayout, Layout, parse

_HANDLE = re.compile(r"\?(\d+)")
_DYNAMIC = re.compile(r"\?(\d+)(?:\{div=(\d+)\})?")


def leaf(x: Any) -> Leaf:
    """A number as a leaf; a scalar as a leaf with its handle."""
    if not isinstance(x, Value):
        return x
    if not isinstance(x, Scalar) or not x.dtype.is_integer:
        raise FlightError(f"{x!r} is no integer, so it cannot be a coordinate, a size or a stride")
    handles = _state.current().handles
    scalar = _ops.to(x, index)
    handles.append(scalar)
    divisor = f"{{div={scalar.divisor}}}" if scalar.divisor > 1 else ""
    return f"?{len(handles) - 1}{divisor}"


def tuple_text(x: Any) -> str:
    """Nested tuples of numbers, scalars and None as text."""
    if isinstance(x, tuple | list):
        return "(" + ",".join(map(tuple_text, x)) + ")"
    if isinstance(x, slice):
        if x != slice(None):
            raise FlightError(f"{x} is no coordinate: only ':' (the whole mode) is; take a part of a tensor with local_tile")
        return "*"
    return to_text(leaf(x))


def number(text: Leaf) -> int | Scalar:
    """What a leaf stands for."""
    if isinstance(text, int):
        return text
    found = _DYNAMIC.fullmatch(text)
    if not found:
        raise FlightError(f"{text} is no number")
    return _state.current().handles[int(found[1])]


def numbers(tree: IntTuple) -> Any:
    return tuple(map(numbers, tree)) if isinstance(tree, tuple) else number(tree)


def record(operation: str, first: str, second: str) -> list[str]:
    """The lines of the library's answer; what of it is computed at run time has been emitted."""
    trace = _state.current()
    try:
        lines = call("record", str(len(trace.handles)), operation, first, second).split("\n")
    except ValueError as error:
        raise FlightError(_HANDLE.sub("?", str(error))) from None
    answers = 2 if operation == "slice" and "S" not in first else 1
    for line in lines[answers:]:
        handle, name, a, b = line.split(" ")
        assert int(handle) == len(trace.handles)
        trace.handles.append(_compute(name, number(from_text(a)), number(from_text(b))))
    return lines[:answers]


def _compute(name: str, a: Any, b: Any) -> Scalar:
    if name in ("min", "max"):
        x, y = _ops.scalar(a, index), _ops.scalar(b, index)
        return Scalar(
            _state.current().pure(f"arith.{name}si {x.use()}, {y.use()} : index"), index, 1, x.nonnegative and y.nonnegative
        )
    operators = {"add": "add", "sub": "sub", "mul": "mul", "div": "floordiv", "mod": "mod", "and": "and", "xor": "xor"}
    if name == "ceil_div":
        return _ops.binary("floordiv", _ops.binary("add", a, _ops.binary("sub", b, 1) if isinstance(b, Value) else b - 1), b)
    return _ops.binary(operators[name], a, b)


def as_layout(text: str) -> AnyLayout:
    layout = parse(text)
    assert isinstance(layout, Layout | ComposedLayout)
    return layout


def apply(operation: str, layout: AnyLayout, argument: str) -> AnyLayout:
    """composition or a divide."""
    return as_layout(record(operation, str(layout), argument)[0])


def tiler_text(tiler: Any) -> str:
    """A tile: a layout; a size; None, which leaves a mode as it is; or a tuple with one of these for each mode."""
    if tiler is None:
        return "*"
    if isinstance(tiler, tuple | list):
        return "[" + ",".join(map(tiler_text, tiler)) + "]"
    if isinstance(tiler, Layout):
        return str(tiler)
    if isinstance(tiler, Value):
        raise FlightError(f"the tile {tiler!r} must have static sizes: a Python int, or a parameter with flight.Constexpr")
    return to_text(tiler) + ":1"


def static_text(layout: AnyLayout) -> tuple[str, list[Scalar]]:
    """The layout as a type has it, and what its dynamic leaves hold, in the order of the text."""
    text = str(layout)
    handles = _state.current().handles
    return _HANDLE.sub("?", text), [handles[int(handle)] for handle in _HANDLE.findall(text)]


def mode_size(shape: IntTuple) -> int | Scalar:
    """Product of the leaves of a mode."""
    if not isinstance(shape, tuple):
        return number(shape)
    product: Any = 1
    for part in shape:
        product = product * mode_size(part)
    return product


def mode_shapes(layout: AnyLayout) -> tuple[IntTuple, ...]:
    return layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)


def is_multiple(x: int | Scalar, n: int) -> bool:
    """Known to be one."""
    return _ops.facts(x)[0] % n == 0
