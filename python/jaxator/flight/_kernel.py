"""Kernels and launchers."""

from __future__ import annotations

import contextvars
import functools
import inspect
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxator.flight import _call, _state
from jaxator.flight._arguments import Array, Binder, annotations
from jaxator.flight._errors import FlightError
from jaxator.flight._program import ArrayArgument, ArraySpec, Extents, Launch, ScalarArgument
from jaxator.flight._types import dtype_of


class Kernel:
    """A device function. In a launcher `kernel(arguments).launch(grid=..., block=...)` runs it over a grid of blocks."""

    def __init__(self, function: Callable[..., Any], allow_spills: bool = False, allow_scratch: bool = False):
        self._function = function
        self.allow_spills = allow_spills
        self.allow_scratch = allow_scratch
        functools.update_wrapper(self, function)
        _call.check_source(function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return (
            self
            if instance is None
            else Kernel(self._function.__get__(instance, owner), self.allow_spills, self.allow_scratch)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> BoundKernel:
        if _state.is_tracing():
            raise FlightError(
                f"the kernel {self.__name__} is called inside a kernel; leave out its decorator to call it as a function"
            )
        _launches(f"the kernel {self.__name__}")
        return BoundKernel(self, args, kwargs)


class BoundKernel:
    """A kernel with its arguments."""

    def __init__(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self._kernel, self._args, self._kwargs = kernel, args, kwargs

    def launch(self, *, grid: Any, block: Any) -> None:
        """grid and block are a number or up to three."""
        launches = _launches("launch")
        blocks, threads = extents("grid", grid), extents("block", block)
        if math.prod(threads) > 1024:
            raise FlightError(f"block={block!r} has {math.prod(threads)} threads; at most 1024 are possible")
        if 0 in blocks:
            return
        launches.add(_trace_kernel(self._kernel, self._args, self._kwargs, blocks, threads, launches.target))


def extents(name: str, value: Any) -> Extents:
    numbers = list(value) if isinstance(value, tuple | list) else [value]
    if not 1 <= len(numbers) <= 3:
        raise FlightError(f"{name}={value!r} must be one to three numbers")
    for x in numbers:
        if isinstance(x, bool) or not isinstance(x, int | np.integer):
            raise FlightError(f"{name}={value!r}: {x!r} is no integer")
        if x < (0 if name == "grid" else 1) or x > 2**31 - 1:
            raise FlightError(f"{name}={value!r}: {x} is out of range")
    return tuple(int(x) for x in numbers) + (1,) * (3 - len(numbers))  # type: ignore[return-value]


def _run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The outermost frame of a kernel: locations end here."""
    return function(*args, **kwargs)


def _trace_kernel(
    kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Extents, block: Extents, target: Any
) -> Launch:
    code = getattr(kernel._function, "__func__", kernel._function).__code__
    trace = _state.KernelTrace((kernel.__name__, code.co_filename, code.co_firstlineno, 1), target, block, _run.__code__)
    binder = Binder()
    token = _state.enter(trace)
    try:
        function = kernel._function
        plain = getattr(function, "__func__", function)
        bound = _signature(kernel.__name__, function).bind(*args, **kwargs)
        bound.apply_defaults()
        hints = annotations(plain)
        for name, value in bound.arguments.items():
            bound.arguments[name] = binder.bind(name, value, hints.get(name))
        with trace.calling(plain.__code__):
            result = _run(_call.rewritten(function), bound.args, bound.kwargs)
        if result is not None:
            raise FlightError(
                f"the kernel {kernel.__name__} returns {result!r}; a kernel stores its results and returns nothing"
            )
    except TypeError as error:
        if isinstance(error, FlightError):
            raise
        raise FlightError(str(error)) from error
    finally:
        _state.leave(token)
    return _finish(kernel, trace, binder, grid, block)


def _signature(name: str, function: Any) -> inspect.Signature:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise FlightError(
                f"the kernel {name} has the parameter *{parameter.name}; a kernel's parameters each have a name"
            )
    return signature


def _finish(kernel: Kernel, trace: _state.KernelTrace, binder: Binder, grid: Extents, block: Extents) -> Launch:
    arrays = sorted(binder.arrays, key=lambda i: (i in trace.written, i))
    parameters = [f"{binder.arrays[i][0]}: {binder.arrays[i][1].mlir}" for i in arrays]
    parameters += [f"{ssa}: {dtype.mlir}" for ssa, dtype, _, _ in binder.scalars]
    attributes = [f"flight.block = array<i64: {', '.join(map(str, block))}>"]
    attributes += [f"flight.{name}" for name in ("allow_spills", "allow_scratch") if getattr(kernel, name)]
    limits = [None] * len(arrays) + [limit for *_, limit in binder.scalars]
    if any(limits):
        attributes.append(f"flight.ranges = [{', '.join(f'array<i64: {x[0]}, {x[1]}>' if x else 'unit' for x in limits)}]")
    place = trace.emitter.location([trace.place])
    header = f"func.func @{kernel.__name__}({', '.join(parameters)}) attributes {{{', '.join(attributes)}}}"
    return Launch(
        text=trace.emitter.module(header, place),
        name=kernel.__name__,
        arguments=tuple(map(ArrayArgument, arrays)) + tuple(ScalarArgument(value) for _, _, value, _ in binder.scalars),
        grid=grid,
        block=block,
        writes=tuple(i for i in arrays if i in trace.written),
    )


# ---- launchers -------------------------------------------------------------------------------------------------------


class Launches:
    """What a launcher does while it is traced."""

    def __init__(self, target: Any, arrays: int):
        self.target = target
        self.done: list[Launch] = []
        self.temporaries: list[ArraySpec] = []
        self._arrays = arrays

    def add(self, launch: Launch) -> None:
        self.done.append(launch)

    def temporary(self, spec: ArraySpec) -> Array:
        self.temporaries.append(spec)
        number = self._arrays + len(self.temporaries) - 1
        return Array(number, spec, f"temporary{len(self.temporaries) - 1}", False)


_under_way = contextvars.ContextVar[Launches | None]("jaxator.flight.launches", default=None)


def _launches(what: str) -> Launches:
    launches = _under_way.get()
    if launches is None:
        raise FlightError(f"{what} works only inside a launcher (@flight.jit) that flight.call runs")
    return launches


def empty(shape: Any, dtype: Any) -> Array:
    """In a launcher: an array for what one kernel leaves for the next. Its contents are unset."""
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return _launches("flight.empty").temporary(ArraySpec(tuple(map(int, sizes)), dtype_of(dtype).numpy))


class Launcher:
    """A host function that launches kernels. Its parameters are the operands, the results, then scalars and options by
    name."""

    def __init__(self, function: Callable[..., Any]):
        if not isinstance(function, types.FunctionType):
            raise FlightError(f"flight.jit decorates a function, not {function!r}")
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside another launcher its launches become part of that."""
        if _state.is_tracing():
            raise FlightError(f"the launcher {self.__name__} is called inside a kernel")
        _launches(f"the launcher {self.__name__}")
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def kernel(function: Callable[..., Any] | None = None, *, allow_spills: bool = False, allow_scratch: bool = False) -> Any:
    """Decorates a device function. Registers that do not suffice (spills) and arrays in local memory (scratch) are errors of
    the compiler unless allowed."""
    if function is None:
        return functools.partial(kernel, allow_spills=allow_spills, allow_scratch=allow_scratch)
    if not isinstance(function, types.FunctionType):
        raise FlightError(f"flight.kernel decorates a function, not {function!r}")
    return Kernel(function, allow_spills, allow_scratch)


def jit(function: Callable[..., Any]) -> Launcher:
    """Decorates a launcher."""
    return Launcher(function)
