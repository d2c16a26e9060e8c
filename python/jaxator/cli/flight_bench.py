"""`jaxator bench flight`: what a Flight kernel costs to call, to compile and to load, and how fast compiled kernels are."""

from __future__ import annotations

import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

import jaxator
from jaxator import flight
from jaxator.cli import flight_kernels as kernels
from jaxator.cli import timing
from jaxator.flight import _cache, _compiler, _trace
from jaxator.flight._program import ArraySpec

if TYPE_CHECKING:
    from jaxator.cli.bench import Row

FLIGHT = "flight"
CASES = {
    "cpu": ("dispatch in jit", "dispatch eager", "trace and compile", "load in a new process", "gemm one thread",
            "gemm one thread, default tile", "rms_norm", "softmax"),
    "cuda": ("gemm", "rms_norm"),
}  # fmt: skip
EAGER_LIMIT_S = 60e-6
COMPILE_LIMIT_S = 80e-3
LOAD_LIMIT_S = 10e-3
LIMIT = "limit"
"""The peer of what has a fixed limit and no rival."""
GEMM_CPU_TILE = (128, 128, 256)
"""The fastest of nine that were tried on an EPYC with AVX512_BF16. The launcher's default has a row of its own."""
GEMM_DEFAULT_TILE = (64, 64, 64)
GEMM_CUDA = {"tile": (128, 128, 64), "threads": 128}


def refusal(target: str) -> str | None:
    """Why there is nothing to measure on this machine."""
    if _compiler.find_executable() is None:
        return "jaxator-flightc is not in this installation"
    if target == "cuda":
        try:
            jax.local_devices(backend="cuda")
        except RuntimeError as error:
            return f"no NVIDIA GPU: {error}"
    return None


def measure(name: str, target: str, repeats: int) -> list[Row]:
    if target == "cuda":
        return _on_gpu(name, repeats)
    with tempfile.TemporaryDirectory() as folder:
        _cache.set_folder(folder)
        try:
            return [_CPU[name](repeats)]
        finally:
            _cache.set_folder(_cache.default_folder())


def _row(
    name: str, dtype: str, seconds: float, work: tuple[float, str, float], peer: str, peer_s: float, **more: Any
) -> Row:
    """`work` is (amount, unit of its rate, how much a unit is); of no amount, the time itself is the value."""
    from jaxator.cli.bench import Row

    amount, unit, scale = work
    value, peer_value = (amount / s / scale if amount else s * scale for s in (seconds, peer_s))
    fields = {"target": "cpu", "limit_share": None} | more
    return Row(
        op=FLIGHT, case=name, dtype=dtype, implementation=FLIGHT, seconds=seconds, value=value, unit=unit, peer=peer,
        peer_value=peer_value, ratio=peer_s / seconds, **fields,
    )  # fmt: skip


MICROSECONDS = (0.0, "us", 1e6)
MILLISECONDS = (0.0, "ms", 1e3)


# ---- calls and compiling ---------------------------------------------------------------------------------------------


def _add(x: jax.Array, y: jax.Array) -> jax.Array:
    return flight.call(kernels.add, x, y, out_shape=x)


def _dispatch_in_jit(repeats: int) -> Row:
    """Beside the smallest call of an op, which is an FFI call, too."""
    x = jnp.ones(8, jnp.float32)
    samples = {
        FLIGHT: timing.seconds_of(jax.jit(_add), x, x, calls=200),
        "rms_norm": timing.seconds_of(jax.jit(jaxator.rms_norm), x, calls=200),
    }
    found = timing.medians(samples, max(repeats, 51))
    return _row("dispatch in jit 8", "float32", found[FLIGHT], MICROSECONDS, "jitted jaxator.rms_norm", found["rms_norm"])


def _dispatch_eager(repeats: int) -> Row:
    x = jnp.ones(8, jnp.float32)
    found = timing.medians({FLIGHT: timing.seconds_of(_add, x, x, calls=200)}, max(repeats, 15))
    return _row("dispatch eager 8", "float32", found[FLIGHT], MICROSECONDS, LIMIT, EAGER_LIMIT_S)


def _trace_and_compile(repeats: int) -> Row:
    """A kernel that nobody compiled before, by a compiler that runs already."""
    spec = ArraySpec((1000,), jnp.dtype("float32"))
    steps = itertools.count(2)

    def sample() -> float:
        start = time.perf_counter()
        program = _trace.trace(kernels.add, "x86-64", [spec, spec], [spec], {"step": float(next(steps))})
        _cache.compiled("x86-64", program.launches[0].text)
        return time.perf_counter() - start

    found = timing.medians({FLIGHT: sample}, max(repeats, 15))
    return _row("trace and compile add", "float32", found[FLIGHT], MILLISECONDS, LIMIT, COMPILE_LIMIT_S)


_LOAD = """
import sys, time
from jaxator.flight import _cache
text = sys.stdin.read()
_cache.set_folder(sys.argv[1])
_cache.host_cpu()
def make():
    raise AssertionError("the cache on disk lacks what the process before wrote")
_cache._compiler.compile_text = lambda *_: make()
start = time.perf_counter()
_cache.compiled("x86-64", text)
print(time.perf_counter() - start)
"""


def _load_in_a_new_process(repeats: int) -> Row:
    """From the disk to code that can be launched, in processes that have compiled nothing."""
    spec = ArraySpec((1000,), jnp.dtype("float32"))
    text = _trace.trace(kernels.add, "x86-64", [spec, spec], [spec], {}).launches[0].text
    with tempfile.TemporaryDirectory() as folder:
        _cache.set_folder(folder)
        _cache.compiled("x86-64", text)

        def sample() -> float:
            command = [sys.executable, "-c", _LOAD, folder]
            return float(subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout)

        found = timing.medians({FLIGHT: sample}, min(repeats, 7))
    return _row("load in a new process", "float32", found[FLIGHT], MILLISECONDS, LIMIT, LOAD_LIMIT_S)


