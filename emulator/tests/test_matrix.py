"""Matrix instructions. Where elements lie in registers:
- gfx942: formulas that AMD's matrix instruction calculator prints for CDNA3 (`--detail-instruction`, and its register
  tables for the B of sparse instructions, for CBSZ, ABID and BLGP);
- gfx950's wider forms: the same pattern with twice the depth a lane; for f8f6f4 with 8-bit elements and for the scales,
  the maps that AMD's composable_kernel recorded on hardware. Values are small integers, so that sums are exact in any
  order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from matrix_cases import (
    GFX942,
    INSTRUCTIONS,
    LAYOUTS,
    MatrixTable,
    product,
    values,
)

TABLE = MatrixTable()
CASES = TABLE.cases
add = TABLE.add

for name, instruction in INSTRUCTIONS.items():
    layout = LAYOUTS[instruction.layout]
    m, n, k, blocks = layout.shape
    result_kind = {"f": np.float32, "i": np.int32}[name[0]] if not name.startswith("f64") else np.float64
    for architecture in instruction.architectures:
        a, b = values(instruction.a[architecture], (blocks, m, k), 1), values(instruction.b[architecture], (blocks, n, k), 2)
        c = np.random.default_rng(3).integers(-50, 50, (blocks, m, n)).astype(result_kind)
        add(f"{name} {architecture}", name, layout, a, b, c, product(a, b, c), architectures=(architecture,))

# Accumulation registers, a constant accumulator, EXEC.
half = LAYOUTS["16x16x16_16"]
a, b = values(np.float16, (1, 16, 16), 4), values(np.float16, (1, 16, 16), 5)
c = np.random.default_rng(6).integers(-9, 9, (1, 16, 16)).astype(np.float32)
add("accumulation registers", "f32_16x16x16_f16", half, a, b, c, product(a, b, c), result="a")
add("constant accumulator", "f32_16x16x16_f16", half, a, b, c * 0, product(a, b, c * 0) + 1, accumulator="1.0")
add("inactive lanes", "f32_16x16x16_f16", half, a, b, c, product(a, b, c))
CASES["inactive lanes"] = dataclasses.replace(CASES["inactive lanes"], inputs=CASES["inactive lanes"].inputs | {"exec": 1})
# Negated operands of double precision.
layout = LAYOUTS["16x16x4_f64"]
a, b, c = (
    values(np.float64, (1, 16, 4), 7),
    values(np.float64, (1, 16, 4), 8),
    np.random.default_rng(9).integers(-9, 9, (1, 16, 16)).astype(np.float64),
)
for flags, factors in {"1,0,0": (-1, 1), "1,1,0": (1, 1), "0,1,1": (-1, -1)}.items():
    add(
        f"negated {flags}",
        "f64_16x16x4_f64",
        layout,
        a,
        b,
        c,
        product(a, b, 0 * c) * factors[0] + c * factors[1],
        f" neg:[{flags}]",
    )
# XF32: ten bits of mantissa, to nearest even.
layout = LAYOUTS["16x16x8_xf32"]
a, b = np.random.default_rng(1).standard_normal((1, 16, 8)).astype(np.float32), np.zeros((1, 16, 8), np.float32)
b[0, np.arange(8), np.arange(8)] = 1
rounded = ((a.view(np.uint32) + 0xFFF + (a.view(np.uint32) >> 13 & 1)) & 0xFFFFE000).view(np.float32)
add(
    "xf32 rounding",
    "f32_16x16x8_xf32",
    layout,
    a,
    b,
    np.zeros((1, 16, 16), np.float32),
    product(rounded, b, np.zeros((1, 16, 16))),
    architectures=GFX942,
)

# Broadcasts. CBSZ and ABID: one of 2^CBSZ blocks of A for all of them. BLGP: lanes of B.
layout = LAYOUTS["4x4x4_16b_16"]
a, b, c = values(np.float16, (16, 4, 4), 1), values(np.float16, (16, 4, 4), 2), np.zeros((16, 4, 4), np.float32)
for cbsz, abid in ((1, 0), (1, 1), (2, 1), (2, 3), (3, 6), (4, 13)):
    chosen = a[(np.arange(16) >> cbsz << cbsz) + abid]
    add(
        f"cbsz:{cbsz} abid:{abid}",
        "f32_4x4x4_16b_f16",
        layout,
        a,
        b,
        c,
        product(chosen, b, c),
        f" cbsz:{cbsz}" + (f" abid:{abid}" if abid else ""),
    )
layout = LAYOUTS["32x32x1_2b_f32"]
a, b, c = values(np.float32, (2, 32, 1), 1), values(np.float32, (2, 32, 1), 2), np.zeros((2, 32, 32), np.float32)
PATTERNS: dict[int, Callable[[int], int]] = {
    1: lambda k: k % 32,
    2: lambda k: 32 + k % 32,
    3: lambda k: (k + 16) % 64,
    4: lambda k: k % 16,
    5: lambda k: 16 + k % 16,
    6: lambda k: 32 + k % 16,
    7: lambda k: 48 + k % 16,
}
for blgp, lane_of in PATTERNS.items():
    lanes = b.reshape(64)[[lane_of(k) for k in range(64)]]
    add(f"blgp:{blgp}", "f32_32x32x1_2b_f32", layout, a, b, c, product(a, lanes.reshape(2, 32, 1), c), f" blgp:{blgp}")


@pytest.mark.parametrize("name", CASES)
def test_matrix(name: str) -> None:
    TABLE.check(__name__, name)
