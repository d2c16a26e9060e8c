"""Timing on a GPU, whose clock depends on what ran before: a large matrix product starts at 1980 MHz and falls to about 1450
once the power limit is reached, after 15 to 25 ms. So every figure is one of two:

- burst: after 0.2 s of rest and 3 ms untimed, about 14 ms. Repeats within 0.3 %. With less untimed work the clock still
  rises.
- sustained: 120 ms of the same kernel untimed, then 60 ms; of longer programs ten of each. Repeats within 3 to 4 %. The
  kernel that ran before would else decide the clock: training steps of 80 ms, three of each, once read as 0.95, where twelve
  untimed and twenty timed ones gave 1.03 four times out of four.
"""

from __future__ import annotations

import functools
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxator import _ffi

Run = Callable[[int], float]
"""run(n): seconds of n repetitions, started one behind the other."""

REGIMES = ("burst", "sustained")
PROGRAM_SECONDS = 3e-4


def sets_for(expected_seconds: float) -> int:
    """How many sets of inputs one program uses in turn.

    At least 3, which exceed the 50 MB of L2 for the shapes measured here, and so many that a program takes 0.3 ms: the host
    needs 50 us to start the next, and 5 us for each kernel.
    """
    return min(32, max(3, round(PROGRAM_SECONDS / expected_seconds)))


def inputs(arrays: Any, seed: int) -> Any:
    """Standard normal arrays for a tree of shapes, made on the device."""
    leaves, tree = jax.tree.flatten(arrays)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    return jax.tree.unflatten(tree, _normal(keys, tuple((a.shape, jnp.dtype(a.dtype)) for a in leaves)))


@functools.partial(jax.jit, static_argnums=1)
def _normal(keys: jax.Array, arrays: tuple[tuple[tuple[int, ...], jnp.dtype], ...]) -> list[jax.Array]:
    pairs = zip(keys, arrays, strict=True)
    return [jax.random.normal(key, shape, jnp.float32).astype(dtype) for key, (shape, dtype) in pairs]


def program(fn: Callable[..., Any], sets: list[tuple[Any, ...]]) -> Run:
    """Repetitions of fn inside one jitted program that calls it once for each set of inputs: the host is never the limit.

    Without CUDA graphs: results are new arrays each time, and writing their addresses into a graph of 64 kernels takes the
    host about a millisecond, as long as they run.
    """

    @functools.partial(jax.jit, compiler_options={"xla_gpu_enable_command_buffer": ""})
    def every(sets: list[tuple[Any, ...]]) -> list[Any]:
        return [fn(*operands) for operands in sets]

    jax.block_until_ready(every(sets))

    def run(count: int) -> float:
        programs = max(1, round(count / len(sets)))
        start = time.perf_counter()
        for _ in range(programs):
            results = every(sets)
        jax.block_until_ready(results)
        return (time.perf_counter() - start) / (programs * len(sets)) * count

    return run


def seconds(run: Run, regime: str) -> float:
    """Seconds of one repetition."""
    once = run(1)
    if regime == "burst":
        time.sleep(0.2)
        run(max(3, round(0.003 / once)))
        count = max(3, round(0.014 / once))
    else:
        run(max(10, round(0.12 / once)))
        count = max(10, round(0.06 / once))
    return run(count) / count


def medians(runs: Mapping[str, Run], repeats: int) -> dict[str, dict[str, float]]:
    """Regime -> name -> median seconds of one repetition, in a new random order each time."""
    order = random.Random(0)
    found: dict[str, dict[str, list[float]]] = {regime: {name: [] for name in runs} for regime in REGIMES}
    for _ in range(repeats):
        for regime in REGIMES:
            for name in order.sample(list(runs), len(runs)):
                found[regime][name].append(seconds(runs[name], regime))
    return {regime: {name: statistics.median(values) for name, values in names.items()} for regime, names in found.items()}


def device() -> jax.Device:
    return jax.local_devices(backend="cuda")[0]


def describe() -> dict[str, str]:
    """The device for a record of results."""
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "gpu": device().device_kind,
        "driver": driver.stdout.strip(),
        "platform": device().client.platform_version.splitlines()[0],
    }


def copy_run(bytes_moved: int) -> Run:
    """Copies by the driver that move `bytes_moved` bytes, read and written ones both counted."""
    size = max(1024, bytes_moved // 2)
    arrays = [jax.device_put(jnp.ones(size, jnp.uint8), device()) for _ in range(2)]
    jax.block_until_ready(arrays)

    def run(count: int) -> float:
        addresses = [array.unsafe_buffer_pointer() for array in arrays]
        return _nanoseconds("jaxator_cuda_copy_nanoseconds", *addresses, size, count) * 1e-9

    return run


def peak_run() -> tuple[Run, int]:
    """Products that never leave the chip, and the operations of one repetition."""
    out = jax.device_put(jnp.zeros((1024, 256), jnp.float32), device())
    jax.block_until_ready(out)

    def run(count: int) -> float:
        return _nanoseconds("jaxator_cuda_peak_nanoseconds", out.unsafe_buffer_pointer(), count) * 1e-9

    return run, _ffi.query("jaxator_cuda_peak_flops", device().local_hardware_id)


def _nanoseconds(name: str, *numbers: int) -> int:
    found = _ffi.query(name, device().local_hardware_id, *numbers)
    if found < 0:
        raise RuntimeError(f"{name}: the CUDA driver refused; `jaxator doctor` says more")
    return found
