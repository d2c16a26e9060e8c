"""Timing: interleaved runs in one process, medians; the machine's limits measured in between."""

from __future__ import annotations

import ctypes
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


def keep_memory() -> None:
    """Lets this process keep the memory that it frees; does nothing where the C library has no such setting.

    glibc returns arrays of 32 MiB and more to the system and gets them back page by page. On a virtual machine that took
    eight times as long as the normalisation of such an array, so only the allocator would be measured, for every peer alike.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        # From malloc.h: no mmap for large blocks, no trimming, one heap for all threads.
        m_mmap_max, m_trim_threshold, m_arena_max = -4, -1, -8
        for option, value in ((m_mmap_max, 0), (m_trim_threshold, 2**31 - 1), (m_arena_max, 1)):
            mallopt(option, value)


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
    """Seconds of one call of fn, each call waited for; averaged over `calls` calls."""

    def sample() -> float:
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
