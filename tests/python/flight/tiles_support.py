"""Kernels on tiles as text IR, compiled by flightc and run: on x86 by both routes, on the emulator with all checks on."""

import ctypes
import dataclasses
import functools
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

from jaxator._library import open_library
from jaxator.flight._compiler import Options, compile_text
from jaxator.flight._program import TARGETS
from jaxator.flight.layout import Layout, composition

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "emulator/tests"))
import emulator  # noqa: E402

X86_ROUTES = ("tiles", "threads")
PLACES = ("x86 tiles", "x86 threads", "gfx942", "gfx950")
"""Where a kernel can be run here."""


def target_of(place):
    return "x86-64" if place.startswith("x86") else place


def wave(place):
    return TARGETS[target_of(place)].wave


@dataclasses.dataclass(frozen=True)
class Tile:
    """A tile's type."""

    element: str
    shape: tuple[int, ...]
    spread: str

    def __str__(self):
        return f'!flight.tile<{self.element}, "{text(self.shape)}", "{self.spread}">'

    def of(self, element):
        return dataclasses.replace(self, element=element)

    def without(self, mode):
        """What a reduction along the mode gives: every thread has the rows that it had a part of."""
        strides, step = [], 1
        for i, size in enumerate(self.shape):
            strides.append(0 if i == mode else step)
            step *= 1 if i == mode else size
        spread = composition(Layout(self.shape, tuple(strides)), Layout.parse(self.spread))
        shape = tuple(1 if i == mode else size for i, size in enumerate(self.shape))
        return Tile(self.element, shape, str(spread))


def text(shape):
    return "(" + ",".join(map(str, shape)) + ")"


def row_major(shape):
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return f"{text(shape)}:{text(strides)}"


def row_spread(shape, threads, width):
    """Rows of `width` neighbours a thread, threads along the row, then down; the rest of the tile are further values."""
    rows, columns = shape
    across = min(threads, columns // width)
    down = min(threads // across, rows)
    copies = threads // (across * down)
    return (
        f"(({across},{down},{copies}),({width},{columns // width // across},{rows // down})):"
        f"(({width * rows},1,0),({rows},{width * across * rows},{down}))"
    )


def mma_spread(place, atom, waves, operand, shape):
    """As the compiler's table of atoms has it."""
    function = open_library("libjaxator.so").jaxator_flight_atoms
    words = [target_of(place), atom, waves, operand, text(shape)]
    arguments = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    buffer, length = ctypes.create_string_buffer(4096), ctypes.c_int()
    status = function(b"spread", arguments, len(words), buffer, len(buffer), ctypes.byref(length))
    if status != 0:
        raise ValueError(buffer.value.decode())
    return buffer.value.decode()


def view(pointer, offset, layout, element="f32", space="global", align=None):
    """The op and the type of its result."""
    size = {"f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i8": 1, "f64": 8}.get(element, 1)
    kind = f'!flight.view<{element}, {space}, "{layout}", {align or size}>'
    return f"flight.view {pointer}[{offset}] : !flight.ptr<{element}, {space}, 16> -> {kind}", kind


def kernel(name, arguments, block, body):
    names = ", ".join(
        f"%{n}: {t}" if not t.startswith("*") else f"%{n}: !flight.ptr<{t[1:]}, global, 16>" for n, t in arguments.items()
    )
    return (
        f"module {{\n  func.func @{name}({names}) attributes {{flight.block = array<i64: {block}, 1, 1>}} {{\n"
        f"{body}\n    return\n  }}\n}}\n"
    )


@functools.lru_cache(512)
def compiled(place, ir, cpu=None, optimize=3):
    route = place.split()[1] if place.startswith("x86") else None
    return compile_text(target_of(place), ir, Options(route=route, cpu=cpu, optimize=optimize))


def run(place, ir, name, arguments, grid=(1, 1, 1), block=256, cpu=None):
    """Arguments are arrays, which the kernel may write, and NumPy scalars."""
    artifact = compiled(place, ir, cpu)
    grid = (*grid, 1, 1)[:3]
    if not place.startswith("x86"):
        report = emulator.launch(emulator.Code(artifact.code), name, arguments, grid, (block,), time_limit_s=20.0)
        # Wait states between instructions are the code generator's part: LLVM's, not Flight's.
        findings = [finding for finding in report.findings if finding["kind"] != "hazard"]
        assert report.completed and not findings, report.text
        return artifact
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "k.so"
        path.write_bytes(artifact.code)
        function = getattr(ctypes.CDLL(str(path)), name)
        held = [np.asarray(a) if isinstance(a, np.ndarray) else np.array(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(held))(*(a.ctypes.data for a in held))
        extents = (ctypes.c_int64 * 3)(*grid)
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    function(pointers, extents, (ctypes.c_int64 * 3)(x, y, z))
    return artifact


def check_ptx(ir):
    """PTX that the assembler takes without a warning; its text."""
    ptx = compiled("sm_90a", ir).code.decode()
    assembler = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if pathlib.Path(assembler).exists():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "k.ptx"
            path.write_text(ptx.rstrip("\0"))
            command = [assembler, "-arch=sm_90a", "-v", str(path), "-o", str(path.with_suffix(".cubin"))]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
            assert "warning" not in result.stderr.lower() and "C75" not in result.stderr, result.stderr
            assert "0 bytes spill stores" in result.stderr, result.stderr
    return ptx


DTYPES = {
    "f32": np.float32,
    "i32": np.int32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "i8": np.int8,
    "f64": np.float64,
}

BLOCK = 256


def column_spread(shape, threads, width):
    """As row_spread, with runs down the columns."""
    rows, columns = shape
    down = min(threads, rows // width)
    across = min(threads // down, columns)
    copies = threads // (across * down)
    return (
        f"(({down},{across},{copies}),({width},{rows // width // down},{columns // across})):"
        f"(({width},{rows},0),(1,{width * down},{rows * across}))"
    )


def load(name, pointer, tile, bounds="", layout=None, space="global"):
    op, kind = view(pointer, "%zero", layout or row_major(tile.shape), tile.element, space)
    return f"""
    %{name}_view = {op}
    %{name} = flight.tile_load %{name}_view {bounds} : {kind} -> {tile}"""


def store(name, pointer, tile, bounds="", layout=None):
    op, kind = view(pointer, "%zero", layout or row_major(tile.shape), tile.element)
    return f"""
    %{name}_to_{pointer[1:]} = {op}
    flight.tile_store %{name}, %{name}_to_{pointer[1:]} {bounds} : {tile}, {kind}"""


def sum_of(tile, x, y):
    return f"""flight.map (%{x}, %{y}) : ({tile}, {tile}) -> {tile} {{
      ^bb0(%e: f32, %g: f32):
        %s = arith.addf %e, %g : f32
        flight.yield %s : f32
      }}"""


def ir(arguments, body, block=BLOCK):
    return kernel("f", arguments, block, "    %zero = arith.constant 0 : index" + body)


def random(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def raw(array):
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array
