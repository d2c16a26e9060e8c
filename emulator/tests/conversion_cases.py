"""What the tests of conversions share: values at the edges of every format, running an instruction, comparing codes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from assembly import assemble, kernel_text
from emulator import Array, launch, output

TYPES = {
    "fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2, "fp8fnuz": ml_dtypes.float8_e4m3fnuz,
    "bf8fnuz": ml_dtypes.float8_e5m2fnuz,
    "fp6": ml_dtypes.float6_e2m3fn, "bf6": ml_dtypes.float6_e3m2fn, "fp4": ml_dtypes.float4_e2m1fn, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}  # fmt: skip
MANTISSA = {"fp8": 3, "bf8": 2, "fp8fnuz": 3, "bf8fnuz": 2, "fp6": 3, "bf6": 2, "fp4": 1, "f16": 10, "bf16": 7, "f32": 23}
MIN_EXPONENT = {"fp8": -6, "bf8": -14, "fp8fnuz": -7, "bf8fnuz": -15, "fp6": 0, "bf6": -2, "fp4": 0}
SMALL = ("fp8", "bf8", "fp4", "fp6", "bf6")


def bits(name: str) -> int:
    return {"f32": 32, "f16": 16, "bf16": 16, "fp6": 6, "bf6": 6, "fp4": 4}.get(name, 8)


def run_rows(architecture: str, instruction: str, sources: list[Array], results: int) -> list[Array]:
    """Executes `instruction` over rows of 64 lanes: sources are v[16:], v[48:], v[80:], v[82:] (one word or more a lane),
    results v[120:]."""
    at = (16, 48, 80, 82)
    rows = len(sources[0])
    body = " v_lshlrev_b32_e32 v1, 2, v0\n s_load_dwordx4 s[4:7], s[0:1], 0x0\n s_load_dword s8, s[0:1], 0x10\n"
    body += " s_waitcnt lgkmcnt(0)\n.Lrow:\n"
    for source, first in zip(sources, at, strict=False):
        for k in range(source.shape[1]):
            body += f" global_load_dword v{first + k}, v1, s[4:5]\n s_add_u32 s4, s4, 256\n s_addc_u32 s5, s5, 0\n"
    body += "".join(f" v_mov_b32_e32 v{120 + k}, 0\n" for k in range(results))
    body += f" s_waitcnt vmcnt(0)\n {instruction}\n s_nop 2\n"
    for k in range(results):
        body += f" global_store_dword v1, v{120 + k}, s[6:7]\n s_add_u32 s6, s6, 256\n s_addc_u32 s7, s7, 0\n"
    body += " s_waitcnt vmcnt(0)\n s_sub_u32 s8, s8, 1\n s_cmp_lg_u32 s8, 0\n s_cbranch_scc1 .Lrow\n"
    code = assemble(architecture, kernel_text("k", body))
    assert code.unknown("k") == []
    data = np.concatenate(sources, axis=1).astype(np.uint32)
    out = output((rows, results, 64), np.uint32)
    report = launch(code, "k", [np.ascontiguousarray(data), out, np.uint32(rows)], checks=0, time_limit_s=20)
    assert report.clean, report.text
    return [np.array(out[:, k]) for k in range(results)]


def rows(values: Array) -> Array:
    """[row, 1, lane] of 32-bit words."""
    padded = np.zeros((len(values) + 63) // 64 * 64, np.uint32)
    padded[: len(values)] = values
    return padded.reshape(-1, 1, 64)


def wide_values(name: str, small: str | None = None) -> Array:
    """Codes of a wide format: all halves, or floats near every value and tie of the small format, with neighbours, and
    random ones."""
    if bits(name) == 16:
        return np.arange(1 << 16, dtype=np.uint32)
    random = np.random.default_rng(7).integers(0, 1 << 32, 4096, np.uint64).astype(np.uint32)
    edges = [
        np.array(
            [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 1, 0x80000001, 0x7FFFFF, 0x7F7FFFFF],
            np.uint32,
        )
    ]
    if small:
        all_codes = np.arange(1 << bits(small)).astype(np.uint8 if bits(small) <= 8 else np.uint16)
        values = np.sort(all_codes.view(TYPES[small]).astype(np.float64))
        values = values[np.isfinite(values)]
        ties = (values[1:] + values[:-1]) / 2
        top = np.array([values[-1] * f for f in (1.01, 1.05, 1.0625, 1.07, 1.125, 1.25, 1.5, 2, 4)])
        points = np.concatenate([values, ties, top, -top]).astype(np.float32).view(np.uint32).astype(np.int64)
        edges += [((points + d) & 0xFFFFFFFF).astype(np.uint32) for d in (-1, 0, 1)]
    return np.concatenate([*edges, random])


def to_small(name: str, values: Array, saturate: bool) -> Array:
    """What hardware makes of float32 or halves: ml_dtypes, with saturation or not, and without NaN in formats that have
    none."""
    with np.errstate(all="ignore"):
        wide = np.asarray(values).astype(np.float64)
        codes = np.asarray(values).astype(TYPES[name]).view(np.uint8).astype(np.uint32)
    top = {"fp8": 0x7E, "bf8": 0x7B, "fp8fnuz": 0x7F, "bf8fnuz": 0x7F, "fp6": 0x1F, "bf6": 0x1F, "fp4": 7}[name]
    sign = np.where(np.signbit(wide), 1 << bits(name) - 1, 0)
    largest = float(np.array([top], np.uint8).view(TYPES[name])[0])
    if name in ("fp4", "fp6", "bf6"):
        codes = np.where(np.isnan(wide) | (np.abs(wide) > largest), top | sign, codes)
        return np.where(codes & top == 0, sign, codes)
    if saturate:
        over = ~np.isnan(wide) & (
            np.isnan(codes.astype(np.uint8).view(TYPES[name]).astype(np.float64))
            | np.isinf(codes.astype(np.uint8).view(TYPES[name]).astype(np.float64))
        )
        codes = np.where(over, top | sign, codes)
    return codes


def same_small(name: str, got: Array, expected: Array) -> None:
    """Codes are equal; NaN may have any payload and sign."""
    if name in ("fp4", "fp6", "bf6"):
        np.testing.assert_array_equal(got, expected)
        return
    nan = [np.isnan(x.astype(np.uint8).view(TYPES[name]).astype(np.float32)) for x in (got, expected)]
    np.testing.assert_array_equal(nan[0], nan[1])
    np.testing.assert_array_equal(np.where(nan[0], 0, got), np.where(nan[1], 0, expected))


def same_wide(name: str, got: Array, expected: Array) -> None:
    unsigned = np.uint32 if bits(name) == 32 else np.uint16
    a, b = got.astype(unsigned), expected.astype(unsigned)
    nan = [np.isnan(x.view(TYPES[name]).astype(np.float32)) for x in (a, b)]
    np.testing.assert_array_equal(nan[0], nan[1])
    np.testing.assert_array_equal(np.where(nan[0], 0, a), np.where(nan[1], 0, b))


def kind_of(name: str, architecture: str) -> str:
    return name if architecture == "gfx950" else name + "fnuz"
