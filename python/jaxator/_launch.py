"""Numbers of a kernel launch: blocks, threads, scalars. Checked when the program is traced."""

from __future__ import annotations

import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Shape = tuple[int, ...]

# What every CUDA device of compute capability 9.0 takes; the device's own limits are checked when the kernel is loaded.
_LIMITS = {"grid": (2**31 - 1, 65535, 65535), "block": (1024, 1024, 64), "cluster": (8, 8, 8)}
_MOST_THREADS, _MOST_IN_CLUSTER = 1024, 8


def integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except Exception:  # of a tracer or a symbolic dimension, each has its own
        raise TypeError(f"call_kernel: {name}={value!r}: must be an int that is known when the program is traced") from None


def extents(name: str, value: Any) -> tuple[int, int, int]:
    """One to three positive integers, as three."""
    values = (1,) if value is None else tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else (value,)
    if not 1 <= len(values) <= 3:
        raise ValueError(f"call_kernel: {name}={value!r}: must have one to three numbers")
    numbers = [integer(name, v) for v in values]
    for axis, (number, limit) in enumerate(zip(numbers, _LIMITS[name], strict=False)):
        if not 1 <= number <= limit:
            raise ValueError(f"call_kernel: {name}[{axis}]={number}: must be from 1 to {limit}")
    return (*numbers, *(1,) * (3 - len(numbers)))


def check_geometry(grid: Shape, block: Shape, cluster: Shape) -> None:
    if math.prod(block) > _MOST_THREADS:
        raise ValueError(f"call_kernel: block={block}: {math.prod(block)} threads, must be at most {_MOST_THREADS}")
    if math.prod(cluster) > _MOST_IN_CLUSTER:
        raise ValueError(f"call_kernel: cluster={cluster}: {math.prod(cluster)} blocks, must be at most {_MOST_IN_CLUSTER}")
    for axis, (blocks, many) in enumerate(zip(grid, cluster, strict=True)):
        if blocks % many:
            raise ValueError(f"call_kernel: grid[{axis}]={blocks}: must be a multiple of cluster[{axis}]={many}")


def scalar(index: int, value: Any) -> tuple[int, int]:
    """(bits, bytes) of one kernel argument."""
    if isinstance(value, jax.Array):
        raise TypeError(f"call_kernel: scalars[{index}] is an array: pass it as an operand, whose address the kernel gets")
    if isinstance(value, bool):
        typed = np.asarray(value, np.bool_)
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"call_kernel: scalars[{index}]={value}: must fit in int64, or be a np.uint64")
        typed = np.asarray(value, np.int32 if -(2**31) <= value < 2**31 else np.int64)
    elif isinstance(value, float) and not isinstance(value, np.generic):
        typed = np.asarray(value, np.float32)
    else:
        typed = np.asarray(value)
    if typed.ndim != 0 or not (jnp.issubdtype(typed.dtype, jnp.number) or typed.dtype == np.bool_) or typed.itemsize > 8:
        raise TypeError(
            f"call_kernel: scalars[{index}]={value!r}: must be a bool, int, float or NumPy scalar of at most 8 bytes"
        )
    return int.from_bytes(typed.tobytes().ljust(8, b"\0"), "little", signed=True), typed.itemsize
