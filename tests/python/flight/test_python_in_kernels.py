"""Python that is not control flow of run time goes on working in kernels and helpers."""

import contextlib
import dataclasses
import functools

import numpy as np
import pytest
from places import INTERPRETER, like, run
from test_control_flow import COUNT, data, launch

from jaxator import flight

LIMIT = 3
counted = 0


@contextlib.contextmanager
def noted(log):
    log.append("in")
    yield
    log.append("out")


def with_and_try(x, n):
    log = []
    with noted(log):
        y = x * 2.0
        if n > LIMIT:
            y = y + 1.0
    try:
        raise KeyError(len(log))
    except KeyError as error:
        y = y + error.args[0]
    finally:
        log.append("done")
    else_ = 1.0 if log[-1] == "done" else 0.0
    return y + else_


def returns_inside_with(x, n):
    with contextlib.nullcontext(x) as y:
        return y + n


def matching(x, n):
    total = x
    for item in ({"kind": "add", "by": 1.0}, ("scale", 2.0), 7):
        match item:
            case {"kind": "add", "by": by}:
                total = total + by
            case ("scale", factor) if factor > 1:
                total = total * factor
            case int(number):
                if n > 2:
                    total = total - number
    return total


def parameters(x, n, *more, scale=2.0, **options):
    y = x * scale + sum(more, 0.0) + options.get("shift", 0.0)
    if n > LIMIT:
        y = -y
    return y


def calls_with_everything(x, n):
    return parameters(x, n, 1.0, *[2.0, 3.0], scale=0.5, **{"shift": 4.0}) + functools.partial(parameters, scale=1.0)(x, n)


def outer_variables(x, n):
    total = x

    def add(value):
        nonlocal total
        if n > 2:
            total = total + value
        return total

    add(1.0)
    add(2.0)
    return total


def global_variable(x, n):
    global counted
    counted = counted + 1
    return x + n


def comprehensions(x, n):
    rows = [[x * i + j for j in range(3)] for i in range(2) if i != 5]
    table = {f"k{i}": row for i, row in enumerate(rows)}
    return sum((value for row in table.values() for value in row), 0.0) + max(n, 2)


def walrus(x, n):
    if (y := x * 2.0) is not None and n > 1:
        y = y + 1.0
    return y


def unpacking(x, n):
    first, *rest = [x, 1.0, 2.0]
    (a, b), c = (first, rest[0]), rest[1]
    values = [0.0, 0.0]
    values[0], values[1] = a + b, c
    values[1] += a
    values += [3.0]
    return values[0] + values[1] * values[2] + n


def slices_and_strings(x, n):
    names = ["a", "b", "c"][::-1][:2]
    return x + len("".join(names)) + (1.0 if "c" in names and "z" not in names else 0.0) + n


def loop_with_else(x, n):
    for _ in range(2):
        x = x + 1.0
    else:
        x = x * 2.0
    while n > 100:
        n = n - 1
    else:
        x = x + 1.0
    return x


def early_out_of_static_loops(x, n):
    for i in [1, 2, 3, 4]:
        if i == 2:
            continue
        if i == 4:
            break
        x = x + i
    for i in [5, 6]:
        if i == 6:
            return x + n
    return x


@dataclasses.dataclass
class Config:
    factor: float = 2.0

    @property
    def twice(self):
        return self.factor * 2

    def __call__(self, x):
        if x > 0.0:
            return x * self.twice
        return x

    @staticmethod
    def plus(x, n):
        return x + n if n > 1 else x

    @classmethod
    def make(cls, x):
        return cls(3.0)(x)


def objects(x, n):
    config = Config()
    config.factor = 4.0
    return config(x) + Config.plus(x, n) + Config.make(x)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) + 1.0

    return wrapper


@decorated
def with_a_decorator(x, n):
    if n > 2:
        return x
    return -x


BODIES = [
    with_and_try, returns_inside_with, matching, calls_with_everything, outer_variables, global_variable, comprehensions,
    walrus, unpacking, slices_and_strings, loop_with_else, early_out_of_static_loops, objects, with_a_decorator,
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_as_in_python(body):
    x, n = data()
    expected = np.array([body(float(a), int(b)) for a, b in zip(x, n, strict=True)], np.float32)
    (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=body)
    np.testing.assert_array_equal(y, expected)


def test_generators_run_as_they_are():
    def numbers(x):
        yield x
        yield x * 2.0

    x, n = data()
    (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=lambda a, b: sum(numbers(a), 0.0))
    np.testing.assert_array_equal(y, 3 * x)


def test_a_function_of_numpy_sees_only_what_is_known():
    x, n = data()
    (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=lambda a, b: a + float(np.prod((2, 3))))
    np.testing.assert_array_equal(y, x + 6)
    with pytest.raises((flight.FlightError, TypeError)):
        run(INTERPRETER, launch, [x, n], [like(COUNT)], body=lambda a, b: np.sqrt(a))
