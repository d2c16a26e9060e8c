"""Sizes, strides and scalars of run time; offsets beyond 32 bits; ends that tiles do not divide; derived alignment."""

import re

import numpy as np
import places
import pytest
import tiles_support
from interpreter import run_program
from places import EVERYWHERE, INTERPRETER, like, program_of, run

from jaxator import flight
from jaxator.flight import FlightError, _compiler
from jaxator.flight._program import ArraySpec

M, N = flight.Dim("m"), flight.Dim("n", divisor=4)


@flight.kernel
def scale_rows(x: flight.Tensor[M, N], y: flight.Tensor[M, N], factor: float, shift: flight.i32):
    i, j = flight.block_id(1), flight.block_id(0) * 32 + flight.thread_id()
    if j < x.shape[1]:
        y[i, j] = x[i, j] * factor + (shift + x.shape[0] * 100 + x.shape[1])


@flight.jit
def launch_rows(x, y, *, factor, shift):
    scale_rows(x, y, factor, shift).launch(grid=(flight.ceil_div(x.shape[1], 32), x.shape[0]), block=32)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("by_array", [False, True])
def test_one_kernel_serves_all_sizes_and_scalars(place, by_array):
    texts = set()
    for (m, n), factor, shift in (((1, 4), 2.0, 1), ((3, 40), -1.5, -7), ((7, 100), 0.25, 2**20)):
        x = np.arange(m * n, dtype=np.float32).reshape(m, n)
        scalars = {"factor": np.array(factor, np.float32), "shift": np.array(shift, np.int32)} if by_array else {}
        scalars = scalars or {"factor": factor, "shift": shift}
        (y,) = run(place, launch_rows, [x], [like((m, n))], **scalars)
        np.testing.assert_array_equal(y, x * np.float32(factor) + np.float32(shift + m * 100 + n))
        typed = {name: value.dtype if by_array else value for name, value in scalars.items()}
        texts.add(program_of(launch_rows, [x], [like((m, n))], typed).launches[0].text)
    assert len(texts) == 1


@flight.kernel
def copy_tiles(x: flight.Tensor[M, N], y: flight.Tensor[M, N], spread: flight.Constexpr, tile: flight.Constexpr):
    at = (flight.block_id(0), flight.block_id(1))
    a, b = (t.local_tile(tile, at).partition(spread, flight.thread_id()) for t in (x, y))
    b.store(a.load(other=-1.0) * 2.0)


@flight.jit
def launch_tiles(x, y, *, spread, tile):
    grid = [flight.ceil_div(size, part) for size, part in zip(x.shape, tile, strict=True)]
    copy_tiles(x, y, spread, tile).launch(grid=grid, block=64)


SPREADS = {
    "rows": flight.thread_values(flight.Layout((4, 16), (16, 1)), flight.Layout((1, 4), (4, 1))),
    "columns": flight.thread_values(flight.Layout((16, 4), (1, 16)), flight.Layout((2, 4), (1, 2))),
    "three each": flight.thread_values(flight.Layout((4, 16), (16, 1)), flight.Layout((2, 3), (3, 1))),
}


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("shape", [(4, 64), (9, 100), (1, 4), (33, 48)])
def test_partitions_at_ragged_ends(place, name, shape):
    """Also where a thread's part is no multiple of 16 bytes."""
    tile = {"rows": (4, 64), "columns": (32, 16), "three each": (8, 48)}[name]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (y,) = run(place, launch_tiles, [x], [like(shape)], spread=SPREADS[name], tile=tile)
    np.testing.assert_array_equal(y, 2 * x)


def test_no_masks_where_tiles_are_known_to_divide():
    def masks(divisor, size):
        dim = flight.Dim("k", divisor)

        @flight.kernel
        def kernel(x: flight.Tensor[dim], y: flight.Tensor[dim]):
            a, b = (t.local_tile(256, flight.block_id()).local_tile(4, flight.thread_id()) for t in (x, y))
            b.store(a.load())

        @flight.jit
        def launch(x, y):
            kernel(x, y).launch(grid=1, block=64)

        return program_of(launch, [np.zeros(size, np.float32)], [like(size)]).launches[0].text.count("mask(")

    assert masks(256, 512) == masks(512, 512) == 0
    assert masks(128, 512) == masks(1, 512) == 2


def aligns(body, place="x86-64"):
    @flight.kernel
    def kernel(x: flight.Tensor[M, N], y):
        body(x, y)

    @flight.jit
    def launch(x, y):
        kernel(x, y).launch(grid=2, block=32)

    text = program_of(launch, [np.zeros((8, 64), np.float32)], [like((8, 64))]).launches[0].text
    return [int(a) for a in re.findall(r'-> !flight\.view<f32, \w+, ".*?", (\d+)>', text)]


def test_alignment_is_derived():
    i = flight.thread_id
    assert aligns(lambda x, y: x[i(), None].local_tile(4, i()).load()) == [16]  # rows are multiples of 4
    assert aligns(lambda x, y: x[i(), None].local_tile(2, i()).load()) == [8]
    assert aligns(lambda x, y: x[i(), None].window(i(), 4).load()) == [4]
    assert aligns(lambda x, y: x[i(), None].window(4 * i() + 2, 4).load()) == [8]
    assert aligns(lambda x, y: y[i(), None].window(i() * 16, 4).load()) == [16]


