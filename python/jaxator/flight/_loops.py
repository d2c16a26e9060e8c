"""Loops of run time. What the body changes is carried: the body is traced once to see what that is, then again with the
loop's own values, until nothing new turns up."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any

from jaxator.flight import _carry, _ops, _state
from jaxator.flight._branches import BREAK, CONTINUE, Maybe, Returning, State
from jaxator.flight._carry import Kind, MismatchError
from jaxator.flight._emit import Region
from jaxator.flight._errors import FlightError
from jaxator.flight._types import bool_, index
from jaxator.flight._value import Scalar, Unset, Value


@dataclasses.dataclass(frozen=True)
class LoopRange:
    """range(start, stop, step) of a loop in the generated code."""

    start: Any
    stop: Any
    step: int

    @staticmethod
    def of(*args: Any) -> LoopRange:
        if not 1 <= len(args) <= 3:
            raise FlightError(f"range takes 1 to 3 numbers, not {len(args)}")
        start, stop = (0, args[0]) if len(args) == 1 else args[:2]
        step = args[2] if len(args) == 3 else 1
        if isinstance(step, Value):
            raise FlightError(f"the step of range, {step!r}, must be a Python int")
        step = operator.index(step)
        if step == 0:
            raise FlightError("the step of range must not be 0")
        for x in (start, stop):
            if isinstance(x, Value):
                if not isinstance(x, Scalar) or not x.dtype.is_integer:
                    raise FlightError(f"range of {x!r}: an integer was expected")
            else:
                operator.index(x)
        return LoopRange(start, stop, step)


class Carried:
    """The variables of a loop as a flat list of parts, and which of these go around it."""

    def __init__(self, state: State):
        self.state = state
        self.before = state.get()
        self.parts: list[tuple[int, str, Any]] = []
        """(variable, path, part)"""
        for i, (name, value) in enumerate(zip(state.names, self.before, strict=True)):
            self.parts += [(i, path, part) for path, part in _carry.flatten(value, name)]
        self.kinds: dict[int, Kind] = {}
        self._lost: dict[int, Unset] = {}
        """Variables that cannot go around, with the reason: reading one before it is assigned to is an error."""

    def put(self, values: dict[int, Any]) -> None:
        """Sets the variables to what they were before, with other values for the parts that are carried."""
        parts = iter([values.get(k, part) for k, (*_, part) in enumerate(self.parts)])
        made = [_carry.rebuild(x, parts) for x in self.before]
        self.state.put([self._lost[i] if i in self._lost else x for i, x in enumerate(made)])

    def _lose(self, variable: int, why: str) -> None:
        self._lost[variable] = Unset(self.state.names[variable], why)
        self.kinds = {k: kind for k, kind in self.kinds.items() if self.parts[k][0] != variable}

    def after(self) -> dict[int, Any]:
        """The parts after the body."""
        found: dict[int, Any] = {}
        numbers = iter(range(len(self.parts)))
        for i, (old, new) in enumerate(zip(self.before, self.state.get(), strict=True)):
            mine = [next(numbers) for _ in _carry.flatten(old, "")]
            if isinstance(old, Unset) or i in self._lost:
                continue
            if isinstance(new, Unset) or not _carry.same_structure(old, new):
                why = new.why if isinstance(new, Unset) else _changes(old, new)
                self._lose(i, why)
                continue
            found |= dict(zip(mine, (part for _, part in _carry.flatten(new, "")), strict=True))
        return found

    def settle(self, after: dict[int, Any], lost: int) -> bool:
        """Notes what must be carried, in which form. True if that was known before."""
        for k, new in after.items():
            variable, path, before = self.parts[k]
            if variable in self._lost or (k not in self.kinds and _carry.same_static(before, new)):
                continue
            try:
                kind = _carry.unify(before, new)
            except MismatchError:
                self._lose(variable, (f"{path} " if path != self.state.names[variable] else "it ") + _changes(before, new))
                continue
            old = self.kinds.get(k)
            if old is not None:
                kind = dataclasses.replace(
                    kind,
                    unset=kind.unset | old.unset,
                    divisor=math.gcd(kind.divisor, old.divisor) or 1,
                    nonnegative=kind.nonnegative and old.nonnegative,
                )
            if old is None or _form(kind) != _form(old):
                self.kinds[k] = kind
                lost = -1
        return lost == len(self._lost)

    @property
    def lost(self) -> int:
        return len(self._lost)

    def finish(self, results: dict[int, Value]) -> None:
        """Sets the variables after the loop."""
        self.put(results)
        values = self.state.get()
        for i, (name, value) in enumerate(zip(self.state.names, values, strict=True)):
            if isinstance(value, Unset) and i not in self._lost:
                values[i] = Unset(name, "it is assigned inside a loop only; give it a value before the loop")
        self.state.put(values)


def _changes(old: Any, new: Any) -> str:
    return f"changes its type: before the loop it is {_carry.describe(old)}, after a round of it {_carry.describe(new)}"


def _form(kind: Kind) -> tuple[Any, ...]:
    return kind.type, kind.unset, kind.divisor, kind.nonnegative


def _plain(outcome: Any) -> Any:
    if isinstance(outcome, Returning):
        raise FlightError(
            "return inside a loop of run time is not supported: set a variable, break, and return behind the loop"
        )
    return None if outcome is CONTINUE else outcome


@dataclasses.dataclass
class Round:
    """A body, traced."""

    arguments: dict[int, str]
    region: Region
    broken: Any
    """None: never; else whether the loop ends here."""
    yields: list[str]


MAX_ROUNDS = 16
"""Facts about a carried value only get weaker, so this is never reached."""


def _trace_rounds(carried: Carried, run: Callable[[], Any]) -> Round:
    trace = _state.current("a loop")
    emitter, mark = trace.emitter, trace.shared_mark()
    for _ in range(MAX_ROUNDS):
        trace.shared_reset(mark)
        names = {i: emitter.new_names(1)[0] for i in carried.kinds}
        with emitter.nested() as region:
            carried.put({i: carried.kinds[i].make(name) for i, name in names.items()})
            lost = carried.lost
            outcome = _plain(run())
            after = carried.after()
            if not carried.settle(after, lost):
                continue
            yields = [carried.kinds[i].name_of(after[i]) for i in names]
        broken = None if outcome is None else outcome.broken if isinstance(outcome, Maybe) else outcome is BREAK
        return Round(names, region, broken, yields)
    raise FlightError("loop: the variables that it changes have no fixed form")


def _results(carried: Carried, extra: int) -> tuple[str, list[str], dict[int, Value]]:
    """(the left side, names of the first `extra` results, the carried values)."""
    emitter = _state.current("a loop").emitter
    count = len(carried.kinds) + extra
    if count == 0:
        return "", [], {}
    names = emitter.new_names(count)
    first = names[0].split("#")[0]
    values = {i: kind.make(name) for (i, kind), name in zip(carried.kinds.items(), names[extra:], strict=True)}
    return f"{first}{f':{count}' if count > 1 else ''} = ", names[:extra], values


def _initial(carried: Carried) -> list[str]:
    return [kind.name_of(carried.parts[k][2]) for k, kind in carried.kinds.items()]


# ---- for -------------------------------------------------------------------------------------------------------------


def for_range(bounds: LoopRange, body: Callable[[Any], Any], state: State) -> None:
    trace = _state.current("for")
    location, emitter = trace.location(), trace.emitter
    start, stop, step = _upwards(bounds)
    carried = Carried(state)
    counter = emitter.new_names(1)[0]

    def item() -> Any:
        divisor = math.gcd(_ops.facts(start)[0], step) or 1
        value = Scalar(counter, index, divisor, _ops.facts(start)[1])
        if bounds.step > 0:
            return value
        return bounds.start + value * bounds.step

    done = _trace_rounds(carried, lambda: body(item()))
    if done.broken is not None:
        _for_with_break((start, stop, step), counter, carried, done, location)
        return
    initial = _initial(carried)
    target, _, results = _results(carried, 0)
    types = ", ".join(kind.mlir for kind in carried.kinds.values())
    first, last, by = (_ops.scalar(x, index).use() for x in (start, stop, step))
    header = f"{target}scf.for {counter} = {first} to {last} step {by}"
    lines = list(done.region.lines)
    if initial:
        pairs = zip(done.arguments.values(), initial, strict=True)
        header += f" iter_args({', '.join(f'{a} = {b}' for a, b in pairs)}) -> ({types})"
        lines.append(f"scf.yield {', '.join(done.yields)} : {types} loc({location})")
    emitter.block(header + " {", [("}", lines)], location)
    carried.finish(results)


def _upwards(bounds: LoopRange) -> tuple[Any, Any, int]:
    """Start, stop and step of a counter that goes up; downwards it counts the rounds."""
    if bounds.step > 0:
        return bounds.start, bounds.stop, bounds.step
    distance = bounds.start - bounds.stop
    if not isinstance(distance, Value):
        return 0, max(0, -(distance // bounds.step)), 1
    return 0, (distance + (-bounds.step - 1)) // -bounds.step, 1


def _for_with_break(limits: tuple[Any, Any, int], counter: str, carried: Carried, done: Round, location: str) -> None:
    """As a while loop over the counter and a flag."""
    emitter = _state.current("for").emitter
    first, last, by = (_ops.scalar(x, index).use() for x in limits)
    yes, no = _ops.constant(True, bool_), _ops.constant(False, bool_)
    kinds = ["index", "i1", *(kind.mlir for kind in carried.kinds.values())]
    types = ", ".join(kinds)
    initial = [first, yes, *_initial(carried)]
    before = emitter.new_names(1)[0], emitter.new_names(1)[0], *(emitter.new_names(1)[0] for _ in carried.kinds)
    inside, going = emitter.new_names(1)[0], emitter.new_names(1)[0]
    test = [
        f"{inside} = arith.cmpi slt, {before[0]}, {last} : index loc({location})",
        f"{going} = arith.andi {inside}, {before[1]} : i1 loc({location})",
        f"scf.condition({going}) {', '.join(before)} : {types} loc({location})",
    ]
    flag = emitter.new_names(1)[0]
    following = emitter.new_names(1)[0]
    broken = done.broken.use_anywhere() if isinstance(done.broken, Scalar) else yes if done.broken else no
    running = emitter.new_names(1)[0]
    arguments = ", ".join(
        f"{name}: {kind}" for name, kind in zip([counter, flag, *done.arguments.values()], kinds, strict=True)
    )
    body = [
        f"^bb0({arguments}):",
        *done.region.lines,
        f"{following} = arith.addi {counter}, {by} : index loc({location})",
        f"{running} = arith.xori {broken}, {yes} : i1 loc({location})",
        f"scf.yield {', '.join([following, running, *done.yields])} : {types} loc({location})",
    ]
    target, _, results = _results(carried, 2)
    pairs = ", ".join(f"{a} = {b}" for a, b in zip(before, initial, strict=True))
    emitter.block(f"{target}scf.while ({pairs}) : ({types}) -> ({types}) {{", [("} do {", test), ("}", body)], location)
    carried.finish(results)


# ---- while -----------------------------------------------------------------------------------------------------------


def while_(test: Callable[[], Any], body: Callable[[], Any], state: State, condition: Callable[[Any, str], Scalar]) -> Any:
    """As long as the condition is known, rounds are traced one by one; from the first one of run time on it is a loop."""
    trace = _state.current("while")
    emitter = trace.emitter
    while True:
        mark = trace.shared_mark()
        with emitter.nested():
            first = test()
        if isinstance(first, Value):
            return _dynamic_while(test, body, state, condition)
        if not first:
            return None
        before = state.get()
        state.put([_carry.fresh(x) for x in before])
        with emitter.nested() as region:
            outcome = body()
        if isinstance(outcome, Maybe):
            state.put(before)
            trace.shared_reset(mark)
            return _dynamic_while(test, body, state, condition)
        # What was made in the round goes on living in the region around it.
        emitter.region.absorb(region)
        if outcome is BREAK:
            return None
        if isinstance(outcome, Returning):
            return outcome


def _dynamic_while(
    test: Callable[[], Any], body: Callable[[], Any], state: State, condition: Callable[[Any, str], Scalar]
) -> None:
    trace = _state.current("while")
    location, emitter = trace.location(), trace.emitter
    carried = Carried(state)
    done = _trace_rounds(carried, body)
    before = {i: emitter.new_names(1)[0] for i in carried.kinds}
    going = emitter.new_names(1)[0]
    with emitter.nested() as tested:
        carried.put({i: carried.kinds[i].make(name) for i, name in before.items()})
        result = test()
        cond = condition(result, "while").use() if isinstance(result, Value) else _ops.constant(bool(result), bool_)
        if done.broken is not None:
            cond = _state.current().op(f"arith.andi {cond}, {going} : i1")
    flags = ["i1"] if done.broken is not None else []
    kinds = [*flags, *(kind.mlir for kind in carried.kinds.values())]
    types = ", ".join(kinds)
    names = [*([going] if flags else []), *before.values()]
    initial = [*([_ops.constant(True, bool_)] if flags else []), *_initial(carried)]
    passed = f" {', '.join(names)} : {types}" if names else ""
    tested.lines.append(f"scf.condition({cond}){passed} loc({location})")
    lines, yields, inner = _while_body(done, location)
    arguments = [f"{name}: {kind}" for name, kind in zip([*inner, *done.arguments.values()], kinds, strict=True)]
    if arguments:
        lines = [f"^bb0({', '.join(arguments)}):", *lines]
    lines.append(f"scf.yield{' ' + ', '.join(yields) + ' : ' + types if yields else ''} loc({location})")
    target, _, results = _results(carried, len(flags))
    pairs = ", ".join(f"{a} = {b}" for a, b in zip(names, initial, strict=True))
    header = f"{target}scf.while {f'({pairs}) ' if pairs else ''}: ({types}) -> ({types}) {{"
    emitter.block(header, [("} do {", tested.lines), ("}", lines)], location)
    carried.finish(results)


def _while_body(done: Round, location: str) -> tuple[list[str], list[str], list[str]]:
    """Lines of the body, what it yields, and the name of the flag that it gets."""
    if done.broken is None:
        return list(done.region.lines), done.yields, []
    emitter = _state.current("while").emitter
    flag, running = emitter.new_names(1)[0], emitter.new_names(1)[0]
    yes, no = _ops.constant(True, bool_), _ops.constant(False, bool_)
    broken = done.broken.use_anywhere() if isinstance(done.broken, Scalar) else yes if done.broken else no
    lines = [*done.region.lines, f"{running} = arith.xori {broken}, {yes} : i1 loc({location})"]
    return lines, [running, *done.yields], [flag]
