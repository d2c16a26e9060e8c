"""`jaxator bench`: every case beside its peers and its limit, as a table or as JSON lines."""

from __future__ import annotations

import dataclasses
import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.table import Table

import jaxator
from jaxator import _ffi
from jaxator.cli import cases, flight_bench, gpu, gpu_bench, timing
from jaxator.cli.doctor import console_for_people
from jaxator.explain import Call, explain

DISPATCH = "dispatch"
LIMIT = "limit"  # the sample of the machine's limit, among those of the implementations
OURS = "jaxator"


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement. Its fields are the keys of a JSON line."""

    op: str
    case: str
    dtype: str
    target: str
    implementation: str
    seconds: float
    value: float
    unit: str
    limit_share: float | None
    """Of the register-only peak of the instruction used, or of memcpy with all threads, measured in turns with the op."""
    peer: str
    peer_value: float
    ratio: float
    """Seconds of the fastest peer over ours."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A case in one direction; case None measures what a call costs, or, with `flight`, that case of Flight."""

    case: cases.Case | None
    direction: str
    flight: str | None = None

    @property
    def text(self) -> str:
        if self.flight is not None:
            return self.flight
        return f"{self.direction} {self.case.text}" if self.case else f"{self.direction} 8"

    @property
    def op(self) -> str:
        return flight_bench.FLIGHT if self.flight is not None else self.case.op if self.case else DISPATCH


def choose(op: str, dtype: str | None = None, case: str | None = None, target: str = "cpu") -> list[Task]:
    """The tasks of an op, of "dispatch", of "flight", or of "all"; raises ValueError for a name that is none of them."""
    if target not in cases.ROW_SHAPES:
        raise ValueError(f"target={target!r}: must be one of {', '.join(cases.ROW_SHAPES)}")
    known = [*cases.ops(), DISPATCH, flight_bench.FLIGHT]
    names = known if op == "all" else [op]
    if op not in ("all", *known):
        raise ValueError(f"op={op!r}: must be one of {', '.join([*known, 'all'])}")
    tasks = []
    for name in names:
        if name == DISPATCH:
            tasks.append(Task(None, "forward"))
            if target == "cuda":
                tasks.append(Task(None, gpu_bench.LOADING))
        elif name == flight_bench.FLIGHT:
            tasks += [Task(None, "forward", part) for part in flight_bench.CASES[target]]
        else:
            # On a GPU the passes are measured apart: their kernels have limits and peers of their own.
            directions = {"cuda": ("forward", "backward")}.get(target)
            tasks += [Task(c, d) for c in cases.cases(name, dtype, target) for d in directions or c.directions]
    chosen = [task for task in tasks if case is None or case in task.text]
    if not chosen:
        raise ValueError(f"case={case!r}: is in none of {[task.text for task in tasks]}")
    return chosen


def run(tasks: Iterable[Task], repeats: int, as_json: bool, save: Path | None, target: str = "cpu") -> None:
    """Measures and prints, row by row for machines; for people, a table at the end."""
    measure_all = {"cpu": lambda task: [measure(task, repeats)], "cuda": lambda task: gpu_bench.measure(task, repeats)}[
        target
    ]
    rows = []
    console = console_for_people()
    with console.status("") if not as_json else _Silent() as status:
        for task in tasks:
            status.update(f"{task.op} {task.text}")
            if task.flight is None:
                new = measure_all(task)
            elif (reason := flight_bench.refusal(target)) is not None:
                print(f"skipped: {task.op} {task.text}: {reason}", file=sys.stderr)
                continue
            else:
                new = flight_bench.measure(task.flight, target, repeats)
            rows += new
            if as_json:
                for row in new:
                    print(json.dumps(dataclasses.asdict(row)), flush=True)
    if not as_json:
        console.print(table(rows))
    if save is not None:
        path = write(rows, save, target)
        if not as_json:
            console.print(f"written to {path}")