@flight.kernel
def through_swizzle(x, y, swizzle: flight.Constexpr, width: flight.Constexpr, at: int):
    shared = flight.shared(flight.Layout((8, 32), (32, 1)), flight.f32, swizzle=swizzle)
    i = flight.thread_id()
    row, column = i // 8, i % 8
    part = shared[row, None].local_tile(4, column)
    for k in flight.static_range(4):
        part[k] = x[row, column * 4 + k]
    flight.barrier()
    for k in range(32 // width // 8):
        piece = (column + at) % 8 * (32 // width // 8) + k
        y[row, None].local_tile(width, piece).store(shared[row, None].local_tile(width, piece).load())


@flight.jit
def launch_swizzle(x, y, *, swizzle, width, at):
    through_swizzle(x, y, swizzle, width, at).launch(grid=1, block=64)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("swizzle", [(3, 0, 5), (2, 1, 4), (3, 2, 3), (1, 0, 1)])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_wide_accesses_through_narrow_swizzles(place, swizzle, width):
    """A swizzle of single elements breaks up what an unswizzled tensor would load in one piece."""
    x = np.arange(256, dtype=np.float32).reshape(8, 32)
    (y,) = run(place, launch_swizzle, [x], [like((8, 32))], swizzle=flight.Swizzle(*swizzle), width=width, at=3)
    np.testing.assert_array_equal(y, x)


@flight.kernel
def touch(x, y, row: int):
    i = flight.thread_id()
    y[row, i] = x[i] + 1


@flight.jit
def launch_touch(x, y, *, row):
    touch(x, y, row).launch(grid=1, block=64)


def test_offsets_beyond_32_bits_in_the_text():
    spec = ArraySpec((5, 2**31 + 8), np.dtype(np.int8))
    text = program_of(launch_touch, [np.zeros(64, np.int8)], [spec], {"row": 4}).launches[0].text
    assert str(2**31 + 8) in text and "i32" not in text.replace("vector<1xi8>", "")


@pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
def test_offsets_beyond_32_bits_at_run_time():
    """A matrix of 10 GiB, of which a page or two is touched."""
    y = np.zeros((5, 2**31 + 8), np.int8)
    x = np.arange(64, dtype=np.int8)
    launch = program_of(launch_touch, [x], [places.spec(y)], {"row": 4}).launches[0]
    places.call(tiles_support.compiled("x86 threads", launch.text).code, launch.name, [x, y, np.int64(4)], (1, 1, 1))
    np.testing.assert_array_equal(y[4, :64], x + 1)
    assert (y[0, :64] == 0).all() and (y[3, :64] == 0).all()


def test_dynamic_shapes_have_an_answer_or_name_what_is_missing():
    @flight.kernel
    def kernel(x: flight.Tensor[M, N], y, layout: flight.Constexpr):
        part = x.compose(layout)
        y[0] = part[(0,) * part.rank]

    @flight.jit
    def launch(x, y, *, layout):
        kernel(x, y, layout).launch(grid=1, block=32)

    x = np.zeros((8, 64), np.float32)
    assert "flight.load" in program_of(launch, [x], [like(4)], {"layout": (flight.Layout(3, 2), 8)}).launches[0].text
    with pytest.raises(FlightError, match=r"composition: leaf 0: shape 3 must be a multiple of \? = \? / stride"):
        program_of(launch, [x], [like(4)], {"layout": flight.Layout(3)})


def test_arrays_of_no_elements():
    @flight.jit
    def launch(x, y):
        if x.size:
            scale_rows(x, y, 1.0, 0).launch(grid=1, block=32)

    assert program_of(launch, [np.zeros((0, 4), np.float32)], [like((0, 4))]).launches == ()
    with pytest.raises(FlightError, match="is empty"):

        @flight.jit
        def wrong(x, y):
            scale_rows(x, y, 1.0, 0).launch(grid=1, block=32)

        program_of(wrong, [np.zeros((3, 0), np.float32)], [like((3, 0))])


def test_temporaries_and_reshapes():
    @flight.kernel
    def add_one(x, y):
        i = flight.thread_id()
        y[i] = x[i] + 1.0

    @flight.jit
    def launch(x, y):
        middle = flight.empty((2, 8), flight.f32)
        add_one(x.reshape(-1), middle.reshape(16)).launch(grid=1, block=16)
        add_one(middle.reshape(-1), y.reshape(-1)).launch(grid=1, block=16)

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    program = program_of(launch, [x], [like((4, 4))])
    assert [launch.writes for launch in program.launches] == [(2,), (1,)] and program.temporaries == (like((2, 8)),)
    (y,) = run_program(program, [x], [like((4, 4))])
    np.testing.assert_array_equal(y, x + 2)


def test_a_struct_as_argument():
    @flight.struct
    class Scaled:
        values: object
        factor: float

    @flight.kernel
    def kernel(scaled, y):
        i = flight.thread_id()
        y[i] = scaled.values[i] * scaled.factor

    @flight.jit
    def launch(x, y, *, factor):
        kernel(Scaled(x, factor), y).launch(grid=1, block=8)

    x = np.arange(8, dtype=np.float32)
    (y,) = run(INTERPRETER, launch, [x], [like(8)], factor=3.0)
    np.testing.assert_array_equal(y, 3 * x)
