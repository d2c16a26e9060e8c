"""Runs many small kernels at every place, several in one module, and compares what they leave with the interpreter.

A case is a dataclass of plain Python values: its repr makes it again. It has `launcher()`, `operands()` (arrays), `results()`
(specs), `tiles` (whether it runs on x86's fast route too), `bounds()` (for each result the relative error that is allowed, 0 for
equal values) and `smaller()` (cases that are simpler).
"""

from __future__ import annotations

import collections
import concurrent.futures
import ctypes
import dataclasses
import pathlib
import re
import tempfile
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tiles_support
from interpreter import run as interpret
from interpreter_memory import Memory
from places import program_of

from jaxator.flight._compiler import CompileError, Options, compile_text
from jaxator.flight._program import TARGETS, ArrayArgument

BATCH = 16
"""Kernels in one request."""


@dataclasses.dataclass(frozen=True)
class Place:
    target: str
    route: str | None
    optimize: int
    tiles_only: bool = False

    def __str__(self) -> str:
        return f"{self.target} {self.route or ''} O{self.optimize}"


PLACES = (
    Place("x86-64", "threads", 0),
    Place("x86-64", "threads", 3),
    Place("x86-64", "tiles", 0, True),
    Place("x86-64", "tiles", 3, True),
    Place("gfx942", None, 3),
    Place("gfx950", None, 3),
)


@dataclasses.dataclass
class Failure:
    case: Any
    place: str
    what: str

    def text(self, smaller: Any = None) -> str:
        case = self.case if smaller is None else smaller
        module = type(case).__module__
        lines = [f"at {self.place}: {self.what}", "To see it alone:", "  import fuzz_run"]
        lines += [f"  from {module} import {type(case).__name__}", f"  print(fuzz_run.alone({case!r}))"]
        return "\n".join(lines)


@dataclasses.dataclass
class Traced:
    """A case's only launch for one target, under a name of its own."""

    case: Any
    launch: Any
    name: str
    function: str
    locations: str
    expected: list[np.ndarray]

    def arrays(self) -> list[np.ndarray]:
        return [*(np.array(a, order="C") for a in self.case.operands()), *(poisoned(s) for s in self.case.results())]

    def arguments(self, arrays: list[np.ndarray]) -> list[Any]:
        return [arrays[a.index] if isinstance(a, ArrayArgument) else a.value for a in self.launch.arguments]


def poisoned(spec) -> np.ndarray:
    return Memory.poisoned(spec.shape, spec.dtype)


def traced(case: Any, target: str, number: int, known: dict) -> Traced:
    """Equal texts of several targets are interpreted once; for each size of a wave, where lanes matter."""
    program = program_of(case.launcher(), case.operands(), case.results(), target=target)
    (launch,) = program.launches
    key = (launch.text, TARGETS[target].wave if "flight.shuffle" in launch.text else 0)
    if key not in known:
        arrays = [*(np.array(a) for a in case.operands()), *(poisoned(s) for s in case.results())]
        arguments = [arrays[a.index] if isinstance(a, ArrayArgument) else a.value for a in launch.arguments]
        with np.errstate(all="ignore"):
            interpret(launch.text, arguments, launch.grid, TARGETS[target].wave)
        known[key] = arrays[len(case.operands()) :]
    name = f"k{number}"
    text = re.sub(r"#loc(\d+)", rf"#loc{number}x\1", launch.text.replace(f"@{launch.name}(", f"@{name}("))
    body, locations = text.removeprefix("module {\n").rsplit("}\n#loc", 1)
    return Traced(case, launch, name, body, "#loc" + locations, known[key])


def module_of(kernels: Iterable[Traced]) -> str:
    kernels = list(kernels)
    return "module {\n" + "".join(k.function for k in kernels) + "}\n" + "\n".join(k.locations for k in kernels)


def difference(expected: np.ndarray, found: np.ndarray, bound: float) -> str | None:
    """None if they are equal: NaN is NaN, and zeros have no sign."""
    if expected.dtype.kind in "iub":
        wrong = expected != found
    else:
        a, b = expected.astype(np.float64), found.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= bound * np.abs(a) if bound else False
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | near)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} differ; at {at} the interpreter has {expected[at]!r}, the kernel {found[at]!r}"
    )


def check(kernel: Traced, arrays: list[np.ndarray]) -> str | None:
    found = arrays[len(kernel.case.operands()) :]
    for i, (a, b, bound) in enumerate(zip(kernel.expected, found, kernel.case.bounds(), strict=True)):
        if (text := difference(a, b, bound)) is not None:
            return f"result {i}: {text}"
    return None


def run_code(place: Place, kernels: Sequence[Traced], code: bytes) -> list[Failure]:
    failures = []
    if place.target == "x86-64":
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "kernels.so")
            path.write_bytes(code)
            library = ctypes.CDLL(str(path))
    else:
        image = tiles_support.emulator.Code(code)
    for kernel in kernels:
        arrays = kernel.arrays()
        arguments = kernel.arguments(arrays)
        if place.target == "x86-64":
            run_x86(getattr(library, kernel.name), arguments, kernel.launch.grid)
            text = check(kernel, arrays)
        else:
            launch = kernel.launch
            report = tiles_support.emulator.launch(
                image, kernel.name, arguments, launch.grid, launch.block, time_limit_s=20.0
            )
            found = [f for f in report.findings if not beside_the_point(f)]
            text = check(kernel, arrays) if report.completed and not found else (report.text or str(found))[:1500]
        if text is not None:
            failures.append(Failure(kernel.case, str(place), text))
    return failures


