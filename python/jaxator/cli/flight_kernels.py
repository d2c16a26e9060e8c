"""Kernels that `jaxator bench flight` measures: those of docs/flight, without what they teach."""

from __future__ import annotations

from typing import Any

from jaxator import flight

ROWS = flight.Dim("rows")


@flight.kernel
def _add_numbers(x: Any, y: Any, z: Any, step: flight.Constexpr) -> None:
    i = flight.block_id() * 256 + flight.thread_id()
    if i < x.shape[0]:
        z[i] = x[i] + y[i] * step


@flight.jit
def add(x: Any, y: Any, z: Any, *, step: float = 1.0) -> None:
    """z = x + step * y. Each step is another kernel."""
    _add_numbers(x, y, z, step).launch(grid=flight.ceil_div(x.shape[0], 256), block=256)


@flight.kernel
def _softmax_rows(x: flight.Tensor[ROWS, None], y: flight.Tensor[ROWS, None], rows: flight.Constexpr) -> None:
    shape, at = (rows, x.shape[1]), (flight.block_id(), 0)
    values = x.local_tile(shape, at).load_tile().to(flight.f32)
    powers = flight.exp(values - values.max(1))
    y.local_tile(shape, at).store_tile((powers / powers.sum(1)).to(y.dtype))


@flight.jit
def softmax(x: Any, y: Any, *, rows: int = 4) -> None:
    _softmax_rows(x, y, rows).launch(grid=flight.ceil_div(x.shape[0], rows), block=128)


@flight.kernel
def _norm_rows(x: flight.Tensor[ROWS, None], w: Any, y: flight.Tensor[ROWS, None], rows: flight.Constexpr) -> None:
    shape, at = (rows, x.shape[1]), (flight.block_id(), 0)
    values = x.local_tile(shape, at).load_tile().to(flight.f32)
    inverse = flight.rsqrt((values * values).sum(1) / float(x.shape[1]) + 1e-6)
    # After the sum: before it, the weights hold registers while x arrives, 46 of a thread instead of 32 on an H200. Spread as the
    # values: by default f32 is spread by four, bf16 by eight, and the weights go through shared memory.
    weight = w.window((0, 0), (1, x.shape[1])).load_tile(spread=values).to(flight.f32)
    y.local_tile(shape, at).store_tile((values * inverse * weight).to(y.dtype))


@flight.jit
def rms_norm(x: Any, w: Any, y: Any, *, rows: int = 4, threads: int = 128) -> None:
    _norm_rows(x, w.reshape(1, -1), y, rows).launch(grid=flight.ceil_div(x.shape[0], rows), block=threads)


def _fetch(a: Any, b: Any, k: Any, into_a: Any, into_b: Any) -> None:
    i, j = flight.block_id(0), flight.block_id(1)
    flight.copy(a.local_tile(into_a.shape, (i, k)), into_a, asynchronous=True)
    flight.copy(b.local_tile(into_b.shape, (j, k)), into_b, asynchronous=True)
    flight.commit()


def _product(a: Any, b: Any, tile: tuple[int, int, int], stages: int) -> Any:
    """The block's tile of A B^T: `stages` pairs of tiles are in shared memory, all but one of them under way."""
    rows, columns, depth = tile
    into_a = [flight.shared(flight.swizzled((rows, depth), a.dtype), a.dtype) for _ in range(stages)]
    into_b = [flight.shared(flight.swizzled((columns, depth), b.dtype), b.dtype) for _ in range(stages)]
    steps = flight.ceil_div(a.shape[1], depth)
    total = flight.full_tile((rows, columns), 0.0, flight.f32)
    _fetch(a, b, 0, into_a[0], into_b[0])
    for group in range(flight.ceil_div(steps, stages)):
        for stage in flight.static_range(stages):
            step = group * stages + stage
            if step + 1 < steps:
                _fetch(a, b, step + 1, into_a[(stage + 1) % stages], into_b[(stage + 1) % stages])
                flight.wait(1)
            else:
                flight.wait(0)
            flight.barrier()
            if step < steps:
                total = flight.dot(into_a[stage], into_b[stage], total)
            flight.barrier()
    return total


@flight.kernel
def _gemm_tile(a: Any, b: Any, c: Any, tile: flight.Constexpr) -> None:
    place = (flight.block_id(0), flight.block_id(1))
    c.local_tile(tile[:2], place).store_tile(_product(a, b, tile, 2).to(c.dtype))


@flight.jit
def gemm(a: Any, b: Any, c: Any, *, tile: tuple[int, int, int] = (64, 64, 64), threads: int = 256) -> None:
    """C = A B^T."""
    grid = [flight.ceil_div(size, part) for size, part in zip(c.shape, tile, strict=False)]
    _gemm_tile(a, b, c, tile).launch(grid=grid, block=threads)
