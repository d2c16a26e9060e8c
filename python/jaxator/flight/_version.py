"""Whether a launcher would still be traced to the same kernels: what its functions refer to, and a quick look at whether any of it
was changed since.

A call outside of `jax.jit` is compiled once for its shapes and found again in a few microseconds. An edited helper, a rebound global
or a changed setting must not find the old one. So the code objects of the launcher, its kernels and their helpers are walked once;
every global, closure cell, attribute and container that they name is kept with the value it had.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import pathlib
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import jaxator

_VALUES = (int, float, complex, str, bytes, bool, type(None), tuple, frozenset)

# Not walked into: their functions do not change under a program's feet.
_LIBRARIES = tuple(
    str(pathlib.Path(folder))
    for folder in {
        *jaxator.__path__,
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    }
)


class Dependencies:
    """What one function refers to, directly and through others."""

    def __init__(self, function: Any) -> None:
        self._checks: list[Callable[[], bool]] = []
        self._seen: dict[tuple[int, frozenset[str]], Any] = {}  # kept alive, so that numbers stay theirs
        self._walk(function, frozenset())

    def unchanged(self) -> bool:
        return all(check() for check in self._checks)

    def _walk(self, value: Any, names: frozenset[str]) -> None:
        """Notes what is in a value that code with these names can reach."""
        function = _function_of(value)
        if function is not None:
            self._walk_function(function)
        elif isinstance(value, types.MethodType):
            self._walk(value.__func__, names)
            inner = _function_of(value.__func__)
            self._walk(value.__self__, names if inner is None else frozenset(_names(inner.__code__)))
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._walk(part, names)
        elif isinstance(value, (list, set, dict)):
            self._note_container(value)
        elif not isinstance(value, _VALUES):
            self._walk_attributes(value, names)

    def _walk_function(self, function: types.FunctionType) -> None:
        if not self._enter(function, frozenset()):
            return
        self._note(lambda: function.__code__, function.__code__)
        if function.__code__.co_filename.startswith(_LIBRARIES):
            return
        self._note(lambda: function.__defaults__, function.__defaults__)
        names = frozenset(_names(function.__code__))
        for cell in function.__closure__ or ():
            self._note_cell(cell, names)
        for name in names:
            if name in function.__globals__:
                self._note_key(function.__globals__, name, names)
            elif name not in vars(builtins):
                self._note_absence(function.__globals__, name)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._walk(default, names)

    def _walk_attributes(self, value: Any, names: frozenset[str]) -> None:
        held = getattr(value, "__dict__", None)
        if held is None or not self._enter(value, names):
            return
        if isinstance(value, types.ModuleType) and (getattr(value, "__file__", None) or _LIBRARIES[0]).startswith(
            _LIBRARIES
        ):
            return
        for name in names:
            if name in held:
                self._note_key(held, name, names)
            elif not isinstance(value, types.ModuleType):
                self._note_absence(held, name)  # an attribute of the object would hide that of its class
        if not isinstance(value, (type, types.ModuleType)):
            self._note(lambda: type(value), type(value))
            self._walk_attributes(type(value), names)

    def _enter(self, value: Any, names: frozenset[str]) -> bool:
        key = (id(value), names)
        if key in self._seen:
            return False
        self._seen[key] = value
        return True

    def _note(self, look: Callable[[], Any], value: Any) -> None:
        self._checks.append(lambda: _same(look(), value))

    def _note_cell(self, cell: types.CellType, names: frozenset[str]) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            return
        self._note(lambda: cell.cell_contents, value)
        self._walk(value, names)

    def _note_key(self, holder: Any, name: str, names: frozenset[str]) -> None:
        value = holder[name]
        self._checks.append(lambda: _same(holder.get(name), value))
        self._walk(value, names)

    def _note_absence(self, holder: Any, name: str) -> None:
        self._checks.append(lambda: name not in holder)

    def _note_container(self, value: Any) -> None:
        if not self._enter(value, frozenset()):
            return
        kept = type(value)(value)
        self._checks.append(lambda: value == kept)
        for item in itertools.chain(value, value.values() if isinstance(value, dict) else ()):
            self._walk(item, frozenset())


def _function_of(value: Any) -> types.FunctionType | None:
    """The Python function in a function, a kernel or a launcher."""
    if isinstance(value, types.FunctionType):
        return value
    inner = getattr(value, "_function", None) if type(value).__module__.startswith("jaxator.flight.") else None
    return inner if isinstance(inner, types.FunctionType) else None


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _same(now: Any, then: Any) -> bool:
    return now is then or (type(now) is type(then) and isinstance(then, _VALUES) and now == then)


class Versions:
    """A number for each launcher that grows when what it refers to has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, tuple[Any, Dependencies, int]] = {}
        self._numbers = itertools.count()

    def of(self, launcher: Any) -> int:
        known = self._known.get(id(launcher))
        if known is not None and known[0] is launcher and known[1].unchanged():
            return known[2]
        found = Dependencies(launcher)
        with self._lock:
            number = next(self._numbers)
            self._known[id(launcher)] = (launcher, found, number)
        return number


_versions = Versions()


def version(launcher: Any) -> int:
    """Changes when the launcher, or anything that its kernels and their helpers refer to, has changed."""
    return _versions.of(launcher)
