"""Variables across branches and loops of run time: which parts of what they hold are values, and in which form these go
on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from jaxator.flight import _ops
from jaxator.flight._tensor import Tensor
from jaxator.flight._tile import Tile
from jaxator.flight._types import DType, bool_, f32, index
from jaxator.flight._value import Fragment, Scalar, Unset, Value


class MismatchError(Exception):
    """Two values cannot be one variable."""


# ---- structure -------------------------------------------------------------------------------------------------------


def _is_struct(x: Any) -> bool:
    return (
        dataclasses.is_dataclass(x)
        and not isinstance(x, type | Tensor | DType)
        and not type(x).__module__.startswith("jaxator.")
    )


def flatten(x: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(name, part) of everything that may be a value."""
    if isinstance(x, Tensor):
        yield path, x.offset
    elif isinstance(x, tuple | list):
        for i, part in enumerate(x):
            yield from flatten(part, f"{path}[{i}]")
    elif isinstance(x, dict):
        for key, part in x.items():
            yield from flatten(part, f"{path}[{key!r}]")
    elif _is_struct(x):
        for field in dataclasses.fields(x):
            yield from flatten(getattr(x, field.name), f"{path}.{field.name}")
    else:
        yield path, x


def rebuild(x: Any, parts: Iterator[Any]) -> Any:
    """x with other parts; always new lists and dicts, so that a branch cannot change those of another."""
    if isinstance(x, Tensor):
        offset = next(parts)
        return x if offset is x.offset else dataclasses.replace(x, offset=offset)
    if isinstance(x, list):
        return [rebuild(part, parts) for part in x]
    if isinstance(x, tuple):
        made = [rebuild(part, parts) for part in x]
        return type(x)(*made) if hasattr(x, "_fields") else tuple(made)
    if isinstance(x, dict):
        return {key: rebuild(part, parts) for key, part in x.items()}
    if _is_struct(x):
        return dataclasses.replace(
            x, **{field.name: rebuild(getattr(x, field.name), parts) for field in dataclasses.fields(x)}
        )
    return next(parts)


def fresh(x: Any) -> Any:
    """A copy of the containers."""
    return rebuild(x, iter([part for _, part in flatten(x, "")])) if is_container(x) else x


def is_container(x: Any) -> bool:
    return isinstance(x, list | dict) or (isinstance(x, tuple) and any(map(is_container, x)))


def same_structure(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and _same_tensor(a, b)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same_structure, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same_structure(a[key], b[key]) for key in a)
    if _is_struct(a):
        return type(a) is type(b) and all(
            same_structure(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a)
        )
    return not (isinstance(b, tuple | list | dict) or _is_struct(b))


def _same_tensor(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    moved = a.offset is not b.offset and (isinstance(a.offset, Value) or isinstance(b.offset, Value) or a.offset != b.offset)
    same = a.memory is b.memory and str(a.layout) == str(b.layout) and a.overhang == b.overhang
    return same and not (moved and a.overhang)


def describe(x: Any) -> str:
    if isinstance(x, Value):
        return repr(x)
    if isinstance(x, bool | int | float | str) or x is None:
        return f"the {type(x).__name__} {x!r}"
    return repr(x) if isinstance(x, Tensor) else f"a {type(x).__name__}"


def same_static(a: Any, b: Any) -> bool:
    """Both are the same, known while tracing."""
    if a is b:
        return True
    if isinstance(a, Value | Unset) or isinstance(b, Value | Unset) or type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:  # arrays and the like have no one truth value
        return False


# ---- forms -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kind:
    """The form of a value that comes out of a branch or goes around a loop."""

    type: Any
    like: Value | None = None
    """Of a fragment or a tile: one of that form."""
    unset: frozenset[int] = frozenset()
    divisor: int = 1
    nonnegative: bool = False

    @property
    def mlir(self) -> str:
        return self.type.mlir

    def make(self, ssa: str) -> Value:
        if isinstance(self.like, Fragment):
            return Fragment(ssa, self.type.dtype, self.like.shape, self.unset, self.like.name)
        if isinstance(self.like, Tile):
            return Tile(ssa, self.type)
        return Scalar(ssa, self.type, self.divisor, self.nonnegative)

    def name_of(self, x: Any) -> str:
        """Of a value in this form."""
        if isinstance(x, Fragment):
            return x.partial()
        if isinstance(x, Tile):
            return x.respread(self.type.spread).use()
        return _ops.scalar(x, self.type).use()


def is_number(x: Any) -> bool:
    return isinstance(x, bool | int | float)


def unify(a: Any, b: Any) -> Kind:
    """The form that both can have."""
    for x in (a, b):
        if not isinstance(x, Value) and not is_number(x):
            raise MismatchError
    if is_number(a) and is_number(b):
        kinds = {type(a), type(b)}
        dtype = bool_ if kinds == {bool} else index if kinds == {int} else f32 if bool not in kinds else None
        if dtype is None:
            raise MismatchError
        return _scalar_kind(dtype, a, b)
    if is_number(a) or is_number(b):
        value, number = (b, a) if is_number(a) else (a, b)
        if not isinstance(value, Scalar) or not _fits(number, value.dtype):
            raise MismatchError
        return _scalar_kind(value.dtype, a, b)
    if type(a) is not type(b) or a.dtype != b.dtype:
        raise MismatchError
    if isinstance(a, Fragment):
        if a.shape != b.shape:
            raise MismatchError
        return Kind(a.type, a, a.unset | b.unset)
    if isinstance(a, Tile):
        if a.shape != b.shape:
            raise MismatchError
        chosen = b if a._rebuild else a
        return Kind(chosen.type, chosen)
    return _scalar_kind(a.dtype, a, b)


def _fits(number: Any, dtype: DType) -> bool:
    if isinstance(number, bool):
        return dtype == bool_
    return dtype.is_float or (isinstance(number, int) and dtype.is_integer)


def _scalar_kind(dtype: DType, a: Any, b: Any) -> Kind:
    if not dtype.is_integer:
        return Kind(dtype)
    (left, left_positive), (right, right_positive) = _ops.facts(a), _ops.facts(b)
    return Kind(dtype, None, frozenset(), math.gcd(left, right) or 1, left_positive and right_positive)
