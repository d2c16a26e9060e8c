"""The libraries of this package: plain C symbols, no Python in them, opened by ctypes."""

from __future__ import annotations

import ctypes
import functools
import pathlib

import jaxator


@functools.cache
def open_library(name: str) -> ctypes.CDLL:
    """A library of the package's folder `lib`. An editable install has two package folders, so all are searched."""
    path = find_library(name)
    if path is None:
        raise ImportError(f"{name} is in none of {[str(f) for f in _folders()]}: build the project or install the wheel")
    return ctypes.CDLL(str(path))


def find_library(name: str) -> pathlib.Path | None:
    """Where a library of the package's folder `lib` is, None if it was not built or installed."""
    return next((folder / name for folder in _folders() if (folder / name).exists()), None)


def _folders() -> list[pathlib.Path]:
    return [pathlib.Path(folder) / "lib" for folder in jaxator.__path__]
