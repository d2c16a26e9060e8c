"""The trace that is under way in this thread."""

from __future__ import annotations

import contextlib
import contextvars
import types
from collections.abc import Iterator
from typing import Any

from jaxator.flight import _location
from jaxator.flight._emit import Emitter
from jaxator.flight._errors import FlightError, Frame
from jaxator.flight._program import Target

MAX_RECURSION = 48


class KernelTrace:
    """One kernel being traced."""

    def __init__(self, place: Frame, target: Target, block: tuple[int, int, int], entry: types.CodeType):
        self.place = place
        self.target = target
        self.block = block
        self.emitter = Emitter()
        self.handles: list[Any] = [None]  # of dynamic leaves; their numbers begin at 1
        self.written: set[int] = set()
        self.shared_bytes = 0
        self.active: list[types.CodeType] = []  # helpers that are being called
        self.cache: dict[Any, Any] = {}  # values that are the same everywhere in the kernel
        self._entry = entry

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    @contextlib.contextmanager
    def calling(self, code: types.CodeType) -> Iterator[None]:
        """While a function of the user's runs. One that goes on calling itself is stopped."""
        if self.active.count(code) >= MAX_RECURSION:
            raise FlightError(
                f"recursion: {code.co_name} has called itself {MAX_RECURSION} times. What decides that it ends must be "
                "known while "
                "the kernel is traced; a kernel cannot recurse at run time"
            )
        self.active.append(code)
        try:
            yield
        finally:
            self.active.pop()

    def shared_mark(self) -> tuple[int, int]:
        """How much shared memory there is now, for `shared_reset` when what was traced since is traced again."""
        return self.shared_bytes, len(self.emitter.front)

    def shared_reset(self, mark: tuple[int, int]) -> None:
        self.shared_bytes = mark[0]
        del self.emitter.front[mark[1] :]

    def location(self) -> str:
        """Of the user's line that is being run; of the kernel itself while its arguments are bound."""
        return self.emitter.location(_location.here(self._entry) if self.active else [self.place])

    def op(self, text: str) -> str:
        """Emits an operation with one result."""
        return self.emitter.op(text, self.location())

    def pure(self, text: str) -> str:
        """The same for one that has no effect and depends on its operands alone."""
        return self.emitter.pure(text, self.location())

    def line(self, text: str) -> None:
        self.emitter.line(text, self.location())


_current: contextvars.ContextVar[KernelTrace | None] = contextvars.ContextVar("jaxator.flight.trace", default=None)


def current(what: str = "this") -> KernelTrace:
    trace = _current.get()
    if trace is None:
        raise FlightError(f"{what} works only inside a kernel that is being traced")
    return trace


def is_tracing() -> bool:
    return _current.get() is not None


def enter(trace: KernelTrace) -> contextvars.Token[KernelTrace | None]:
    return _current.set(trace)


def leave(token: contextvars.Token[KernelTrace | None]) -> None:
    _current.reset(token)
