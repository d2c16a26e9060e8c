"""Programs of tiles: loads through layouts, chains element by element, reductions, repetition, transposes, other spreads,
products of matrices. As in fuzz_values, steps name earlier values by number modulo how many there are.

All tiles of a program have two modes, each of size 1 or of the program's size in that mode, or transposed. What a step cannot
take is brought to its shape first, so that steps can be left out.
"""

from __future__ import annotations

import dataclasses
import random

import ml_dtypes
import numpy as np
from fuzz_values import COMPARISONS, compute, convert, fewer
from places import like

from jaxator import flight

TYPES = ("f32", "f32", "i32", "i32", "bf16", "f16", "i16", "i8", "i64", "f64", "u8", "u32")
KEPT = 2


# ---- kernel -----------------------------------------------------------------------------------------------------------


def square(value, shape):
    """In the program's shape."""
    if value.shape != shape and value.shape[0] in (1, shape[1]) and value.shape[1] in (1, shape[0]):
        if value.shape[0] not in (1, shape[0]) or value.shape[1] not in (1, shape[1]):
            value = value.T
    return value.broadcast_to(shape)


def element_branch(a, b):
    """What has no vector form."""
    result = a
    if a > b:
        result = a - b
    return result


def whole(value, to):
    """A small whole number: sums and products of them are exact in every type."""
    return convert(flight.clamp(convert(value, "i32"), -2, 2) if to[0] != "u" else convert(value, "i32") & 1, to)


