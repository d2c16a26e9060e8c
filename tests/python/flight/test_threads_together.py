"""What threads of a block do together at thread level: matrix instructions, asynchronous copies, lines that are printed."""

import ml_dtypes
import numpy as np
import pytest
from interpreter import run, run_program
from places import EVERYWHERE, _needs_compiler, like, program_of
from places import run as run_at

from jaxator import flight
from jaxator.flight._program import TARGETS

BF16 = np.dtype(ml_dtypes.bfloat16)


@flight.kernel
def one_atom(a, b, c, name: flight.Constexpr):
    """Each wave multiplies a pair of matrices."""
    atom = flight.atom(name)
    wave, lane = flight.thread_id() // atom.lanes, flight.thread_id() % atom.lanes
    parts = []
    for tensor, shape, spread in (
        (a, (atom.m, atom.k), atom.a),
        (b, (atom.n, atom.k), atom.b),
        (c, (atom.m, atom.n), atom.c),
    ):
        parts.append(tensor[wave, None, None].local_tile(shape, (0, 0)).partition(spread, lane))
    a_part, b_part, c_part = parts
    total = flight.full(c_part.size, 1.0, flight.f32)
    c_part.store(flight.mma(name, a_part.load(), b_part.load(), total))


@flight.jit
def launch_atom(a, b, c, *, name, lanes):
    one_atom(a, b, c, name).launch(grid=1, block=2 * lanes)


ATOMS = [
    ("gfx942", "mfma_16x16x16_bf16", (16, 16, 16)),
    ("gfx942", "mfma_32x32x8_bf16", (32, 32, 8)),
    ("gfx942", "mfma_16x16x4_f32", (16, 16, 4)),
    ("gfx950", "mfma_16x16x32_bf16", (16, 16, 32)),
    ("gfx950", "mfma_32x32x16_f16", (32, 32, 16)),
    ("sm_90a", "mma_16x8x16_bf16", (16, 8, 16)),
]


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=_needs_compiler)])
@pytest.mark.parametrize(("target", "name", "sizes"), ATOMS, ids=[name for _, name, _ in ATOMS])
def test_matrix_instruction(target, name, sizes, compiled):
    m, n, k = sizes
    dtype = {"bf16": BF16, "f16": np.dtype(np.float16), "f32": np.dtype(np.float32)}[name.split("_")[-1]]
    random = np.random.default_rng(0)
    a, b = random.integers(-4, 5, (2, m, k)).astype(dtype), random.integers(-4, 5, (2, n, k)).astype(dtype)
    wave = TARGETS[target].wave
    if compiled and target == "sm_90a":
        import tiles_support

        program = program_of(launch_atom, [a, b], [like((2, m, n))], {"name": name, "lanes": wave}, target)
        assert "mma.sync" in tiles_support.check_ptx(program.launches[0].text)
        return
    if compiled:
        (c,) = run_at(target, launch_atom, [a, b], [like((2, m, n))], name=name, lanes=wave)
    else:
        program = program_of(launch_atom, [a, b], [like((2, m, n))], {"name": name, "lanes": wave}, target)
        (c,) = run_program(program, [a, b], [like((2, m, n))], wave)
    wide = a.astype(np.float32) @ b.astype(np.float32).transpose(0, 2, 1) + 1
    np.testing.assert_array_equal(c, wide)


@flight.kernel
def through_shared(x, y):
    """Two groups of copies, the second still under way while the first is used."""
    first, second = (flight.shared(256, flight.f32) for _ in range(2))
    i = flight.thread_id()
    for k, shared in enumerate((first, second)):
        flight.copy_async(x[k, None].local_tile(4, i), shared.local_tile(4, i))
        flight.commit()
    flight.wait(1)
    flight.barrier()
    y[0, None].local_tile(4, i).store(first.local_tile(4, 63 - i).load())
    flight.wait(0)
    flight.barrier()
    y[1, None].local_tile(4, i).store(second.local_tile(4, 63 - i).load())


@flight.jit
def launch_shared(x, y):
    through_shared(x, y).launch(grid=1, block=64)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_asynchronous_copies(place):
    x = np.arange(512, dtype=np.float32).reshape(2, 256)
    (y,) = run_at(place, launch_shared, [x], [like((2, 256))])
    np.testing.assert_array_equal(y.reshape(2, 64, 4), x.reshape(2, 64, 4)[:, ::-1])


def test_a_wait_that_is_missing_shows():
    """The interpreter does copies when they are waited for: what is read before is poison."""

    @flight.kernel
    def kernel(x, y):
        shared = flight.shared(64, flight.f32)
        i = flight.thread_id()
        flight.copy_async(x.local_tile(1, i), shared.local_tile(1, i))
        flight.commit()
        flight.wait(1)
        flight.barrier()
        y[i] = shared[i]

    @flight.jit
    def launch(x, y):
        kernel(x, y).launch(grid=1, block=64)

    x = np.ones(64, np.float32)
    assert np.isnan(run_program(program_of(launch, [x], [like(64)]), [x], [like(64)])[0]).all()
    assert (run_program(program_of(launch, [x], [like(64)]), [x], [like(64)], eager=True)[0] == 1).all()


@flight.kernel
def printing(x, y):
    i = flight.thread_id()
    if x[i] > 1.0:
        flight.print("thread {}: {}%", i, i + 10)
    y[i] = x[i]


@flight.jit
def launch_printing(x, y):
    printing(x, y).launch(grid=1, block=4)


def test_print():
    x = np.array([0, 2, 1, 3], np.float32)
    launch = program_of(launch_printing, [x], [like(4)]).launches[0]
    printed = []
    run(launch.text, [x, np.zeros(4, np.float32)], launch.grid, printed=printed)
    assert printed == ["thread 1: 11%", "thread 3: 13%"]


@_needs_compiler
def test_print_on_x86(capfd):
    x = np.array([0, 2, 1, 3], np.float32)
    run_at("x86 threads", launch_printing, [x], [like(4)])
    import ctypes

    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "thread 1: 11%\nthread 3: 13%\n"


def test_print_is_refused_where_there_is_none():
    with pytest.raises(flight.FlightError, match="no print on sm_90a"):
        program_of(launch_printing, [np.zeros(4, np.float32)], [like(4)], target="sm_90a")
