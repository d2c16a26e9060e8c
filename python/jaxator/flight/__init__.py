"""Flight, a kernel language that works on layouts.

So far its layout algebra is here: `jaxator.flight.layout`.
"""

from jaxator.flight import layout
from jaxator.flight.layout import ComposedLayout, Layout, Swizzle

__all__ = ["ComposedLayout", "Layout", "Swizzle", "layout"]
