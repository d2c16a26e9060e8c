"""Branches and loops on values of run time do what the same Python does on numbers: each body runs once as Python, once as a
kernel."""

import itertools

import numpy as np
import places
import pytest
import tiles_support
from places import EVERYWHERE, INTERPRETER, like, program_of, run

from jaxator import flight
from jaxator.flight import _compiler

COUNT = 96
BLOCK = 64


@flight.kernel
def each(x, n, y, body: flight.Constexpr):
    """y[i] = body(x[i], n[i])."""
    i = flight.block_id() * BLOCK + flight.thread_id()
    if i < x.shape[0]:
        y[i] = body(x[i], n[i].to(flight.index))


@flight.jit
def launch(x, n, y, *, body):
    each(x, n, y, body).launch(grid=flight.ceil_div(x.shape[0], BLOCK), block=BLOCK)


def if_else(x, n):
    if x > 0.0:
        y = x * 2.0
    elif n > 3:
        y = x - 1.0
    else:
        y = 0.5
    return y


def early_return(x, n):
    if n == 0:
        return x
    if n > 4:
        if x < 0.0:
            return -x
        x = x + 1.0
    return x * n


def condition_in_a_variable(x, n):
    flag = x < 0.0
    y = 1.0
    if flag:
        y = x
    return y


def values_across_branches(x, n):
    a, b = x, 1.0
    if n > 2:
        a, b = b, a
    return a - 2.0 * b


def summing(x, n):
    total = 0.0
    for i in range(n):
        total = total + x * i
    return total


def downwards(x, n):
    y = 0.0
    for i in range(n, -3, -2):
        y = y * 0.5 + i
    return y


def strided(x, n):
    y = 0.0
    for i in range(1, n + 4, 3):
        y = y * 0.5 + i
    return y


def leaving_a_loop(x, n):
    y = 0.0
    for i in range(10):
        if i == n:
            break
        y = y + x
    return y


def going_on(x, n):
    y = 0.0
    for i in range(n):
        if i % 2 == 0:
            continue
        y = y + i
        if i > 4:
            break
        y = y * 2.0
    return y


def while_loop(x, n):
    i = 0
    while i * i < n:
        i = i + 1
    return x + i


def while_with_break(x, n):
    i, y = 0, x
    while True:
        if i >= n:
            break
        i = i + 1
        y = y * 0.5
    return y


def while_known_at_first(x, n):
    i = 0
    while i < 3:
        i = i + 1 + n
    return x + i


def nested_loops(x, n):
    y = 0.0
    for i in range(n):
        for j in range(i):
            if (i + j) % 3 == 0:
                y = y + x
            else:
                y = y - j
        y = y * 0.5
    return y


def logic(x, n):
    y = 0.0
    if x > 0.0 and n > 2 or not (n < 5):
        y = 1.0
    if 0 < n <= 4:
        y = y + 2.0
    if not n:
        y = y + 4.0
    return y + (8.0 if x < 0.0 else 0.0)


def choosing(x, n):
    return (x if n > 3 else 1.0) + (2.0 if x < 0.0 else x * 3.0)


def unrolled(x, n):
    parts = []
    for i in flight.static_range(4):
        parts.append(x * i)
    y = 0.0
    for part in parts:
        if n > 2:
            y = y + part
    return y


def lists(x, n):
    parts = [x, 0.0, 1.0]
    for i in range(n):
        parts[1] = parts[1] + parts[0]
        if i > 1:
            parts[2] = parts[2] * 0.5
    return parts[0] + parts[1] + parts[2]


def dicts(x, n):
    state = {"a": x, "b": 1.0}
    if n > 2:
        state["a"] = 2.0
    for _ in range(n):
        state["b"] = state["b"] + state["a"]
    return state["b"]


@flight.struct
class Pair:
    low: object
    high: object


def structs(x, n):
    pair = Pair(x, 0.0)
    for i in range(n):
        pair = Pair(pair.high, pair.low + i)
    return pair.low - pair.high


def helpers(x, n):
    return early_return(if_else(x, n), n) + going_on(x, n)


def closures(x, n):
    factor = x * 2.0

    def scaled(y):
        if y > 3:
            return factor * 0.5
        return factor

    return sum([scaled(n), scaled(n + 1)], 0.0) + (lambda y: y + 1.0)(x)


def breaking_out_of_two(x, n):
    found = 0.0
    for i in range(4):
        for j in range(4):
            if i * j == n:
                found = found + 1.0
                break
        if found > 1.0:
            break
    return found


