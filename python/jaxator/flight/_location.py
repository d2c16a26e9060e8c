"""Where in the user's program the tracer is: the lines of the kernel and of the helpers it called.

Frames of this package are left out. What the rewriter made of one function (`_flight_then`, lambdas with the parameter
`_flight_`) counts as that function."""

from __future__ import annotations

import functools
import os
import sys
import types

from jaxator.flight._errors import Frame

PREFIX = "_flight_"
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_ours(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_PACKAGE)


def is_part(code: types.CodeType) -> bool:
    """A block or an operand that the rewriter made a function of."""
    return code.co_name.startswith(PREFIX) or PREFIX in code.co_varnames[:1]


@functools.lru_cache(1024)
def _positions(code: types.CodeType) -> list[tuple[int | None, ...]]:
    return list(code.co_positions())


def _place(code: types.CodeType, instruction: int) -> tuple[int, int]:
    """Line and column, from 1."""
    places = _positions(code)
    line, _, column, _ = places[instruction // 2] if 0 <= instruction // 2 < len(places) else (None,) * 4
    return line or code.co_firstlineno, (column or 0) + 1


def _frames(steps: list[tuple[types.CodeType, int]]) -> tuple[Frame, ...]:
    """Of (code, instruction), innermost first."""
    found: list[Frame] = []
    inside: tuple[int, int] | None = None
    for code, instruction in steps:
        if is_ours(code):
            continue
        place = inside or _place(code, instruction)
        if is_part(code):
            inside = place
            continue
        found.append((code.co_name, code.co_filename, *place))
        inside = None
    return tuple(found)


def here(until: types.CodeType) -> tuple[Frame, ...]:
    """The user's lines between here and the innermost frame that runs `until`."""
    steps, frame = [], sys._getframe(1)
    while frame is not None and frame.f_code is not until:
        steps.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return _frames(steps)


def of_traceback(traceback: types.TracebackType | None) -> tuple[Frame, ...]:
    """The user's lines that an exception went through."""
    steps = []
    while traceback is not None:
        steps.append((traceback.tb_frame.f_code, traceback.tb_lasti))
        traceback = traceback.tb_next
    return _frames(steps[::-1])
