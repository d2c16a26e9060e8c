"""What a kernel may not do with values of run time, with variables and with numbers; each error shows the user's line."""

import pytest
from test_flight_errors import refused

from jaxator import flight


def tile_that_does_not_divide(x, y):
    y[0] = x.local_tile(64, 0).local_tile(8, 0).tile(3)[0, 0]  # HERE


# ---- values where Python needs to know -------------------------------------------------------------------------------


def in_a_comprehension(x, y):
    y[0] = sum([x[i] for i in range(4) if x[i] > 0.0], 0.0)  # HERE


def as_an_index(x, y):
    values = [1.0, 2.0]
    y[0] = values[flight.thread_id()]  # HERE


def as_a_count(x, y):
    for i in flight.static_range(flight.thread_id()):  # HERE
        y[i] = 0.0


def iterated(x, y):
    for value in x:  # HERE
        y[0] = value


def as_a_tile(x, y):
    y[0] = x.local_tile(flight.thread_id(), 0)[0]  # HERE


def a_fragment_as_condition(x, y):
    if x.local_tile(4, 0).load() > 0.0:  # HERE
        y[0] = 1.0


STATIC = [
    (in_a_comprehension, "flight.where"),
    (as_an_index, "flight.static_range"),
    (as_a_count, "use range(...)"),
    (iterated, "cannot be iterated over"),
    (as_a_tile, "must be static"),
    (a_fragment_as_condition, "flight.all_of"),
    (tile_that_does_not_divide, "3 does not divide 8"),
]


@pytest.mark.parametrize(("body", "parts"), [(body, parts) for body, *parts in STATIC], ids=[p[0].__name__ for p in STATIC])
def test_what_must_be_known_while_tracing(body, parts):
    refused(body, *parts)


# ---- variables -------------------------------------------------------------------------------------------------------


def set_in_one_branch(x, y):
    if x[0] > 0.0:
        value = x[1]
    y[0] = value + 1.0  # HERE


def set_in_a_loop(x, y):
    for i in range(flight.thread_id()):
        value = x[i]
    y[0] = value + 1.0  # HERE


def two_types(x, y):
    if x[0] > 0.0:
        value = x[1]
    else:
        value = flight.thread_id()
    y[0] = value * 2.0  # HERE


def two_lengths(x, y):
    values = [x[0]]
    if x[0] > 0.0:
        values.append(x[1])
    y[0] = values[0]  # HERE


def made_in_a_branch(x, y):
    kept = []

    def keep(value):
        kept.append(value * 2.0)

    if x[0] > 0.0:
        keep(x[1])
    y[0] = kept[0]  # HERE


def returns_two_things(x, y):
    def choose(value):
        if value > 0.0:
            return value
        return None  # noqa: RET501

    y[0] = choose(x[0])  # HERE


def returns_from_a_loop(x, y):
    for i in range(flight.thread_id()):
        if x[i] > 0.0:  # HERE
            return
    y[0] = 1.0


def breaks_an_unrolled_loop(x, y):
    for i in flight.static_range(4):  # HERE
        if x[i] > 0.0:
            break
        y[i] = 1.0


class Counter:
    count = 0


def attribute_of_an_object(x, y):
    counter = Counter()
    if x[0] > 0.0:
        counter.count = x[1]  # HERE
    y[0] = counter.count


VARIABLES = [
    (set_in_one_branch, "value has no value here", "one path"),
    (set_in_a_loop, "value has no value here", "before the loop"),
    (two_types, "value", "a run-time f32 on one path", "a run-time index"),
    (two_lengths, "values", "on one path"),
    (made_in_a_branch, "was made inside a branch"),
    (returns_two_things, "the returned value"),
    (returns_from_a_loop, "return under a condition of run time inside a loop"),
    (breaks_an_unrolled_loop, "break under a condition of run time"),
    (attribute_of_an_object, "attribute count of Counter"),
]


@pytest.mark.parametrize(
    ("body", "parts"), [(body, parts) for body, *parts in VARIABLES], ids=[p[0].__name__ for p in VARIABLES]
)
def test_variables(body, parts):
    refused(body, *parts)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def divides_integers(x, y):
    y[0] = flight.thread_id() / 2  # HERE


def too_large(x, y):
    y[0] = (flight.i8(1) + 300).to(flight.f32)  # HERE


def narrow_arithmetic(x, y):
    y[0] = (x[0].to(flight.f8e4m3fn) + 1.0).to(flight.f32)  # HERE


def exp_of_integers(x, y):
    y[0] = flight.exp(flight.thread_id())  # HERE


def matrix_of_other_sizes(x, y):
    a = flight.shared((64, 32), flight.f32)
    b = flight.shared((64, 16), flight.f32)
    flight.dot(a, b)  # HERE


def matrix_in_global_memory(x, y):
    tile = x.local_tile(256, 0).compose(flight.Layout((16, 16)))
    flight.dot(tile, tile)  # HERE


def tiles_of_other_sizes(x, y):
    a, b = flight.full_tile((8, 16), 1.0), flight.full_tile((8, 32), 1.0)
    a + b  # noqa: B018 HERE


NUMBERS = [
    (divides_integers, "/ of index is a float"),
    (too_large, "300 does not fit in i8", "-128 to 127"),
    (narrow_arithmetic, "f8e4m3fn", "storage"),
    (exp_of_integers, "a float was expected"),
    (matrix_of_other_sizes, "64 x 32", "64 x 16"),
    (matrix_in_global_memory, "global memory"),
    (tiles_of_other_sizes, "mode 1: [16, 32]"),
]


@pytest.mark.parametrize(
    ("body", "parts"), [(body, parts) for body, *parts in NUMBERS], ids=[p[0].__name__ for p in NUMBERS]
)
def test_numbers(body, parts):
    refused(body, *parts)


def two_roundings(x, y):
    y[0] = x[0].to(flight.f64).to(flight.bf16).to(flight.f32)  # HERE


def test_a_conversion_that_would_round_twice():
    refused(two_roundings, "f64 to bf16", "in between")
