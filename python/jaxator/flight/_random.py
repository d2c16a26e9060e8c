"""Random bits that depend on a key and a counter alone: Philox4x32-10, the same numbers as jaxator's ops draw
(src/numeric/philox.h)."""

from __future__ import annotations

from typing import Any

from jaxator.flight import _math, _ops
from jaxator.flight._errors import FlightError
from jaxator.flight._math import mul_high
from jaxator.flight._types import f32, index, u32, u64

STREAMS = {"dropout": 0, "round_x": 1, "round_w": 2, "round_dy": 3, "hadamard_signs": 4}
"""What a draw is for: different uses of one key and one element are independent."""


def philox(counter: Any, key: Any) -> tuple[Any, Any, Any, Any]:
    """128 random bits for four u32 of a counter and two of a key."""
    c = [_ops.scalar(x, u32) if not hasattr(x, "dtype") else _ops.to(x, u32) for x in counter]
    k = [_ops.scalar(x, u32) if not hasattr(x, "dtype") else _ops.to(x, u32) for x in key]
    if len(c) != 4 or len(k) != 2:
        raise FlightError(f"philox takes a counter of four words and a key of two, not {len(c)} and {len(k)}")
    for _ in range(10):
        first, third = (mul_high(c[0], 0xD2511F53), c[0] * 0xD2511F53), (mul_high(c[2], 0xCD9E8D57), c[2] * 0xCD9E8D57)
        c = [third[0] ^ c[1] ^ k[0], third[1], first[0] ^ c[3] ^ k[1], first[1]]
        k = [k[0] + 0x9E3779B9, k[1] + 0xBB67AE85]  # golden ratio, sqrt(3) - 1
    return c[0], c[1], c[2], c[3]


def random_words(key: Any, stream: int | str, block: Any) -> tuple[Any, Any, Any, Any]:
    """The four words that elements 4 * block .. 4 * block + 3 of a row-major array draw (32 bits each)."""
    number = STREAMS[stream] if isinstance(stream, str) else stream
    wide = _ops.to(block, u64)
    return philox((wide.to(u32), (wide >> 32).to(u32), number, 0), key)


def random_bits(key: Any, stream: int | str, place: Any) -> Any:
    """32 random bits of the element with this row-major number; the same as `draw<32>` of src/numeric/philox.h."""
    place = _ops.to(place, index) if getattr(place, "dtype", None) != u64 else place
    words = random_words(key, stream, place // 4)
    part = place % 4
    low = _math.where(part == 0, words[0], words[1])
    high = _math.where(part == 2, words[2], words[3])
    return _math.where(part < 2, low, high)


def uniform(bits: Any) -> Any:
    """u32 as f32 in [0, 1): the upper 24 bits."""
    return (bits >> 8).to(f32) * (1.0 / (1 << 24))
