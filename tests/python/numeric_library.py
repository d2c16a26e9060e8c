"""src/numeric through tests/cpp/numeric_abi.cpp: every build, with denormals kept or flushed in the calling thread."""

from __future__ import annotations

import ctypes
import functools
import pathlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]

FORMATS = ("f32", "bf16", "f16", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e2m1")
WIDE, NARROW = FORMATS[:3], FORMATS[3:]
SCALE_MODES = ("floor", "even", "rceil")
STREAMS = ("dropout", "round_x", "round_w", "round_dy", "hadamard_signs")
VARIANTS = {  # the instruction set that each needs
    "clang_O0": None, "clang_v3": "x86-64-v3", "clang_v4": "x86-64-v4", "clang_v4_bf16": "x86-64-v4-bf16",
    "clang_fast_math": "x86-64-v3",
    "gcc_O0": None, "gcc_v3": "x86-64-v3", "gcc_v4": "x86-64-v4", "gcc_v4_bf16": "x86-64-v4-bf16",
}  # fmt: skip
FOLDER = pathlib.Path(__file__).parents[2] / "build/release/tests/cpp/numeric"
FLUSH_DENORMALS = 1 << 15 | 1 << 6  # MXCSR: results, operands


def code_type(name: str) -> type[np.unsignedinteger[Any]]:
    return {"f32": np.uint32, "bf16": np.uint16, "f16": np.uint16}.get(name, np.uint8)


def _pointer(array: Array | None) -> ctypes.c_void_p:
    if array is None:
        return ctypes.c_void_p()
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


@functools.cache
def open_library(variant: str) -> ctypes.CDLL:
    path = FOLDER / f"libnumeric_{variant}.so"
    if not path.exists():
        pytest.fail(f"{path} is missing: `make build` makes it (g++ and clang++-22 are both needed)")
    library = ctypes.CDLL(str(path))
    library.numeric_exchange_control.restype = ctypes.c_uint32
    library.numeric_hadamard_signs.restype = ctypes.c_uint32
    library.numeric_multiply.restype = ctypes.c_float
    return library


class Library:
    """Arrays are codes (uint32, uint16, uint8) unless said otherwise."""

    def __init__(self, variant: str, flushed: bool) -> None:
        self.variant, self.flushed = variant, flushed

    def call(self, name: str, *arguments: Any) -> Any:
        """NumPy never runs in the changed mode, and a function must leave it as it was."""
        library = open_library(self.variant)
        exchange = library.numeric_exchange_control
        before = exchange(0x1F80)  # the default: nothing trapped, nearest-even, denormals kept
        inside = 0x1F80 | (FLUSH_DENORMALS if self.flushed else 0)
        exchange(inside)
        try:
            result = getattr(library, f"numeric_{name}")(*arguments)
        finally:
            after = exchange(before)
        assert after & ~0x3F == inside, "the function changed the thread's control word"
        return result

    def convert(
        self, source: str, target: str, codes: Array, draws: Array | None = None, *, saturate: bool = False
    ) -> Array:
        codes = np.ascontiguousarray(codes, code_type(source))
        out = np.empty(codes.shape, code_type(target))
        step = 0 if draws is not None and draws.size == 1 else 1
        assert draws is None or draws.dtype == np.uint8 and draws.size in (1, codes.size)
        status = self.call("convert", FORMATS.index(source), FORMATS.index(target), _pointer(codes), _pointer(out),
                           ctypes.c_int64(codes.size), _pointer(draws), ctypes.c_int64(step), int(not saturate))  # fmt: skip
        assert status == 0
        return out

    def decode_table(self, source: str) -> Array:
        out = np.empty(16 if source == "e2m1" else 256, np.uint32)
        assert self.call("decode_table", FORMATS.index(source), _pointer(out)) == 0
        return out

    def e2m1_doubled(self) -> Array:
        out = np.empty(16, np.int8)
        self.call("e2m1_doubled", _pointer(out))
        return out

    def encode_e8m0(self, floats: Array, *, saturate: bool = False) -> Array:
        floats = np.ascontiguousarray(floats, np.uint32)
        out = np.empty(floats.shape, np.uint8)
        self.call("encode_e8m0", _pointer(floats), _pointer(out), ctypes.c_int64(floats.size), 0 if saturate else 1)
        return out

    def decode_e8m0(self, scales: Array) -> Array:
        out = np.empty(scales.shape, np.uint32)
        self.call("decode_e8m0", _pointer(scales), _pointer(out), ctypes.c_int64(scales.size))
        return out

    def block_scale(self, element: str, mode: str, amax: Array) -> Array:
        amax = np.ascontiguousarray(amax, np.uint32)
        out = np.empty(amax.shape, np.uint8)
        assert self.call("block_scale", FORMATS.index(element), SCALE_MODES.index(mode), _pointer(amax), _pointer(out),
                         ctypes.c_int64(amax.size)) == 0  # fmt: skip
        return out

    def quantise(
        self,
        source: str,
        element: str,
        mode: str,
        x: Array,
        *,
        blocks: int | None = None,
        block_stride: int = 32,
        stride: int = 1,
        key: Array | None = None,
        stream: str = "round_x",
        first_index: int = 0,
    ) -> tuple[Array, Array]:
        """Scales and packed codes of blocks of 32; stochastic where there is a key."""
        assert x.dtype == code_type(source)
        blocks = x.size // 32 if blocks is None else blocks
        scales, codes = np.empty(blocks, np.uint8), np.empty((blocks, 16 if element == "e2m1" else 32), np.uint8)
        i64 = ctypes.c_int64
        status = self.call("quantise", FORMATS.index(source), FORMATS.index(element), SCALE_MODES.index(mode), _pointer(x),
                           i64(blocks), i64(block_stride), i64(stride), _pointer(key), STREAMS.index(stream),
                           ctypes.c_uint64(first_index), _pointer(scales), _pointer(codes))  # fmt: skip
        assert status == 0
        return scales, codes

    def dequantise(self, element: str, target: str, codes: Array, scales: Array) -> Array:
        out = np.empty((scales.size, 32), code_type(target))
        assert self.call("dequantise", FORMATS.index(element), FORMATS.index(target), _pointer(codes), _pointer(scales),
                         ctypes.c_int64(scales.size), _pointer(out)) == 0  # fmt: skip
        return out

    def hadamard(self, x: Array, signs: int = 0) -> Array:
        """Along the last axis of float32."""
        out = x.copy()
        assert x.dtype == np.float32
        assert (
            self.call("hadamard", x.shape[-1], _pointer(out), ctypes.c_int64(x.size // x.shape[-1]), ctypes.c_uint32(signs))
            == 0
        )
        return out

    def hadamard_signs(self, key: Array) -> int:
        return int(self.call("hadamard_signs", _pointer(key)))

    def philox(self, counters: Array, keys: Array) -> Array:
        out = np.empty_like(counters)
        self.call("philox", _pointer(counters), _pointer(keys), _pointer(out), ctypes.c_int64(len(counters)))
        return out

    def draw(self, bits: int, key: Array, stream: int, indices: Array) -> Array:
        out = np.empty(indices.shape, np.uint32)
        assert self.call("draw", bits, _pointer(key), ctypes.c_uint32(stream), _pointer(indices), _pointer(out),
                         ctypes.c_int64(indices.size)) == 0  # fmt: skip
        return out

    def multiply(self, a: float, b: float) -> float:
        left, right = ctypes.c_float(a), ctypes.c_float(b)
        return float(self.call("multiply", ctypes.byref(left), ctypes.byref(right)))


def _all_libraries() -> list[Any]:
    from jaxator import _ffi

    supported = _ffi.cpu_report()["supported"]
    parameters = []
    for variant, isa in VARIANTS.items():
        missing = isa is not None and isa not in supported
        marks = [pytest.mark.skip(reason=f"this machine has no {isa}")] if missing else []
        for flushed in (False, True):
            name = f"{variant}-{'flushed' if flushed else 'kept'}"
            parameters.append(pytest.param(Library(variant, flushed), id=name, marks=marks))
    return parameters


every_library = pytest.mark.parametrize("library", _all_libraries())
"""Runs a test with every build that this machine can run, each with denormals kept and flushed."""
