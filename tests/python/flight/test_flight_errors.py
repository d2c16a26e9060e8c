"""Wrong programs: each is an error that says the rule and the values, shows the user's line, and leaves the tracer as it
was."""

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from places import like, program_of

from jaxator import flight
from jaxator.flight import FlightError

ROWS = flight.Dim("rows", divisor=16)


@flight.kernel
def apply(x, y, body: flight.Constexpr):
    body(x, y)


@flight.jit
def launch(x, y, *, body):
    apply(x, y, body).launch(grid=4, block=64)


def trace(body, x=None, target="x86-64"):
    x = np.zeros(256, np.float32) if x is None else x
    return program_of(launch, [x], [like(x.shape, x.dtype)], {"body": body}, target)


def refused(body, *parts, x=None, target="x86-64", marker="HERE"):
    """The error of a body, whose innermost frame of the test is the line with the marker."""
    with pytest.raises(FlightError) as caught:
        trace(body, x, target)
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    lines, first = inspect.getsourcelines(body)
    wanted = [first + i for i, line in enumerate(lines) if marker in line]
    places = [(file, line) for _, file, line, _ in caught.value.frames]
    assert (inspect.getsourcefile(body), wanted[0]) in places[:2], message
    assert caught.value.frames[-1][0] == "launch"
    assert lines[wanted[0] - first].strip() in message
    return caught.value


# ---- the twelve wrong programs of a kernel language; the rest of them are the compiler's -----------------------------


def mismatched_layouts(x, y):
    tile = x.local_tile(64, flight.block_id())
    part = tile.partition(flight.Layout((64, 4), (4, 1)), flight.thread_id())  # HERE
    y[0] = part[0]


def fragments_of_different_sizes(x, y):
    a, b = x.local_tile(4, 0).load(), x.local_tile(8, 0).load()
    y.local_tile(4, 0).store(a + b)  # HERE


def tile_out_of_range(x, y):
    y.local_tile(64, 4).store(x.local_tile(64, 0).load())  # HERE


def element_out_of_range(x, y):
    y[0] = x[256]  # HERE


def wrong_dtype(x, y):
    y.local_tile(4, 0).store(x.local_tile(4, 0).load().to(flight.bf16))  # HERE


def recursion(x, y):
    def power(value, n):
        if n == 0:
            return value
        return power(value * 2.0, n - 1)  # HERE

    y[0] = power(x[0], flight.thread_id())


def atom_of_another_target(x, y):
    a = flight.full(4, 0.0, flight.bf16)
    c = flight.full(4, 0.0, flight.f32)
    y[0] = flight.mma("mfma_16x16x16_bf16", a, a, c)[0]  # HERE


def changes_its_type(x, y):
    total = x[0]
    for i in range(flight.thread_id()):
        total = total.to(flight.f64) + x[i].to(flight.f64)  # HERE
    y[0] = total.to(flight.f32)


def unset_fragment(x, y):
    values = flight.fragment(4, flight.f32)
    values[0] = x[0]
    y.local_tile(4, 0).store(values * 2.0)  # HERE


def unset_element(x, y):
    values = flight.fragment(4, flight.f32)
    values[0] = x[0]
    y[0] = values[1]  # HERE


def bad_alias(x, y):
    x[0] = y[0]  # HERE


def spread_of_another_shape(x, y):
    x.local_tile(64, 0).load_tile(spread=flight.full_tile((4, 64), 0.0, flight.f32))  # HERE


def too_much_shared_memory(x, y):
    flight.shared((256, 1024), flight.f32)  # HERE


PROGRAMS = [
    (mismatched_layouts, "is of 256 elements", "has 64"),
    (fragments_of_different_sizes, "different sizes: 4 and 8"),
    (tile_out_of_range, "coordinate 4 is out of range", "size 4"),
    (element_out_of_range, "coordinate 256 is out of range", "size 256"),
    (wrong_dtype, "bf16", "f32", ".to(flight.f32)"),
    (recursion, "recursion", "power"),
    (atom_of_another_target, "x86-64 has no atom 'mfma_16x16x16_bf16'", "fma_f32"),
    (changes_its_type, "total", "f32", "f64"),
    (unset_fragment, "elements 1, 2, 3 nothing was stored"),
    (unset_element, "element 1"),
    (bad_alias, "x is an operand"),
    (spread_of_another_shape, "a tile of [64]", "[4, 64]"),
    (too_much_shared_memory, "1048576", "262144", "x86-64"),
]