BODIES = [
    if_else, early_return, condition_in_a_variable, values_across_branches, summing, downwards, strided, leaving_a_loop,
    going_on,
    while_loop, while_with_break, while_known_at_first, nested_loops, logic, choosing, unrolled, lists, dicts, structs,
    helpers,
    closures, breaking_out_of_two,
]  # fmt: skip


def data():
    x = np.round(np.random.default_rng(0).standard_normal(COUNT) * 8) / 4  # sums and halves of these are exact
    return x.astype(np.float32), (np.arange(COUNT) % 9).astype(np.int32)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_as_in_python(body, place):
    x, n = data()
    expected = np.array([body(float(a), int(b)) for a, b in zip(x, n, strict=True)], np.float32)
    (y,) = run(place, launch, [x, n], [like(COUNT)], body=body)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_unoptimised_code_does_the_same(body):
    """Loops whose carried values are equal or swapped have been miscompiled by optimisers."""
    x, n = data()
    launch_ = program_of(launch, [x, n], [like(COUNT)], {"body": body}).launches[0]
    results = []
    for optimize in (0, 3):
        y = np.full(COUNT, np.nan, np.float32)
        places.call(
            tiles_support.compiled("x86 threads", launch_.text, optimize=optimize).code, launch_.name, [x, n, y], (2, 1, 1)
        )
        results.append(y)
    np.testing.assert_array_equal(*results)


def test_a_condition_of_run_time_never_becomes_static():
    """Each body is one text, whatever the data is: both sides of every branch are in it."""
    x, n = data()
    for body in (if_else, early_return, condition_in_a_variable):
        text = program_of(launch, [x, n], [like(COUNT)], {"body": body}).launches[0].text
        assert text.count("scf.if") > 1


def test_lambdas_on_one_line_are_told_apart():
    x, n = data()
    first, second = (lambda a, b: a if b > 2 else 0.0), (lambda a, b: (lambda c: 0.0 if c > 2 else a)(b))
    for body in (first, second):
        (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=body)
        np.testing.assert_array_equal(y, [body(a, b) for a, b in zip(x, n, strict=True)])


def test_the_users_functions_stay_what_they_are():
    def bound():
        return 3

    def body(x, n):
        if n > bound():
            return x
        return 0.0

    before = body.__code__, dict(body.__globals__), body.__closure__, body.__dict__.copy()
    x, n = data()
    run(INTERPRETER, launch, [x, n], [like(COUNT)], body=body)
    assert body.__code__ is before[0] and body.__closure__ is before[2] and body.__dict__ == before[3]
    assert dict(body.__globals__) == before[1]
    assert [body(1.0, k) for k in (3, 4)] == [0.0, 1.0]


def test_closures_see_what_is_bound_later():
    def body(x, n):
        return x if n > limit else 0.0

    x, n = data()
    for limit in (2, 5):  # noqa: B007
        (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=body)
        np.testing.assert_array_equal(y, np.where(n > limit, x, 0))


@flight.kernel
def carry_fragments(x, y, rounds: int):
    i = flight.thread_id()
    total = flight.full(4, 0.0, flight.f32)
    previous = x.local_tile(4, i).load()
    for k in range(rounds):
        total = total + previous * k
        previous[0] = previous[3]
        if k == 2:
            total[1] = -1.0
    y.local_tile(4, i).store(total + previous)


@flight.jit
def launch_fragments(x, y, *, rounds):
    carry_fragments(x, y, rounds).launch(grid=1, block=16)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_fragments_go_around_loops(place, rounds):
    x = np.arange(64, dtype=np.float32).reshape(16, 4)
    total, previous = np.zeros_like(x), x.copy()
    for k in range(rounds):
        total += previous * k
        previous[:, 0] = previous[:, 3]
        if k == 2:
            total[:, 1] = -1
    (y,) = run(place, launch_fragments, [x.reshape(-1)], [like(64)], rounds=rounds)
    np.testing.assert_array_equal(y.reshape(16, 4), total + previous)


def test_static_loops_over_python_things():
    def body(x, n):
        y = 0.0
        for a, (b, c) in zip([1, 2], [(3, 4), (5, 6)], strict=True):
            if n > a:
                y = y + b * c
        for name, value in {"p": 1.0, "q": 2.0}.items():
            y = y + value if name == "q" else y
        return y + len(list(itertools.product(range(2), repeat=2)))

    x, n = data()
    (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=body)
    np.testing.assert_array_equal(y, [body(0.0, int(b)) for b in n])