# ---- kernels ---------------------------------------------------------------------------------------------------------


def one_thread(tile: tuple[int, int, int], repeats: int) -> None:
    """In a process of its own, on one CPU: prints the seconds of the products, 1024 x 1024 x 1024. The peer's second operand
    lies as ours does, or transposed beforehand, whichever is faster."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    a, b = (jax.random.normal(jax.random.key(i), (1024, 1024), jnp.float32).astype(jnp.bfloat16) for i in range(2))
    ours = jax.jit(lambda a, b: flight.call(kernels.gemm, a, b, out_shape=a, scalars={"tile": tile}))
    same = jax.jit(functools.partial(jaxator.matmul, transpose_b=True))
    samples = {
        FLIGHT: timing.seconds_of(ours, a, b),
        "jaxator.matmul transpose_b": timing.seconds_of(same, a, b),
        "jaxator.matmul": timing.seconds_of(jax.jit(jaxator.matmul), a, jnp.array(b.T)),
    }
    print(json.dumps(timing.medians(samples, repeats)))


def _gemm_one_thread(tile: tuple[int, int, int], repeats: int) -> Row:
    code = f"from jaxator.cli import flight_bench; flight_bench.one_thread({tile}, {repeats})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    seconds = found.pop(FLIGHT)
    peer = min(found, key=lambda name: found[name])
    name = f"gemm 1024x1024x1024 one thread, tile {'x'.join(map(str, tile))}"
    return _row(name, "bfloat16", seconds, (2 * 1024**3, "GF/s", 1e9), peer, found[peer])


def _rows(
    name: str, ours: Callable[..., Any], peer: Callable[..., Any], operands: tuple[jax.Array, ...], repeats: int
) -> Row:
    x = operands[0]
    amount = 2 * x.size * x.dtype.itemsize
    samples = {
        FLIGHT: timing.seconds_of(jax.jit(ours), *operands),
        "XLA": timing.seconds_of(jax.jit(peer), *operands),
        LIMIT: timing.copy_rate(amount),
    }
    found = timing.medians(samples, repeats)
    share = amount / found[FLIGHT] / found[LIMIT]
    name = f"{name} {x.shape[0]}x{x.shape[1]}"
    return _row(name, str(x.dtype), found[FLIGHT], (amount, "GB/s", 1e9), "XLA", found["XLA"], limit_share=share)


def _plain_norm(x: jax.Array, w: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6) * w).astype(x.dtype)


def _rms_norm(repeats: int) -> Row:
    x = jax.random.normal(jax.random.key(0), (4096, 2048), jnp.bfloat16)
    ours = lambda x, w: flight.call(kernels.rms_norm, x, w, out_shape=x)  # noqa: E731
    return _rows("rms_norm", ours, _plain_norm, (x, jnp.ones(2048, jnp.float32)), repeats)


def _softmax(repeats: int) -> Row:
    x = jax.random.normal(jax.random.key(0), (4096, 2048), jnp.float32)
    ours = lambda x: flight.call(kernels.softmax, x, out_shape=x)  # noqa: E731
    return _rows("softmax", ours, functools.partial(jax.nn.softmax, axis=-1), (x,), repeats)


_CPU: dict[str, Callable[[int], Any]] = {
    "dispatch in jit": _dispatch_in_jit,
    "dispatch eager": _dispatch_eager,
    "trace and compile": _trace_and_compile,
    "load in a new process": _load_in_a_new_process,
    "gemm one thread": functools.partial(_gemm_one_thread, GEMM_CPU_TILE),
    "gemm one thread, default tile": functools.partial(_gemm_one_thread, GEMM_DEFAULT_TILE),
    "rms_norm": _rms_norm,
    "softmax": _softmax,
}


def _on_gpu(name: str, repeats: int) -> list[Row]:
    """GEMM beside cuBLAS, RMSNorm beside the driver's copy of as many bytes; in bursts and sustained."""
    from jaxator.cli import gpu

    with jax.default_device(gpu.device()):
        if name == "gemm":
            shape = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)
            sets = [gpu.inputs((shape, shape), seed) for seed in range(3)]
            ours = gpu.program(lambda a, b: flight.call(kernels.gemm, a, b, out_shape=shape, scalars=GEMM_CUDA), sets)
            runs = {FLIGHT: ours, "cuBLAS": gpu.program(lambda a, b: a @ b.T, sets)}
            work, text = (2 * 4096**3, "TF/s", 1e12), "gemm 4096x4096x4096"
        else:
            shape = jax.ShapeDtypeStruct((8192, 8192), jnp.bfloat16)
            sets = [gpu.inputs((shape, jax.ShapeDtypeStruct((8192,), jnp.float32)), seed) for seed in range(3)]
            scalars = {"rows": 1, "threads": 512}
            ours = gpu.program(lambda x, w: flight.call(kernels.rms_norm, x, w, out_shape=shape, scalars=scalars), sets)
            work, text = (4 * 8192**2, "GB/s", 1e9), "rms_norm 8192x8192"
            runs = {FLIGHT: ours, "copy": gpu.copy_run(int(work[0]))}
        (peer,) = set(runs) - {FLIGHT}
        found = gpu.medians(runs, min(repeats, 7))
    return [
        _row(f"{text} {regime}", "bfloat16", seconds[FLIGHT], work, peer, seconds[peer], target="cuda")
        for regime, seconds in found.items()
    ]
