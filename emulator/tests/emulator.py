"""The emulator through its C interface, and kernels compiled for it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TESTS = pathlib.Path(__file__).parent
LIBRARY = os.environ.get("JAXATOR_EMULATOR_LIBRARY", str(TESTS.parents[1] / "python/jaxator/lib/libjaxator_emulator.so"))
ARCHITECTURES = ("gfx942", "gfx950")
WAITS, RACES, BANKS, POISON, TRACE, COVERAGE = 1, 2, 4, 8, 16, 32
ALL = WAITS | RACES | BANKS | POISON
TIME_LIMIT_S = 2.0  # of a launch
CLANG = ("clang++-22", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-ffreestanding", "-fuse-ld=lld-22")


class Options(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("dynamic_lds_bytes", ctypes.c_uint32),
        ("checks", ctypes.c_uint32), ("seed", ctypes.c_uint64), ("time_limit_s", ctypes.c_double),
        ("threads", ctypes.c_int32), ("traced_workgroup", ctypes.c_uint32),
        ("first_workgroup", ctypes.c_uint64), ("workgroups", ctypes.c_uint64),
    ]  # fmt: skip


class EmulatorError(Exception):
    pass


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(LIBRARY)
    for name in ("error", "describe", "disassembly", "unknown_instructions", "instructions", "launch"):
        getattr(library, f"jaxator_emulator_{name}").restype = ctypes.c_char_p
    for name in ("load", "device", "allocate"):
        getattr(library, f"jaxator_emulator_{name}").restype = ctypes.c_void_p
    library.jaxator_emulator_uninitialised_bytes.restype = ctypes.c_int64
    return library


def _call(name: str, *arguments: Any) -> Any:
    library = _library()
    result = getattr(library, f"jaxator_emulator_{name}")(*arguments)
    if result is None or (isinstance(result, int) and result == -1):
        raise EmulatorError(library.jaxator_emulator_error().decode())
    return result


def implemented() -> set[str]:
    return set(_call("instructions").decode().split())


class Code:
    """A code object."""

    def __init__(self, image: bytes) -> None:
        self.handle = ctypes.c_void_p(_call("load", image, ctypes.c_size_t(len(image))))
        weakref.finalize(self, _library().jaxator_emulator_unload, self.handle)
        self.info: dict[str, Any] = json.loads(_call("describe", self.handle))
        self.architecture: str = self.info["architecture"]

    def unknown(self, kernel: str) -> list[str]:
        return _call("unknown_instructions", self.handle, kernel.encode()).decode().split()

    def disassembly(self, kernel: str) -> str:
        return _call("disassembly", self.handle, kernel.encode()).decode()


@dataclasses.dataclass(frozen=True)
class Report:
    completed: bool
    instructions: int
    findings: list[dict[str, Any]]
    banks: list[dict[str, Any]]
    trace: list[list[int]]
    traffic: dict[str, int]
    executed: list[int]
    text: str

    def kinds(self) -> set[str]:
        return {finding["kind"] for finding in self.findings}

    @property
    def clean(self) -> bool:
        return self.completed and not self.findings


class Output(np.ndarray):
    """An array that a kernel has to write: what it does not write stays uninitialised for the checks."""


def output(shape: Any, dtype: Any = np.float32) -> Array:
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = 0xA5
    return array.view(Output)


class Device:
    def __init__(self, architecture: str) -> None:
        self.handle = ctypes.c_void_p(_call("device", architecture.encode()))

    def close(self) -> None:
        _library().jaxator_emulator_close_device(self.handle)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map(self, array: Array, size: int, name: str) -> None:
        self.map_address(array.ctypes.data, size, name, not isinstance(array, Output))

    def map_address(self, address: int, size: int, name: str, initialised: bool = True) -> None:
        _call("map", self.handle, ctypes.c_void_p(address), ctypes.c_size_t(size), name.encode(), int(initialised))

    def allocate(self, size: int, name: str = "") -> int:
        """The address of memory that takes room only where it was touched."""
        return _call("allocate", self.handle, ctypes.c_size_t(size), name.encode())

    def free(self, address: int) -> None:
        _call("free", self.handle, ctypes.c_void_p(address))

    def write(self, address: int, values: Array) -> None:
        ctypes.memmove(address, values.ctypes.data, values.nbytes)
        _call("initialise", self.handle, ctypes.c_void_p(address), ctypes.c_size_t(values.nbytes))

    def read(self, address: int, count: int, dtype: Any) -> Array:
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(ctypes.string_at(address, size), dtype).copy()

    def uninitialised(self, address: int, size: int) -> int:
        return _call("uninitialised_bytes", self.handle, ctypes.c_void_p(address), ctypes.c_size_t(size))

    def launch(
        self,
        code: Code,
        kernel: str,
        arguments: Sequence[Any],
        grid: tuple[int, ...] = (1,),
        block: tuple[int, ...] = (64,),
        *,
        checks: int = ALL,
        seed: int = 0,
        threads: int = 2,
        dynamic_lds: int = 0,
        time_limit_s: float = TIME_LIMIT_S,
        traced_workgroup: int = 0,
        first_workgroup: int = 0,
        workgroups: int = 0,
    ) -> Report:
        """Arguments are NumPy scalars; addresses have type uint64."""
        packed = b""
        for value in arguments:
            packed += b"\0" * (-len(packed) % value.itemsize) + value.tobytes()
        options = Options(
            grid=(ctypes.c_uint32 * 3)(*(grid + (1, 1, 1))[:3]),
            block=(ctypes.c_uint32 * 3)(*(block + (1, 1, 1))[:3]),
            dynamic_lds_bytes=dynamic_lds,
            checks=checks,
            seed=seed,
            time_limit_s=time_limit_s,
            threads=threads,
            traced_workgroup=traced_workgroup,
            first_workgroup=first_workgroup,
            workgroups=workgroups,
        )
        size = ctypes.c_size_t(len(packed))
        text = _call("launch", self.handle, code.handle, kernel.encode(), packed, size, ctypes.byref(options))
        return Report(**json.loads(text))


def launch(
    code: Code,
    kernel: str,
    arguments: Sequence[Any],
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (64,),
    *,
    extents: dict[int, int] | None = None,
    **options: Any,
) -> Report:
    """On a device of its own. Arrays among the arguments are mapped there; `extents` maps fewer bytes of one."""
    with Device(code.architecture) as device:
        values = []
        for number, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                size = (extents or {}).get(number, argument.nbytes)
                if size:
                    device.map(argument, size, f"argument {number}")
                values.append(np.uint64(argument.ctypes.data))
            else:
                values.append(argument)
        return device.launch(code, kernel, values, grid, block, **options)


def compile_image(source: pathlib.Path | str, architecture: str, *flags: str) -> bytes:
    """From a C++ file, or from the text of an assembly file."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "k.hsaco"
        if isinstance(source, str):
            path = pathlib.Path(folder) / "k.s"
            path.write_text(source)
            language: tuple[str, ...] = ("-Qunused-arguments", "-x", "assembler")
        else:
            path, language = source, ("-x", "c++", "-std=c++20", "-fno-exceptions", "-Wall", "-Werror")
        command = [*CLANG, f"-mcpu={architecture}", *flags, *language, str(path), "-o", str(target)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return target.read_bytes()


@functools.cache
def kernel_code(name: str, architecture: str, *flags: str) -> Code:
    """One of the kernels of this folder."""
    return Code(compile_image(TESTS / f"kernels/{name}.cpp", architecture, *flags))
