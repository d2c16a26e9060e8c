"""Programs of single threads: chains of operations over all types, branches, loops that carry values, lanes, shared memory.

A program is a list of steps; each makes a value from earlier ones. Earlier values are named by number, taken modulo how many
there are, and converted to the type that the step asks for: any list of steps is a program, so that steps can be left out.
"""

from __future__ import annotations

import dataclasses
import operator
import random

import numpy as np
from places import like

from jaxator import flight

BLOCK = 64
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
TYPES = (*INTEGERS, *FLOATS, "i32", "f32", "i32", "f32")
ARRAYS = ("i32", "f32", "i8", "bf16")
KEPT = 3
"""Of the last values so many are results."""
APPROXIMATE = {"exp": 6e-7, "rsqrt": 5e-7, "tanh": 8e-7, "sigmoid": 1.2e-6, "div": 4e-7}
"""Relative errors: 4 units in the last place of exp and tanh, twice that where a quotient follows."""
COMPARISONS = {"lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne, "gt": operator.gt}


# ---- kernel -----------------------------------------------------------------------------------------------------------


def convert(x, to):
    """Defined for every value: what is too large for an integer is cut off first, NaN becomes 0."""
    dtype = getattr(flight, to)
    if to in INTEGERS and x.dtype in (flight.f16, flight.bf16, flight.f32, flight.f64):
        x = x.to(flight.f64 if x.dtype == flight.f64 else flight.f32)
        x = flight.where(x == x, x, 0.0)
        x = flight.clamp(x, 0.0 if to[0] == "u" else -100.0, 100.0)
    if to in ("f16", "bf16") and x.dtype == flight.f64:
        x = x.to(flight.f32)
    return x.to(dtype)


def compute(name, a, b, to):
    if name in ("floordiv", "mod"):
        b = (b & 7) + 1
        return a // b if name == "floordiv" else a % b
    if name in ("shl", "shr"):
        return a << (b & 7) if name == "shl" else a >> (b & 7)
    if name in COMPARISONS:
        return flight.where(COMPARISONS[name](a, b), a, convert(a * 0 + 1, to))
    unary = {"neg": operator.neg, "abs": abs, "floor": flight.floor, "ceil": flight.ceil, "invert": operator.invert}
    if name in unary:
        return unary[name](a)
    two = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": flight.minimum, "max": flight.maximum}
    two |= {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
    return two[name](a, b)


def pick(values, number, to):
    return convert(values[number % len(values)], to)


def test_of(values, test):
    name, to, a, b = test
    return COMPARISONS[name](pick(values, a, to), pick(values, b, to))


def run_steps(steps, values, world):
    for step in steps:
        made = run_step(step, values, world)
        if made is not None:
            values = [*values, made]
    return values


def carried(steps, values, variable, to, more=()):
    """The variable after the steps."""
    inner = {"threads": None, "arrays": ()}
    return convert(run_steps(steps, [*values, *more, variable], inner)[-1], to)


def run_step(step, values, world):
    kind = step[0]
    if kind == "compute":
        _, name, to, a, b = step
        return compute(name, pick(values, a, to), pick(values, b, to), to)
    if kind == "constant":
        return flight.full(1, step[2], getattr(flight, step[1]))[0]
    if kind == "if":
        return branch(step, values)
    if kind == "for":
        return counted(step, values)
    if kind == "while":
        return conditional(step, values)
    if kind == "fragment":
        return through_fragment(step, values)
    if world["threads"] is None:
        return None  # what follows needs all threads of the block
    if kind == "load":
        array = world["arrays"][step[1] % len(world["arrays"])]
        return array[pick(values, step[2], "u32").to(flight.index) % BLOCK]
    return exchange(step, values, world)


def branch(step, values):
    _, to, test, start, yes, no = step
    variable = pick(values, start, to)
    if test_of(values, test):
        variable = carried(yes, values, variable, to)
    else:
        variable = carried(no, values, variable, to)
    return variable


def counted(step, values):
    _, to, start, limit, first, by, test, steps = step
    variable = pick(values, start, to)
    last = pick(values, limit, "u32").to(flight.index) % 5
    for i in range(first, last, by):
        if test_of([*values, variable], test):
            break
        variable = carried(steps, values, variable, to, [i.to(flight.i32)])
    return variable


def conditional(step, values):
    _, to, start, limit, test, steps = step
    variable = pick(values, start, to)
    left = pick(values, limit, "u32").to(flight.index) % 4
    while left > 0:
        left = left - 1
        if test_of([*values, variable], test):
            variable = carried(steps, values, variable, to)
        else:
            continue
    return variable


def through_fragment(step, values):
    _, to, numbers, name, combine, place = step
    part = flight.vector(*(pick(values, n, to) for n in numbers), dtype=getattr(flight, to))
    part = compute(name, part, part, to)
    if combine == "element":
        return convert(part[pick(values, place, "u32").to(flight.index) % len(numbers)], to)
    return convert({"sum": part.sum, "max": part.max, "min": part.min}[combine](), to)


def exchange(step, values, world):
    kind, to, number, how, amount = step
    value, i = pick(values, number, to), flight.thread_id()
    if kind == "shuffle":
        move = {"xor": flight.shuffle_xor, "up": flight.shuffle_up, "down": flight.shuffle_down, "index": flight.shuffle}
        return move[how](value, amount if how != "index" else (i * 3 + amount).to(flight.i32) & 31)
    shared = flight.shared(BLOCK, getattr(flight, to))
    shared[i] = value
    flight.barrier()
    found = shared[(i * (2 * amount + 1) + amount) % BLOCK]
    if how == "again":
        flight.barrier()
        shared[BLOCK - 1 - i] = found
        flight.barrier()
        found = shared[i ^ amount]
    return found


def bits(value):
    """As i64; every NaN is one number, and zeros have no sign."""
    if value.dtype in (flight.f16, flight.bf16):
        value = value.to(flight.f32)
    if value.dtype in (flight.f32, flight.f64):
        value = flight.where(value == value, value + 0.0, 12345.0)
        value = flight.bitcast(value, flight.i32 if value.dtype == flight.f32 else flight.i64)
    return value.to(flight.i64)


@flight.kernel
def program(arrays, exact, near, steps: flight.Constexpr, last: flight.Constexpr):
    i = flight.thread_id()
    values = run_steps(steps, [i.to(flight.i32), *(a[i] for a in arrays)], {"threads": BLOCK, "arrays": arrays})
    for k in flight.static_range(KEPT):
        exact[k, i] = bits(values[-1 - k])
    x = flight.clamp(pick(values, -1, "i32") % 256, -256, 256).to(flight.f32) / 64.0
    if last == "div":
        near[i] = x / (abs(x) + 3.0)
    elif last == "rsqrt":
        near[i] = flight.rsqrt(abs(x) + 0.125)
    else:
        near[i] = getattr(flight, last)(x)


# ---- cases ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Values:
    seed: int
    steps: tuple
    last: str
    tiles = False

    def launcher(self):
        steps, last = self.steps, self.last

        @flight.jit
        def launch(a, b, c, d, exact, near):
            program([a, b, c, d], exact, near, steps, last).launch(grid=1, block=BLOCK)

        return launch

    def operands(self):
        rng = np.random.default_rng(self.seed)
        return [numbers(rng, to) for to in ARRAYS]

    def results(self):
        return [like((KEPT, BLOCK), "int64"), like(BLOCK)]

    def bounds(self):
        return [0.0, APPROXIMATE[self.last]]

    def smaller(self):
        for steps in fewer(self.steps):
            yield dataclasses.replace(self, steps=steps)


def numbers(rng, to):
    import ml_dtypes

    if to[0] in "iu":
        info = np.iinfo("int" + to[1:] if to[0] == "i" else "uint" + to[1:])
        wide = rng.integers(info.min, info.max, BLOCK, endpoint=True)
        return np.where(rng.random(BLOCK) < 0.6, rng.integers(-9, 10, BLOCK), wide).astype(info.dtype)
    found = np.where(rng.random(BLOCK) < 0.5, rng.integers(-9, 10, BLOCK), rng.standard_normal(BLOCK) * 8)
    found[rng.integers(0, BLOCK, 3)] = np.inf, -np.inf, np.nan
    return found.astype(ml_dtypes.bfloat16 if to == "bf16" else {"f16": "float16", "f32": "float32", "f64": "float64"}[to])


def fewer(steps):
    """Steps left out: half of them, one of them, one level of a branch or loop."""
    if len(steps) > 3:
        yield steps[: len(steps) // 2]
        yield steps[len(steps) // 2 :]
    for i, step in enumerate(steps):
        yield steps[:i] + steps[i + 1 :]
        for k, part in enumerate(step):
            if isinstance(part, tuple) and part and isinstance(part[0], tuple):
                yield steps[:i] + part + steps[i + 1 :]
                for inner in fewer(part):
                    yield (*steps[:i], (*step[:k], inner, *step[k + 1 :]), *steps[i + 1 :])


def make(seed: int) -> Values:
    rng = random.Random(seed)
    steps = tuple(make_step(rng, 0) for _ in range(rng.randint(3, 10)))
    return Values(seed, steps, rng.choice(list(APPROXIMATE)))


def make_steps(rng, depth):
    return tuple(make_step(rng, depth) for _ in range(rng.randint(1, 4)))


def make_test(rng):
    return rng.choice(list(COMPARISONS)), rng.choice(TYPES), rng.randrange(99), rng.randrange(99)


def make_step(rng, depth):
    kinds = ["compute"] * 6 + ["constant", "fragment", "load", "shuffle", "shared"]
    kind = rng.choice(kinds + ["if", "for", "while"] * (2 if depth < 2 else 0))
    to, number = rng.choice(TYPES), rng.randrange(99)
    if kind == "compute":
        return make_compute(rng, to)
    if kind == "constant":
        return kind, to, rng.randint(0 if to[0] == "u" else -9, 100)
    if kind == "if":
        return kind, to, make_test(rng), number, make_steps(rng, depth + 1), make_steps(rng, depth + 1)
    if kind == "for":
        first, by = rng.randint(0, 2), rng.randint(1, 2)
        return kind, to, number, rng.randrange(99), first, by, make_test(rng), make_steps(rng, depth + 1)
    if kind == "while":
        return kind, to, number, rng.randrange(99), make_test(rng), make_steps(rng, depth + 1)
    if kind == "fragment":
        names = make_compute(rng, to)[1]
        combine = rng.choice(["element", "max", "min"] + (["sum"] if to in INTEGERS else []))
        return kind, to, tuple(rng.randrange(99) for _ in range(rng.randint(2, 5))), names, combine, rng.randrange(99)
    if kind == "load":
        return kind, rng.randrange(9), number
    if kind == "shuffle":
        return (
            kind,
            rng.choice(["i32", "f32", "bf16", "u8", "i16"]),
            number,
            rng.choice(["xor", "up", "down", "index"]),
            rng.randint(0, 31),
        )
    return kind, to, number, rng.choice(["once", "again"]), rng.randrange(BLOCK)


def make_compute(rng, to):
    names = ["add", "sub", "mul", "min", "max", "neg", "abs", *COMPARISONS]
    names += ["and", "or", "xor", "shl", "shr", "floordiv", "mod", "invert"] if to in INTEGERS else ["floor", "ceil"]
    name = rng.choice(names)
    if to[0] == "u" and name in ("neg", "abs"):
        name = "add"
    return "compute", name, to, rng.randrange(99), rng.randrange(99)
