"""Operators and functions on values: what each becomes, and what is known of the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jaxator.flight import _state, _types
from jaxator.flight._emit import literal, splat
from jaxator.flight._errors import FlightError
from jaxator.flight._types import DType, Vector, bool_, dtype_of, index, promote
from jaxator.flight._value import Fragment, Number, Scalar, Value


def is_number(x: Any) -> bool:
    return (
        isinstance(x, bool | int | float) or hasattr(x, "dtype") and not isinstance(x, Value) and getattr(x, "ndim", 1) == 0
    )


def default_type(x: Number) -> DType:
    """Of a Python number that stands alone."""
    if isinstance(x, bool):
        return bool_
    return index if isinstance(x, int) else _types.f32


def constant(x: Any, dtype: DType, count: int | None = None) -> str:
    """The name of a constant."""
    if dtype.is_integer and isinstance(x, float) and x != int(x):
        raise FlightError(f"{x} is no {dtype}")
    if dtype.is_integer:
        least, greatest = (
            (0, 2**dtype.bits - 1) if dtype.kind == "u" else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
        )
        if not least <= int(x) <= greatest:
            raise FlightError(f"{x} does not fit in {dtype}, which goes from {least} to {greatest}")
    mlir = dtype.mlir if count is None else f"vector<{count}x{dtype.mlir}>"
    return _state.current("a constant").emitter.constant(splat(literal(x, dtype), count), mlir)


def scalar(x: Any, dtype: DType | None = None) -> Scalar:
    """A number or a scalar as a scalar of a type."""
    if isinstance(x, Scalar):
        return x if dtype is None or x.dtype == dtype else to(x, dtype)
    if isinstance(x, Value) or not is_number(x):
        raise FlightError(f"a number was expected, not {x!r}")
    dtype = dtype or default_type(x)
    value = Scalar(constant(x, dtype), dtype)
    value.region = _state.current().emitter.root
    if dtype.is_integer:
        value.divisor, value.nonnegative = abs(int(x)), x >= 0
    return value


# ---- shapes of operands ----------------------------------------------------------------------------------------------


def common_shape(operands: list[Any]) -> Fragment | None:
    """The fragment whose shape the result has; None of scalars. Fragments of one element count as scalars do not."""
    fragments = [x for x in operands if isinstance(x, Fragment)]
    for other in fragments[1:]:
        if other.size != fragments[0].size:
            raise FlightError(
                f"{fragments[0]!r} and {other!r} have different sizes: {fragments[0].size} and {other.size} elements"
            )
    return fragments[0] if fragments else None


def spread_out(x: Any, dtype: DType, like: Fragment | None) -> str:
    """The name of an operand in this type, repeated to the shape of a fragment."""
    count = count_of(like)
    if is_number(x):
        return constant(x, dtype, count)
    x = to(x, dtype)
    if like is None or isinstance(x, Fragment):
        return x.use()
    return _state.current().pure(f"vector.broadcast {x.use()} : {dtype.mlir} to {Vector(dtype, like.size).mlir}")


def count_of(like: Fragment | None) -> int | None:
    """Elements of a fragment; None of a scalar."""
    return None if like is None else like.size


def wrap(ssa: str, dtype: DType, like: Fragment | None) -> Any:
    return Scalar(ssa, dtype) if like is None else Fragment(ssa, dtype, like.shape)


def type_text(dtype: DType, like: Fragment | None) -> str:
    return dtype.mlir if like is None else Vector(dtype, like.size).mlir


def elementwise(apply: Callable[..., Any], operands: list[Any]) -> Any:
    """apply(*operands), for tiles element by element."""
    from jaxator.flight import _tile

    if any(isinstance(x, _tile.Tile) for x in operands):
        return _tile.map_tiles(apply, operands)
    return apply(*operands)


def common_type(operands: list[Any]) -> DType:
    """Python numbers take the type of the others; a Python float makes integers f32."""
    typed = [x.dtype for x in operands if isinstance(x, Value)]
    if not typed:
        return dtype_of_numbers(operands)
    dtype = typed[0]
    for other in typed[1:]:
        dtype = promote(dtype, other)
    if any(isinstance(x, float) for x in operands) and not dtype.is_float:
        return _types.f32
    if dtype == bool_ and any(isinstance(x, int) and not isinstance(x, bool) for x in operands):
        return index
    return dtype


def dtype_of_numbers(numbers: list[Any]) -> DType:
    dtype = default_type(numbers[0])
    for other in numbers[1:]:
        dtype = promote(dtype, default_type(other))
    return dtype


# ---- operators -------------------------------------------------------------------------------------------------------

_COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}


def binary(name: str, a: Any, b: Any) -> Any:
    for x in (a, b):
        if not isinstance(x, Value) and not is_number(x):
            if name in ("eq", "ne"):
                return NotImplemented
            raise FlightError(f"{name}: {x!r} is no number and no value of the kernel")
    if name == "pow":
        return _power(a, b)
    return elementwise(lambda x, y: _binary(name, x, y), [a, b])


def _binary(name: str, a: Any, b: Any) -> Any:
    like = common_shape([a, b])
    dtype = common_type([a, b])
    if dtype.kind == "s":
        raise FlightError(f"{dtype} is for storage; convert it with .to(flight.f32) first")
    if name in _COMPARE:
        return _compare(name, a, b, dtype, like)
    if dtype == bool_ and name not in ("and", "or", "xor"):
        dtype = _types.i32
    if like is None and dtype.is_integer:
        folded = _neutral(name, a, b, dtype)
        if folded is not None:
            return folded
    x, y = spread_out(a, dtype, like), spread_out(b, dtype, like)
    result = wrap(_arithmetic(name, x, y, dtype, like, _can_be_negative(a, b)), dtype, like)
    if isinstance(result, Scalar) and dtype.is_integer:
        _set_facts(name, result, a, b)
    return result


def _neutral(name: str, a: Any, b: Any, dtype: DType) -> Any:
    """x + 0, x * 1 and the like are x."""
    neutral = {
        "add": (0, 0),
        "sub": (None, 0),
        "mul": (1, 1),
        "floordiv": (None, 1),
        "lshift": (None, 0),
        "rshift": (None, 0),
    }
    left, right = neutral.get(name, (None, None))
    if not isinstance(b, Value) and right is not None and b == right:
        return to(a, dtype)
    if not isinstance(a, Value) and left is not None and a == left:
        return to(b, dtype)
    return None


def facts(x: Any) -> tuple[int, bool]:
    """(divisor, never negative); the divisor of 0 is 0."""
    if isinstance(x, Scalar):
        return x.divisor, x.nonnegative
    if isinstance(x, Value):
        return 1, x.dtype.kind == "u"
    return abs(int(x)), x >= 0


def _can_be_negative(a: Any, b: Any) -> bool:
    return not (facts(a)[1] and facts(b)[1])


def _set_facts(name: str, result: Scalar, a: Any, b: Any) -> None:
    (left, left_positive), (right, right_positive) = facts(a), facts(b)
    both = left_positive and right_positive
    wide = result.dtype.bits == 64  # what a narrow type wraps around may become negative
    if name in ("add", "sub"):
        result.divisor = math.gcd(left, right) or 1
        result.nonnegative |= name == "add" and both and wide
    elif name == "mul":
        result.divisor = left * right if 0 < left * right <= 2**62 else max(left, right, 1)
        result.nonnegative |= both and wide
    elif name == "floordiv":
        exact = isinstance(b, int) and b > 0 and left % b == 0
        result.divisor = max(1, left // b) if exact else 1
        result.nonnegative |= both
    elif name == "mod":
        result.divisor = math.gcd(left, right) or 1
        result.nonnegative |= right_positive
    elif name in ("and", "rshift"):
        result.nonnegative |= left_positive
    if not wide:
        result.divisor &= -result.divisor  # only powers of two survive wrapping around


def _arithmetic(name: str, x: str, y: str, dtype: DType, like: Fragment | None, negative: bool) -> str:
    op = _state.current("arithmetic").pure
    mlir = type_text(dtype, like)
    if dtype.is_float:
        table = {"add": "addf", "sub": "subf", "mul": "mulf", "truediv": "divf", "floordiv": "divf"}
        if name not in table:
            raise FlightError(f"{name} is not defined of {dtype}")
        result = op(f"arith.{table[name]} {x}, {y} : {mlir}")
        return op(f"math.floor {result} : {mlir}") if name == "floordiv" else result
    if name == "truediv":
        raise FlightError(f"/ of {dtype} is a float: convert the operands with .to(flight.f32), or use //")
    unsigned = dtype.kind == "u" or not negative
    table = {
        "add": "addi", "sub": "subi", "mul": "muli", "and": "andi", "or": "ori", "xor": "xori", "lshift": "shli",
        "rshift": "shrui" if dtype.kind == "u" else "shrsi", "floordiv": "divui" if unsigned else "floordivsi",
        "mod": "remui" if unsigned else "remsi",
    }  # fmt: skip
    result = op(f"arith.{table[name]} {x}, {y} : {mlir}")
    return _floor_remainder(result, y, dtype, like) if name == "mod" and not unsigned else result


def _floor_remainder(remainder: str, divisor: str, dtype: DType, like: Fragment | None) -> str:
    """With the sign of the divisor, as in Python."""
    op, mlir = _state.current().pure, type_text(dtype, like)
    zero = constant(0, dtype, count_of(like))
    signs = op(f"arith.xori {remainder}, {divisor} : {mlir}")
    differ = op(f"arith.cmpi slt, {signs}, {zero} : {mlir}")
    rest = op(f"arith.cmpi ne, {remainder}, {zero} : {mlir}")
    wrong = op(f"arith.andi {differ}, {rest} : {type_text(bool_, like)}")
    moved = op(f"arith.addi {remainder}, {divisor} : {mlir}")
    return op(f"arith.select {wrong}, {moved}, {remainder} : {type_text(bool_, like)}, {mlir}")


def _compare(name: str, a: Any, b: Any, dtype: DType, like: Fragment | None) -> Any:
    x, y = spread_out(a, dtype, like), spread_out(b, dtype, like)
    if dtype.is_float:
        predicate = {"ne": "une"}.get(name, "o" + name)
        text = f"arith.cmpf {predicate}, {x}, {y} : {type_text(dtype, like)}"
    else:
        sign = "" if name in ("eq", "ne") else "u" if dtype.kind in "ub" else "s"
        text = f"arith.cmpi {sign}{name}, {x}, {y} : {type_text(dtype, like)}"
    return wrap(_state.current("a comparison").pure(text), bool_, like)


def _power(a: Any, b: Any) -> Any:
    if not isinstance(b, int) or isinstance(b, bool) or not 1 <= b <= 64:
        raise FlightError(
            f"x ** {b!r}: the exponent must be a Python int from 1 to 64; otherwise use flight.exp2 and flight.log2"
        )
    result, square = None, a
    while b:
        if b & 1:
            result = square if result is None else result * square
        b >>= 1
        if b:
            square = square * square
    return result


def unary(name: str, x: Any) -> Any:
    return elementwise(lambda y: _unary(name, y), [x])


def _unary(name: str, x: Any) -> Any:
    like, dtype, op = common_shape([x]), x.dtype, _state.current().pure
    if dtype.kind == "s":
        raise FlightError(f"{dtype} is for storage; convert it with .to(flight.f32) first")
    if name == "invert":
        if dtype == bool_ or dtype.is_integer:
            ones = constant(
                True if dtype == bool_ else 2**dtype.bits - 1 if dtype.kind == "u" else -1, dtype, count_of(like)
            )
            return wrap(op(f"arith.xori {x.use()}, {ones} : {type_text(dtype, like)}"), dtype, like)
        raise FlightError(f"~ is not defined of {dtype}")
    if dtype.is_float:
        text = "arith.negf" if name == "neg" else "math.absf"
        return wrap(op(f"{text} {x.use()} : {type_text(dtype, like)}"), dtype, like)
    if name == "neg":
        return _binary("sub", 0, x)
    if dtype.kind in "ub":
        return x
    return wrap(op(f"math.absi {x.use()} : {type_text(dtype, like)}"), dtype, like)


# ---- conversions -----------------------------------------------------------------------------------------------------


def to(x: Any, dtype: Any) -> Any:
    dtype = dtype_of(dtype)
    if not isinstance(x, Value):
        return scalar(x, dtype)
    if x.dtype == dtype:
        return x
    return elementwise(lambda y: _narrow_or_wide(y, dtype) if "s" in x.dtype.kind + dtype.kind else _convert(y, dtype), [x])


def _narrow_or_wide(x: Any, dtype: DType) -> Any:
    """From or to a type of storage, by way of f32."""
    from jaxator.flight import _narrow

    wide = _narrow.widen(x) if x.dtype.kind == "s" else to(x, _types.f32)
    return _narrow.narrow(wide, dtype) if dtype.kind == "s" else to(wide, dtype)


def _convert(x: Any, dtype: DType) -> Any:
    like, op = common_shape([x]), _state.current("a conversion").pure
    ssa, source = x.use(), x.dtype
    for name, via in _steps(source, dtype):
        if name == "nonzero":
            zero = constant(0, source, count_of(like))
            text = "arith.cmpf une," if source.is_float else "arith.cmpi ne,"
            ssa = op(f"{text} {ssa}, {zero} : {type_text(source, like)}")
        elif name:
            ssa = op(f"arith.{name} {ssa} : {type_text(source, like)} to {type_text(via, like)}")
        source = via
    result = wrap(ssa, dtype, like)
    if isinstance(result, Scalar) and dtype.is_integer and x.dtype.is_integer:
        result.divisor = x.divisor if dtype.bits >= x.dtype.bits else x.divisor & -x.divisor
        result.nonnegative |= x.nonnegative and dtype.bits >= x.dtype.bits
    return result


def _steps(source: DType, target: DType) -> list[tuple[str, DType]]:
    """Operations of arith from one type to another, each with the type that it gives."""
    wide = _types.i64
    if target == bool_:
        return [("nonzero", bool_)]
    if source.is_float and target.is_float:
        if source.bits != target.bits and (source.bits, target.bits) != (64, 16):
            return [("extf" if source.bits < target.bits else "truncf", target)]
        if _types.f64 in (source, target):
            raise FlightError(
                f"{source} to {target} is rounded once only by way of f32: convert with .to(flight.f32) in between"
            )
        if source == _types.f32 or target == _types.f32:
            return [("extf" if target == _types.f32 else "truncf", target)]
        return [*_steps(source, _types.f32), *_steps(_types.f32, target)]
    if source == index:
        if target.is_float:
            return [("index_cast", wide), ("sitofp", target)]
        return [("index_cast", target)]
    if target == index:
        if source.is_float:
            return [("fptosi", wide), ("index_cast", index)]
        return [("index_castui" if source.kind in "ub" else "index_cast", index)]
    if source.is_float:
        return [("fptoui" if target.kind == "u" else "fptosi", target)]
    if target.is_float:
        return [("uitofp" if source.kind in "ub" else "sitofp", target)]
    if source.bits == target.bits:
        return [("", target)]
    return [("trunci" if source.bits > target.bits else "extui" if source.kind in "ub" else "extsi", target)]
