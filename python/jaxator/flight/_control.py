"""What the rewriter puts in the place of statements and operators (see _rewrite.py). What is known while tracing behaves as
in Python; what is of run time becomes operations."""

from __future__ import annotations

import builtins
import dataclasses
import operator
from collections.abc import Callable
from typing import Any

from jaxator.flight import _fragment, _loops, _math, _ops, _state, _tensor
from jaxator.flight._branches import BREAK, CONTINUE, Maybe, Returning, State, branch
from jaxator.flight._call import call
from jaxator.flight._errors import FlightError
from jaxator.flight._loops import LoopRange
from jaxator.flight._types import bool_
from jaxator.flight._value import Fragment, Scalar, Unset, Value

__all__ = ["BREAK", "CONTINUE", "Returning", "State", "call"]

Thunk = Callable[[], Any]


def unset(name: str) -> Unset:
    return Unset(name)


def finish(outcome: Any) -> Any:
    """What the function returns."""
    return outcome.value if isinstance(outcome, Returning) else None


def condition(test: Any, what: str) -> Scalar:
    """A value of run time as a condition."""
    if not isinstance(test, Scalar):
        raise FlightError(
            f"{what} needs one bool, not {test!r}; of a fragment take flight.all_of(...) or flight.any_of(...)"
        )
    return test if test.dtype == bool_ else test != 0


def if_(test: Any, then: Thunk, otherwise: Thunk, state: State | None, in_loop: bool) -> Any:
    if isinstance(test, Value):
        return branch(condition(test, "if"), then, otherwise, state or State.none(), in_loop)
    return then() if test else otherwise()


def choose(test: Any, a: Thunk, b: Thunk) -> Any:
    """a if test else b."""
    if not isinstance(test, Value):
        return a() if test else b()
    if not isinstance(test, Scalar):
        return _math.where(test, a(), b())
    outcome = branch(condition(test, "a if c else b"), lambda: Returning(a()), lambda: Returning(b()), State.none(), False)
    return outcome.value


def loop_range(function: Any, *args: Any) -> Any:
    """What `for` goes over where the source says range(...)."""
    if function is not builtins.range:
        return call(function, *args)
    return LoopRange.of(*args)


def for_(iterable: Any, body: Callable[[Any], Any], state: State | None) -> Any:
    if isinstance(iterable, LoopRange):
        return _loops.for_range(iterable, body, state or State.none())
    for item in iterable:
        outcome = body(item)
        if outcome is BREAK:
            break
        if isinstance(outcome, Returning):
            return outcome
        if isinstance(outcome, Maybe):
            raise FlightError(
                "break under a condition of run time in a loop that is unrolled while tracing; write `for i in range(...)`, "
                "or "
                "use `if` around the rest of the body"
            )
    return None


def while_(test: Thunk, body: Thunk, state: State | None) -> Any:
    return _loops.while_(test, body, state or State.none(), condition)


# ---- operators -------------------------------------------------------------------------------------------------------


def _logic(name: str, a: Any, others: tuple[Thunk, ...], stops: Callable[[Any], bool]) -> Any:
    """Python's rule while operands are known; from the first one of run time on, all are computed."""
    for i, thunk in enumerate(others):
        if isinstance(a, Value):
            rest = [_truth(x()) for x in others[i:]]
            result: Any = _truth(a)
            for x in rest:
                if isinstance(x, Value):
                    result = _ops.binary(name, result, x)
                elif stops(x):
                    return x
            return result
        if stops(a):
            return a
        a = thunk()
    return a


def _truth(x: Any) -> Any:
    if not isinstance(x, Value):
        return bool(x)
    return x if x.dtype == bool_ else _ops.binary("ne", x, 0)


def and_(a: Any, *others: Thunk) -> Any:
    return _logic("and", a, others, operator.not_)


def or_(a: Any, *others: Thunk) -> Any:
    return _logic("or", a, others, operator.truth)


def not_(a: Any) -> Any:
    return _ops.unary("invert", _truth(a)) if isinstance(a, Value) else not a


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
    "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def chain(left: Any, names: tuple[str, ...], *thunks: Thunk) -> Any:
    """a < b <= c: each operand once."""
    result: Any = True
    for name, thunk in zip(names, thunks, strict=True):
        right = thunk()
        test = _COMPARE[name](left, right)
        result = and_(result, lambda test=test: test)
        if not isinstance(result, Value) and not result:
            return result
        left = right
    return result


# ---- assignments to parts --------------------------------------------------------------------------------------------


def set_item(target: Any, place: Any, value: Any) -> Any:
    """What the variable is after target[place] = value."""
    if isinstance(target, _tensor.Tensor):
        _tensor.store_element(target, place, value)
        return target
    if isinstance(target, Fragment):
        return _fragment.put(target, place, value)
    if isinstance(target, Value):
        raise FlightError(f"an element of {target!r} cannot be assigned to")
    target[place] = value
    return target


def set_attribute(target: Any, name: str, value: Any) -> Any:
    """What the variable is after target.name = value."""
    if dataclasses.is_dataclass(target) and not isinstance(target, type) and type(target).__dataclass_params__.frozen:
        return dataclasses.replace(target, **{name: value})
    emitter = _state.current("an assignment").emitter
    if isinstance(value, Value) and emitter.region is not emitter.root:
        raise FlightError(
            f"the attribute {name} of {type(target).__name__} is set inside a branch or a loop of run time, where it would "
            "be lost; "
            "use a variable, or a flight.struct"
        )
    setattr(target, name, value)
    return target


def same(old: Any, new: Any, name: str) -> None:
    """Of a variable of an outer function, which cannot be given a new value here."""
    if new is not old:
        raise FlightError(
            f"{name} belongs to an outer function, so its parts cannot be assigned to here; return the new value"
        )
