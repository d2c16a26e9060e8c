"""What a launcher hands to a kernel: arrays, numbers, structs of them; and what the kernel's annotations say about them."""

from __future__ import annotations

import dataclasses
import inspect
import types
from typing import Any

import numpy as np

from jaxator.flight import _layouts, _ops, _state, _types
from jaxator.flight._errors import FlightError
from jaxator.flight._program import ArraySpec
from jaxator.flight._tensor import Memory, Tensor
from jaxator.flight._types import DType, Pointer, dtype_of, index
from jaxator.flight._value import Scalar

ALIGN = 16
"""Bytes: XLA's buffers begin at multiples of at least this."""


class Constexpr:
    """Annotation of a parameter that specialises the kernel: `n: Constexpr` or `n: Constexpr[int]`. The kernel sees the
    value itself, so that sizes, layouts and branches can depend on it."""

    def __class_getitem__(cls, item: Any) -> Any:
        return types.GenericAlias(cls, (item,))


@dataclasses.dataclass(frozen=True)
class Dim:
    """A dimension of run time, for Tensor[...]: one compiled kernel serves all its values. Dims of one name are equal. Each
    is a multiple of the divisor, which lets tiles of that size go without bounds checks."""

    name: str
    divisor: int = 1
    greatest: int = 2**63 - 1
    """The compiler uses 32-bit addresses where this proves that they suffice."""


@dataclasses.dataclass(frozen=True)
class TensorAnnotation:
    dims: tuple[Dim | int | None, ...]


class TensorOf:
    """Annotation of an array: Tensor[rows, 128] with a Dim (run time), an int (must be that), or None (static) for each
    dimension. Without an annotation all dimensions are static."""

    def __class_getitem__(cls, item: Any) -> TensorAnnotation:
        dims = item if isinstance(item, tuple) else (item,)
        for dim in dims:
            if not isinstance(dim, Dim | int | None):
                raise FlightError(f"Tensor[...] has a Dim, an int or None for each dimension, not {dim!r}")
        return TensorAnnotation(dims)


@dataclasses.dataclass(frozen=True)
class Array:
    """An array in a launcher: its shape is known."""

    index: int
    spec: ArraySpec
    name: str
    read_only: bool
    is_scalar: bool = False
    """A 0-d array that stands for a scalar."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        return dtype_of(self.spec.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def reshape(self, *shape: Any) -> Array:
        """The same array with other dimensions; one may be -1."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        try:
            known = np.empty(0).reshape(0) if self.size == 0 else np.broadcast_to(np.int8(0), self.shape).reshape(wanted)
        except ValueError:
            raise FlightError(f"{self.name} of shape {self.shape} cannot have the shape {tuple(wanted)}") from None
        result = tuple(wanted) if self.size == 0 else known.shape
        return dataclasses.replace(self, spec=ArraySpec(result, self.spec.dtype))


def annotations(function: types.FunctionType) -> dict[str, Any]:
    """Of the parameters, strings evaluated where the function was written."""
    found = dict(function.__annotations__)
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    scope = {name: cell.cell_contents for name, cell in closure.items() if _is_set(cell)}
    for name, annotation in found.items():
        if isinstance(annotation, str):
            try:
                found[name] = eval(annotation, function.__globals__, scope)  # noqa: S307
            except Exception as error:
                raise FlightError(
                    f"{function.__name__}: the annotation {name}: {annotation} cannot be evaluated: {error}"
                ) from error
    return found


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def is_constexpr(annotation: Any) -> bool:
    return annotation is Constexpr or getattr(annotation, "__origin__", None) is Constexpr


_SCALARS = {int: index, float: _types.f32, bool: _types.bool_}


