"""From a launcher to a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxator.flight import _kernel, _location
from jaxator.flight._arguments import Array
from jaxator.flight._errors import FlightError
from jaxator.flight._program import TARGETS, ArraySpec, Program


def trace(
    launcher: _kernel.Launcher,
    target: str,
    operands: Sequence[ArraySpec],
    results: Sequence[ArraySpec],
    scalars: Mapping[str, Any],
) -> Program:
    """What the launcher launches for arrays of these shapes.

    The launcher's first parameters are the operands and the results; `scalars` are passed by name. A number is passed as it
    is; where it gets to a kernel's parameter without the annotation Constexpr, it is an argument of run time, so that the
    kernel's text does not depend on it. A NumPy type stands for a 0-d array with the scalar: these arrays are operands too,
    numbered behind `operands` in the order of the mapping.

    Raises FlightError with the user's lines for what breaks a rule; other exceptions of the user's code pass through.
    """
    if target not in TARGETS:
        raise FlightError(f"target {target!r} must be one of {', '.join(TARGETS)}")
    if not isinstance(launcher, _kernel.Launcher):
        raise FlightError(f"{launcher!r} is no launcher: decorate the function that launches kernels with flight.jit")
    typed = {name: np.dtype(value) for name, value in scalars.items() if isinstance(value, np.dtype | type)}
    names = list(_parameters(launcher))
    count = len(operands) + len(results)
    arrays = []
    for i, spec in enumerate([*operands, *results]):
        number = i if i < len(operands) else i + len(typed)
        arrays.append(Array(number, spec, names[i] if i < len(names) else f"array{i}", i < len(operands)))
    named: dict[str, Any] = dict(scalars)
    for i, (name, dtype) in enumerate(typed.items()):
        named[name] = Array(len(operands) + i, ArraySpec((), dtype), name, True, True)
    launches = _kernel.Launches(TARGETS[target], count + len(typed))
    token = _kernel._under_way.set(launches)
    try:
        _run(launcher, arrays, named)
    finally:
        _kernel._under_way.reset(token)
    return Program(tuple(launches.done), tuple(launches.temporaries))


def _parameters(launcher: _kernel.Launcher) -> tuple[str, ...]:
    code = launcher._function.__code__
    return code.co_varnames[: code.co_argcount]


def _run(launcher: _kernel.Launcher, arrays: list[Array], named: dict[str, Any]) -> None:
    try:
        result = launcher._function(*arrays, **named)
        if result is not None:
            raise FlightError(
                f"the launcher {launcher.__name__} returns {result!r}; its results are parameters, and it returns nothing"
            )
    except FlightError as error:
        error.frames = error.frames or _location.of_traceback(error.__traceback__)
        raise
    except TypeError as error:
        frames = _location.of_traceback(error.__traceback__)
        if frames:
            raise
        raise FlightError(f"{launcher.__name__}: {error}") from error