class _Silent:
    """A status line that shows nothing."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def update(self, _: str) -> None:
        pass


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure(task: Task, repeats: int) -> Row:
    """Ours, every peer and the limit, in turns."""
    if task.case is None:
        return _measure_dispatch(repeats)
    case, direction = task.case, task.direction
    operands = cases.inputs(case.operands)
    cotangents = cases.inputs(jax.eval_shape(case.fn, *case.operands))
    call = _our_call(case)
    limit = _limit(case, direction, call)
    samples: dict[str, timing.Sample] = {LIMIT: limit}
    for name, fn in {OURS: case.fn, **case.peers}.items():
        if direction == "forward":
            samples[name] = timing.seconds_of(jax.jit(fn), *operands)
        else:
            samples[name] = timing.seconds_of(jax.jit(_with_gradients(fn, case.gradients)), operands, cotangents)
    found = timing.medians(samples, repeats)
    seconds, rate_limit = found.pop(OURS), found.pop(LIMIT)
    peer = min(found, key=lambda name: found[name])
    work, unit, scale = _work(case, direction)
    return Row(
        op=case.op,
        case=task.text,
        dtype=case.dtype,
        target=call.target,
        implementation=_implementation(call),
        seconds=seconds,
        value=work / seconds / scale,
        unit=unit,
        limit_share=work / seconds / rate_limit if rate_limit else None,
        peer=peer,
        peer_value=work / found[peer] / scale,
        ratio=found[peer] / seconds,
    )


def _with_gradients(fn: Callable[..., Any], wanted: tuple[int, ...]) -> Callable[..., Any]:
    def both(operands: tuple[jax.Array, ...], cotangents: Any) -> Any:
        results, gradient = jax.vjp(fn, *operands)
        gradients = gradient(cotangents)
        return results, [gradients[i] for i in wanted]

    return both


def _our_call(case: cases.Case) -> Call:
    return explain(case.fn, *case.operands).calls[0]


def _implementation(call: Call) -> str:
    kernel = call.config.get("kernel", "")
    return kernel if kernel.startswith("flash_") else call.implementation


def _limit(case: cases.Case, direction: str, call: Call) -> timing.Sample:
    if case.flops:
        return timing.peak_rate(bf16_dot="bf16dot" in call.config.get("kernel", ""))
    return timing.copy_rate(case.passes[direction])


def _work(case: cases.Case, direction: str) -> tuple[float, str, float]:
    """(amount, unit of its rate, how much a unit is)."""
    if not case.flops:
        return case.passes[direction], "GB/s", 1e9
    work = case.flops[direction]
    return work, "GF/s", 1e9


def _measure_dispatch(repeats: int) -> Row:
    """The smallest call beside a jitted x + 1. Groups of 200 calls, each call waited for."""
    x = jnp.ones(8, jnp.float32)
    samples = {
        OURS: timing.seconds_of(jax.jit(jaxator.rms_norm), x, calls=200),
        "jitted x + 1": timing.seconds_of(jax.jit(lambda x: x + 1), x, calls=200),
    }
    found = timing.medians(samples, max(repeats, 51))
    ours, peer = found[OURS], found["jitted x + 1"]
    call = explain(jaxator.rms_norm, x).calls[0]
    return Row(
        op=DISPATCH, case=f"forward 8 ({(ours - peer) * 1e6:+.2f} us)", dtype="float32", target=call.target,
        implementation=call.implementation, seconds=ours, value=ours * 1e6, unit="us", limit_share=None, peer="jitted x + 1",
        peer_value=peer * 1e6, ratio=peer / ours,
    )  # fmt: skip


# ---- showing and saving ----------------------------------------------------------------------------------------------


def table(rows: Iterable[Row]) -> Table:
    title = "Medians of interleaved runs in one process, each after untimed ones"
    result = Table("op", "case", "dtype", "implementation", title=title)
    for name in ("time", "rate", "of limit", "peer's rate", "ratio"):
        result.add_column(name, justify="right")
    result.add_column("peer")
    for row in rows:
        share = "" if row.limit_share is None else f"{row.limit_share:.0%}"
        rates = [f"{value:.4g} {row.unit}" for value in (row.value, row.peer_value)]
        kernel = row.target if row.target == row.implementation else f"{row.target} {row.implementation}"
        figures = (_time(row.seconds), rates[0], share, rates[1], f"{row.ratio:.2f}x")
        result.add_row(row.op, row.case, row.dtype, kernel, *figures, row.peer)
    return result


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def write(rows: Iterable[Row], folder: Path, target: str = "cpu") -> Path:
    """The rows with where and when they were measured, in a file named after the time."""
    now = datetime.datetime.now(datetime.UTC)
    cpu = _ffi.cpu_report()
    device = {"cpu": cpu["brand"].strip(), "threads": timing.THREADS, "isa": cpu["selected"]}
    record = {
        "date": now.isoformat(timespec="seconds"),
        "commit": _commit(),
        "device": device if target == "cpu" else gpu.describe(),
        "jax": jax.__version__,
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%d-%H%M%S}{'' if target == 'cpu' else '-' + target}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def _commit() -> str | None:
    """Commit of the tree this package lies in, None for an installed one."""
    options = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        folder = Path(jaxator.__file__).parent
        return subprocess.run(["git", "-C", folder, *options], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
