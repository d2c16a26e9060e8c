"""Random Python: functions with nested branches, loops, breaks and early returns give on every place what Python gives."""

import importlib.util
import pathlib
import random
import sys
import tempfile

import numpy as np
import places
import pytest
import tiles_support
from interpreter import run_program
from places import like, program_of, run

from jaxator import flight
from jaxator.flight import _compiler

COUNT = 64
_FOLDER = tempfile.TemporaryDirectory(prefix="flight_random_")


@flight.kernel(allow_spills=True, allow_scratch=True)
def each(x, n, y, body: flight.Constexpr):
    i = flight.thread_id()
    y[i] = body(x[i].to(flight.index), n[i].to(flight.index)).to(flight.i64)


@flight.jit
def launch(x, n, y, *, body):
    each(x, n, y, body).launch(grid=1, block=COUNT)


class Writer:
    """Writes a function of (x, n) on the integers below 97."""

    VARIABLES = ("a", "b", "c")

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.loops = 0

    def expression(self, depth=2):
        if depth == 0 or self.random.random() < 0.3:
            return self.random.choice([*self.VARIABLES, "x", "n", str(self.random.randint(0, 9))])
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        operator = self.random.choice(["+", "-", "*", "//", "%", "if", "min"])
        if operator == "if":
            return f"({left} if {self.condition(1)} else {right})"
        if operator == "min":
            return f"{self.random.choice(['min', 'max'])}({left}, {right})"
        if operator in ("//", "%"):
            right = str(self.random.choice([2, 3, 7, -5]))
        return f"({left} {operator} {right})"

    def condition(self, depth=2):
        kind = self.random.random()
        if depth and kind < 0.3:
            return f"({self.condition(depth - 1)} {self.random.choice(['and', 'or'])} {self.condition(depth - 1)})"
        if depth and kind < 0.4:
            return f"not {self.condition(depth - 1)}"
        if kind < 0.5:
            return f"{self.random.randint(0, 40)} <= {self.expression(1)} < {self.random.randint(40, 97)}"
        return f"{self.expression(1)} {self.random.choice(['<', '<=', '>', '==', '!='])} {self.expression(1)}"

    def add(self, indent, text):
        self.lines.append("    " * indent + text)

    def block(self, indent, depth, in_loop):
        for _ in range(self.random.randint(1, 3)):
            self.statement(indent, depth, in_loop)

    def statement(self, indent, depth, in_loop):
        kind = self.random.random()
        if depth and kind < 0.3:
            self.add(indent, f"if {self.condition()}:")
            self.block(indent + 1, depth - 1, in_loop)
            if self.random.random() < 0.6:
                self.add(indent, "else:")
                self.block(indent + 1, depth - 1, in_loop)
        elif depth and kind < 0.5:
            self.loop(indent, depth)
        elif in_loop and kind < 0.6:
            self.add(indent, f"if {self.condition(1)}:")
            self.add(indent + 1, self.random.choice(["break", "continue"]))
        elif not in_loop and kind < 0.57:
            self.add(indent, f"if {self.condition(1)}:")
            self.add(indent + 1, f"return {self.expression()} % 97")
        else:
            self.add(indent, f"{self.random.choice(self.VARIABLES)} = {self.expression()} % 97")

    def loop(self, indent, depth):
        self.loops += 1
        if self.random.random() < 0.6:
            step = self.random.choice(["", ", 2", ", -1"])
            bounds = f"n % 5, {self.random.randint(-2, 6)}{step}" if step else f"n % {self.random.randint(2, 5)}"
            self.add(indent, f"for i{self.loops} in range({bounds}):")
            self.add(indent + 1, f"a = (a + i{self.loops}) % 97")
        else:
            counter = f"k{self.loops}"
            self.add(indent, f"{counter} = 0")
            self.add(indent, f"while {counter} < n % 4 and {self.condition(1)}:")
            self.add(indent + 1, f"{counter} = {counter} + 1")
        self.block(indent + 1, depth - 1, True)

    def function(self):
        self.add(0, "def body(x, n):")
        self.add(1, "a, b, c = x % 97, n % 97, 5")
        self.block(1, 3, False)
        self.block(1, 3, False)
        self.add(1, "return (a * 10000 + b * 100 + c) % 1000003")
        return "\n".join(self.lines) + "\n"


def program(seed):
    path = pathlib.Path(_FOLDER.name, f"random_{seed}.py")
    path.write_text(Writer(seed).function())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module.body


def check(seed):
    body = program(seed)
    x, n = (np.random.default_rng(seed).integers(0, 97, (2, COUNT))).astype(np.int64)
    expected = np.array([body(int(a), int(b)) for a, b in zip(x, n, strict=True)])
    traced = program_of(launch, [x, n], [like(COUNT, "int64")], {"body": body})
    np.testing.assert_array_equal(run_program(traced, [x, n], [like(COUNT, "int64")])[0], expected)
    if _compiler.find_executable() is None:
        return
    for optimize in (0, 3):
        y = np.full(COUNT, -1)
        code = tiles_support.compiled("x86 threads", traced.launches[0].text, optimize=optimize).code
        places.call(code, "each", [x, n, y], (1, 1, 1))
        np.testing.assert_array_equal(y, expected, err_msg=f"x86, optimize={optimize}")
    (y,) = run("gfx942", launch, [x, n], [like(COUNT, "int64")], body=body)
    np.testing.assert_array_equal(y, expected, err_msg="gfx942")


@pytest.mark.parametrize("seed", range(30))
def test_programs(seed):
    check(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_many_programs(first):
    for seed in range(first, first + 50):
        check(seed)


def test_the_writer_writes_different_programs():
    texts = {Writer(seed).function() for seed in range(100)}
    assert len(texts) == 100 and sum("while" in text for text in texts) > 20 and sum("break" in text for text in texts) > 20
