"""What the tests of vector integer instructions share: sources, and the documents' functions for unbounded integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from assembly import LANES, Case, words
from emulator import ARCHITECTURES, Array
from word_table import WordTable

M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
GFX950 = ("gfx950",)


def signed(a: int, bits: int = 32) -> int:
    a &= (1 << bits) - 1
    return a - (1 << bits) if a >> (bits - 1) else a


def clamped(value: int, bits: int, is_signed: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return min(max(value, low), high) & (1 << bits) - 1


def first(condition: Callable[[int], bool], positions: range) -> int:
    return next((k for k in positions if condition(k)), -1)


def field(a: int, offset: int, count: int, is_signed: bool) -> int:
    offset, count = offset & 31, count & 31
    if count == 0:
        return 0
    value = (signed(a) if is_signed else a) >> offset & (1 << count) - 1
    return signed(value, count) if is_signed else value


def byte(a: int, k: int) -> int:
    return a >> 8 * k & 255


def distance(a: int, b: int, c: int, masked: bool = False) -> int:
    return c + sum(abs(byte(a, k) - byte(b, k)) for k in range(4) if not masked or byte(b, k))


def permute(a: int, b: int, selector: int) -> int:
    data = a << 32 | b
    out = 0
    for k in range(4):
        s = byte(selector, k)
        picked = 255 if s >= 13 else 0 if s == 12 else 255 * (data >> (16 * (s - 8) + 15) & 1) if s >= 8 else byte(data, s)
        out |= picked << 8 * k
    return out


def median(*values: int) -> int:
    return sorted(values)[1]


def low24(a: int) -> int:
    return a & 0xFFFFFF


def dot(bits: int, is_signed: bool) -> Callable[[int, int, int], int]:
    def element(a: int, k: int) -> int:
        part = a >> bits * k & (1 << bits) - 1
        return signed(part, bits) if is_signed else part

    return lambda a, b, c: (signed(c) if is_signed else c) + sum(element(a, k) * element(b, k) for k in range(32 // bits))


A, B, C, BEFORE = words(1), words(2), words(3), words(4)


def lanewise(function: Callable[..., int], *sources: Array) -> Array:
    return np.array([function(*(int(s[lane]) for s in sources)) & M32 for lane in range(LANES)], np.uint32)


class IntegerTable(WordTable):
    def add_text(
        self,
        name: str,
        text: str,
        expected: dict[str, Array | int],
        architectures: tuple[str, ...] = ARCHITECTURES,
        **inputs: object,
    ) -> None:
        """v1, v2 and v3 hold A, B and C, v0 something that the instruction may keep."""
        held = {"v1": A, "v2": B, "v3": C, "v0": BEFORE} | inputs
        self.add(name, Case(text, held, tuple(expected), architectures=architectures), expected)
