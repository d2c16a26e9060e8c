"""The operations of the layout algebra. Each is the C++ library's (src/layout), which proves what it needs or refuses: a
broken precondition is a ValueError that names the operation, the leaf and the values."""

from __future__ import annotations

from typing import Any

from jaxator.flight.layout._call import call, to_text
from jaxator.flight.layout.values import AnyLayout, ComposedLayout, Layout, Swizzle, parse


def _text(layout: Any, *kinds: type) -> str:
    kinds = kinds or (Layout, ComposedLayout)
    if not isinstance(layout, kinds):
        raise TypeError(f"{' or '.join(kind.__name__ for kind in kinds)} was expected, not {layout!r}")
    return str(layout)


def _tile(tiler: Any) -> str:
    """A layout; a number n, which is n:1; None, which leaves a mode as it is; or a tuple with one of these for each mode."""
    if tiler is None:
        return "*"
    if isinstance(tiler, tuple | list):
        return "[" + ",".join(map(_tile, tiler)) + "]"
    return str(tiler) if isinstance(tiler, Layout) else to_text(tiler) + ":1"


def composition(a: AnyLayout | Swizzle, b: Any) -> AnyLayout:
    """R with R(i) = a(b(i)), in b's nesting. With a tuple for b: mode by mode. A swizzle of a layout is a ComposedLayout.

    >>> print(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    ((2,2),3):((24,2),8)
    >>> print(composition(Layout((8, 6), (1, 8)), (Layout(4, 2), 3)))
    (4,3):(2,8)
    >>> print(composition(Swizzle(3, 3, 3), Layout((8, 64), (64, 1))))
    S<3,3,3> o 0 o (8,64):(64,1)
    """
    if isinstance(a, Swizzle):
        return parse(call("composition", str(a), _text(b, Layout)))
    return parse(call("composition", _text(a), _tile(b)))


def coalesce(a: AnyLayout, profile: Any = None) -> AnyLayout:
    """The shortest flat layout with the same index for every number. With a nested tuple as the profile: for each mode that
    is a leaf of it.

    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2)))))
    12:1
    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1)))
    (2,6):(1,2)
    """
    return parse(call("coalesce", _text(a), to_text(1 if profile is None else profile)))


def complement(a: Layout, cosize: int) -> Layout:
    """The layout whose indices fill the gaps that those of `a` leave: both together reach every index below `cosize`.

    >>> print(complement(Layout((2, 2), (1, 6)), 24))
    (3,2):(2,12)
    """
    return parse(call("complement", _text(a, Layout), to_text(cosize)))


def right_inverse(a: Layout) -> Layout:
    """R with a(R(i)) = i, as long as the strides of `a` can be chained from 1.

    >>> print(right_inverse(Layout((4, 8), (8, 1))))
    (8,4):(4,1)
    """
    return parse(call("right_inverse", _text(a, Layout)))


def left_inverse(a: Layout) -> Layout:
    """R with R(a(i)) = i. `a` must be injective.

    >>> print(left_inverse(Layout(4, 2)))
    (2,4):(4,1)
    """
    return parse(call("left_inverse", _text(a, Layout)))


def logical_divide(a: AnyLayout, tiler: Any) -> AnyLayout:
    """(tile, rest): the elements that the tiler picks, and the layout that moves it over all others. With a tuple: in each
    mode.

    >>> print(logical_divide(Layout(16, 3), Layout(4, 4)))
    (4,4):(12,3)
    >>> print(logical_divide(Layout((8, 6), (6, 1)), (4, 3)))
    ((4,2),(3,2)):((6,24),(1,3))
    """
    return parse(call("logical_divide", _text(a), _tile(tiler)))


def zipped_divide(a: AnyLayout, tiler: Any) -> AnyLayout:
    """((tile of each mode), (rest of each mode, other modes)).

    >>> print(zipped_divide(Layout((8, 6), (6, 1)), (4, 3)))
    ((4,3),(2,2)):((6,1),(24,3))
    """
    return parse(call("zipped_divide", _text(a), _tile(tiler)))


def tiled_divide(a: AnyLayout, tiler: Any) -> AnyLayout:
    """((tile of each mode), rest0, rest1, other modes).

    >>> print(tiled_divide(Layout((8, 6), (6, 1)), (4, 3)))
    ((4,3),2,2):((6,1),24,3)
    """
    return parse(call("tiled_divide", _text(a), _tile(tiler)))


def flat_divide(a: AnyLayout, tiler: Any) -> AnyLayout:
    """(tile0, tile1, rest0, rest1, other modes).

    >>> print(flat_divide(Layout((8, 6), (6, 1)), (4, 3)))
    (4,3,2,2):(6,1,24,3)
    """
    return parse(call("flat_divide", _text(a), _tile(tiler)))


def logical_product(a: Layout, b: Any) -> Layout:
    """(a, copies of a as `b` arranges them), in the gaps of `a` and behind it.

    >>> print(logical_product(Layout((2, 2), (4, 1)), Layout(6, 1)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    return parse(call("logical_product", _text(a, Layout), _tile(b)))


def zipped_product(a: Layout, b: Any) -> Layout:
    """((block of each mode), (copies of each mode, other modes))."""
    return parse(call("zipped_product", _text(a, Layout), _tile(b)))


def tiled_product(a: Layout, b: Any) -> Layout:
    """((block of each mode), copies0, copies1, other modes)."""
    return parse(call("tiled_product", _text(a, Layout), _tile(b)))


def flat_product(a: Layout, b: Any) -> Layout:
    """(block0, block1, copies0, copies1, other modes)."""
    return parse(call("flat_product", _text(a, Layout), _tile(b)))


def blocked_product(a: Layout, b: Layout) -> Layout:
    """Copies of `a` side by side: mode i is (a's mode i, b's mode i).

    >>> print(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    return parse(call("blocked_product", _text(a, Layout), _text(b, Layout)))


def raked_product(a: Layout, b: Layout) -> Layout:
    """Copies of `a` interleaved: mode i is (b's mode i, a's mode i).

    >>> print(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    return parse(call("raked_product", _text(a, Layout), _text(b, Layout)))


def tile_to_shape(block: AnyLayout, shape: Any, order: Any = 0) -> AnyLayout:
    """Copies of the block that cover a shape, with as few as do. The order says where the next copy is: first along the mode
    with the smallest number; equal ones go from left to right.

    >>> print(tile_to_shape(Layout((2, 2), (2, 1)), (4, 6), (1, 0)))
    ((2,2),(2,3)):((2,12),(1,4))
    """
    return parse(call("tile_to_shape", _text(block), to_text(shape), to_text(order)))


def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """Compact, with stride 1 where the order's number is smallest.

    >>> print(make_ordered_layout((2, 3, 4), (1, 2, 0)))
    (2,3,4):(4,8,1)
    """
    return parse(call("make_ordered_layout", to_text(shape), to_text(order)))


def recast(a: AnyLayout | Swizzle, new_bits: int, old_bits: int) -> AnyLayout | Swizzle:
    """The same memory, counted in elements of `new_bits` instead of `old_bits`.

    >>> print(recast(Layout((4, 8), (8, 1)), 32, 16))
    (4,4):(4,1)
    >>> recast(Swizzle(3, 4, 3), 16, 8)
    Swizzle(bits=3, base=3, shift=3)
    """
    return parse(call("recast", _text(a, Layout, ComposedLayout, Swizzle), to_text(new_bits), to_text(old_bits)))