class Binder:
    """Makes a kernel's arguments of what the launcher passes, and notes which parameters the function gets."""

    def __init__(self) -> None:
        self.arrays: dict[int, tuple[str, Pointer]] = {}
        self.scalars: list[tuple[str, DType, np.generic, tuple[int, int] | None]] = []
        self._dims: dict[str, tuple[int, Scalar, int]] = {}

    def bind(self, name: str, value: Any, annotation: Any) -> Any:
        if is_constexpr(annotation):
            if isinstance(value, Array):
                raise FlightError(f"{name} is a Constexpr and cannot be an array")
            return value
        if isinstance(value, Array):
            return self._array(name, value, annotation)
        if isinstance(value, bool | int | float | np.generic):
            return self._number(name, value, annotation)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._struct(name, value)
        if isinstance(value, tuple | list):
            parts = [self.bind(f"{name}{i}", part, None) for i, part in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if isinstance(value, dict):
            return {key: self.bind(f"{name}_{key}", part, None) for key, part in value.items()}
        return value

    def _struct(self, name: str, value: Any) -> Any:
        if isinstance(value, DType | Dim) or type(value).__module__.startswith("jaxator.flight."):
            return value
        parts = {}
        for field in dataclasses.fields(value):
            hint = field.type
            if isinstance(hint, str):
                hint = inspect.get_annotations(type(value), eval_str=True).get(field.name)
            parts[field.name] = self.bind(f"{name}_{field.name}", getattr(value, field.name), hint)
        return dataclasses.replace(value, **parts)

    def _number(self, name: str, value: Any, annotation: Any) -> Scalar:
        dtype = _SCALARS.get(annotation, annotation)
        if isinstance(value, np.generic):
            passed = value
        elif isinstance(value, bool):
            passed = np.bool_(value)
        else:
            passed = np.int64(value) if isinstance(value, int) else np.float32(value)
        kind = dtype_of(passed.dtype)
        return self._typed(self._scalar(name, kind, passed, None), kind, value, dtype)

    def _typed(self, ssa: str, kind: DType, value: Any, dtype: Any) -> Scalar:
        """The argument in the type that the annotation, or its own kind, asks for."""
        argument = Scalar(ssa, kind)
        if isinstance(dtype, DType):
            return _ops.to(argument, dtype)
        return _ops.to(argument, index) if isinstance(value, int) and not isinstance(value, bool) else argument

    def _scalar(self, name: str, dtype: DType, value: np.generic, limits: tuple[int, int] | None) -> str:
        ssa = f"%{_identifier(name)}_{len(self.scalars)}"
        if dtype not in (_types.bool_, *_ARGUMENTS):
            raise FlightError(
                f"{name}: a scalar of type {dtype} cannot be passed; bool, 8 to 64-bit integers, f32 and f64 can"
            )
        self.scalars.append((ssa, dtype, value, limits))
        return ssa

    def _array(self, name: str, array: Array, annotation: Any) -> Any:
        dtype = _SCALARS.get(annotation, annotation)
        ssa, pointer = self.arrays.setdefault(
            array.index, (f"%{_identifier(array.name)}_a{array.index}", Pointer(array.dtype.stored, "global", ALIGN))
        )
        if isinstance(dtype, DType) or array.is_scalar:
            if array.shape != ():
                raise FlightError(f"{name}: an array of shape {array.shape} was passed for a scalar")
            value = self._tensor(name, array, ssa, pointer, ())[()]
            return _ops.to(value, dtype) if isinstance(dtype, DType) else value
        dims: tuple[Any, ...] = (None,) * array.ndim
        if isinstance(annotation, TensorAnnotation):
            dims = annotation.dims
            if len(dims) != array.ndim:
                raise FlightError(
                    f"{name}: the annotation has {len(dims)} dimensions, the array of shape {array.shape} {array.ndim}"
                )
        extents = tuple(
            self._extent(name, i, size, dim) for i, (size, dim) in enumerate(zip(array.shape, dims, strict=True))
        )
        return self._tensor(name, array, ssa, pointer, extents)

    def _extent(self, name: str, i: int, size: int, dim: Any) -> int | Scalar:
        if dim is None:
            return size
        if isinstance(dim, int):
            if size != dim:
                raise FlightError(f"{name}: dimension {i} is {size}, the annotation says {dim}")
            return size
        if size % dim.divisor != 0:
            raise FlightError(f"{name}: dimension {i} = {size} must be a multiple of {dim.divisor}, as {dim.name} says")
        if size > dim.greatest:
            raise FlightError(f"{name}: dimension {i} = {size} must be at most {dim.greatest}, as {dim.name} says")
        if dim.name not in self._dims:
            ssa = self._scalar(dim.name, _types.i64, np.int64(size), (dim.divisor, dim.greatest))
            text = f"arith.index_cast {ssa} : i64 to index"
            self._dims[dim.name] = (size, Scalar(_state.current().op(text), index, dim.divisor, True), dim.divisor)
        known, scalar, divisor = self._dims[dim.name]
        if known != size:
            raise FlightError(f"{name}: dimension {i} = {size}, but {dim.name} is {known} in another array")
        if divisor != dim.divisor:
            raise FlightError(f"{name}: {dim.name} has the divisors {divisor} and {dim.divisor}")
        return scalar

    def _tensor(self, name: str, array: Array, ssa: str, pointer: Pointer, extents: tuple[Any, ...]) -> Tensor:
        memory = Memory(name, ssa, pointer, extents, array.index, array.read_only, array.dtype == _types.bool_)
        if not extents:
            return Tensor(memory, 0, _layouts.as_layout("1:0"))
        if 0 in array.shape:
            raise FlightError(f"{name} of shape {array.shape} is empty: do not launch a kernel for it")
        if len(extents) == 1:
            layout = _layouts.as_layout(_layouts.tuple_text(extents[0]) + ":1")
        else:
            order = _layouts.tuple_text(tuple(range(len(extents) - 1, -1, -1)))
            layout = _layouts.as_layout(_layouts.record("ordered", _layouts.tuple_text(extents), order)[0])
        return Tensor(memory, 0, layout, dims=tuple(range(len(extents))))


_ARGUMENTS = (
    _types.i8,
    _types.i16,
    _types.i32,
    _types.i64,
    _types.u8,
    _types.u16,
    _types.u32,
    _types.u64,
    _types.f32,
    _types.f64,
)


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() or c == "_" else "_" for c in name) or "x"
