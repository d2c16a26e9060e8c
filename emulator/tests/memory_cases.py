"""What the tests of memory share: data, and how addresses and results are written down."""

from __future__ import annotations

import numpy as np
from assembly import LANES, Case, words
from emulator import ARCHITECTURES, Array
from word_table import WordTable

LANE = np.arange(LANES, dtype=np.uint32)
DATA = np.random.default_rng(5).integers(0, 256, 4096).astype(np.uint8)
BEFORE, VALUE, OTHER = words(1), words(2), words(3)
GFX950 = ("gfx950",)
M32 = 0xFFFFFFFF


class MemoryTable(WordTable):
    def add_text(
        self,
        name: str,
        text: str,
        expected: dict[str, Array | int],
        after: Array | None = None,
        memory: Array = DATA,
        architectures: tuple[str, ...] = ARCHITECTURES,
        lds: Array | None = None,
        **inputs: object,
    ) -> None:
        """v0 holds something beforehand; `memory` is copied, `after` is what it holds afterwards if that differs."""
        outputs = tuple(expected)
        case = Case(text, {"v0": BEFORE} | inputs, outputs, memory=memory.copy(), lds=lds, architectures=architectures)
        self.add(name, case, expected, after)


def at(addresses: Array, count: int, source: Array = DATA) -> Array:
    """[lane, byte]."""
    return source.view(np.uint8)[addresses[:, None].astype(np.int64) + np.arange(count)]


def as_register(bytes_: Array, is_signed: bool = False) -> Array:
    padded = np.zeros((LANES, 4), np.uint8)
    padded[:, : bytes_.shape[1]] = bytes_
    value = padded.view(np.uint32).ravel().astype(np.int64)
    bits = 8 * bytes_.shape[1]
    return (np.where(is_signed & (value >> bits - 1 & 1 != 0), value - (1 << bits), value) & M32).astype(np.uint32)


def half(value: Array, high: bool, before: Array = BEFORE) -> Array:
    return (before & 0xFFFF) | value << np.uint32(16) if high else (before & 0xFFFF0000) | value & 0xFFFF


# name: bytes, signed, part of the register ("", "low", "high")
NARROW = {
    "ubyte": (1, False, ""),
    "sbyte": (1, True, ""),
    "ushort": (2, False, ""),
    "sshort": (2, True, ""),
    "ubyte_d16": (1, False, "low"),
    "ubyte_d16_hi": (1, False, "high"),
    "sbyte_d16": (1, True, "low"),
    "sbyte_d16_hi": (1, True, "high"),
    "short_d16": (2, False, "low"),
    "short_d16_hi": (2, False, "high"),
}
LDS_NARROW = {
    "u8": "ubyte",
    "i8": "sbyte",
    "u16": "ushort",
    "i16": "sshort",
    "u8_d16": "ubyte_d16",
    "u8_d16_hi": "ubyte_d16_hi",
    "i8_d16": "sbyte_d16",
    "i8_d16_hi": "sbyte_d16_hi",
    "u16_d16": "short_d16",
    "u16_d16_hi": "short_d16_hi",
}
STORES = {"byte": (1, 0), "byte_d16_hi": (1, 16), "short": (2, 0), "short_d16_hi": (2, 16)}
OFFSETS = (LANE * np.uint32(12) + np.uint32(3)) % 2048  # unaligned
EVEN = LANE * np.uint32(16) + np.uint32(64)
BUFFER = "s_mov_b32 s20, s10\n s_mov_b32 s21, s11\n s_mov_b32 s22, {records}\n s_mov_b32 s23, 0x27000\n s_nop 4\n "
# The address of `memory` plus a lane's offset, in v[30:31].
FLAT = "v_mov_b32_e32 v31, s11\n v_add_co_u32_e32 v30, vcc, s10, v29\n s_nop 1\n"
FLAT += " v_addc_co_u32_e32 v31, vcc, 0, v31, vcc\n s_nop 4\n "
