"""Copies through random layouts: nested, of run-time sizes, swizzled; by threads and by blocks; ragged ends and masks."""

from __future__ import annotations

import dataclasses
import math
import random

import ml_dtypes
import numpy as np
from places import like

from jaxator import flight

DTYPES = ("float32", "int8", "int16", "int64", "bfloat16", "float64", "int32")


# ---- kernel -----------------------------------------------------------------------------------------------------------


def through_shared(part, settings):
    """To shared memory by this thread's share of one spread, back by its share of another."""
    shape, i = settings.tile, flight.thread_id()
    swizzle = flight.Swizzle(*settings.swizzle) if settings.swizzle else None
    shared = flight.shared(flight.Layout(*settings.shared), part.dtype, swizzle=swizzle)
    if settings.copy == "threads":
        shared.partition(settings.layout("write"), i).store(part.partition(settings.layout("write"), i).load(other=0))
    elif settings.copy == "tile":
        shared.store_tile(part.load_tile(other=0))
    else:
        flight.copy(part, shared, asynchronous=settings.copy == "async")
        flight.commit()
        flight.wait(0)
    flight.barrier()
    if settings.back == "tile":
        return shared.load_tile(), None
    if settings.back == "composed":
        # The tile as rows of `width` numbers each, seen as the tile again.
        width, count = settings.width, shape[0] * shape[1]
        shared = shared.compose(flight.Layout((width, count // width), (1, width))).compose(
            flight.Layout(shape, (1, shape[0]))
        )
    return None, shared.partition(settings.layout("read"), i).load()


def move(x, y, column: int, settings):
    """A tile of x at the block's place, `column` columns to the right, to y."""
    place = (flight.block_id(0), flight.block_id(1))
    tile = settings.tile
    if settings.window:
        start = (place[0] * tile[0], place[1] * tile[1] + column)
        source, destination = x.window(start, tile), y.window(start, tile)
    else:
        source, destination = x.local_tile(tile, place), y.local_tile(tile, place)
    values, fragment = through_shared(source, settings)
    if values is not None:
        destination.store_tile(values)
    else:
        destination.partition(settings.layout("read"), flight.thread_id()).store(fragment)


M, N = flight.Dim("m"), flight.Dim("n")
N4, N8 = flight.Dim("n", divisor=4), flight.Dim("n", divisor=8)


@flight.kernel(allow_spills=True, allow_scratch=True)
def static(x, y, column: int, settings: flight.Constexpr):
    move(x, y, column, settings)


@flight.kernel(allow_spills=True, allow_scratch=True)
def dynamic(x: flight.Tensor[M, N], y: flight.Tensor[M, N], column: int, settings: flight.Constexpr):
    move(x, y, column, settings)


@flight.kernel(allow_spills=True, allow_scratch=True)
def dynamic_by_four(x: flight.Tensor[M, N4], y: flight.Tensor[M, N4], column: int, settings: flight.Constexpr):
    move(x, y, column, settings)


@flight.kernel(allow_spills=True, allow_scratch=True)
def dynamic_by_eight(x: flight.Tensor[None, N8], y: flight.Tensor[None, N8], column: int, settings: flight.Constexpr):
    move(x, y, column, settings)


KERNELS = {"static": static, "dynamic": dynamic, "by four": dynamic_by_four, "by eight": dynamic_by_eight}


# ---- cases ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Copy:
    seed: int
    tile: tuple[int, int]
    array: tuple[int, int]
    dtype: str
    kernel: str
    threads: int
    shared: tuple
    """Shape and stride of the tile in shared memory."""
    swizzle: tuple[int, int, int] | None
    copy: str
    back: str
    write: tuple
    """Shape and stride of a spread, as `read`."""
    read: tuple
    width: int
    window: bool
    column: int
    tiles = False

    def layout(self, which):
        return flight.Layout(*getattr(self, which))

    def launcher(self):
        @flight.jit
        def launch(x, y):
            grid = [-(-a // b) for a, b in zip(self.array, self.tile, strict=True)]
            KERNELS[self.kernel](x, y, self.column, self).launch(grid=grid, block=self.threads)

        return launch

    def operands(self):
        numbers = np.random.default_rng(self.seed).integers(-100, 100, self.array)
        return [numbers.astype(ml_dtypes.bfloat16 if self.dtype == "bfloat16" else self.dtype)]

    def results(self):
        return [like(self.array, ml_dtypes.bfloat16 if self.dtype == "bfloat16" else self.dtype)]

    def bounds(self):
        return [0.0]

    def smaller(self):
        plain = {"kernel": "static", "swizzle": None, "copy": "tile", "back": "tile", "window": False, "column": 0}
        plain |= {"dtype": "float32", "array": self.tile, "shared": (self.tile, (self.tile[1], 1)), "write": self.read}
        for name, value in plain.items():
            if getattr(self, name) != value:
                yield dataclasses.replace(self, **{name: value})


def factors(rng, n, parts):
    """n as a product, its factors of two dealt out at random."""
    found = [1] * parts
    while n % 2 == 0:
        found[rng.randrange(parts)] *= 2
        n //= 2
    found[rng.randrange(parts)] *= n
    return found


def simple(sizes):
    """A tuple, or the number alone."""
    return sizes[0] if len(sizes) == 1 else tuple(sizes)


def compact(rng, tile):
    """A nested layout of the tile whose leaves lie in memory in any order, with gaps between some."""
    split = [factors(rng, size, rng.randint(1, 3)) for size in tile]
    leaves = [(mode, k) for mode, sizes in enumerate(split) for k in range(len(sizes))]
    rng.shuffle(leaves)
    strides, step = [[0] * len(sizes) for sizes in split], 1
    for mode, k in leaves:
        strides[mode][k] = step
        step *= split[mode][k]
        if rng.random() < 0.1:
            step += rng.choice([1, 4, 8])
    return tuple(map(simple, split)), tuple(map(simple, strides))


def extent(layout):
    """Elements from the first to the last."""
    return flight.Layout(*layout).cosize


def spread(rng, tile, threads):
    """(thread, value) -> element of the tile: its leaves in any order, dealt out to threads first."""
    leaves, step = [], 1
    for size in tile:
        for part in factors(rng, size, rng.randint(1, 3)):
            if part > 1:
                leaves.append((part, step))
            step *= part
    rng.shuffle(leaves)
    left, own, rest = threads, [], []
    for size, stride in leaves:
        taken = math.gcd(size, left)
        left //= taken
        own += [(taken, stride)] * (taken > 1)
        rest += [(size // taken, stride * taken)] * (size // taken > 1)
    if left > 1:
        return None
    rest = rest or [(1, 0)]
    sizes, strides = zip(*own, strict=True), zip(*rest, strict=True)
    (a, b), (c, d) = tuple(sizes), tuple(strides)
    return (simple(a), simple(c)), (simple(b), simple(d))


def make(seed: int) -> Copy:
    rng = random.Random(seed)
    while True:
        tile = rng.choice([4, 8, 16, 32]), rng.choice([16, 32, 64, 128])
        threads = rng.choice([32, 64, 64, 128]) if tile[0] * tile[1] >= 128 else 32
        write, read = spread(rng, tile, threads), spread(rng, tile, threads)
        if threads % 64 == 0 and write is not None and read is not None:
            break
    kernel = rng.choice(list(KERNELS))
    array = tuple(rng.choice([size, size + rng.randint(1, size), rng.randint(1, size), 2 * size]) for size in tile)
    if kernel in ("by four", "by eight"):
        array = array[0], -(-array[1] // 8) * 8
    swizzle = rng.choice([None, None, (1, 0, 3), (2, 1, 3), (3, 0, 4), (2, 2, 2), (3, 3, 3), (1, 4, 2)])
    window = rng.random() < 0.2
    dtype, shared = rng.choice(DTYPES), compact(rng, tile)
    while extent(shared) > 7680:  # of 8 bytes, and what a swizzle rounds up to: the 64 KiB of gfx942
        shared = compact(rng, tile)
    return Copy(
        seed, tile, array, dtype, kernel, threads, shared, swizzle,
        rng.choice(["threads", "tile", "copy", "async"]), rng.choice(["threads", "threads", "tile", "composed"]), write, read,
        rng.choice([1, 2, 4]), window, rng.randint(0, 5) if window else 0,
    )  # fmt: skip
