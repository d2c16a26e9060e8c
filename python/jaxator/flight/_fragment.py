"""Making and taking apart fragments."""

from __future__ import annotations

from typing import Any

from jaxator.flight import _ops, _state
from jaxator.flight._errors import FlightError
from jaxator.flight._types import DType, bool_, dtype_of
from jaxator.flight._value import Fragment, Scalar, Value, size_of
from jaxator.flight.layout import Layout
from jaxator.flight.layout._call import IntTuple, call, to_text
from jaxator.flight.layout.values import parse


def fragment(shape: Any, dtype: Any, name: str = "fragment") -> Fragment:
    """Registers whose elements are not set yet: reading one is an error of the trace."""
    dtype = dtype_of(dtype)
    count = size_of(shape)
    zeros = _zeros(dtype, count)
    result = Fragment(zeros, dtype, shape, frozenset(range(count)), name)
    result.region = _state.current().emitter.root
    return result


def _zeros(dtype: DType, count: int) -> str:
    if dtype.kind == "s":
        raise FlightError(f"a fragment of {dtype} is made by a conversion or a load only")
    return _ops.constant(0, dtype, count)


def full(shape: Any, value: Any, dtype: Any = None) -> Fragment:
    """Registers that all hold one value."""
    dtype = dtype_of(dtype) if dtype is not None else value.dtype if isinstance(value, Value) else _ops.default_type(value)
    like = Fragment("%none", dtype, shape)
    return Fragment(_ops.spread_out(value, dtype, like), dtype, shape)


def vector(*values: Any, dtype: Any = None) -> Fragment:
    """A fragment of these numbers."""
    if not values:
        raise FlightError("a fragment needs at least one number")
    dtype = dtype_of(dtype) if dtype is not None else _ops.common_type(list(values))
    names = ", ".join(_ops.scalar(x, dtype).use() for x in values)
    text = f"vector.from_elements {names} : vector<{len(values)}x{dtype.mlir}>"
    return Fragment(_state.current("a fragment").op(text), dtype, len(values))


def _positions(shape: IntTuple, coordinate: Any) -> tuple[list[int], IntTuple]:
    """Which elements a coordinate with None in it picks, and their shape."""
    lines = call("record", "1", "slice", str(Layout(shape)), to_text(_plain(coordinate))).split("\n")
    picked = parse(lines[0])
    start = int(lines[1])
    return [start + picked(i) for i in range(picked.size)], picked.shape


def _plain(coordinate: Any) -> Any:
    if isinstance(coordinate, tuple):
        return tuple(map(_plain, coordinate))
    return None if coordinate == slice(None) else coordinate


def _has(coordinate: Any, wanted: Any) -> bool:
    return any(_has(x, wanted) for x in coordinate) if isinstance(coordinate, tuple) else wanted(coordinate)


def _element(source: Fragment, coordinate: Any) -> int | Scalar:
    """The number of an element."""
    from jaxator.flight import _layouts

    if _has(coordinate, lambda x: isinstance(x, Value)):
        lines = _layouts.record("crd2idx", str(Layout(source.shape)), _layouts.tuple_text(coordinate))
        return _layouts.number(_layouts.from_text(lines[0]))
    try:
        place = Layout(source.shape)(coordinate)
    except ValueError as error:
        raise FlightError(f"{source!r} has no element {coordinate}: {error}") from None
    if not 0 <= place < source.size or (isinstance(coordinate, int) and coordinate < 0):
        raise FlightError(f"the element {coordinate} is out of range: {source!r} has {source.size}")
    return place


def get(source: Fragment, coordinate: Any) -> Any:
    trace = _state.current("a fragment's element")
    if _has(coordinate, lambda x: x is None or isinstance(x, slice)):
        places, shape = _positions(source.shape, coordinate)
        unset = frozenset(i for i, place in enumerate(places) if place in source.unset)
        text = f"vector.shuffle {source.partial()}, {source.partial()} {places} : {source.type.mlir}, {source.type.mlir}"
        return Fragment(trace.op(text), source.dtype, shape, unset, source.name)
    place = _element(source, coordinate)
    if isinstance(place, Scalar):
        return Scalar(
            trace.op(f"vector.extract {source.use()}[{place.use()}] : {source.dtype.mlir} from {source.type.mlir}"),
            source.dtype,
        )
    if place in source.unset:
        raise FlightError(f"{source!r} is read at element {place}, where nothing was stored")
    return Scalar(
        trace.op(f"vector.extract {source.partial()}[{place}] : {source.dtype.mlir} from {source.type.mlir}"), source.dtype
    )


def put(target: Fragment, coordinate: Any, value: Any) -> Fragment:
    """The fragment with elements replaced."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, DType) and dtype != target.dtype:
        raise FlightError(
            f"the value is {dtype}, {target!r} holds {target.dtype}; convert it with .to(flight.{target.dtype})"
        )
    if _has(coordinate, lambda x: x is None or isinstance(x, slice)):
        places, _ = _positions(target.shape, coordinate)
        if isinstance(value, Fragment) and value.size != len(places):
            raise FlightError(f"{value!r} has {value.size} elements, {len(places)} are assigned")
        for i, place in enumerate(places):
            target = _insert(target, place, get(value, i) if isinstance(value, Fragment) else value)
        return target
    return _insert(target, _element(target, coordinate), value)


def _insert(target: Fragment, place: int | Scalar, value: Any) -> Fragment:
    if isinstance(place, Scalar) and target.unset:
        raise FlightError(
            f"{target!r}: at a place of run time only a fragment can be assigned to whose elements are all set"
        )
    ssa = _ops.scalar(value, target.dtype).use()
    at = place.use() if isinstance(place, Scalar) else place
    text = f"vector.insert {ssa}, {target.partial()} [{at}] : {target.dtype.mlir} into {target.type.mlir}"
    return Fragment(_state.current().op(text), target.dtype, target.shape, target.unset - {place}, target.name)


def reduce(name: str, source: Fragment) -> Scalar:
    dtype = source.dtype
    if dtype == bool_ or dtype.kind == "s":
        raise FlightError(f"{name} of {dtype} is not defined")
    sign = "" if dtype.is_float else "u" if dtype.kind == "u" else "s"
    kind = {
        "add": "add",
        "max": "maximumf" if dtype.is_float else f"max{sign}i",
        "min": "minimumf" if dtype.is_float else f"min{sign}i",
    }
    text = f"vector.reduction <{kind[name]}>, {source.use()} : {source.type.mlir} into {dtype.mlir}"
    return Scalar(_state.current().op(text), dtype)
