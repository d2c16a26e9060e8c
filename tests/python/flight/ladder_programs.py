"""Each page of the ladder traced for sizes that tiles do not divide, and what the compiler reports of it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pages
import tiles_support
from places import like, program_of

_BF16 = ml_dtypes.bfloat16
_ROW, _MATRIX, _WIDE = np.zeros(1000, np.float32), np.zeros((37, 256), np.float32), np.zeros((100, 160), _BF16)
_IDS, _STARTS, _WEIGHTS = np.zeros(100, np.int32), np.zeros(4, np.int32), np.zeros((3, 80, 160), _BF16)

CALLS = {
    "vector-add": [("vector_add", [_ROW, _ROW], [like(1000)])],
    "transpose": [("transpose", [_MATRIX], [like((256, 37))])],
    "softmax": [("softmax", [_MATRIX], [like((37, 256))])],
    "rms-norm": [
        ("rms_norm", [_MATRIX, _ROW[:256]], [like((37, 256))]),
        ("rms_norm_backward", [_MATRIX, _ROW[:256], _MATRIX], [like((37, 256)), like(256)]),
    ],
    "gemm": [("gemm", [_WIDE, _WIDE], [like((100, 100))])],
    "gemm-swiglu": [("gated", [_WIDE] * 3, [like((100, 100))])],
    "grouped-gemm": [("grouped_gemm", [_WIDE, _IDS, _STARTS, _WEIGHTS], [like((100, 80))])],
}


def launches(page, target):
    for name, operands, results in CALLS[page]:
        yield from program_of(getattr(pages.kernels(page), name), operands, results, target=target).launches


def table(page):
    """What a page shows: a row for each kernel and target that tells it."""
    lines = ["| kernel | target | registers | shared memory | spills | bank conflicts |", "|---|---|---|---|---|---|"]
    for target in ("gfx942", "gfx950"):
        for launch in launches(page, target):
            found = tiles_support.compiled(target, launch.text).report["kernels"][launch.name]
            numbers = [found["registers"], f"{found['shared_bytes']} bytes", found["spills"], found["bank_conflicts"]]
            lines.append(f"| `{launch.name}` | {target} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines) + "\n"