def spread_of(kind, shape, threads):
    """Spreads of all kinds: rows, columns, blocks, copies."""
    rows, columns = shape
    if kind == "rows":
        return None
    if kind == "columns":
        down = min(rows, threads)
        return f"(({down},{threads // down}),({rows // down},{columns})):((1,0),({down},{rows}))"
    if kind == "blocks":
        across = min(columns // 2, threads)
        return f"(({across},{threads // across}),(2,{rows},{columns // 2 // across})):(({2 * rows},0),({rows},1,{2 * rows * across}))"
    across = min(columns, threads)
    down = min(rows, threads // across)
    copies = threads // across // down
    return f"(({across},{down},{copies}),({columns // across},{rows // down})):(({rows},1,0),({rows * across},{down}))"


def run_step(step, values, shape, threads):
    kind, to, number = step[:3]
    value = values[number % len(values)]
    if kind == "compute":
        return compute(step[3], convert(value, to), square_like(values[step[4] % len(values)], value, to), to)
    if kind == "reduce":
        return reduced(whole(value, to) if step[3] in ("sum", "prod") else convert(value, to), step[3], step[4])
    if kind == "transpose":
        return convert(value, to).T
    if kind == "respread":
        return square(convert(value, to), shape).respread(
            spread_of(step[3], shape, threads) or flight.full_tile(shape, 0, value.dtype).spread
        )
    if kind == "repeat":
        return convert(value, to).broadcast_to(
            shape if value.shape[0] in (1, shape[0]) and value.shape[1] in (1, shape[1]) else shape[::-1]
        )
    if kind == "branch":
        return flight.elements(element_branch, convert(value, to), square_like(values[step[3] % len(values)], value, to))
    if kind == "iota":
        return convert(flight.iota(shape, step[3]), to)
    if kind == "shared":
        return through_shared(convert(value, to), step[3])
    if kind == "loop":
        return looped(step, values, shape, threads)
    return product(whole(value, "bf16"), step, shape)


def square_like(other, value, to):
    """The other operand of a step on two tiles: as it is where the shapes fit together, else of one element each row."""
    other = convert(other, to)
    for candidate in (other, other.T):
        if all(a == b or 1 in (a, b) for a, b in zip(candidate.shape, value.shape, strict=True)):
            return candidate
    return convert(flight.full_tile((1, 1), 3, flight.i32), to)


def reduced(value, combine, axis):
    return {"sum": value.sum, "max": value.max, "min": value.min, "prod": value.prod}[combine](axis)


def through_shared(value, swizzle):
    rows, columns = value.shape
    shared = flight.shared((rows, columns), value.dtype, swizzle=flight.Swizzle(*swizzle) if swizzle else None)
    shared.store_tile(value)
    flight.barrier()
    return shared.load_tile()


def looped(step, values, shape, threads):
    _, to, number, count, name, other = step
    total = convert(values[number % len(values)], to)
    part = square_like(values[other % len(values)], total, to)
    total = total.broadcast_to(flight_shape(total, part))
    for _ in range(count):
        total = compute(name, total, part, to)
    return total


def flight_shape(a, b):
    return tuple(max(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def product(value, step, shape):
    """A A^T by matrix instructions, through shared memory or as tiles."""
    value = square(value, shape)
    if step[3]:
        layout = flight.swizzled(shape, flight.bf16)
        shared = flight.shared(layout, flight.bf16)
        shared.store_tile(value)
        flight.barrier()
        value = shared
    return square(flight.dot(value, value).sum(1), shape)


@flight.kernel(allow_spills=True, allow_scratch=True)
def program(arrays, results, n, settings: flight.Constexpr):
    """Where the arrays end before the tiles do, `bounds` say so; rows from n on are left out by bounds of run time."""
    shape, threads, steps, spread = settings.shape, settings.threads, settings.steps, settings.spread
    place = (flight.block_id(0), flight.block_id(1))
    given = spread_of(spread, shape, threads)
    values = [a.local_tile(shape, place).load_tile(other=1, spread=given) for a in arrays]
    values.append(arrays[0].local_tile(shape, place).load_tile(other=2, bounds=(n, None)))
    for step in steps:
        values.append(run_step(step, values, shape, threads))
    for result, value in zip(results[:KEPT], values[-KEPT:], strict=True):
        result.local_tile(shape, place).store_tile(square(convert(value, "f32") + 0.0, shape))
    results[KEPT].local_tile(shape, place).store_tile(square(convert(values[-1], "i64"), shape), bounds=(n, None))


# ---- cases ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tiles:
    seed: int
    shape: tuple[int, int]
    array: tuple[int, int]
    threads: int
    spread: str
    left: int
    steps: tuple
    tiles = True

    def launcher(self):
        @flight.jit
        def launch(a, b, c, first, second, third):
            grid = [-(-x // y) for x, y in zip(self.array, self.shape, strict=True)]
            program([a, b, c], [first, second, third], self.left, self).launch(grid=grid, block=self.threads)

        return launch

    def operands(self):
        rng = np.random.default_rng(self.seed)
        small = rng.integers(-9, 10, (3, *self.array))
        some = rng.standard_normal(self.array) * 4
        return [
            np.where(small[0] < 3, small[0], some).astype(np.float32),
            small[1].astype(np.int32),
            small[2].astype(ml_dtypes.bfloat16),
        ]

    def results(self):
        return [like(self.array), like(self.array), like(self.array, "int64")]

    def bounds(self):
        return [0.0, 0.0, 0.0]

    def smaller(self):
        for steps in fewer(self.steps):
            yield dataclasses.replace(self, steps=steps)
        if self.array != self.shape:
            yield dataclasses.replace(self, array=self.shape)
        if self.spread != "rows":
            yield dataclasses.replace(self, spread="rows")


def make(seed: int) -> Tiles:
    rng = random.Random(seed)
    # At most eight elements a thread: more would take the time of compiling, not find more.
    shape, most = rng.choice(
        [((16, 32), 64), ((32, 16), 64), ((32, 32), 128), ((16, 16), 64), ((8, 64), 64), ((8, 128), 256)]
    )
    array = shape if rng.random() < 0.4 else tuple(s + rng.randint(1 - s // 2, s // 2) for s in shape)
    threads = rng.choice([n for n in (64, 128, 256) if n >= most])
    spread = rng.choice(["rows", "columns", "blocks", "copies"])
    steps = tuple(make_step(rng, shape, threads) for _ in range(rng.randint(2, 8)))
    return Tiles(seed, shape, array, threads, spread, rng.randint(0, shape[0]), steps)


def make_step(rng, shape, threads):
    kinds = ["compute"] * 5 + ["reduce"] * 2 + ["transpose", "respread", "repeat", "branch", "iota", "shared", "loop"]
    kind, to, number = rng.choice([*kinds, "product"]), rng.choice(TYPES), rng.randrange(99)
    if kind in ("compute", "loop"):
        names = ["add", "sub", "mul", "min", "max", *(["neg", "abs"] if to[0] != "u" else []), *COMPARISONS]
        name = rng.choice(names + (["and", "xor", "shl", "shr", "floordiv", "mod"] if to[0] in "iu" else ["floor"]))
        if kind == "loop":
            return kind, to, number, rng.randint(0, 4), name, rng.randrange(99)
        return kind, to, number, name, rng.randrange(99)
    if kind == "reduce":
        return kind, to, number, rng.choice(["sum", "max", "min", "prod"]), rng.randint(0, 1)
    if kind == "respread":
        return kind, to, number, rng.choice(["rows", "columns", "blocks", "copies"])
    if kind == "branch":
        return kind, to, number, rng.randrange(99)
    if kind == "iota":
        return kind, to, number, rng.randint(0, 1)
    if kind == "shared":
        return kind, to, number, rng.choice([None, (1, 0, 1), (2, 1, 3), (3, 0, 4)])
    if kind == "product" and shape == (32, 32):
        return kind, to, number, rng.random() < 0.6
    return ("transpose", to, number)