def beside_the_point(finding: dict) -> bool:
    """Wait states between instructions are the code generator's part: LLVM's, not Flight's. Races in shared memory are looked
    for two bytes at a time, so two waves that write neighbouring bytes are taken for one."""
    if finding["kind"] == "hazard":
        return True
    single = re.search(r"bytes (\d+)\.\.\1 of LDS", str(finding))
    return single is not None


def run_x86(function: Any, arguments: list[Any], grid: Sequence[int]) -> None:
    held = [np.asarray(a) for a in arguments]
    pointers = (ctypes.c_void_p * len(held))(*(a.ctypes.data for a in held))
    extents = (ctypes.c_int64 * 3)(*grid)
    for number in range(grid[0] * grid[1] * grid[2]):
        block = (number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1])
        function(pointers, extents, (ctypes.c_int64 * 3)(*block))


def compile_kernels(place: Place, kernels: Sequence[Traced]) -> bytes | CompileError:
    try:
        return compile_text(place.target, module_of(kernels), Options(route=place.route, optimize=place.optimize)).code
    except CompileError as error:
        return error


def too_large(error: CompileError) -> bool:
    """On x86 the values that 256 threads keep from barrier to barrier must fit into a thread's stack: a rule, not a fault."""
    return error.kind == "diagnostic" and "bytes from barrier to barrier" in error.message


def run_cases(cases: Sequence[Any], places: Sequence[Place] = PLACES) -> list[Failure]:
    """All failures. Requests are on their way while earlier ones run: the compiler takes several at once."""
    failures: list[Failure] = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        under_way: collections.deque = collections.deque()
        for first in range(0, len(cases), BATCH):
            for place, kernels in _prepared(cases[first : first + BATCH], places, failures):
                under_way.append((place, kernels, pool.submit(compile_kernels, place, kernels)))
            while len(under_way) > len(places):
                failures += _finished(*under_way.popleft())
        while under_way:
            failures += _finished(*under_way.popleft())
    return failures


def _prepared(cases: Sequence[Any], places: Sequence[Place], failures: list[Failure]) -> list[tuple[Place, list[Traced]]]:
    kernels = collections.defaultdict(list)
    for number, case in enumerate(cases):
        known: dict = {}
        for target in dict.fromkeys(place.target for place in places):
            try:
                kernels[target].append(traced(case, target, number, known))
            except Exception:
                failures.append(Failure(case, f"tracing for {target}", traceback.format_exc(limit=-6)))
    found = [(p, [k for k in kernels[p.target] if k.case.tiles or not p.tiles_only]) for p in places]
    return [(place, chosen) for place, chosen in found if chosen]


def _finished(place: Place, kernels: list[Traced], compiling: concurrent.futures.Future) -> list[Failure]:
    code = compiling.result()
    if isinstance(code, bytes):
        return run_code(place, kernels, code)
    if len(kernels) == 1:
        return [] if too_large(code) else [Failure(kernels[0].case, str(place), f"{code.kind}: {code}")]
    failures, refused = [], 0
    for kernel in kernels:  # one of them is refused: which?
        single = compile_kernels(place, [kernel])
        if isinstance(single, bytes):
            failures += run_code(place, [kernel], single)
        elif too_large(single):
            refused += 1
        else:
            failures.append(Failure(kernel.case, str(place), f"{single.kind}: {single}"))
    if failures or refused:
        return failures
    return [Failure(kernels[0].case, str(place), f"only together with others: {code}")]


def shrunk(failure: Failure, most: int = 200) -> tuple[Any, str]:
    """The simplest case found that still fails where it did, and how."""
    places = [p for p in PLACES if str(p) == failure.place] or [p for p in PLACES if failure.place.endswith(p.target)][:1]
    case, what, tries = failure.case, failure.what, 0
    going = True
    while going and tries < most:
        going = False
        for smaller in case.smaller():
            tries += 1
            found = [f for f in run_cases([smaller], places) if f.place == failure.place]
            if found:
                case, what, going = smaller, found[0].what, True
                break
            if tries >= most:
                break
    return case, what


def assert_all_right(cases: Sequence[Any]) -> None:
    failures = run_cases(cases)
    if failures:
        texts = []
        for failure in failures[:3]:
            case, what = shrunk(failure)
            texts.append(Failure(case, failure.place, what).text())
        raise AssertionError(f"{len(failures)} failures in {len(cases)} cases.\n" + "\n\n".join(texts))


def alone(case: Any) -> str:
    """Everything about one case: its IR, and what every place makes of it."""
    lines = []
    for target in ("x86-64", "gfx942"):
        program = program_of(case.launcher(), case.operands(), case.results(), target=target)
        lines += [f"---- {target}", program.launches[0].text]
    lines += [f"{f.place}: {f.what}" for f in run_cases([case])] or ["right everywhere"]
    return "\n".join(lines)
