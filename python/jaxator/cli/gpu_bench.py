"""A benchmark task on an NVIDIA GPU: two rows, burst and sustained, beside the peers and the limit in the same process."""

from __future__ import annotations

import functools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

import jaxator
from jaxator.cli import cases, gpu

if TYPE_CHECKING:
    from jaxator.cli.bench import Row, Task

OURS, LIMIT = "jaxator", "limit"
LOADING = "loading"

_LOAD_KERNELS = """
import jax, jax.numpy as jnp, jaxator
from jaxator import _ffi
x, weight = jnp.ones((256, 256), jnp.bfloat16), jnp.ones(256)
attend = lambda q: jaxator.dot_product_attention(q, q, q, is_causal=True).astype(jnp.float32).sum()
jax.block_until_ready(jax.jit(jax.grad(attend))(jnp.ones((1, 256, 2, 128), jnp.bfloat16)))
jax.block_until_ready([jax.jit(jaxator.matmul)(x, x), jax.jit(jaxator.rms_norm)(x, weight), jax.jit(jaxator.swiglu)(x)])
print(*(_ffi.query("jaxator_cuda_load_times", which) for which in range(3)))
"""


def measure(task: Task, repeats: int) -> list[Row]:
    """Ours, every peer and the limit, `repeats` times in random order (more than seven add little: bursts repeat within 0.3 %)."""
    if task.case is None:
        return [_loading() if task.direction == LOADING else _dispatch(repeats)]
    from jaxator.cli.bench import Row

    case, direction = task.case, task.direction
    with jax.default_device(gpu.device()):
        work, unit, scale = _work(case, direction)
        expected = work / (700e12 if case.flops else 4e12)
        sets = [gpu.inputs(case.operands, seed) for seed in range(gpu.sets_for(expected))]
        runs = {OURS: _run(case.fn, case, direction, sets)}
        for name, peer in case.peers.items():
            runs[name] = _run(peer, case, direction, sets)
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


def _loading() -> Row:
    """What loading a kernel costs a new process: the slowest of a few ops' beside their mean."""
    from jaxator.cli.bench import Row

    run = subprocess.run([sys.executable, "-c", _LOAD_KERNELS], capture_output=True, text=True, check=True)
    count, total, most = map(int, run.stdout.split())
    mean = total / count
    return Row(
        op=LOADING,
        case=f"slowest of {count} kernels in a new process",
        dtype="bfloat16",
        target="cuda",
        implementation="cuda",
        seconds=most * 1e-9,
        value=most * 1e-3,
        unit="us",
        limit_share=None,
        peer="their mean",
        peer_value=mean * 1e-3,
        ratio=mean / most,
    )
