"""Kernels that the bridge's tests call; also imported by their child processes."""

import jax
import numpy as np

from jaxator import flight

S = jax.ShapeDtypeStruct


@flight.kernel
def axpy_kernel(x, y, out, n, a):
    i = flight.block_id() * 128 + flight.thread_id()
    if i < n:
        out[i] = a * x[i] + y[i]


@flight.jit
def axpy(x, y, out, a):
    n = x.shape[0]
    axpy_kernel(x, y, out, n, a).launch(grid=-(-n // 128), block=128)


@flight.kernel
def add_kernel(x, y, out, n):
    i = flight.block_id() * 128 + flight.thread_id()
    if i < n:
        out[i] = x[i] + y[i]


@flight.kernel
def square_kernel(x, out, n):
    i = flight.block_id() * 128 + flight.thread_id()
    if i < n:
        out[i] = x[i] * x[i]


@flight.jit
def sum_of_squares(x, y, out):
    """Three kernels and two arrays between them."""
    n = x.shape[0]
    blocks = -(-n // 128)
    left, right = flight.empty(x.shape, x.dtype), flight.empty(x.shape, x.dtype)
    square_kernel(x, left, n).launch(grid=blocks, block=128)
    square_kernel(y, right, n).launch(grid=blocks, block=128)
    add_kernel(left, right, out, n).launch(grid=blocks, block=128)


@flight.kernel
def increment_kernel(x, first, n):
    i = flight.block_id() * 128 + flight.thread_id()
    if i < n:
        if i >= first:
            x[i] = x[i] + 1.0


@flight.jit
def increment_from(x, out, first):
    """Out shares x's memory; what comes before `first` is left alone."""
    n = out.shape[0]
    increment_kernel(out, first, n).launch(grid=-(-n // 128), block=128)


@flight.jit
def writes_nothing(x, out):
    pass


def call_axpy(x, y, a=2.0, **options):
    return flight.call(axpy, x, y, out_shape=S(np.shape(x), np.float32), scalars={"a": np.float32(a)}, **options)
