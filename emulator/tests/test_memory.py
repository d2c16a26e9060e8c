"""Loads and stores on global, flat, scratch and buffer memory, and scalar loads, against AMD's CDNA3 and CDNA4 ISA
documents (chapters Vector memory, Flat, Scalar memory)."""

from __future__ import annotations

import numpy as np
import pytest
from assembly import LANES, on_each_architecture, words
from memory_cases import (
    BEFORE,
    BUFFER,
    DATA,
    EVEN,
    FLAT,
    LANE,
    NARROW,
    OFFSETS,
    OTHER,
    STORES,
    VALUE,
    MemoryTable,
    as_register,
    at,
    half,
)

TABLE = MemoryTable()
CASES = TABLE.cases
add = TABLE.add_text


def each_space(load: str, result: str) -> dict[str, tuple[str, str]]:
    """Text of a load from byte v29 + 8 of the memory, by space."""
    return {
        "global": ("", f"global_{load} {result}, v29, s[10:11] offset:8"),
        "global address": (FLAT, f"global_{load} {result}, v[30:31], off offset:8"),
        "flat": (FLAT, f"flat_{load} {result}, v[30:31] offset:8"),
        "buffer": (BUFFER.format(records="0x1000"), f"buffer_{load} {result}, v29, s[20:23], 0 offen offset:8"),
        "buffer with offset": (
            BUFFER.format(records="0x1000") + "s_mov_b32 s24, 5\n s_nop 4\n ",
            f"buffer_{load} {result}, v29, s[20:23], s24 offen offset:3",
        ),
    }


for name, (count, is_signed, position) in NARROW.items():
    value = as_register(at(OFFSETS + 8, count), is_signed)
    value = half(value, position == "high") if position else value
    for space, (before, text) in each_space(f"load_{name}", "v0").items():
        add(f"{space} load_{name}", before + text, {"v0": value}, v29=OFFSETS)
