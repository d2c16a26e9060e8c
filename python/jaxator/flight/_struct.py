"""Groups of values."""

from __future__ import annotations

import dataclasses
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True)
def struct(cls: type) -> Any:
    """Decorates a class with annotated fields: a frozen dataclass whose fields may be values, tensors, fragments or other
    structs. It goes through branches and loops of run time, and from a launcher to a kernel. `s.field = x` in a kernel gives
    the variable s a new struct."""
    return dataclasses.dataclass(frozen=True)(cls)
