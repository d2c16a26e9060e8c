"""Functions of numbers, fragments and tiles."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from jaxator.flight import _ops, _state, _types
from jaxator.flight._errors import FlightError
from jaxator.flight._types import bool_, f32, u32, u64
from jaxator.flight._value import Fragment, Scalar, Value


def _function(name: str, text: str, python: Callable[[float], float]) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        like, dtype = _ops.common_shape([x]), x.dtype
        wide = f32 if dtype.bits < 32 else dtype
        y = _ops.to(x, wide)
        result = _ops.wrap(_state.current(name).pure(f"{text} {y.use()} : {_ops.type_text(wide, like)}"), wide, like)
        return _ops.to(result, dtype)

    def function(x: Any) -> Any:
        if not isinstance(x, Value):
            return python(x)
        if x.dtype.kind != "f":
            raise FlightError(f"{name} of {x!r}: a float was expected; convert it with .to(flight.f32)")
        return _ops.elementwise(apply, [x])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}, element by element; f16 and bf16 are computed as f32."
    return function


exp = _function("exp", "math.exp", math.exp)
exp2 = _function("exp2", "math.exp2", lambda x: 2.0**x)
log = _function("log", "math.log", math.log)
log2 = _function("log2", "math.log2", math.log2)
sqrt = _function("sqrt", "math.sqrt", math.sqrt)
rsqrt = _function("rsqrt", "math.rsqrt", lambda x: 1.0 / math.sqrt(x))
tanh = _function("tanh", "math.tanh", math.tanh)
sin = _function("sin", "math.sin", math.sin)
cos = _function("cos", "math.cos", math.cos)
erf = _function("erf", "math.erf", math.erf)
floor = _function("floor", "math.floor", lambda x: float(math.floor(x)))
ceil = _function("ceil", "math.ceil", lambda x: float(math.ceil(x)))


def bitcast(x: Any, dtype: Any) -> Any:
    """The same bits as another type of the same width."""
    dtype = _types.dtype_of(dtype)
    if not isinstance(x, Value) or x.dtype.bits != dtype.bits or _types.index in (dtype, x.dtype):
        raise FlightError(f"bitcast: {x!r} is not {dtype.bits} bits wide")

    def apply(y: Any) -> Any:
        like = _ops.common_shape([y])
        if y.dtype.mlir == dtype.mlir:
            return _ops.wrap(y.use(), dtype, like)
        text = f"arith.bitcast {y.use()} : {_ops.type_text(y.dtype, like)} to {_ops.type_text(dtype, like)}"
        return _ops.wrap(_state.current().pure(text), dtype, like)

    return _ops.elementwise(apply, [x])


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; both are computed."""
    if not isinstance(condition, Value):
        return a if condition else b
    if condition.dtype != bool_:
        raise FlightError(f"where: the condition {condition!r} must be bool")

    def apply(c: Any, x: Any, y: Any) -> Any:
        like, dtype = _ops.common_shape([c, x, y]), _ops.common_type([x, y])
        test = c.use() if like is None or isinstance(c, Scalar) else _ops.spread_out(c, bool_, like)
        x_name, y_name = _ops.spread_out(x, dtype, like), _ops.spread_out(y, dtype, like)
        test_type = bool_.mlir if isinstance(c, Scalar) else _ops.type_text(bool_, like)
        text = f"arith.select {test}, {x_name}, {y_name} : {test_type}, {_ops.type_text(dtype, like)}"
        result = _ops.wrap(_state.current().pure(text if test_type != "i1" else text.replace(": i1, ", ": ")), dtype, like)
        if isinstance(result, Scalar) and dtype.is_integer:
            result.divisor = math.gcd(_ops.facts(x)[0], _ops.facts(y)[0]) or 1
            result.nonnegative |= _ops.facts(x)[1] and _ops.facts(y)[1]
        return result

    return _ops.elementwise(apply, [condition, a, b])


def _pair(name: str, a: Any, b: Any) -> Any:
    if not isinstance(a, Value) and not isinstance(b, Value):
        return (builtins.max if name == "max" else builtins.min)(a, b)

    def apply(x: Any, y: Any) -> Any:
        like, dtype = _ops.common_shape([x, y]), _ops.common_type([x, y])
        if dtype.kind in "bs":
            raise FlightError(f"{name}imum is not defined of {dtype}")
        suffix = "imumf" if dtype.is_float else "ui" if dtype.kind == "u" else "si"
        left, right = _ops.spread_out(x, dtype, like), _ops.spread_out(y, dtype, like)
        text = f"arith.{name}{suffix} {left}, {right} : {_ops.type_text(dtype, like)}"
        result = _ops.wrap(_state.current(f"{name}imum").pure(text), dtype, like)
        if isinstance(result, Scalar) and dtype.is_integer:
            (first, positive), (second, also) = _ops.facts(x), _ops.facts(y)
            result.divisor = math.gcd(first, second) or 1
            result.nonnegative |= (positive or also) if name == "max" else (positive and also)
        return result

    return _ops.elementwise(apply, [a, b])


def maximum(a: Any, b: Any) -> Any:
    """The larger one, NaN if one is NaN."""
    return _pair("max", a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller one, NaN if one is NaN."""
    return _pair("min", a, b)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""

    def apply(*operands: Any) -> Any:
        like, dtype = _ops.common_shape(list(operands)), _ops.common_type(list(operands))
        if dtype.kind != "f":
            raise FlightError(f"fma of {dtype}: floats were expected")
        names = ", ".join(_ops.spread_out(x, dtype, like) for x in operands)
        return _ops.wrap(_state.current("fma").pure(f"math.fma {names} : {_ops.type_text(dtype, like)}"), dtype, like)

    return _ops.elementwise(apply, [a, b, c])


def clamp(x: Any, least: Any, greatest: Any) -> Any:
    """x, but not below the one nor above the other."""
    return minimum(maximum(x, least), greatest)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))


def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    return x / (1.0 + exp(-x))


def mul_high(a: Any, b: Any) -> Any:
    """The upper half of the product of two u32."""
    return ((_ops.to(a, u64) * _ops.to(b, u64)) >> 32).to(u32)


def _every(name: str, x: Any) -> Any:
    if not isinstance(x, Value):
        return (all if name == "and" else any)(x)
    if x.dtype != bool_ or not isinstance(x, Fragment):
        raise FlightError(f"{name}: a fragment of bool was expected, not {x!r}")
    text = f"vector.reduction <{name}>, {x.use()} : {x.type.mlir} into i1"
    return Scalar(_state.current(name).pure(text), bool_)


def all_of(x: Any) -> Any:
    """All elements of a fragment of bool are true."""
    return _every("and", x)


def any_of(x: Any) -> Any:
    """An element of a fragment of bool is true."""
    return _every("or", x)


def ceil_div(a: Any, b: Any) -> Any:
    """How many pieces of b cover a; b is positive."""
    return -(-a // b) if not isinstance(a, Value) and not isinstance(b, Value) else (a + (b - 1)) // b


def static_range(*args: Any) -> range:
    """A range whose loop is unrolled while the kernel is traced: the loop variable is a Python int."""
    for x in args:
        if isinstance(x, Value):
            raise FlightError(
                f"static_range of {x!r}, which is known only when the kernel runs; use range(...) for a loop of run time"
            )
    return range(*args)
