"""Runs a launcher wherever it can be run here: in the interpreter of the text IR, and compiled, on x86 by its routes and on
the emulator with all checks on."""

from __future__ import annotations

import ctypes
import itertools
import pathlib
import tempfile

import numpy as np
import pytest
import tiles_support
from interpreter import run_program
from interpreter_memory import Memory

from jaxator.flight import _compiler
from jaxator.flight._program import TARGETS, ArrayArgument, ArraySpec
from jaxator.flight._trace import trace

_needs_compiler = pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
INTERPRETER = "interpreter"
COMPILED = ("x86 threads", "gfx942", "gfx950")
EVERYWHERE = [INTERPRETER, *(pytest.param(place, marks=_needs_compiler) for place in COMPILED)]
TILES = [INTERPRETER, *(pytest.param(place, marks=_needs_compiler) for place in ("x86 tiles", *COMPILED))]
"""For kernels on tiles alone, which have two routes on x86."""


def spec(array) -> ArraySpec:
    return ArraySpec(tuple(array.shape), np.dtype(array.dtype))


def target_of(place):
    return "x86-64" if place == INTERPRETER else tiles_support.target_of(place)


def program_of(launcher, operands, results, scalars=None, target="x86-64"):
    """Results are arrays or specs."""
    specs = [r if isinstance(r, ArraySpec) else spec(r) for r in results]
    return trace(launcher, target, [spec(np.asarray(a)) for a in operands], specs, scalars or {})


def run(place, launcher, operands, results, **scalars):
    """The results, arrays."""
    specs = [r if isinstance(r, ArraySpec) else spec(r) for r in results]
    target = target_of(place)
    typed = {name: np.dtype(value.dtype) for name, value in scalars.items() if isinstance(value, np.ndarray)}
    program = trace(launcher, target, [spec(np.asarray(a)) for a in operands], specs, {**scalars, **typed})
    everything = [*operands, *(scalars[name] for name in typed)]
    if place == INTERPRETER:
        return run_program(program, everything, specs, TARGETS[target].wave)
    arrays = [np.array(a, order="C") for a in everything]
    arrays += [Memory.poisoned(s.shape, s.dtype) for s in [*specs, *program.temporaries]]
    for launch in program.launches:
        arguments = [arrays[a.index] if isinstance(a, ArrayArgument) else a.value for a in launch.arguments]
        if place.startswith("x86"):
            call(tiles_support.compiled(place, launch.text).code, launch.name, arguments, launch.grid)
            continue
        code = tiles_support.emulator.Code(tiles_support.compiled(place, launch.text).code)
        report = tiles_support.emulator.launch(code, launch.name, arguments, launch.grid, launch.block, time_limit_s=20.0)
        assert report.clean, report.text or report.findings
    return arrays[len(everything) : len(everything) + len(specs)]


def call(code, name, arguments, grid):
    """A kernel for x86 over a grid."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "kernel.so")
        path.write_bytes(code)
        function = getattr(ctypes.CDLL(str(path)), name)
    held = [np.asarray(a) for a in arguments]
    pointers = (ctypes.c_void_p * len(held))(*(a.ctypes.data for a in held))
    extents = (ctypes.c_int64 * 3)(*grid)
    for z, y, x in itertools.product(*(range(n) for n in reversed(grid))):
        function(pointers, extents, (ctypes.c_int64 * 3)(x, y, z))


def like(shape, dtype="float32"):
    return ArraySpec(tuple(shape) if isinstance(shape, tuple | list) else (shape,), np.dtype(dtype))
