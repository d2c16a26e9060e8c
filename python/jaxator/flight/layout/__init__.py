"""Layouts: how coordinates, threads and memory are mapped to each other. docs/layouts.md teaches them from the beginning.

>>> from jaxator.flight.layout import Layout, composition, draw
>>> rows = Layout((4, 8), (8, 1))
>>> rows(1, 2)
10
>>> print(composition(rows, (2, None)))
(2,8):(8,1)

All of it is the C++ library of src/layout, through its C interface.
"""

from jaxator.flight.layout.algebra import (
    blocked_product,
    coalesce,
    complement,
    composition,
    flat_divide,
    flat_product,
    left_inverse,
    logical_divide,
    logical_product,
    make_ordered_layout,
    raked_product,
    recast,
    right_inverse,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from jaxator.flight.layout.banks import Cost, Phases, conflicts, cost, phases, propose_swizzle
from jaxator.flight.layout.picture import draw
from jaxator.flight.layout.values import ComposedLayout, Layout, Swizzle, parse

__all__ = [
    "ComposedLayout",
    "Cost",
    "Layout",
    "Phases",
    "Swizzle",
    "blocked_product",
    "coalesce",
    "complement",
    "composition",
    "conflicts",
    "cost",
    "draw",
    "flat_divide",
    "flat_product",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_ordered_layout",
    "parse",
    "phases",
    "propose_swizzle",
    "raked_product",
    "recast",
    "right_inverse",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]
