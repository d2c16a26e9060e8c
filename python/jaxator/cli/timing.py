"""Timing: interleaved runs in one process, medians; the machine's limits measured in between."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxator import _ffi

Sample = Callable[[], float]
"""Measures something once: seconds, or a rate."""

THREADS = len(os.sched_getaffinity(0))
BUDGET_SECONDS = 30.0
MINIMUM_RUNS = 3
WARM_SECONDS = 0.2


def medians(samples: dict[str, Sample], repeats: int) -> dict[str, float]:
    """Median of `repeats` values of each sample, taken in turns, so that what else happens on the machine meets all alike.

    Each turn starts at another sample. Stops early, after three turns at least, when the budget is used up.
    """
    for sample in samples.values():
        sample()  # compiles, touches memory, wakes threads
    names = list(samples)
    values: dict[str, list[float]] = {name: [] for name in names}
    start = time.perf_counter()
    for turn in range(repeats):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            values[name].append(samples[name]())
        elapsed = time.perf_counter() - start
        if turn + 1 >= MINIMUM_RUNS and elapsed * (turn + 2) / (turn + 1) > BUDGET_SECONDS:
            break
    return {name: statistics.median(v) for name, v in values.items()}


def seconds_of(fn: Callable[..., Any], *args: Any, calls: int = 1) -> Sample:
    """Seconds of one call of fn, each call waited for; averaged over `calls` calls.

    Untimed calls go first, up to three: the sample before it freed other arrays, and fetching that memory back from the system
    (on a virtual machine from the host) would be charged to this one. Measured for attention after XLA's 134 MB of logits: 22,
    15, 12 ms, and 11 when run alone.
    """

    def sample() -> float:
        warm = time.perf_counter()
        for _ in range(3):
            jax.block_until_ready(fn(*args))
            if time.perf_counter() - warm > WARM_SECONDS:
                break
        start = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(fn(*args))
        return (time.perf_counter() - start) / calls

    return sample


def copy_rate(bytes_moved: int) -> Sample:
    """Bytes a second of memcpy with all threads, read and written bytes both counted, with this much traffic a call."""
    size = max(64, bytes_moved // 2)
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)

    def sample() -> float:
        # The arrays are used here, so they live as long as the sample.
        nanoseconds = _ffi.query("jaxator_copy_nanoseconds", target.ctypes.data, source.ctypes.data, size, THREADS)
        return 2 * size / (nanoseconds * 1e-9)

    return sample


def peak_rate(bf16_dot: bool) -> Sample:
    """Flops a second of products that never leave the registers, with all threads."""

    def sample() -> float:
        return float(_ffi.query("jaxator_peak_flops", int(bf16_dot), 20_000, THREADS))

    return sample
