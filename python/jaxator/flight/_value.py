"""Values of run time: a number or a register fragment of one thread. Tiles are in _tile.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from jaxator.flight import _state
from jaxator.flight._emit import Region
from jaxator.flight._errors import FlightError
from jaxator.flight._types import DType, TileType, Vector
from jaxator.flight.layout._call import IntTuple, to_text

Number = bool | int | float


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        from jaxator.flight import _ops

        return _ops.binary(name, other, self) if swapped else _ops.binary(name, self, other)

    return method


def _unary(name: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        from jaxator.flight import _ops

        return _ops.unary(name, self)

    return method


class Value:
    """What an operation of the kernel gave. Immutable."""

    __slots__ = ("_ssa", "region", "type")

    def __init__(self, ssa: str, type: DType | Vector | TileType):
        self._ssa = ssa
        self.type = type
        self.region: Region = _state.current("a run-time value").emitter.region

    @property
    def dtype(self) -> DType:
        return self.type if isinstance(self.type, DType) else self.type.dtype

    def use(self) -> str:
        """Its name, for an operation that needs it."""
        if not self.region.active:
            raise FlightError(f"{self!r} was made inside a branch or a loop that has ended; assign it to a variable there")
        return self._ssa

    def use_anywhere(self) -> str:
        """Its name, for the operation that ends the region in which it was made."""
        return self._ssa

    def to(self, dtype: Any) -> Any:
        """In another type. Floats round to nearest even; from float to integer towards zero; bool is 0 or 1."""
        from jaxator.flight import _ops

        return _ops.to(self, dtype)

    def __bool__(self) -> NoReturn:
        raise FlightError(
            f"{self!r} is known only when the kernel runs, and here Python wants to know whether it is true. `if`, `while`, "
            "`and`, "
            "`or`, `not` and `a if c else b` work in the source of kernels and of the functions they call; in a "
            "comprehension, "
            "a builtin or a library function use flight.where(condition, a, b), flight.all_of or flight.any_of"
        )

    def _static(self, what: str) -> NoReturn:
        raise FlightError(
            f"{self!r} is known only when the kernel runs, and here Python wants {what}. A loop variable that is a Python "
            "int comes "
            "from flight.static_range(...); a value that specialises the kernel is a parameter with the annotation "
            "flight.Constexpr"
        )

    def __index__(self) -> NoReturn:
        self._static("an integer")

    def __int__(self) -> NoReturn:
        self._static("an integer")

    def __float__(self) -> NoReturn:
        self._static("a float")

    def __iter__(self) -> NoReturn:
        raise FlightError(f"{self!r} cannot be iterated over")

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("sub"), _binary("sub", True)
    __mul__, __rmul__ = _binary("mul"), _binary("mul", True)
    __truediv__, __rtruediv__ = _binary("truediv"), _binary("truediv", True)
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _binary("floordiv", True)
    __mod__, __rmod__ = _binary("mod"), _binary("mod", True)
    __and__, __rand__ = _binary("and"), _binary("and", True)
    __or__, __ror__ = _binary("or"), _binary("or", True)
    __xor__, __rxor__ = _binary("xor"), _binary("xor", True)
    __lshift__, __rlshift__ = _binary("lshift"), _binary("lshift", True)
    __rshift__, __rrshift__ = _binary("rshift"), _binary("rshift", True)
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__, __ne__ = _binary("eq"), _binary("ne")  # type: ignore[assignment]
    __pow__ = _binary("pow")
    __neg__, __invert__, __abs__ = _unary("neg"), _unary("invert"), _unary("abs")
    __hash__ = object.__hash__

    def __pos__(self) -> Any:
        return self


class Scalar(Value):
    """One number. Of integers it is known which number divides them, and whether they can be negative."""

    __slots__ = ("divisor", "nonnegative")

    def __init__(self, ssa: str, type: DType, divisor: int = 1, nonnegative: bool = False):
        super().__init__(ssa, type)
        self.divisor = divisor
        self.nonnegative = nonnegative or type.kind in "ub"

    def __repr__(self) -> str:
        return f"a run-time {self.type}" + (f" (a multiple of {self.divisor})" if self.divisor > 1 else "")


def size_of(shape: IntTuple) -> int:
    if isinstance(shape, tuple):
        return math.prod(map(size_of, shape))
    if not isinstance(shape, int):
        raise FlightError(f"size {shape} must be a static number")
    return shape


class Fragment(Value):
    """Numbers in the registers of one thread, in the order of a shape (leftmost mode fastest).

    f[i], f[i, j] is one number; None in the place of a coordinate keeps a mode. Assigning to an element gives the variable a
    new fragment: other names of the old one are not changed.
    """

    __slots__ = ("name", "shape", "unset")

    def __init__(self, ssa: str, dtype: DType, shape: IntTuple, unset: frozenset[int] = frozenset(), name: str = "fragment"):
        super().__init__(ssa, Vector(dtype, size_of(shape)))
        self.shape = shape
        self.unset = unset
        self.name = name

    @property
    def size(self) -> int:
        return self.type.count

    def use(self) -> str:
        if self.unset:
            raise FlightError(f"{self!r} is read, but of its elements {_some(self.unset)} nothing was stored")
        return super().use()

    def partial(self) -> str:
        """Its name, for an operation that does not care what unset elements hold."""
        return super().use()

    def __len__(self) -> int:
        return self.shape[0] if isinstance(self.shape, tuple) and isinstance(self.shape[0], int) else self.size

    def __iter__(self) -> Any:
        return (self[i] for i in range(self.size))

    def __getitem__(self, coordinate: Any) -> Any:
        from jaxator.flight import _fragment

        return _fragment.get(self, coordinate)

    def sum(self) -> Scalar:
        """Of its elements, one after the other."""
        from jaxator.flight import _fragment

        return _fragment.reduce("add", self)

    def max(self) -> Scalar:
        from jaxator.flight import _fragment

        return _fragment.reduce("max", self)

    def min(self) -> Scalar:
        from jaxator.flight import _fragment

        return _fragment.reduce("min", self)

    def reshape(self, shape: Any) -> Fragment:
        """The same numbers in the order of another shape of the same size."""
        if size_of(shape) != self.size:
            raise FlightError(f"{self!r} cannot have the shape {to_text(shape)} of {size_of(shape)} elements")
        return Fragment(self.partial(), self.dtype, shape, self.unset, self.name)

    def __repr__(self) -> str:
        return f"a {self.name} {self.dtype}[{to_text(self.shape)}]"


def _some(numbers: frozenset[int]) -> str:
    first = sorted(numbers)[:8]
    return ", ".join(map(str, first)) + (", ..." if len(numbers) > 8 else "")


class Unset:
    """A variable that has no value here. Whatever is done with it is an error."""

    def __init__(self, name: str, why: str = "nothing was assigned to it"):
        self.__dict__["name"] = name
        self.__dict__["why"] = why

    def fail(self, *_: Any, **__: Any) -> NoReturn:
        raise FlightError(f"{self.name} has no value here: {self.why}")

    def __getattr__(self, name: str) -> NoReturn:
        self.fail()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.why}>"


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod and rand or ror xor rxor lshift rlshift rshift "
    "rrshift "
    "lt le gt ge eq ne pow neg invert abs pos bool index int float iter len getitem setitem call setattr contains enter"
).split():
    setattr(Unset, f"__{_name}__", Unset.fail)
Unset.__hash__ = object.__hash__  # type: ignore[assignment]
