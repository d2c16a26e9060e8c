"""Where a thread is, barriers, and what is written line by line."""

from __future__ import annotations

from typing import Any

from jaxator.flight import _ops, _state
from jaxator.flight._errors import FlightError
from jaxator.flight._types import index
from jaxator.flight._value import Scalar, Value

_AXES = ("x", "y", "z")


def _coordinate(op: str, axis: int) -> Any:
    """The same in the whole kernel, so it is emitted once, in front."""
    if axis not in (0, 1, 2):
        raise FlightError(f"axis {axis!r} must be 0, 1 or 2")
    trace = _state.current(op)
    if op == "thread_id" and trace.block[axis] == 1:
        return _ops.scalar(0, index)
    if (op, axis) not in trace.cache:
        (name,) = trace.emitter.new_names(1)
        trace.emitter.root.lines.insert(0, f"{name} = flight.{op} {_AXES[axis]} loc({trace.location()})")
        scalar = Scalar(name, index, 1, True)
        scalar.region = trace.emitter.root
        trace.cache[op, axis] = scalar
    return trace.cache[op, axis]


def thread_id(axis: int = 0) -> Scalar:
    """The thread's number in its block."""
    return _coordinate("thread_id", axis)


def block_id(axis: int = 0) -> Scalar:
    """The block's number in the grid."""
    return _coordinate("block_id", axis)


def grid_dim(axis: int = 0) -> Scalar:
    """Blocks in the grid."""
    return _coordinate("grid_dim", axis)


def block_dim(axis: int = 0) -> int:
    """Threads in a block, a number of the trace."""
    return _state.current("block_dim").block[axis]


def target() -> Any:
    """What is known of the machine that the kernel is compiled for: name, wave (lanes), shared_bytes."""
    return _state.current("target").target


def lane_id() -> Scalar:
    """The thread's lane in its wave."""
    return thread_number() % _state.current("lane_id").target.wave


def wave_id() -> Scalar:
    """The wave's number in its block."""
    return thread_number() // _state.current("wave_id").target.wave


def thread_number() -> Scalar:
    """The thread's number with all axes counted, x the fastest."""
    x, y, _ = _state.current("thread_number").block
    return thread_id(0) + (thread_id(1) + thread_id(2) * y) * x


def barrier() -> None:
    """Every thread of the block gets here, and then sees what the others wrote to shared memory."""
    _state.current("barrier").line("flight.barrier")


def print(text: str, *values: Any) -> None:
    """One line for each thread that gets here when the kernel runs; {} in the text stands for a value. On x86 and the
    emulator."""
    if not isinstance(text, str) or text.count("{}") != len(values):
        raise FlightError(f"print: {text!r} has {str(text).count('{}')} places {{}} for {len(values)} values")
    trace = _state.current("print")
    if trace.target.name == "sm_90a":
        raise FlightError("print: there is no print on sm_90a; run the kernel on x86-64 or the emulator")
    shown = []
    for value in values:
        if isinstance(value, Value) and not isinstance(value, Scalar):
            raise FlightError(f"print: {value!r} is no single number")
        shown.append(_ops.scalar(value))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\0A")
    operands = ""
    if shown:
        operands = f" ({', '.join(x.use() for x in shown)} : {', '.join(x.dtype.mlir for x in shown)})"
    trace.line(f'flight.print "{escaped}"{operands}')
