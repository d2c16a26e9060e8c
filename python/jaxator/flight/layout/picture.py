"""Pictures of layouts."""

from __future__ import annotations

from typing import Literal

from jaxator.flight.layout._call import call
from jaxator.flight.layout.algebra import _text
from jaxator.flight.layout.banks import Target
from jaxator.flight.layout.values import AnyLayout, Layout


def draw(
    layout: AnyLayout,
    *,
    tile: Layout | None = None,
    banks: Target | None = None,
    element: int = 4,
    format: Literal["svg", "text"] = "svg",
) -> str:
    """A grid of cells that show their index. Mode 0 goes down, mode 1 to the right, further modes are taken into it; a
    layout of one mode is a row. Colours go from the smallest index to the largest, or with `banks` each bank has one (`element`:
    bytes of what the layout counts). With a `tile`, the layout is a thread-value layout: each cell of the tile shows which
    thread holds its index as which value.

    >>> print(draw(Layout((2, 4), (4, 1)), format="text"), end="")
    (2,4):(4,1)
        0 1 2 3
      +--------
    0 | 0 1 2 3
    1 | 4 5 6 7
    >>> print(draw(Layout((4, 2), (2, 1)), tile=Layout((2, 4), (4, 1)), format="text"), end="")
    (4,2):(2,1)
           0    1    2    3
      +--------------------
    0 | T0V0 T0V1 T1V0 T1V1
    1 | T2V0 T2V1 T3V0 T3V1
    """
    if format not in ("svg", "text"):
        raise ValueError(f'draw: format={format!r} must be "svg" or "text"')
    tile_text = "" if tile is None else _text(tile, Layout)
    return call("draw", _text(layout), tile_text, banks or "", str(element), format)
