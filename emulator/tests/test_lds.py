"""LDS: reads, writes, permutations, fetches from global memory, against AMD's CDNA3 and CDNA4 ISA documents (chapter LDS).
Transposing reads: the layout that AMD's documents give in words, spelled out in `transposed`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from assembly import LANES, on_each_architecture, words
from emulator import ARCHITECTURES, Array
from memory_cases import (
    BEFORE,
    BUFFER,
    GFX950,
    LANE,
    LDS_NARROW,
    M32,
    NARROW,
    OFFSETS,
    VALUE,
    MemoryTable,
    as_register,
    at,
    half,
)

TABLE = MemoryTable()
CASES = TABLE.cases
LDS = np.random.default_rng(6).integers(0, 256, 4096).astype(np.uint8)
FAR = (LANE * np.uint32(20) + np.uint32(6)) % 2048


def lds(
    name: str, text: str, expected: dict[str, Array], architectures: tuple[str, ...] = ARCHITECTURES, **inputs: object
) -> None:
    TABLE.add_text(name, text, expected, lds=LDS, architectures=architectures, **inputs)


for name, other in LDS_NARROW.items():
    count, is_signed, position = NARROW[other]
    value = as_register(at(FAR + 2, count, LDS), is_signed)
    lds(
        f"ds_read_{name}",
        f"ds_read_{name} v0, v29 offset:2",
        {"v0": half(value, position == "high") if position else value},
        v29=FAR,
    )
WORD = LANE * np.uint32(16) + np.uint32(32)
for name, count in {"b32": 4, "b64": 8, "b96": 12, "b128": 16}.items():
    span = "v0" if count == 4 else f"v[0:{count // 4 - 1}]"
    lds(
        f"ds_read_{name}",
        f"ds_read_{name} {span}, v29 offset:16",
        {f"v{k}": as_register(at(WORD + 16 + 4 * k, 4, LDS)) for k in range(count // 4)},
        v29=WORD,
    )
    source = "v4" if count == 4 else f"v[4:{3 + count // 4}]"
    check = f"s_waitcnt lgkmcnt(0)\n ds_read_{name} {span}, v29 offset:16"
    lds(
        f"ds_write_{name}",
        f"ds_write_{name} v29, {source} offset:16\n {check}",
        {f"v{k}": words(10 + k) for k in range(count // 4)},
        v29=WORD,
        **{f"v{4 + k}": words(10 + k) for k in range(count // 4)},
    )
for name, (count, shift) in {"b8": (1, 0), "b8_d16_hi": (1, 16), "b16": (2, 0), "b16_d16_hi": (2, 16)}.items():
    after_bytes = as_register(at(WORD, 4, LDS)).view(np.uint8).reshape(LANES, 4).copy()
    after_bytes[:, :count] = (VALUE >> np.uint32(shift)).view(np.uint8).reshape(LANES, 4)[:, :count]
    lds(
        f"ds_write_{name}",
        f"ds_write_{name} v29, v4\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v0, v29",
        {"v0": after_bytes.view(np.uint32).ravel()},
        v29=WORD,
        v4=VALUE,
    )
for count, suffix in ((4, "b32"), (8, "b64")):
    n = count // 4
    for stride, stem in ((1, "2"), (64, "2st64")):
        places = [WORD + np.uint32(count * stride * k) for k in (1, 3)]
        outputs = {f"v{h * n + k}": as_register(at(places[h] + 4 * k, 4, LDS)) for h in range(2) for k in range(n)}
        lds(
            f"ds_read{stem}_{suffix}", f"ds_read{stem}_{suffix} v[0:{2 * n - 1}], v29 offset0:1 offset1:3", outputs, v29=WORD
        )
        sources = [f"v{4 + h * 2}" if n == 1 else f"v[{4 + h * 2}:{5 + h * 2}]" for h in range(2)]
        held = {f"v{4 + h * 2 + k}": words(30 + h * 2 + k) for h in range(2) for k in range(n)}
        text = f"ds_write{stem}_{suffix} v29, {sources[0]}, {sources[1]} offset0:1 offset1:3\n s_waitcnt lgkmcnt(0)\n"
        text += f" ds_read{stem}_{suffix} v[0:{2 * n - 1}], v29 offset0:1 offset1:3"
        spread = LANE * np.uint32(count) if stride == 64 else LANE * np.uint32(32)
        lds(
            f"ds_write{stem}_{suffix}",
            text,
            {f"v{h * n + k}": words(30 + h * 2 + k) for h in range(2) for k in range(n)},
            v29=spread,
            **held,
        )
lds("ds_read_addtid_b32", "ds_read_addtid_b32 v0 offset:8", {"v0": as_register(at(LANE * 4 + 72, 4, LDS))}, m0=64)
lds(
    "ds_write_addtid_b32",
    "ds_write_addtid_b32 v4 offset:8\n s_waitcnt lgkmcnt(0)\n ds_read_addtid_b32 v0 offset:8",
    {"v0": VALUE},
    m0=64,
    v4=VALUE,
)

# Permutations.
PICK = words(4)
lds(
    "ds_bpermute_b32",
    "ds_bpermute_b32 v0, v4, v5 offset:4",
    {"v0": VALUE[(PICK + np.uint32(4)) // 4 % 64]},
    v4=PICK,
    v5=VALUE,
)
pushed = np.zeros(LANES, np.uint32)
for lane in range(LANES):
    pushed[int(PICK[lane]) // 4 % 64] = VALUE[lane]
lds("ds_permute_b32", "ds_permute_b32 v0, v4, v5", {"v0": pushed}, v4=PICK, v5=VALUE)
DOUBLE = LANE * np.uint32(2) % 64
from_active = np.where(DOUBLE < 32, VALUE[DOUBLE], 0)
lds(
    "ds_bpermute_b32 inactive",
    "ds_bpermute_b32 v0, v4, v5",
    {"v0": np.where(LANE < 32, from_active, BEFORE)},
    v4=DOUBLE * np.uint32(4),
    v5=VALUE,
    exec=M32,
)
SWIZZLES: dict[str, Callable[[int], int]] = {
    "0x401f": lambda k: k ^ 16, "0x041f": lambda k: k ^ 1, "0x001e": lambda k: k & ~1, "0x0200": lambda k: k & ~31 | 16,
    "swizzle(QUAD_PERM, 3, 2, 1, 0)": lambda k: k ^ 3, "swizzle(BROADCAST, 8, 5)": lambda k: k & ~7 | 5,
    "swizzle(SWAP, 4)": lambda k: k ^ 4,
    "swizzle(REVERSE, 16)": lambda k: k ^ 15, "0xc0a0": lambda k: k & ~31 | (k + 5) % 32,
    "0xc4a0": lambda k: k & ~31 | (k - 5) % 32,
}  # fmt: skip
for pattern, source in SWIZZLES.items():
    lds(
        f"ds_swizzle_b32 {pattern}",
        f"ds_swizzle_b32 v0, v4 offset:{pattern}",
        {"v0": np.array([VALUE[source(k)] for k in range(LANES)], np.uint32)},
        v4=VALUE,
    )

# Fetches from global memory to LDS: lane after lane from M0 on.
for name, count in {"dword": 4, "dwordx3": 12, "dwordx4": 16}.items():
    architectures = ARCHITECTURES if count == 4 else GFX950
    got = {f"v{k}": as_register(at(OFFSETS // 4 * 4 + 4 * k + 8, 4)) for k in range(count // 4)}
    read = f"s_waitcnt vmcnt(0)\n v_mul_u32_u24_e32 v28, {count}, v28\n v_add_u32_e32 v28, s16, v28\n"
    read += f" ds_read_b{8 * count} {'v0' if count == 4 else f'v[0:{count // 4 - 1}]'}, v28 offset:8"
    inputs = {"v28": LANE, "v29": OFFSETS // 4 * 4, "m0": 256, "s16": 256}
    lds(f"global_load_lds_{name}", f"global_load_lds_{name} v29, s[10:11] offset:8\n {read}", got, architectures, **inputs)
    lds(
        f"buffer_load_{name} lds",
        f"{BUFFER.format(records='0x1000')}buffer_load_{name} v29, s[20:23], 0 offen offset:8 lds\n {read}",
        got,
        architectures,
        **inputs,
    )
outside = np.where(LANE % 4 == 0, np.uint32(0xFFFF00), OFFSETS // 4 * 4)
lds(
    "buffer_load_dword lds out of range",
    f"{BUFFER.format(records='0x1000')}buffer_load_dword v29, s[20:23], 0 offen lds\n s_waitcnt vmcnt(0)\n"
    f" v_lshlrev_b32_e32 v28, 2, v28\n ds_read_b32 v0, v28 offset:256",
    {"v0": np.where(LANE % 4 == 0, 0, as_register(at(OFFSETS // 4 * 4, 4)))},
    v28=LANE,
    v29=outside,
    m0=256,
)


# ---- transposing reads of gfx950 -------------------------------------------------------------------------------------


def transposed(bits: int) -> list[int]:
    """Each 16 lanes hold 16 rows of `16 * bits` bits between them, `elements` a lane, lane after lane; afterwards a lane
    has a column: for 4 and 6 bits the whole column of 16, for wider ones every (16 / elements)th element of it."""
    size = 96 if bits == 6 else 64
    elements = size // bits
    lanes = [int.from_bytes(LDS[16 * lane : 16 * lane + size // 8].tobytes(), "little") for lane in range(LANES)]
    out = []
    for lane in range(LANES):
        value = 0
        for n in range(elements):
            row = lane % 16 // elements + 16 // elements * n
            source = lanes[lane & ~15 | row]
            value |= (source >> lane % elements * bits & (1 << bits) - 1) << n * bits
        out.append(value)
    return out


for bits in (16, 8, 6, 4):
    count = 3 if bits == 6 else 2
    mnemonic = f"ds_read_b{32 * count}_tr_b{bits}"
    values = transposed(bits)
    lds(
        mnemonic,
        f"{mnemonic} v[2:{1 + count}], v29",
        {f"v{2 + k}": np.array([v >> 32 * k & M32 for v in values], np.uint32) for k in range(count)},
        GFX950,
        v29=LANE * np.uint32(16),
    )


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_lds(name: str, architecture: str) -> None:
    TABLE.check(__name__, name, architecture)
