"""Branches of run time: both are traced, and what they leave in variables is joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxator.flight import _carry, _state
from jaxator.flight._carry import Kind, MismatchError
from jaxator.flight._emit import Emitter, Region
from jaxator.flight._errors import FlightError
from jaxator.flight._value import Scalar, Unset, Value

BREAK = "break"
CONTINUE = "continue"


@dataclasses.dataclass(frozen=True)
class Returning:
    """A block ended with return."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Maybe:
    """A block ended with break if the flag is true, else it fell through."""

    broken: Scalar


class State:
    """The variables that a region may set."""

    def __init__(
        self,
        names: tuple[str, ...],
        assigned: int,
        live: tuple[str, ...] | None,
        get: Callable[[], tuple[Any, ...]],
        put: Callable[[tuple[Any, ...]], None],
    ):
        """The first `assigned` are set by the region's own statements; of the others lists and dicts may change. Those that
        are not `live` are not needed afterwards."""
        self._all, self._get, self._put = names, get, put
        values = get()
        chosen = [i for i, x in enumerate(values) if i < assigned or _carry.is_container(x)]
        self._chosen = chosen
        self.names = [names[i] for i in chosen]
        self.live = [live is None or name in live for name in self.names]

    @staticmethod
    def none() -> State:
        return State((), 0, None, tuple, lambda values: None)

    def get(self) -> list[Any]:
        values = self._get()
        return [values[i] for i in self._chosen]

    def put(self, values: list[Any]) -> None:
        every = list(self._get())
        for i, value in zip(self._chosen, values, strict=True):
            every[i] = value
        self._put(tuple(every))


@dataclasses.dataclass
class Arm:
    """One branch, traced."""

    region: Region
    outcome: Any
    values: list[Any]


def _trace(run: Callable[[], Any], state: State, before: list[Any]) -> Arm:
    emitter = _state.current("if").emitter
    state.put([_carry.fresh(x) for x in before])
    with emitter.nested() as region:
        outcome = run()
    return Arm(region, outcome, state.get())


class Join:
    """Collects the pairs of values that a branch gives, then emits it."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any, Kind]] = []

    def leaf(self, name: str, a: Any, b: Any) -> Callable[[list[Value]], Any]:
        """How to get the joined value once the results are there."""
        if _carry.same_static(a, b):
            return lambda results: a
        if isinstance(a, Unset) or isinstance(b, Unset):
            return lambda results: Unset(name, "it is assigned on one path of an `if` only")
        kind = _carry.unify(a, b)
        number = len(self.pairs)
        self.pairs.append((a, b, kind))
        return lambda results: results[number]

    def tree(self, name: str, a: Any, b: Any) -> Callable[[list[Value]], Any]:
        """Raises MismatchError with a description."""
        if isinstance(a, Unset) or isinstance(b, Unset):
            return self.leaf(name, a, b)
        if not _carry.same_structure(a, b):
            raise MismatchError(f"{name} is {_carry.describe(a)} on one path and {_carry.describe(b)} on the other")
        parts = []
        for (path, x), (_, y) in zip(_carry.flatten(a, name), _carry.flatten(b, name), strict=True):
            try:
                parts.append(self.leaf(path, x, y))
            except MismatchError:
                raise MismatchError(
                    f"{path} is {_carry.describe(x)} on one path and {_carry.describe(y)} on the other"
                ) from None
        return lambda results: _carry.rebuild(a, iter([part(results) for part in parts]))

    def emit(self, test: str, arms: tuple[Arm, Arm], location: str) -> list[Value]:
        emitter = _state.current("if").emitter
        types = ", ".join(kind.mlir for *_, kind in self.pairs)
        for i, arm in enumerate(arms):
            with resumed(emitter, arm.region):
                names = [kind.name_of(pair[i]) for *pair, kind in self.pairs]
                if names:
                    emitter.line(f"scf.yield {', '.join(names)} : {types}", location)
        results = emitter.new_names(len(self.pairs)) if self.pairs else []
        target = ""
        if results:
            first = results[0].split("#")[0]
            target = f"{first}{f':{len(results)}' if len(results) > 1 else ''} = "
        header = f"{target}scf.if {test}{f' -> ({types})' if results else ''} {{"
        parts = [("} else {", arms[0].region.lines), ("}", arms[1].region.lines)]
        if not results and not arms[1].region.lines:
            parts = [("}", arms[0].region.lines)]
        if results or arms[0].region.lines or arms[1].region.lines:
            emitter.block(header, parts, location)
        return [kind.make(name) for name, (*_, kind) in zip(results, self.pairs, strict=True)]


class resumed:  # noqa: N801 a context manager
    """Goes on emitting into a region that was left."""

    def __init__(self, emitter: Emitter, region: Region):
        self._emitter, self._region = emitter, region

    def __enter__(self) -> None:
        self._region.active = True
        self._emitter._regions.append(self._region)

    def __exit__(self, *_: Any) -> None:
        self._emitter._regions.pop()
        self._region.active = False


def _join_outcomes(join: Join, a: Any, b: Any, in_loop: bool) -> Callable[[list[Value]], Any]:
    """Of two branches: each fell through, returned, continued or broke."""
    a, b = (None if x is CONTINUE else x for x in (a, b))
    if isinstance(a, Returning) or isinstance(b, Returning):
        if in_loop:
            raise FlightError(
                "return under a condition of run time inside a loop is not supported: set a variable, break, and return "
                "behind the loop"
            )
        first, second = (x.value if isinstance(x, Returning) else None for x in (a, b))
        try:
            value = join.tree("the returned value", first, second)
        except MismatchError as error:
            raise FlightError(str(error)) from None
        return lambda results: Returning(value(results))
    if a is None and b is None:
        return lambda results: None
    if a is BREAK and b is BREAK:
        return lambda results: BREAK
    flags = [x.broken if isinstance(x, Maybe) else x is BREAK for x in (a, b)]
    flag = join.leaf("break", *flags)
    return lambda results: Maybe(flag(results))


def branch(test: Scalar, then: Callable[[], Any], otherwise: Callable[[], Any], state: State, in_loop: bool) -> Any:
    trace = _state.current("if")
    location, name = trace.location(), test.use()
    before = state.get()
    arms = (_trace(then, state, before), _trace(otherwise, state, before))
    join = Join()
    outcome = _join_outcomes(join, arms[0].outcome, arms[1].outcome, in_loop)
    joined: list[Callable[[list[Value]], Any]] = []
    for variable, live, a, b in zip(state.names, state.live, arms[0].values, arms[1].values, strict=True):
        if not live and not _carry.same_static(a, b):
            joined.append(_unknown(variable, "it was set in a branch that is not followed by a use of it"))
            continue
        kept = len(join.pairs)
        try:
            joined.append(join.tree(variable, a, b))
        except MismatchError as error:
            del join.pairs[kept:]
            joined.append(_unknown(variable, str(error)))
    results = join.emit(name, arms, location)
    state.put([value(results) for value in joined])
    return outcome(results)


def _unknown(name: str, why: str) -> Callable[[list[Value]], Any]:
    return lambda results: Unset(name, why)
