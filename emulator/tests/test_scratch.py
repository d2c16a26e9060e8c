"""Scratch memory: what a lane stores, it loads again, and no other lane's, at every width. In AMD's CDNA3 ISA document
(chapter Flat) a lane's address is its own offset plus scalar and constant offsets."""

from __future__ import annotations

import numpy as np
import pytest
from assembly import LANES, assemble, kernel_text, words
from emulator import ARCHITECTURES, Array, launch, output
from memory_cases import NARROW, STORES, as_register, half

WIDE = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4}
# Byte 8 of a lane's scratch, by each way to write down an address. v2 holds 5, s8 holds 3.
ADDRESSES = {"register": "v2, off offset:3", "scalar": "off, s8 offset:5", "both": "v2, s8", "constant": "off, off offset:8"}
FRAME = """ v_lshlrev_b32_e32 v1, 4, v0
 s_load_dwordx4 s[4:7], s[0:1], 0x0
 v_mov_b32_e32 v2, 5
 s_mov_b32 s8, 3
 s_waitcnt lgkmcnt(0)
 global_load_dwordx4 v[4:7], v1, s[4:5]
 v_mov_b32_e32 v8, 0xabcd1234
 v_mov_b32_e32 v9, 0
 v_mov_b32_e32 v10, 0
 v_mov_b32_e32 v11, 0
 s_waitcnt vmcnt(0)
"""
STORED = np.stack([words(k) for k in range(4)], 1)


def run(architecture: str, body: str) -> Array:
    code = assemble(architecture, kernel_text("k", f"{FRAME}{body} global_store_dwordx4 v1, v[8:11], s[6:7]\n", scratch=64))
    assert code.unknown("k") == []
    results = output((LANES, 4), np.uint32)
    report = launch(code, "k", [STORED, results])
    assert report.clean, report.text
    return np.asarray(results)


def span(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("width", WIDE)
def test_wide(width: str, address: str, architecture: str) -> None:
    count, at = WIDE[width], ADDRESSES[address]
    vector, rest = at.split(", ")
    body = f" scratch_store_{width} {vector}, {span(4, count)}, {rest}\n s_waitcnt vmcnt(0)\n"
    body += f" scratch_load_{width} {span(8, count)}, {at}\n s_waitcnt vmcnt(0)\n"
    expected = np.zeros((LANES, 4), np.uint32)
    expected[:, :count] = STORED[:, :count]
    np.testing.assert_array_equal(run(architecture, body), expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", NARROW)
def test_narrow_loads(name: str, architecture: str) -> None:
    count, is_signed, position = NARROW[name]
    body = " scratch_store_dwordx2 off, v[4:5], off offset:8\n s_waitcnt vmcnt(0)\n"
    body += f" scratch_load_{name} v8, off, off offset:10\n s_waitcnt vmcnt(0)\n"
    value = as_register(STORED.view(np.uint8).reshape(LANES, 16)[:, 2 : 2 + count], is_signed)
    before = np.full(LANES, 0xABCD1234, np.uint32)
    np.testing.assert_array_equal(
        run(architecture, body)[:, 0], half(value, position == "high", before) if position else value
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", STORES)
def test_narrow_stores(name: str, architecture: str) -> None:
    count, shift = STORES[name]
    body = " scratch_store_dword off, v4, off offset:8\n s_waitcnt vmcnt(0)\n"
    body += f" scratch_store_{name} off, v5, off offset:9\n s_waitcnt vmcnt(0)\n"
    body += " scratch_load_dword v8, off, off offset:8\n s_waitcnt vmcnt(0)\n"
    expected = STORED[:, :1].copy().view(np.uint8).reshape(LANES, 4)
    expected[:, 1 : 1 + count] = (STORED[:, 1] >> np.uint32(shift)).view(np.uint8).reshape(LANES, 4)[:, :count]
    np.testing.assert_array_equal(run(architecture, body)[:, 0], expected.view(np.uint32).ravel())
