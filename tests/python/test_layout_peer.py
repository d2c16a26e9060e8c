"""jaxator.flight.layout beside tensor-layouts, an implementation of the same algebra that shares no code with it."""

import random

import numpy as np
import pytest
import tensor_layouts as peer
from layout_model import random_compact, random_layout
from tensor_layouts.analysis import bank_conflicts

from jaxator.flight import layout as lib
from jaxator.flight.layout import Layout, Swizzle


def theirs(a):
    return peer.Layout(a.shape, a.stride)


def ours(a):
    return Layout(a.shape, a.stride)


def indices(a):
    return np.array([a(i) for i in range(peer.size(a))])


def pairs(count, left, right, **options):
    source = random.Random(11)
    return [(left(source), right(source, **options)) for _ in range(count)]


# name, operands, and in how many of 800 pairs it must be defined in both
BINARY = [
    ("composition", peer.compose, random_layout, {"largest": 16, "gap": 2}, 120),
    ("logical_divide", peer.logical_divide, random_compact, {"largest": 8, "gap": 2}, 80),
    ("zipped_divide", peer.zipped_divide, random_compact, {"largest": 8, "gap": 2}, 80),
    ("logical_product", peer.logical_product, random_compact, {"largest": 4, "gap": 2}, 250),
    ("blocked_product", peer.blocked_product, random_compact, {"largest": 4, "gap": 1}, 250),
    ("raked_product", peer.raked_product, random_compact, {"largest": 4, "gap": 1}, 250),
]


@pytest.mark.parametrize(("name", "operation", "left", "right", "at_least"), BINARY, ids=[row[0] for row in BINARY])
def test_binary(name, operation, left, right, at_least):
    same = 0
    for a, b in pairs(800, lambda source: left(source, largest=24), random_compact, **right):
        if "product" not in name and b.cosize > a.size:
            continue  # how numbers past the size go on is not the same for layouts of size 1
        try:
            mine = getattr(lib, name)(a, b)
        except ValueError:
            continue  # what is refused is not compared: the peer accepts some layouts that break the law
        try:
            other = operation(theirs(a), theirs(b))
        except (ValueError, NotImplementedError):
            continue
        np.testing.assert_array_equal(mine.indices(), indices(other), f"{name} of {a} and {b}: {mine} and {other}")
        same += 1
    assert same >= at_least


@pytest.mark.parametrize("name", ["coalesce", "right_inverse", "complement"])
def test_unary(name):
    for a, _ in pairs(500, random_compact, random_compact):
        if name == "complement":
            mine, other = lib.complement(a, 192), peer.complement(theirs(a), 192)
        else:
            mine, other = getattr(lib, name)(a), getattr(peer, name)(theirs(a))
        assert lib.coalesce(mine) == lib.coalesce(ours(other)), a


def test_left_inverse():
    source = random.Random(5)
    for a in (random_compact(source, gap=3) for _ in range(300)):
        mine, other = lib.left_inverse(a), peer.left_inverse(theirs(a))
        reached = a.indices()
        assert [mine(int(i)) for i in reached] == [other(int(i)) for i in reached] == list(range(a.size))


def test_divides_by_a_tuple():
    for name in ("logical_divide", "zipped_divide", "tiled_divide", "flat_divide"):
        for a, tile in ((Layout((8, 12)), (4, 3)), (Layout((8, 12), (12, 1)), (2, 6)), (Layout((6, 4, 5)), (3, 2))):
            assert getattr(lib, name)(a, tile) == ours(getattr(peer, name)(theirs(a), tile)), (name, a)


def test_swizzles():
    numbers = range(1024)
    for bits, base, shift in ((3, 4, 3), (2, 3, 3), (1, 0, 5), (3, 3, 4)):
        assert [Swizzle(bits, base, shift)(i) for i in numbers] == [peer.Swizzle(bits, base, shift)(i) for i in numbers]


def test_bank_conflicts_of_words():
    """A warp's access to words is one phase, so the peer's longest bank is our number of passes."""
    source = random.Random(2)
    for _ in range(300):
        a = Layout((32,), (source.choice((0, 1, 2, 3, 8, 16, 31, 32, 33, 64)),))
        b = Layout((4, 8), (source.choice((0, 1, 4, 32)), source.choice((1, 2, 32, 33))))
        for threads in (a, Layout((b.shape,), (b.stride,))):
            ways = bank_conflicts(theirs(Layout(threads.shape[0], threads.stride[0])), element_bytes=4)["max_ways"]
            assert lib.cost(threads, "sm_90", 4, element=4).passes == ways, threads
