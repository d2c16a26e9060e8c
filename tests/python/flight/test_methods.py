"""Methods in kernels, and functions that call themselves."""

import numpy as np
import pytest
from places import INTERPRETER, like, run
from test_control_flow import COUNT, data, launch

from jaxator import flight


class Scaler:
    def __init__(self, factor):
        self._factor = factor

    def scale(self, x, n):
        if n > self._limit():
            return x * self._factor
        return x

    def _limit(self):
        return 3

    @flight.kernel
    def kernel(self: flight.Constexpr, x, n, y):
        i = flight.thread_id()
        y[i] = self.scale(x[i], n[i])

    def __mangled(self, x):
        return x if x > 0.0 else -x

    def magnitude(self, x, n):
        return self.__mangled(x) + (1.0 if n > 2 else 0.0)

    bonus = 5.0

    def by_the_class(self, x, n):
        return Scaler.magnitude(self, x, n) + (Scaler.bonus if n > 1 else 0.0)


def power(x, exponent: int):
    """Calls itself by the module's name."""
    return 1.0 if exponent == 0 else x * power(x, exponent - 1)


def falls(x, n):
    """The end depends on what is known at run time only."""
    return x if n == 0 else falls(x, n - 1)


@flight.jit
def launch_method(x, n, y, *, scaler):
    scaler.kernel(x, n, y).launch(grid=1, block=COUNT)


def test_methods():
    x, n = data()
    (y,) = run(INTERPRETER, launch_method, [x, n], [like(COUNT)], scaler=Scaler(2.0))
    np.testing.assert_array_equal(y, np.where(n > 3, x * 2, x))
    (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=Scaler(2.0).magnitude)
    np.testing.assert_array_equal(y, np.abs(x) + (n > 2))
    (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=Scaler(2.0).by_the_class)
    np.testing.assert_array_equal(y, np.abs(x) + (n > 2) + np.where(n > 1, 5.0, 0.0))


def test_functions_of_a_module_may_call_themselves():
    x, n = data()
    (y,) = run(INTERPRETER, launch, [x, n], [like(COUNT)], body=lambda x, n: power(x, 3))
    np.testing.assert_array_equal(y, x * (x * (x * np.float32(1))))
    with pytest.raises(flight.FlightError, match="recursion") as caught:
        run(INTERPRETER, launch, [x, n], [like(COUNT)], body=falls)
    assert "falls(x, n - 1)" in str(caught.value)
