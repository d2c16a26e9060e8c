"""A benchmark task on an NVIDIA GPU: two rows, burst and sustained, beside the peers and the limit in the same process."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

import jaxator
from jaxator.cli import cases, gpu
from jaxator.explain import explain

if TYPE_CHECKING:
    from jaxator.cli.bench import Row, Task

OURS, LIMIT = "jaxator", "limit"


def measure(task: Task, repeats: int) -> list[Row]:
    """Ours, every peer and the limit, `repeats` times in random order (more than seven add little: bursts repeat within 0.3 %)."""
    if task.case is None:
        return [_dispatch(repeats)]
    from jaxator.cli.bench import Row

    case, direction = task.case, task.direction
    with jax.default_device(gpu.device()):
        work, unit, scale = _work(case, direction)
        expected = work / (700e12 if case.flops else 4e12)
        sets = [gpu.inputs(case.operands, seed) for seed in range(gpu.sets_for(expected))]
        runs = {OURS: _run(case.fn, case, direction, sets)}
        for name, peer in case.peers.items():
            runs[name] = _run(peer, case, direction, sets)
        implementation = explain(case.fn, *case.operands).calls[0].implementation
        runs[LIMIT], limit_work = gpu.peak_run() if case.flops else (gpu.copy_run(int(work)), work)
        found = gpu.medians(runs, min(repeats, 7))
    rows = []
    for regime, seconds in found.items():
        ours, limit = seconds.pop(OURS), limit_work / seconds.pop(LIMIT)
        peer = min(seconds, key=lambda name: seconds[name])
        rows.append(
            Row(
                op=case.op,
                case=f"{direction} {case.text} {regime}",
                dtype=case.dtype,
                target="cuda",
                implementation="cuda",
                seconds=ours,
                value=work / ours / scale,
                unit=unit,
                limit_share=work / ours / limit,
                peer=peer,
                peer_value=work / seconds[peer] / scale,
                ratio=seconds[peer] / ours,
            )  # fmt: skip
        )
    return rows


def _run(fn: Callable[..., Any], case: cases.Case, direction: str, sets: list[Any]) -> gpu.Run:
    if direction == "forward":
        return gpu.program(fn, sets)
    # The residuals are made outside of the timed program.
    pull = jax.jit(lambda operands: jax.vjp(fn, *operands)[1])
    shapes = jax.eval_shape(case.fn, *case.operands)
    pulled = [(pull(operands), gpu.inputs(shapes, 100 + i)) for i, operands in enumerate(sets)]
    return gpu.program(functools.partial(_gradients, case.gradients), pulled)


def _gradients(wanted: tuple[int, ...], pull: Callable[..., Any], cotangents: Any) -> list[jax.Array]:
    gradients = pull(cotangents)
    return [gradients[i] for i in wanted]


def _work(case: cases.Case, direction: str) -> tuple[float, str, float]:
    """(amount, unit of its rate, how much a unit is)."""
    amounts = case.flops or case.passes
    forward = amounts["forward"]
    amount = forward if direction == "forward" else amounts["forward+backward"] - forward
    return (amount, "TF/s", 1e12) if case.flops else (amount, "GB/s", 1e9)


def _dispatch(repeats: int) -> Row:
    """The smallest call beside a jitted x + 1: 200 calls in a row, waited for once."""
    from jaxator.cli.bench import DISPATCH, Row

    with jax.default_device(gpu.device()):
        x = jnp.ones((8, 128), jnp.float32)
        programs = {"jitted x + 1": jax.jit(lambda x: x + 1), OURS: jax.jit(jaxator.rms_norm)}
        samples: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(max(repeats, 15)):
            for name, program in programs.items():
                jax.block_until_ready(program(x))
                start = time.perf_counter()
                for _ in range(200):
                    result = program(x)
                jax.block_until_ready(result)
                samples[name].append((time.perf_counter() - start) / 200)
    found = {name: statistics.median(values) for name, values in samples.items()}
    ours, peer = found[OURS], found["jitted x + 1"]
    return Row(
        op=DISPATCH, case=f"forward 8x128 ({(ours - peer) * 1e6:+.2f} us)", dtype="float32", target="cuda", implementation="cuda",
        seconds=ours, value=ours * 1e6, unit="us", limit_share=None, peer="jitted x + 1", peer_value=peer * 1e6, ratio=peer / ours,
    )  # fmt: skip