@pytest.mark.parametrize(
    ("body", *(["parts"])), [(body, parts) for body, *parts in PROGRAMS], ids=[p[0].__name__ for p in PROGRAMS]
)
def test_wrong_program(body, parts):
    refused(body, *parts)
    trace(lambda x, y: None)  # goes on


@flight.kernel
def rows(x: flight.Tensor[ROWS, None], y: flight.Tensor[ROWS, None]):
    y[0, 0] = x[0, 0]


@flight.jit
def launch_rows(x, y):
    rows(x, y).launch(grid=1, block=32)


def test_indivisible_dynamic_shape():
    with pytest.raises(FlightError, match="x: dimension 0 = 40 must be a multiple of 16, as rows says") as caught:
        program_of(launch_rows, [np.zeros((40, 8), np.float32)], [like((40, 8))])
    assert caught.value.frames[0][:2] == ("launch_rows", __file__)
    program_of(launch_rows, [np.zeros((48, 8), np.float32)], [like((48, 8))])
    with pytest.raises(FlightError, match="dimension 0 = 32, but rows is 48 in another array"):
        program_of(launch_rows, [np.zeros((48, 8), np.float32)], [like((32, 8))])


def test_the_call_chain():
    def inner(value):
        return value / flight.thread_id()

    def outer(x, y):
        y[0] = inner(flight.thread_id())  # HERE

    error = refused(outer, "/ of index")
    assert [frame[0] for frame in error.frames] == ["inner", "outer", "apply", "launch"]


def test_an_error_of_the_users_own_passes_through():
    def body(x, y):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        trace(body)
    trace(lambda x, y: None)


def test_errors_are_values():
    error = FlightError("text", (("f", "file.py", 3, 4),))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, ValueError) and isinstance(error, TypeError)
    assert (again.message, again.frames, str(again)) == (error.message, error.frames, str(error))


# ---- launchers -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Launch:
    grid: object = 1
    block: object = 64


@flight.jit
def launch_as(x, y, *, how):
    apply(x, y, lambda x, y: None).launch(grid=how.grid, block=how.block)


@pytest.mark.parametrize(
    ("how", "part"),
    [
        (Launch(block=2048), "2048 threads"),
        (Launch(block=0), "0 is out of range"),
        (Launch(grid=(1, 2, 3, 4)), "one to three numbers"),
        (Launch(grid=-1), "-1 is out of range"),
        (Launch(grid=1.5), "1.5 is no integer"),
    ],
)
def test_launches(how, part):
    with pytest.raises(FlightError, match=part):
        program_of(launch_as, [np.zeros(4, np.float32)], [like(4)], {"how": how})


def test_outside_of_a_trace():
    with pytest.raises(FlightError, match="only inside a kernel"):
        flight.thread_id()
    with pytest.raises(FlightError, match="only inside a launcher"):
        apply(1, 2, 3)
    with pytest.raises(FlightError, match="must be one of"):
        trace(lambda x, y: None, target="sm_80")
    with pytest.raises(FlightError, match="no launcher"):
        program_of(lambda x: None, [], [])


def test_arguments_are_counted():
    with pytest.raises(FlightError, match="missing"):
        program_of(launch, [np.zeros(4, np.float32)], [], {"body": None})

    @flight.jit
    def too_many(x, y):
        apply(x, y, None, 4).launch(grid=1, block=1)

    with pytest.raises(FlightError, match="too many"):
        program_of(too_many, [np.zeros(4, np.float32)], [like(4)])


def test_else_of_a_loop_with_a_break():
    with pytest.raises(FlightError, match="`else` of a loop with a break is not supported") as caught:

        @flight.kernel
        def wrong(x):
            for i in range(4):
                if x[i] > 0.0:
                    break
            else:
                x[0] = 1.0

    assert caught.value.frames[0][:2] == ("wrong", __file__)
