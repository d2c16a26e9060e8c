"""Launches that can be run again: what a kernel was given, as the HIP library recorded it or as a command line says."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import pathlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from jaxator import _targets
from jaxator._library import open_library
from jaxator.judge import emulator
from jaxator.judge.emulator import Code, Device, EmulatorError, Geometry, Report


@dataclasses.dataclass(frozen=True)
class Memory:
    """Memory that words of the argument block point to."""

    address: int
    """As the argument block has it. A launch puts the memory elsewhere and corrects the block."""
    content: bytes
    initialised: tuple[tuple[int, int], ...]
    """Parts that hold something defined."""

    @property
    def end(self) -> int:
        return self.address + len(self.content)


@dataclasses.dataclass(frozen=True)
class Launch:
    """One launch of one kernel, as it began."""

    image: bytes
    kernel: str
    geometry: Geometry
    arguments: bytes
    memory: tuple[Memory, ...]

    def run(self, image: bytes | None = None, **options: Any) -> tuple[Report, list[bytes]]:
        """Runs it, perhaps with another code object.

        Args:
          image: instead of the launch's own.
          options: of `Device.launch`.

        Returns:
          The report, and what the memory then holds.
        """
        code = Code(image or self.image)
        with Device(code.architecture) as device:
            places = []
            for number, memory in enumerate(self.memory):
                address = device.allocate(len(memory.content), f"memory {number}")
                device.write(address, memory.content)
                for begin, end in memory.initialised:
                    device.initialise(address + begin, end - begin)
                places.append(address)
            report = device.launch(code, self.kernel, self._moved(places), self.geometry, **options)
            contents = [
                ctypes.string_at(place, len(memory.content)) for place, memory in zip(places, self.memory, strict=True)
            ]
        return report, contents

    def _moved(self, places: Sequence[int]) -> bytes:
        """The argument block with the addresses of this run."""
        block = bytearray(self.arguments)
        for offset in range(0, len(block) - 7, 8):
            (word,) = struct.unpack_from("<Q", block, offset)
            for place, memory in zip(places, self.memory, strict=True):
                if memory.address <= word < memory.end:
                    struct.pack_into("<Q", block, offset, word - memory.address + place)
        return bytes(block)


# ---- recorded by the HIP library ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def recording(folder: pathlib.Path, part: int = 0) -> Iterator[None]:
    """Keeps every launch on the emulator of this process in the folder, which must exist.

    Args:
      part: only the first so many workgroups of each launch run meanwhile, and without checks: results are not complete, but
        launches of large grids are soon recorded. 0: all.
    """
    hip = open_library(_targets.EMULATOR)
    hip.jaxator_emulator_report.restype = ctypes.c_char_p

    def record(path: bytes | None) -> None:
        if hip.jaxator_emulator_record(path):
            raise EmulatorError(hip.jaxator_emulator_report().decode())

    def configure(checks: int, workgroups: int) -> None:
        hip.jaxator_emulator_configure(checks, ctypes.c_uint64(0), 0, ctypes.c_double(0))
        hip.jaxator_emulator_run_part(ctypes.c_uint64(0), ctypes.c_uint64(workgroups))

    record(str(folder).encode())
    if part:
        configure(0, part)
    try:
        yield
    finally:
        record(None)
        if part:
            configure(_DEFAULT_CHECKS, 0)


_DEFAULT_CHECKS = emulator.WAITS | emulator.RACES | emulator.POISON
"""Of the HIP library."""


def recorded(folder: pathlib.Path, part: int = 0) -> list[Launch]:
    """The launches in a folder, in their order; of each only the first `part` workgroups, if that is not 0."""
    return [_read(path, part) for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem))]


def _read(path: pathlib.Path, part: int) -> Launch:
    fields = json.loads(path.read_text())
    memory = tuple(
        Memory(m["address"], (path.parent / m["file"]).read_bytes(), tuple(map(tuple, m["initialised"])))
        for m in fields["memory"]
    )
    geometry = Geometry(tuple(fields["grid"]), tuple(fields["block"]), fields["dynamic_lds"], part)
    image, arguments = (path.with_suffix(suffix).read_bytes() for suffix in (".hsaco", ".arguments"))
    return Launch(image, fields["kernel"], geometry, arguments, memory)


# ---- from a command line -----------------------------------------------------------------------------------------------

_NUMBERS: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "i32": (np.int32, int), "u32": (np.uint32, int), "i64": (np.int64, int), "u64": (np.uint64, int),
    "f32": (np.float32, float), "f64": (np.float64, float), "f16": (np.float16, float),
    "bf16": (ml_dtypes.bfloat16, float),
}  # fmt: skip
_SUFFIXES = {"K": 10, "M": 20, "G": 30}
_FIRST_ADDRESS = 0x5EED << 48
"""Where the buffers of a command line are in the argument block: far from what numbers of 32 bits are likely to make."""


def from_words(image: bytes, kernel: str | None, geometry: Geometry, words: Sequence[str]) -> Launch:
    """A launch from words as `jaxator emulate` takes them: "buffer:4K:random", "buffer:@file", "i32:7".

    Random buffers hold standard normal values of the type named: "buffer:4K:bf16".
    """
    info = Code(image).kernel(kernel)
    parameters = info["parameters"]
    if len(words) != len(parameters):
        raise EmulatorError(f"{info['name']} takes {len(parameters)} arguments, {len(words)} were given")
    block, memory, address = bytearray(info["argument_bytes"]), [], _FIRST_ADDRESS
    for word, parameter in zip(words, parameters, strict=True):
        kind, separator, value = word.partition(":")
        if not separator:
            raise EmulatorError(f"argument {word!r}: must be TYPE:VALUE")
        if kind == "buffer":
            memory.append(_buffer(word, value, address, len(memory)))
            packed, address = struct.pack("<Q", address), memory[-1].end + 4096 & ~4095
        else:
            packed = _number(word, kind, value)
        if len(packed) != parameter["bytes"]:
            raise EmulatorError(f"argument {word!r} has {len(packed)} bytes, the parameter has {parameter['bytes']}")
        block[parameter["offset"] : parameter["offset"] + len(packed)] = packed
    return Launch(image, info["name"], geometry, bytes(block), tuple(memory))


def _number(word: str, kind: str, text: str) -> bytes:
    if kind not in _NUMBERS:
        raise EmulatorError(f"argument {word!r}: the type must be buffer or one of {', '.join(_NUMBERS)}")
    dtype, read = _NUMBERS[kind]
    try:
        return np.array(read(text), dtype).tobytes()
    except (ValueError, OverflowError) as error:
        raise EmulatorError(f"argument {word!r}: {error}") from None


def _buffer(word: str, description: str, address: int, seed: int) -> Memory:
    if description.startswith("@"):
        try:
            content = pathlib.Path(description[1:]).read_bytes()
        except OSError as error:
            raise EmulatorError(f"argument {word!r}: {error.strerror}") from None
        return Memory(address, content, ((0, len(content)),))
    size_text, _, fill = description.partition(":")
    shift = _SUFFIXES.get(size_text[-1:], 0)
    if not size_text[: -1 if shift else None].isdigit():
        raise EmulatorError(f"argument {word!r}: a size is a number with K, M, G or nothing behind it")
    size = int(size_text[: -1 if shift else None]) << shift
    random = np.random.default_rng(seed)
    if fill == "random":
        content = random.bytes(size)
    elif fill in ("f32", "f16", "bf16"):
        dtype = np.dtype(_NUMBERS[fill][0])
        content = random.standard_normal(size // dtype.itemsize, np.float32).astype(dtype).tobytes().ljust(size, b"\0")
    elif fill in ("", "zeros"):
        content = bytes(size)
    else:
        raise EmulatorError(f"argument {word!r}: after the size may follow zeros, random, f32, f16 or bf16")
    return Memory(address, content, ((0, size),) if fill else ())
