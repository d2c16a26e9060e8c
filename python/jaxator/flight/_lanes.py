"""What the lanes of a wave do together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxator.flight import _math, _ops, _state
from jaxator.flight._errors import FlightError
from jaxator.flight._types import DType, bool_, f32, i32, u32
from jaxator.flight._value import Fragment, Scalar, Value


def _shuffle(move: str, value: Any, amount: Any) -> Any:
    if isinstance(value, Fragment):
        from jaxator.flight import _fragment

        moved = [_shuffle(move, _fragment.get(value, i), amount) for i in range(value.size)]
        return _fragment.vector(*moved, dtype=value.dtype).reshape(value.shape)
    if not isinstance(value, Scalar):
        raise FlightError(f"shuffle_{move}: a number or a fragment was expected, not {value!r}")
    trace = _state.current("shuffle")
    dtype = value.dtype
    if dtype.mlir not in ("f32", "i32"):
        wide = _wide(dtype, move)
        return _ops.to(_shuffle(move, _ops.to(value, wide), amount), dtype)
    by = _ops.scalar(amount, i32).use()
    return Scalar(trace.op(f"flight.shuffle {move} {value.use()}, {by} : {dtype.mlir}"), dtype)


def _wide(dtype: DType, move: str) -> DType:
    """A type of 32 bits that holds every value of this one."""
    if dtype.kind in "fs" and dtype.bits < 32:
        return f32
    if dtype == bool_ or (dtype.is_integer and dtype.bits < 32):
        return u32 if dtype.kind == "u" else i32
    raise FlightError(f"shuffle_{move} of {dtype}: values of more than 32 bits cannot be moved; convert it with .to(...)")


def shuffle_xor(value: Any, mask: Any) -> Any:
    """The value of the lane whose number differs in the bits of the mask."""
    return _shuffle("xor", value, mask)


def shuffle_up(value: Any, distance: Any) -> Any:
    """The value of the lane that many below; the own one in the first lanes."""
    return _shuffle("up", value, distance)


def shuffle_down(value: Any, distance: Any) -> Any:
    """The value of the lane that many above; the own one in the last lanes."""
    return _shuffle("down", value, distance)


def shuffle(value: Any, lane: Any) -> Any:
    """The value of a lane."""
    return _shuffle("index", value, lane)


def wave_reduce(combine: Callable[[Any, Any], Any], value: Any) -> Any:
    """The value of all lanes of the wave combined, in every lane: in pairs of lanes 1, 2, 4, ... apart."""
    if not isinstance(value, Value):
        raise FlightError(f"wave_reduce: a value of run time was expected, not {value!r}")
    trace = _state.current("wave_reduce")
    step = 1
    while step < trace.target.wave:
        value = combine(value, shuffle_xor(value, step))
        step *= 2
    return value


def wave_sum(value: Any) -> Any:
    return wave_reduce(lambda a, b: a + b, value)


def wave_max(value: Any) -> Any:
    return wave_reduce(_math.maximum, value)
