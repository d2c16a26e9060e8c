"""Types of numbers, and of what holds them."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

from jaxator.flight._errors import FlightError


@dataclasses.dataclass(frozen=True, slots=True)
class DType:
    """A type of numbers. `kind`: b bool, i signed, u unsigned, x index (64 bits, signed), f float, s float for storage
    only."""

    name: str
    kind: str
    bits: int
    mlir: str

    def __repr__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind in "fs"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iux"

    @property
    def stored(self) -> DType:
        """The type of the elements in memory: a bool is a byte."""
        return u8 if self.kind == "b" else self

    @property
    def numpy(self) -> np.dtype:
        """The type of an array's elements."""
        for dtype, known in _NUMPY.items():
            if known == self:
                return dtype
        raise FlightError(f"arrays have no elements of type {self}")

    def __call__(self, value: Any) -> Any:
        """The value in this type, as `value.to(type)`; of a Python number a constant of the type."""
        from jaxator.flight import _ops

        return _ops.to(value, self)


bool_ = DType("bool", "b", 1, "i1")
i8, i16, i32, i64 = (DType(f"i{bits}", "i", bits, f"i{bits}") for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (DType(f"u{bits}", "u", bits, f"i{bits}") for bits in (8, 16, 32, 64))
index = DType("index", "x", 64, "index")
f16, f32, f64 = (DType(f"f{bits}", "f", bits, f"f{bits}") for bits in (16, 32, 64))
bf16 = DType("bf16", "f", 16, "bf16")
f8e4m3fn = DType("f8e4m3fn", "s", 8, "f8E4M3FN")
f8e4m3fnuz = DType("f8e4m3fnuz", "s", 8, "f8E4M3FNUZ")
f8e5m2 = DType("f8e5m2", "s", 8, "f8E5M2")
f8e5m2fnuz = DType("f8e5m2fnuz", "s", 8, "f8E5M2FNUZ")
f8e8m0fnu = DType("f8e8m0fnu", "s", 8, "f8E8M0FNU")
f4e2m1fn = DType("f4e2m1fn", "s", 4, "f4E2M1FN")

_NUMPY = {
    np.dtype(name): dtype
    for name, dtype in {
        "bool": bool_, "int8": i8, "int16": i16, "int32": i32, "int64": i64, "uint8": u8, "uint16": u16, "uint32": u32,
        "uint64": u64, "float16": f16, "float32": f32, "float64": f64, ml_dtypes.bfloat16: bf16,
        ml_dtypes.float8_e4m3fn: f8e4m3fn, ml_dtypes.float8_e4m3fnuz: f8e4m3fnuz, ml_dtypes.float8_e5m2: f8e5m2,
        ml_dtypes.float8_e5m2fnuz: f8e5m2fnuz, ml_dtypes.float8_e8m0fnu: f8e8m0fnu, ml_dtypes.float4_e2m1fn: f4e2m1fn,
    }.items()
}  # fmt: skip


def dtype_of(value: Any) -> DType:
    """A DType, or the one that a NumPy type names."""
    if isinstance(value, DType):
        return value
    if value is bool:
        return bool_
    try:
        return _NUMPY[np.dtype(value)]
    except (KeyError, TypeError):
        raise FlightError(f"{value!r} is no type of numbers that Flight knows") from None


def promote(a: DType, b: DType) -> DType:
    """The type of a + b."""
    if a == b:
        return a
    if "s" in a.kind + b.kind:
        raise FlightError(f"{a} and {b}: narrow floats are for storage; convert them with .to() first")
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.bits == b.bits:
            return f32  # f16 and bf16
        return a if a.bits > b.bits else b
    if index in (a, b):
        return index
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "u" else b


@dataclasses.dataclass(frozen=True, slots=True)
class Vector:
    """Numbers of one thread."""

    dtype: DType
    count: int

    @property
    def mlir(self) -> str:
        return f"vector<{self.count}x{self.dtype.mlir}>"


@dataclasses.dataclass(frozen=True, slots=True)
class TileType:
    """Numbers of a block."""

    dtype: DType
    shape: tuple[int, ...]
    spread: str

    @property
    def mlir(self) -> str:
        return f'!flight.tile<{self.dtype.mlir}, "({",".join(map(str, self.shape))})", "{self.spread}">'


@dataclasses.dataclass(frozen=True, slots=True)
class Pointer:
    """An address of elements."""

    dtype: DType
    space: str
    align: int

    @property
    def mlir(self) -> str:
        return f"!flight.ptr<{self.dtype.mlir}, {self.space}, {self.align}>"


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Memory through a layout."""

    dtype: DType
    space: str
    layout: str
    align: int

    @property
    def mlir(self) -> str:
        return f'!flight.view<{self.dtype.mlir}, {self.space}, "{self.layout}", {self.align}>'
