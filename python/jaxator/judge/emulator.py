"""The CDNA emulator through its C interface (`jaxator/emulator_c.h`): code objects, memory, launches with reports."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import weakref
from typing import Any

from jaxator._library import open_library

WAITS, RACES, BANKS, POISON, TRACE, COVERAGE = 1, 2, 4, 8, 16, 32
ALL_CHECKS = WAITS | RACES | BANKS | POISON
LIBRARY = "libjaxator_emulator.so"


class EmulatorError(ValueError):
    """A code object, kernel or launch that the emulator refuses; the text names the value and the rule."""


class _Options(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("dynamic_lds_bytes", ctypes.c_uint32),
        ("checks", ctypes.c_uint32), ("seed", ctypes.c_uint64), ("time_limit_s", ctypes.c_double),
        ("threads", ctypes.c_int32), ("traced_workgroup", ctypes.c_uint32),
        ("first_workgroup", ctypes.c_uint64), ("workgroups", ctypes.c_uint64),
    ]  # fmt: skip


@functools.cache
def _library() -> ctypes.CDLL:
    library = open_library(LIBRARY)
    for name in ("error", "describe", "disassembly", "unknown_instructions", "launch"):
        getattr(library, f"jaxator_emulator_{name}").restype = ctypes.c_char_p
    for name in ("load", "device", "allocate"):
        getattr(library, f"jaxator_emulator_{name}").restype = ctypes.c_void_p
    return library


def _call(name: str, *arguments: Any) -> Any:
    result = getattr(_library(), f"jaxator_emulator_{name}")(*arguments)
    if result is None or (isinstance(result, int) and result == -1):
        raise EmulatorError(_library().jaxator_emulator_error().decode())
    return result


class Code:
    """A code object (HSACO)."""

    def __init__(self, image: bytes) -> None:
        self.handle = ctypes.c_void_p(_call("load", image, ctypes.c_size_t(len(image))))
        weakref.finalize(self, _library().jaxator_emulator_unload, self.handle)
        described = json.loads(_call("describe", self.handle))
        self.architecture: str = described["architecture"]
        self.kernels: dict[str, dict[str, Any]] = {kernel["name"]: kernel for kernel in described["kernels"]}

    def kernel(self, name: str | None) -> dict[str, Any]:
        """Metadata of a kernel; of the only one if no name is given."""
        if name is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        if name not in self.kernels:
            raise EmulatorError(f"kernel={name!r}: must be one of {', '.join(sorted(self.kernels))}")
        return self.kernels[name]

    def instructions(self, kernel: str) -> dict[int, str]:
        """Address -> text, in order of address."""
        lines = _call("disassembly", self.handle, kernel.encode()).decode().splitlines()
        return {int(address, 16): text for address, text in (line.split(maxsplit=1) for line in lines)}


@dataclasses.dataclass(frozen=True)
class Step:
    """One instruction of one wave. What a step of the trace leaves out is 0."""

    address: int
    wave: int
    lds_cycles: int = 0
    global_bytes: int = 0
    lds_begin: int = 0
    lds_end: int = 0
    global_begin: int = 0
    global_end: int = 0


@dataclasses.dataclass(frozen=True)
class Report:
    completed: bool
    instructions: int
    findings: list[dict[str, Any]]
    banks: list[dict[str, Any]]
    trace: list[Step]
    traffic: dict[str, int]
    executed: list[int]
    """With COVERAGE: addresses of the instructions that any wave executed, in order."""
    text: str

    @property
    def clean(self) -> bool:
        return self.completed and not self.findings


@dataclasses.dataclass(frozen=True)
class Geometry:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int = 0
    part: int = 0
    """Only the first so many workgroups run; 0: all."""

    @property
    def waves(self) -> int:
        return -(-self.block[0] * self.block[1] * self.block[2] // 64)

    @property
    def workgroups(self) -> int:
        """That run."""
        every = self.grid[0] * self.grid[1] * self.grid[2]
        return min(every, self.part or every)


class Device:
    """A device with memory of its own."""

    def __init__(self, architecture: str) -> None:
        self.handle = ctypes.c_void_p(_call("device", architecture.encode()))

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        _library().jaxator_emulator_close_device(self.handle)

    def allocate(self, size: int, name: str) -> int:
        """The address of memory that nobody has written."""
        return _call("allocate", self.handle, ctypes.c_size_t(size), name.encode())

    def write(self, address: int, content: bytes) -> None:
        ctypes.memmove(address, content, len(content))

    def initialise(self, address: int, size: int) -> None:
        """What was written there counts as defined."""
        if size:
            _call("initialise", self.handle, ctypes.c_void_p(address), ctypes.c_size_t(size))

    def launch(
        self, code: Code, kernel: str, arguments: bytes, geometry: Geometry, *,
        checks: int = ALL_CHECKS, seed: int = 0, threads: int = 1, time_limit_s: float = 0, traced_workgroup: int = 0,
    ) -> Report:  # fmt: skip
        options = _Options(
            (ctypes.c_uint32 * 3)(*geometry.grid), (ctypes.c_uint32 * 3)(*geometry.block), geometry.dynamic_lds,
            checks, seed, time_limit_s, threads, traced_workgroup, 0, geometry.part,
        )  # fmt: skip
        size = ctypes.c_size_t(len(arguments))
        text = _call("launch", self.handle, code.handle, kernel.encode(), arguments, size, ctypes.byref(options))
        fields = json.loads(text)
        return Report(**fields | {"trace": [Step(*step) for step in fields["trace"]]})
