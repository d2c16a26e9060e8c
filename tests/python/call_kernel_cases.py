"""Kernels from outside for `jaxator.call_kernel`, for the CPU and for CUDA, and JAX functions made of them."""

from __future__ import annotations

import functools
import math
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import jaxator as jxt

KERNELS = pathlib.Path(__file__).parent / "kernels"
SAXPY_PTX = (KERNELS / "saxpy.ptx").read_bytes()
SOFTMAX_PTX = (KERNELS / "softmax.ptx").read_bytes()
SIZES = (1, 5, 1000, 4099)


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    """Import it into a module whose tests are about CPUs, on machines with a GPU too."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def compiler() -> str | None:
    return next((found for name in ("cc", "gcc", "clang", "clang-22") if (found := shutil.which(name))), None)


@functools.cache
def shared_object() -> bytes:
    """kernels/cpu.c, by the C compiler at hand."""
    cc = compiler()
    if cc is None:
        pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "kernels.so")
        command = [
            cc,
            "-O2",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-fPIC",
            "-shared",
            str(KERNELS / "cpu.c"),
            "-lm",
            "-o",
            str(out),
        ]
        subprocess.run(command, check=True)
        return out.read_bytes()


def blobs(ptx: bytes) -> dict[str, bytes]:
    """A kernel for each platform that tests may run on."""
    return {"sm_90a": ptx} | ({"x86-64": shared_object()} if compiler() else {})


def blocks_of(elements: int, threads: int = 128) -> int:
    return -(-elements // threads)


def saxpy(a: float, x: Any, y: Any, *, blob: Any = None, **options: Any) -> jax.Array:
    """a x + y of arrays of any one shape."""
    return jxt.call_kernel(
        blobs(SAXPY_PTX) if blob is None else blob,
        "saxpy",
        x,
        y,
        out_shape=jax.ShapeDtypeStruct(np.shape(x), np.float32),
        grid=lambda operands, results: blocks_of(math.prod(results[0])),
        block=128,
        scalars=lambda operands, results: (math.prod(results[0]), np.float32(a)),
        **options,
    )


def rows_of(operands: Any, results: Any) -> int:
    return math.prod(results[0][:-1])


def _softmax_call(name: str, scale: float, *arrays: jax.Array) -> jax.Array:
    return jxt.call_kernel(
        blobs(SOFTMAX_PTX),
        name,
        *arrays,
        out_shape=jax.ShapeDtypeStruct(arrays[0].shape, np.float32),
        grid=rows_of,
        block=256,
        shared_bytes=256 // 32 * 4,
        scalars=(arrays[0].shape[-1], scale),
        sharding_rule=rule_of_rows(arrays),
        vmap_method="broadcast_all",
    )


def rule_of_rows(arrays: Any) -> str:
    row = " ".join([*(f"r{i}" for i in range(arrays[0].ndim - 1)), "_"])
    return ", ".join([row] * len(arrays)) + " -> " + row


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def softmax(x: jax.Array, scale: float = 1.0) -> jax.Array:
    """softmax(scale x) over the last axis, with its gradient; rows may be sharded."""
    return _softmax_call("softmax_forward", scale, x)


def _softmax_forward(x: jax.Array, scale: float) -> tuple[jax.Array, jax.Array]:
    y = softmax(x, scale)
    return y, y


softmax.defvjp(_softmax_forward, lambda scale, y, dy: (_softmax_call("softmax_backward", scale, y, dy),))


def softmax64(x: Any, dy: Any, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Value and gradient in float64."""
    x, dy = np.asarray(x, np.float64) * scale, np.asarray(dy, np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return y, scale * y * (dy - (y * dy).sum(-1, keepdims=True))


def softmax_bounds(x: Any, dy: Any, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the errors of both. Each operation rounds once (eps = 2^-24), an approximate exp2 twice; the exponent's own error
    is eps times its size, twice; a sum of n positive numbers is off by n eps of it, of n products by n eps of the sum of
    their sizes."""
    y, _ = softmax64(x, dy, scale)
    n, most = np.shape(x)[-1], np.abs(np.asarray(x, np.float64)).max(-1, keepdims=True) * scale
    eps = 2.0**-24
    relative = (4 * most + n + 8) * eps
    of_sum = (n + 2) * eps * (y * np.abs(dy)).sum(-1, keepdims=True)
    gradient = scale * y * (of_sum + 3 * eps * np.abs(dy))
    # What y is off by, dx is off by to first order.
    inherited = scale * relative * y * (np.abs(dy) + 2 * (y * np.abs(dy)).sum(-1, keepdims=True))
    return relative * y + 2.0**-140, gradient + inherited + 2.0**-140


def check_softmax(x: Any, dy: Any, scale: float, y: Any, dx: Any) -> None:
    want, bounds = softmax64(x, dy, scale), softmax_bounds(x, dy, scale)
    for name, got, exact, bound in zip(("y", "dx"), (y, dx), want, bounds, strict=True):
        assert np.all(np.abs(np.asarray(got, np.float64) - exact) <= bound), name


def value_and_vjp(f: Callable[..., Any], x: Any, dy: Any) -> tuple[Any, Any]:
    y, vjp = jax.vjp(f, x)
    return y, vjp(dy)[0]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
