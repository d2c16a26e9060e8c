"""The compiler's process without its client, and its code run on x86 and on the emulator."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
EXECUTABLE = os.environ.get("JAXATOR_FLIGHTC", str(ROOT / "python/jaxator/lib/jaxator-flightc"))
sys.path.insert(0, str(ROOT / "emulator/tests"))
import emulator  # noqa: E402

TARGETS = ("x86-64", "gfx942", "gfx950", "sm_90a")
RUNNABLE = ("x86-64", "gfx942", "gfx950")
PTXAS = pathlib.Path(shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")


class Process:
    """One compiler."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [EXECUTABLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self.greeting = json.loads(self.process.stdout.readline())

    def send(self, header: dict[str, Any] | bytes, text: str = "") -> None:
        data = text.encode()
        if isinstance(header, dict):
            header = json.dumps({"size": len(data)} | header).encode()
        self.process.stdin.write(header + b"\n" + data)
        self.process.stdin.flush()

    def receive(self) -> tuple[dict[str, Any], bytes]:
        line = self.process.stdout.readline()
        assert line, "the compiler has ended"
        answer = json.loads(line)
        return answer, self.process.stdout.read(answer["size"])

    def compile(self, text: str, target: str, **options: Any) -> tuple[dict[str, Any], bytes]:
        self.send({"id": 1, "target": target, "options": options}, text)
        return self.receive()

    def code(self, text: str, target: str, **options: Any) -> bytes:
        answer, code = self.compile(text, target, **options)
        assert "error" not in answer, answer["error"]
        return code

    def close(self) -> int:
        self.process.stdin.close()
        return self.process.wait(timeout=10)


def aligned(array: Any) -> np.ndarray:
    """A copy at an address that is a multiple of 64, as JAX's arrays are."""
    array = np.asarray(array)
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def run(code: bytes, target: str, name: str, arguments: list[Any], grid=(1,), block=(64,)) -> None:
    """Arrays are changed in place; scalars are NumPy's."""
    grid3 = (grid + (1, 1, 1))[:3]
    if target == "x86-64":
        _run_on_cpu(code, name, arguments, grid3)
    else:
        values = [a if isinstance(a, np.ndarray) else np.asarray(a)[()] for a in arguments]
        report = emulator.launch(emulator.Code(code), name, values, grid3, (block + (1, 1, 1))[:3])
        assert report.completed and not report.findings, report.text


def _run_on_cpu(code: bytes, name: str, arguments: list[Any], grid: tuple[int, ...]) -> None:
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(code)
        file.flush()
        kernel = getattr(ctypes.CDLL(file.name), name)
    held = [np.ascontiguousarray(argument) if not isinstance(argument, np.ndarray) else argument for argument in arguments]
    addresses = (ctypes.c_void_p * len(held))(*(array.ctypes.data for array in held))
    extents = (ctypes.c_int64 * 3)(*grid)
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                kernel(addresses, extents, (ctypes.c_int64 * 3)(x, y, z))


def assemble(ptx: bytes) -> str:
    """What ptxas says: registers, warnings."""
    with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        done = subprocess.run([PTXAS, "-arch=sm_90a", "-v", "-o", "/dev/null", file.name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def error_of(compiler, text, target="gfx942", **options):
    answer, code = compiler.compile(text, target, **options)
    assert code == b"" and "error" in answer, answer
    return answer["error"]
