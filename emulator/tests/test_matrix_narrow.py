"""Matrix instructions with elements of 4, 6 and 8 bits and scales, and with a sparse A. References as in test_matrix."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from assembly import LANES, Case
from emulator import ARCHITECTURES, Array
from matrix_cases import (
    A_AT,
    B_AT,
    BF8,
    C_AT,
    D_16,
    D_32,
    FP8,
    GFX950,
    SETTLED,
    WORD,
    Kind,
    Layout,
    MatrixTable,
    codes_of,
    held,
    place_result,
    product,
    put,
    same,
    span,
    values,
)

TABLE = MatrixTable()
CASES = TABLE.cases

# ---- f8f6f4 of gfx950, with and without scales -----------------------------------------------------------------------

FORMATS = [
    ("fp8", ml_dtypes.float8_e4m3fn, 8),
    ("bf8", ml_dtypes.float8_e5m2, 8),
    ("fp6", ml_dtypes.float6_e2m3fn, 6),
    ("bf6", ml_dtypes.float6_e3m2fn, 6),
    ("fp4", ml_dtypes.float4_e2m1fn, 4),
]


def fill_narrow(matrix: Array, bits: int) -> Array:
    """[row, k] of 16 x 128 or 32 x 64. 8 bits: chunks of 16 that the groups of lanes take in turn; narrower: 32 in a row."""
    extent, depth = matrix.shape
    groups = LANES // extent
    registers = np.zeros((bits, LANES), object)
    for i, k in np.ndindex(matrix.shape):
        group, element = (k // 16 % groups, k // 16 // groups * 16 + k % 16) if bits == 8 else (k // 32, k % 32)
        at = element * bits
        put(registers, at // 32, at % 32, group * extent + i, int(matrix.view(np.uint8)[i, k]), bits)
    return registers.astype(np.uint32)


def scale_register(scales: Array, byte: int) -> Array:
    """[row, block]: in lane row + extent * block; other bytes must not matter."""
    out = np.full(LANES, 0x01020304, np.uint32)
    extent = scales.shape[0]
    for i, block in np.ndindex(scales.shape):
        lane = i + extent * block
        out[lane] = out[lane] & ~np.uint32(255 << 8 * byte) | np.uint32(int(scales[i, block]) << 8 * byte)
    return out


def add_scaled(shape: str, layout: Layout, number: int, other: int) -> None:
    """The formats of A and B by their numbers; once without scales, once with them in some byte of their registers."""
    extent, _, depth, _ = layout.shape
    (a_name, a_kind, a_bits), (b_name, b_kind, b_bits) = FORMATS[number], FORMATS[other]
    a, b = values(a_kind, (extent, depth), 10 + number), values(b_kind, (extent, depth), 20 + other)
    c = np.random.default_rng(3).integers(-9, 9, (1, extent, extent)).astype(np.float32)
    scales = [np.random.default_rng(k).integers(125, 130, (extent, depth // 32)) for k in (4, 5)]
    count = extent * extent // LANES
    inputs = held("v", A_AT, fill_narrow(a, a_bits)) | held("v", B_AT, fill_narrow(b, b_bits))
    inputs |= held("v", C_AT, place_result(layout, c, count))
    d = span("v", C_AT, count)
    selectors = (f" cbsz:{number}" if number else "") + (f" blgp:{other}" if other else "")
    operands = f"{d}, {span('v', A_AT, a_bits)}, {span('v', B_AT, b_bits)}, {d}"
    outputs = [f"v{C_AT + k}" for k in range(count)]
    name = f"f32_{shape}_f8f6f4"
    plain = Case(f"v_mfma_{name} {operands}{selectors}\n{SETTLED}", inputs, outputs, architectures=GFX950)
    TABLE.put(f"{name} {a_name} {b_name}", plain, layout, product(a[None], b[None], c))
    bytes_ = (number % 4, (other + 2) % 4)
    selection = f" op_sel:[{bytes_[0] & 1},{bytes_[1] & 1},0] op_sel_hi:[{bytes_[0] >> 1},{bytes_[1] >> 1},0]"
    inputs = inputs | {"v80": scale_register(scales[0], bytes_[0]), "v81": scale_register(scales[1], bytes_[1])}
    text = f"v_mfma_scale_{name} {operands}, v80, v81{selection}{selectors}\n{SETTLED}"
    factors = [np.repeat(2.0 ** (s - 127.0), 32, 1) for s in scales]
    expected = product(a.astype(np.float64)[None] * factors[0], b.astype(np.float64)[None] * factors[1], c)
    TABLE.put(f"scale {name} {a_name} {b_name}", Case(text, inputs, outputs, architectures=GFX950), layout, expected)


for number in range(len(FORMATS)):
    for other in range(len(FORMATS)):
        add_scaled("16x16x128", Layout((16, 16, 128, 1), WORD, "", D_16), number, other)
        add_scaled("32x32x64", Layout((32, 32, 64, 1), WORD, "", D_32), number, other)

# ---- sparse A of gfx942's forms --------------------------------------------------------------------------------------

SPARSE = [
    (f"{stem}_{suffix}", extent, depth, kind, kind)
    for stem, extent, depth, suffix, kind in (
        ("f32_16x16x32", 16, 32, "f16", same(np.float16)),
        ("f32_32x32x16", 32, 16, "f16", same(np.float16)),
        ("f32_16x16x32", 16, 32, "bf16", same(ml_dtypes.bfloat16)),
        ("f32_32x32x16", 32, 16, "bf16", same(ml_dtypes.bfloat16)),
        ("i32_16x16x64", 16, 64, "i8", same(np.int8)),
        ("i32_32x32x32", 32, 32, "i8", same(np.int8)),
    )
]
for shape, extent, depth in (("16x16x64", 16, 64), ("32x32x32", 32, 32)):
    for a_name, a_kind in (("fp8", FP8), ("bf8", BF8)):
        for b_name, b_kind in (("fp8", FP8), ("bf8", BF8)):
            SPARSE.append((f"f32_{shape}_{a_name}_{b_name}", extent, depth, a_kind, b_kind))


def add_sparse(
    name: str, extent: int, depth: int, a_kind: Kind, b_kind: Kind, architecture: str, suffix: str, part: int
) -> None:
    size = np.dtype(a_kind).itemsize
    group = 8 // size  # elements of the depth that a register of A stands for: two of each four are stored
    per_lane = depth * extent // LANES
    layout = Layout((extent, extent, depth, 1), WORD, "", D_16 if extent == 16 else D_32)
    random = np.random.default_rng(extent + depth)
    stored, b = values(a_kind, (extent, depth // 2), 1), values(b_kind, (extent, depth), 2)
    indices = np.array([random.permutation(4)[:2] for _ in range(extent * depth // 4)]).reshape(extent, depth // 2)
    dense = np.zeros((extent, depth), np.float64)
    a_registers, index_register = np.zeros((2, LANES), object), np.zeros(LANES, object)
    codes = codes_of(stored)
    for i, e in np.ndindex(stored.shape):
        k = e // 2 * 4
        dense[i, k + indices[i, e]] = stored[i, e]
        lane = extent * (k // per_lane) + i
        put(a_registers, k // group % 2, 8 * size * (e % (4 // size)), lane, int(codes[i, e]), 8 * size)
        index_register[lane] |= int(indices[i, e]) << (4 * (k // 4 % (per_lane // 4)) + 2 * (e % 2) + part * per_lane)
    b_registers = np.zeros((4, LANES), object)
    b_codes = codes_of(b)
    for j, k in np.ndindex(b.shape):
        at = k % per_lane * size
        put(b_registers, at // 4, at % 4 * 8, extent * (k // per_lane) + j, int(b_codes[j, k]), 8 * size)
    c = random.integers(-9, 9, (1, extent, extent)).astype(np.int32 if name.startswith("i") else np.float32)
    count = extent * extent // LANES
    inputs = (
        held("v", A_AT, a_registers.astype(np.uint32))
        | held("v", B_AT, b_registers.astype(np.uint32))
        | {"v80": index_register.astype(np.uint32)}
    )
    inputs |= held("v", C_AT, place_result(layout, c, count))
    text = f"v_smfmac_{name} {span('v', C_AT, count)}, {span('v', A_AT, 2)}, {span('v', B_AT, 4)}, v80{suffix}\n{SETTLED}"
    case = f"smfmac {name}{suffix} {architecture}"
    outputs = [f"v{C_AT + k}" for k in range(count)]
    expected = product(dense[None], b[None], c)
    TABLE.put(case, Case(text, inputs, outputs, architectures=(architecture,)), layout, expected)


for name, extent, depth, a_kind, b_kind in SPARSE:
    for architecture in ARCHITECTURES:
        add_sparse(name, extent, depth, a_kind[architecture], b_kind[architecture], architecture, "", 0)
add_sparse("f32_16x16x32_f16", 16, 32, np.float16, np.float16, "gfx942", " abid:2", 2)
add_sparse("f32_16x16x32_f16", 16, 32, np.float16, np.float16, "gfx942", " cbsz:1 abid:2", 0)
add_sparse("i32_16x16x64_i8", 16, 64, np.int8, np.int8, "gfx942", " abid:1", 1)


@pytest.mark.parametrize("name", CASES)
def test_matrix_narrow(name: str) -> None:
    TABLE.check(__name__, name)