for name, count in {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}.items():
    registers = [f"v{k}" for k in range(count // 4)]
    span = "v0" if count == 4 else f"v[0:{count // 4 - 1}]"
    for space, (before, text) in each_space(f"load_{name}", span).items():
        add(
            f"{space} load_{name}",
            before + text,
            {r: as_register(at(OFFSETS + 8 + 4 * k, 4)) for k, r in enumerate(registers)},
            v29=OFFSETS,
        )
    after = DATA.copy()
    values = [words(10 + k) for k in range(count // 4)]
    for lane in range(LANES):
        after[int(EVEN[lane]) + 8 : int(EVEN[lane]) + 8 + count] = np.array([v[lane] for v in values], np.uint32).view(
            np.uint8
        )
    source = "v4" if count == 4 else f"v[4:{3 + count // 4}]"
    held = {f"v{4 + k}": v for k, v in enumerate(values)}
    add(f"global store_{name}", f"global_store_{name} v29, {source}, s[10:11] offset:8", {}, after, v29=EVEN, **held)
    add(f"flat store_{name}", f"{FLAT}flat_store_{name} v[30:31], {source} offset:8", {}, after, v29=EVEN, **held)
    add(
        f"buffer store_{name}",
        f"{BUFFER.format(records='0x1000')}buffer_store_{name} {source}, v29, s[20:23], 0 offen offset:8",
        {},
        after,
        v29=EVEN,
        **held,
    )
for name, (count, shift) in STORES.items():
    after = DATA.copy()
    for lane in range(LANES):
        after[int(EVEN[lane]) + 8 : int(EVEN[lane]) + 8 + count] = np.array(
            [VALUE[lane] >> np.uint32(shift)], np.uint32
        ).view(np.uint8)[:count]
    add(f"global store_{name}", f"global_store_{name} v29, v4, s[10:11] offset:8", {}, after, v29=EVEN, v4=VALUE)
    add(f"flat store_{name}", f"{FLAT}flat_store_{name} v[30:31], v4 offset:8", {}, after, v29=EVEN, v4=VALUE)
    add(
        f"buffer store_{name}",
        f"{BUFFER.format(records='0x1000')}buffer_store_{name} v4, v29, s[20:23], 0 offen offset:8",
        {},
        after,
        v29=EVEN,
        v4=VALUE,
    )
add("negative offset", "global_load_dword v0, v29, s[10:11] offset:-8", {"v0": as_register(at(EVEN - 8, 4))}, v29=EVEN)
add(
    "overwritten address",
    "global_load_dwordx2 v[28:29], v29, s[10:11]",
    {"v28": as_register(at(EVEN, 4)), "v29": as_register(at(EVEN + 4, 4))},
    v29=EVEN,
)
inactive = np.where(LANE % 2 == 0, as_register(at(EVEN, 4)), BEFORE)
add("inactive lanes", "global_load_dword v0, v29, s[10:11]", {"v0": inactive}, v29=EVEN, exec=0x5555555555555555)

# Buffers: what is out of range reads as 0, dword for dword, and is not written.
LIMIT = 520
inside = lambda k: EVEN + 4 * k + 4 <= LIMIT  # noqa: E731
add(
    "buffer range",
    f"{BUFFER.format(records=LIMIT)}buffer_load_dwordx4 v[0:3], v29, s[20:23], 0 offen",
    {f"v{k}": np.where(inside(k), as_register(at(EVEN + 4 * k, 4)), 0) for k in range(4)},
    v29=EVEN,
)
after = DATA.copy()
for lane in range(LANES):
    for k in range(2):
        if inside(k)[lane]:
            after[int(EVEN[lane]) + 4 * k : int(EVEN[lane]) + 4 * k + 4] = np.array(
                [(VALUE, OTHER)[k][lane]], np.uint32
            ).view(np.uint8)
add(
    "buffer store range",
    f"{BUFFER.format(records=LIMIT)}buffer_store_dwordx2 v[4:5], v29, s[20:23], 0 offen",
    {},
    after,
    v29=EVEN,
    v4=VALUE,
    v5=OTHER,
)
wrapped = np.where(LANE % 2 == 0, 0xFFFFFF00, EVEN).astype(np.uint32)
add(
    "buffer far out of range",
    f"{BUFFER.format(records=LIMIT * 8)}buffer_load_dword v0, v29, s[20:23], 0 offen",
    {"v0": np.where(LANE % 2 == 0, 0, as_register(at(EVEN, 4)))},
    v29=wrapped,
)
STRUCTURED = BUFFER.format(records="20").replace("s_nop 4", "s_or_b32 s21, s21, 0x00280000\n s_nop 4")  # stride 40
add(
    "structured buffer",
    f"{STRUCTURED}buffer_load_dword v0, v[28:29], s[20:23], 0 idxen offen offset:4",
    {"v0": np.where(LANE < 20, as_register(at(LANE * 40 + 8, 4)), 0)},
    v28=LANE,
    v29=4,
)
add(
    "buffer without lanes' offset",
    f"{BUFFER.format(records=4096)}buffer_load_dword v0, off, s[20:23], 0 offset:12",
    {"v0": np.full(LANES, DATA[12:16].view(np.uint32)[0])},
)

# Scalar loads.
W = DATA.view(np.uint32)
add("s_load", "s_load_dwordx4 s[20:23], s[10:11], 0x10", {f"s{20 + k}": W[4 + k] for k in range(4)})
add("s_load register", "s_load_dword s20, s[10:11], s16", {"s20": W[8]}, s16=32)
add(
    "s_load register and constant", "s_load_dwordx2 s[20:21], s[10:11], s16 offset:0x8", {"s20": W[10], "s21": W[11]}, s16=32
)
add("s_load_dwordx8", "s_load_dwordx8 s[24:31], s[10:11], 0x0", {f"s{24 + k}": W[k] for k in range(8)})
add("s_load_dwordx16", "s_load_dwordx16 s[24:39], s[10:11], 0x40", {f"s{24 + k}": W[16 + k] for k in range(16)})
for count, suffix in ((1, ""), (2, "x2"), (8, "x8"), (16, "x16")):
    span = "s24" if count == 1 else f"s[24:{23 + count}]"
    loaded = {f"s{24 + k}": W[8 + k] if 32 + 4 * k < 72 else np.uint32(0) for k in range(count)}
    text = f"{BUFFER.format(records=72)}s_buffer_load_dword{suffix} {span}, s[20:23], 0x20"
    add(f"s_buffer_load_dword{suffix}", text, loaded)
add(
    "s_buffer_load",
    f"{BUFFER.format(records=40)}s_buffer_load_dwordx4 s[24:27], s[20:23], 0x20",
    {"s24": W[8], "s25": W[9], "s26": np.uint32(0), "s27": np.uint32(0)},
)


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_memory(name: str, architecture: str) -> None:
    TABLE.check(__name__, name, architecture)
