"""What makes a launcher another launcher: everything its functions refer to, and nothing else."""

import functools
import types

import pytest

from jaxator import flight
from jaxator.flight import _version

SOURCE = """
import math
from jaxator import flight

SETTING = 3
TABLE = [1, 2]
NAMES = {"a": 1}

class Options:
    factor = 2
    unused = 5

OPTIONS = Options()

def deep(x):
    return x * SETTING

def helper(x):
    return deep(x) + TABLE[0] + math.pi + OPTIONS.factor

def unused_helper(x):
    return x

@flight.kernel
def scale(x, out):
    i = flight.thread_id()
    out[i] = helper(x[i]) + NAMES["a"] + (MISSING if False else 0)

@flight.jit
def launch(x, out):
    scale(x, out).launch(grid=1, block=64)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    path = tmp_path / "user_kernels.py"
    path.write_text(SOURCE)
    found = types.ModuleType("user_kernels")
    found.__file__ = str(path)
    exec(compile(SOURCE, str(path), "exec"), vars(found))
    return found


def other_kernel(module):
    @flight.kernel
    def scale(x, out):
        out[0] = x[0]

    module.scale = scale


CHANGES = {
    "a constant": lambda m: setattr(m, "SETTING", 4),
    "a constant's type": lambda m: setattr(m, "SETTING", 3.0),
    "a list": lambda m: m.TABLE.append(3),
    "a dictionary": lambda m: m.NAMES.update(a=2),
    "an attribute of a class": lambda m: setattr(m.Options, "factor", 7),
    "an attribute of an object": lambda m: setattr(m.OPTIONS, "factor", 9),
    "a helper": lambda m: setattr(m, "helper", lambda x: x),
    "a helper's helper": lambda m: setattr(m, "deep", lambda x: x),
    "a helper's code": lambda m: setattr(m.deep, "__code__", (lambda x: x + 1).__code__),
    "a helper's defaults": lambda m: setattr(m.deep, "__defaults__", (1,)),
    "a kernel": other_kernel,
    "a name that was missing": lambda m: setattr(m, "MISSING", 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(module, change):
    before = _version.version(module.launch)
    assert _version.version(module.launch) == before
    change(module)
    after = _version.version(module.launch)
    assert after != before
    assert _version.version(module.launch) == after


UNRELATED = {
    "another function": lambda m: setattr(m, "unused_helper", lambda x: 2 * x),
    "another name": lambda m: setattr(m, "ELSE", 1),
    "an attribute that is not used": lambda m: setattr(m.Options, "unused", 6),
    "an equal value": lambda m: setattr(m, "SETTING", int("3")),
}


@pytest.mark.parametrize("change", UNRELATED.values(), ids=UNRELATED)
def test_what_has_nothing_to_do_with_it_changes_nothing(module, change):
    before = _version.version(module.launch)
    change(module)
    assert _version.version(module.launch) == before


def test_closures():
    def make(factor):
        factors = [factor]

        @flight.kernel
        def scale(x, out):
            out[0] = x[0] * factors[0]

        @flight.jit
        def launch(x, out):
            scale(x, out).launch(grid=1, block=1)

        return launch, factors

    first, factors = make(2)
    second, _ = make(2)
    before = _version.version(first)
    assert _version.version(second) != before
    factors[0] = 3
    assert _version.version(first) != before


def test_methods_and_partials():
    class Kernels:
        factor = 2

        def launch(self, x, out):
            return x if self.factor else out

    kernels = Kernels()
    for launcher in (kernels.launch, functools.partial(kernels.launch, 1)):
        before = _version.version(launcher)
        assert _version.version(launcher) == before
        kernels.factor += 1
        assert _version.version(launcher) != before


def test_recursion_ends():
    things = {}

    def one(n):
        return things, two(n)

    def two(n):
        return one(n), things

    things["self"] = things
    things["one"] = one
    assert _version.version(one) == _version.version(one)
