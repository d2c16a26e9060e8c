"""The language of whole tiles against NumPy, on every place; and where threads, blocks and grids have more than one axis."""

import dataclasses

import numpy as np
import pytest
from places import EVERYWHERE, TILES, like, run

from jaxator import flight

SHAPE = (16, 64)


@flight.kernel
def tiles(x, y, outs, bodies: flight.Constexpr):
    a, b = (t.local_tile(SHAPE, (0, 0)).load_tile() for t in (x, y))
    for body, out in zip(bodies, outs, strict=True):
        out.local_tile(out.shape, (0, 0)).store_tile(body(a, b))


@flight.jit
def launch(x, y, *outs, bodies):
    tiles(x, y, outs, bodies).launch(grid=1, block=64)


CASES = {
    "operators": (lambda a, b: a * b - a / 2.0 + 1.0, lambda a, b: a * b - a / 2 + 1),
    "rows": (lambda a, b: a - a.max(1), lambda a, b: a - a.max(1, keepdims=True)),
    "columns": (lambda a, b: b.sum(0) - a, lambda a, b: b.sum(0, keepdims=True) - a),
    "both": (lambda a, b: a.min(1) + b.max(0), lambda a, b: a.min(1, keepdims=True) + b.max(0, keepdims=True)),
    "to one number": (lambda a, b: a.sum(1).sum(0) + 0.0 * a, lambda a, b: a.sum() + 0 * a),
    "products": (
        lambda a, b: flight.where(a > 0.0, 1.0, -1.0).prod(1),
        lambda a, b: np.where(a > 0, 1, -1).prod(1, keepdims=True),
    ),
    "transposed": (lambda a, b: a.T, lambda a, b: a.T),
    "transposed twice": (lambda a, b: (a.T * 2.0).transpose(1, 0) + b, lambda a, b: a * 2 + b),
    "coordinates": (
        lambda a, b: flight.where(flight.iota(SHAPE, 0) * 3 < flight.iota(SHAPE, 1), a, b),
        lambda a, b: np.where(np.arange(16)[:, None] * 3 < np.arange(64), a, b),
    ),
    "functions": (
        lambda a, b: flight.elements(lambda p, q: flight.maximum(p, q) * flight.minimum(p, 1.0), a, b),
        lambda a, b: np.maximum(a, b) * np.minimum(a, 1),
    ),
    "another spread": (
        lambda a, b: a.respread(flight.Layout(((16, 4), 16), ((1, 256), 16))) + b,
        lambda a, b: a + b,
    ),
    "constants": (lambda a, b: flight.full_tile(SHAPE, 2.0) + a, lambda a, b: 2 + a),
    "repeated": (lambda a, b: a.sum(1).broadcast_to(SHAPE), lambda a, b: np.repeat(a.sum(1, keepdims=True), 64, 1)),
    "conversions": (lambda a, b: (a.to(flight.i32) * 3).to(flight.f32), lambda a, b: np.trunc(a) * 3),
}


def data():
    random = np.random.default_rng(5)
    return [np.round(random.standard_normal(SHAPE) * 16).astype(np.float32) / 8 for _ in range(2)]


@pytest.mark.parametrize("place", TILES)
@pytest.mark.parametrize("name", CASES)
def test_against_numpy(place, name):
    """Multiples of 1/8: every sum is exact in any order."""
    body, reference = CASES[name]
    a, b = data()
    expected = np.asarray(reference(a, b), np.float32)
    (y,) = run(place, launch, [a, b], [like(expected.shape)], bodies=[body])
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("place", TILES)
@pytest.mark.parametrize("size", [(5, 33), (16, 64), (1, 1), (15, 64)])
def test_what_is_not_there_reads_as_asked(place, size):
    @flight.kernel
    def kernel(x, y):
        tile = x.local_tile(SHAPE, (0, 0)).load_tile(other=-7.0)
        y.local_tile((16, 1), (0, 0)).store_tile(tile.min(1))

    @flight.jit
    def launch_(x, y):
        kernel(x, y).launch(grid=1, block=64)

    x = np.ones(size, np.float32)
    (y,) = run(place, launch_, [x], [like((size[0], 1))])
    np.testing.assert_array_equal(y, np.full((size[0], 1), 1 if size[1] == 64 else -7))


@pytest.mark.parametrize("place", TILES)
def test_bounds_of_the_users(place):
    @flight.kernel
    def kernel(x, y, rows: int):
        tile = x.local_tile(SHAPE, (0, 0)).load_tile(bounds=(rows, None))
        y.local_tile(SHAPE, (0, 0)).store_tile(tile + 1.0, bounds=(None, rows + 1))

    @flight.jit
    def launch_(x, y, *, rows):
        kernel(x, y, rows).launch(grid=1, block=64)

    x = np.ones(SHAPE, np.float32)
    (y,) = run(place, launch_, [x], [like(SHAPE)], rows=5)
    expected = np.full(SHAPE, np.nan, np.float32)
    expected[:, :6] = np.where(np.arange(16) < 5, 2, 1)[:, None]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_axes_of_blocks_and_grids(place):
    @flight.kernel
    def kernel(y):
        place = [flight.block_id(i) * flight.block_dim(i) + flight.thread_id(i) for i in flight.static_range(3)]
        extent = [flight.grid_dim(i) * flight.block_dim(i) for i in flight.static_range(3)]
        number = (place[2] * extent[1] + place[1]) * extent[0] + place[0]
        y[place[2], place[1], place[0]] = (number * 1000 + flight.thread_number()).to(flight.i32)

    @flight.jit
    def launch_(x, y):
        kernel(y).launch(grid=(2, 3, 2), block=(8, 4, 2))

    (y,) = run(place, launch_, [np.zeros(1, np.float32)], [like((4, 12, 16), "int32")])
    z, j, i = np.indices((4, 12, 16))
    thread = (z % 2 * 4 + j % 4) * 8 + i % 8
    np.testing.assert_array_equal(y, ((z * 12 + j) * 16 + i) * 1000 + thread)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_tensors_go_around_loops(place):
    """A part that moves on: its offset is carried."""

    @flight.kernel
    def kernel(x, y, rounds: int):
        i = flight.thread_id()
        part, total = x[i, None].compose(flight.Layout(2)), 0.0
        for _ in range(rounds):
            total = total + part[0] * 2.0 + part[1]
            part = dataclasses.replace(part, offset=part.offset + 2)
        y[i] = total

    @flight.jit
    def launch_(x, y, *, rounds):
        kernel(x, y, rounds).launch(grid=1, block=16)

    x = np.arange(160, dtype=np.float32).reshape(16, 10)
    (y,) = run(place, launch_, [x], [like(16)], rounds=4)
    np.testing.assert_array_equal(y, (x[:, :8].reshape(16, 4, 2) * [2, 1]).sum((1, 2)))
