"""Conversions. Every code of the 8-bit formats and every half; floats at the edges of each format's rounding, and random
ones. References: ml_dtypes (round to nearest even) and NumPy; fractions for stochastic rounding and scales. What hardware
does beside rounding (NaN, overflow, signs of zero, where random bits are added) follows AMD's host versions of these
instructions in HIP's amd_hip_ocp_fp.hpp, which AMD tests against gfx950."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conversion_cases import (
    TYPES,
    kind_of,
    rows,
    run_rows,
    same_small,
    same_wide,
    to_small,
    wide_values,
)
from emulator import ARCHITECTURES

# NaN and overflow are among what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")

# ---- between wide formats --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_half_to_single(architecture: str) -> None:
    codes = np.arange(1 << 16, dtype=np.uint32)
    (got,) = run_rows(architecture, "v_cvt_f32_f16_e32 v120, v16", [rows(codes)], 1)
    same_wide("f32", got.ravel(), codes.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32))


@pytest.mark.parametrize(("name", "architecture"), [("f16", "gfx942"), ("f16", "gfx950"), ("bf16", "gfx950")])
def test_single_to_half(name: str, architecture: str) -> None:
    instruction = {"f16": "v_cvt_f16_f32_e32 v120, v16", "bf16": "v_cvt_pk_bf16_f32 v120, v16, v48"}[name]
    codes = wide_values("f32", name)
    codes = codes[: len(codes) // 64 * 64]
    sources = [rows(codes)] if name == "f16" else [rows(codes), rows(codes[::-1].copy())]
    (got,) = run_rows(architecture, instruction, sources, 1)
    with np.errstate(all="ignore"):
        expected = codes.view(np.float32).astype(TYPES[name]).view(np.uint16)
    same_wide(name, got.ravel() & 0xFFFF, expected)
    if name == "bf16":
        same_wide(name, got.ravel() >> 16, expected[::-1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_single_to_half_towards_zero(architecture: str) -> None:
    codes = wide_values("f32", "f16")
    values = codes.view(np.float32)
    (got,) = run_rows(architecture, "v_cvt_pkrtz_f16_f32 v120, v16, v16", [rows(codes)], 1)
    got = got.ravel()[: len(codes)]
    np.testing.assert_array_equal(got >> 16, got & 0xFFFF)
    with np.errstate(all="ignore"):
        nearest = values.astype(np.float16)
        too_far = np.isfinite(values) & (np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64)))
        expected = nearest.view(np.uint16) - too_far.astype(np.uint16)
    same_wide("f16", got & 0xFFFF, expected)


def test_bf16_to_single() -> None:
    codes = np.arange(1 << 16, dtype=np.uint32)
    (got,) = run_rows("gfx950", "v_cvt_f32_bf16_e32 v120, v16", [rows(codes)], 1)
    same_wide("f32", got.ravel(), codes << 16)


def test_pack_halves() -> None:
    codes = wide_values("f32", "f16")
    (got,) = run_rows("gfx950", "v_cvt_pk_f16_f32 v120, v16, v16", [rows(codes)], 1)
    with np.errstate(all="ignore"):
        same_wide("f16", got.ravel()[: len(codes)] >> 16, codes.view(np.float32).astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_double_and_single(architecture: str) -> None:
    codes = wide_values("f32")
    low, high = run_rows(architecture, "v_cvt_f64_f32_e32 v[120:121], v16", [rows(codes)], 2)
    got = low.ravel().astype(np.uint64) | high.ravel().astype(np.uint64) << np.uint64(32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got[: len(codes)].view(np.float64), codes.view(np.float32).astype(np.float64))
    random = np.random.default_rng(3).integers(0, 1 << 64, 4096, np.uint64)
    near = np.random.default_rng(4).standard_normal(4096).view(np.uint64)
    wide = np.concatenate([random, near, near >> np.uint64(29) << np.uint64(29) | np.uint64(1 << 28)])
    pairs = np.stack(
        [
            (wide & np.uint64(0xFFFFFFFF)).astype(np.uint32).reshape(-1, 64),
            (wide >> np.uint64(32)).astype(np.uint32).reshape(-1, 64),
        ],
        1,
    )
    (got,) = run_rows(architecture, "v_cvt_f32_f64_e32 v120, v[16:17]", [pairs], 1)
    with np.errstate(all="ignore"):
        same_wide("f32", got.ravel(), wide.view(np.float64).astype(np.float32).view(np.uint32))


# ---- integers --------------------------------------------------------------------------------------------------------

INTEGERS = np.concatenate(
    [
        np.array(
            [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFF, 0x1000001, 0xFFFFFF80, 0x7FFFFFC0, 0x7FFFFFBF], np.uint32
        ),
        np.random.default_rng(1).integers(0, 1 << 32, 1000, np.uint64).astype(np.uint32),
    ]
)


def clip(value: float, low: int, high: int) -> int:
    return 0 if math.isnan(value) else low if value <= low else high if value >= high else int(value)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_integers_to_floats(architecture: str) -> None:
    for name, values in (("i32", INTEGERS.view(np.int32)), ("u32", INTEGERS)):
        (got,) = run_rows(architecture, f"v_cvt_f32_{name}_e32 v120, v16", [rows(INTEGERS)], 1)
        np.testing.assert_array_equal(got.ravel()[: len(values)].view(np.float32), values.astype(np.float32))
        low, high = run_rows(architecture, f"v_cvt_f64_{name}_e32 v[120:121], v16", [rows(INTEGERS)], 2)
        wide = (low.ravel().astype(np.uint64) | high.ravel().astype(np.uint64) << np.uint64(32)).view(np.float64)
        np.testing.assert_array_equal(wide[: len(values)], values.astype(np.float64))
    for k in range(4):
        (got,) = run_rows(architecture, f"v_cvt_f32_ubyte{k}_e32 v120, v16", [rows(INTEGERS)], 1)
        np.testing.assert_array_equal(
            got.ravel()[: len(INTEGERS)].view(np.float32), (INTEGERS >> 8 * k & 255).astype(np.float32)
        )
    halves = np.arange(1 << 16, dtype=np.uint32)
    for name, values in (("i16", halves.astype(np.uint16).view(np.int16)), ("u16", halves)):
        (got,) = run_rows(architecture, f"v_cvt_f16_{name}_e32 v120, v16", [rows(halves)], 1)
        with np.errstate(all="ignore"):
            same_wide("f16", got.ravel(), values.astype(np.float64).astype(np.float16).view(np.uint16))
    (got,) = run_rows(architecture, "v_cvt_off_f32_i4_e32 v120, v16", [rows(np.arange(64, dtype=np.uint32))], 1)
    expected = [(k if k < 8 else k - 16) / 16 for k in range(16)] * 4
    np.testing.assert_array_equal(got.ravel().view(np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_floats_to_integers(architecture: str) -> None:
    codes = np.concatenate(
        [
            wide_values("f32"),
            np.array(
                [
                    0x4F000000,
                    0x4EFFFFFF,
                    0xCF000000,
                    0xCF000001,
                    0x4F7FFFFF,
                    0x4F800000,
                    0xBF7FFFFF,
                    0x3F7FFFFF,
                    0x3FC00000,
                    0x40200000,
                    0xBFC00000,
                    0xBF000000,
                    0x3F000000,
                    0x3EFFFFFF,
                ],
                np.uint32,
            ),
        ]
    )
    values = [float(v) for v in codes.view(np.float32)]
    spans = {"i32": (-(1 << 31), (1 << 31) - 1), "u32": (0, (1 << 32) - 1)}
    roundings = {
        "v_cvt_i32_f32": ("i32", math.trunc),
        "v_cvt_u32_f32": ("u32", math.trunc),
        "v_cvt_flr_i32_f32": ("i32", math.floor),
        "v_cvt_rpi_i32_f32": ("i32", lambda v: math.floor(v + 0.5)),
    }
    for name, (kind, rounding) in roundings.items():
        (got,) = run_rows(architecture, f"{name}_e32 v120, v16", [rows(codes)], 1)
        expected = [clip(rounding(v) if math.isfinite(v) else v, *spans[kind]) & 0xFFFFFFFF for v in values]
        np.testing.assert_array_equal(got.ravel()[: len(codes)], np.array(expected, np.uint32), err_msg=name)
    for kind in ("i32", "u32"):
        wide = codes.view(np.float32).astype(np.float64).view(np.uint64)
        padded = np.zeros((len(wide) + 63) // 64 * 64, np.uint64)
        padded[: len(wide)] = wide
        pairs = np.stack([(padded & np.uint64(0xFFFFFFFF)).reshape(-1, 64), (padded >> np.uint64(32)).reshape(-1, 64)], 1)
        (got,) = run_rows(architecture, f"v_cvt_{kind}_f64_e32 v120, v[16:17]", [pairs.astype(np.uint32)], 1)
        expected = [clip(math.trunc(v) if math.isfinite(v) else v, *spans[kind]) & 0xFFFFFFFF for v in values]
        np.testing.assert_array_equal(got.ravel()[: len(codes)], np.array(expected, np.uint32))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_halves_to_integers(architecture: str) -> None:
    codes = np.arange(1 << 16, dtype=np.uint32)
    values = [float(v) for v in codes.astype(np.uint16).view(np.float16)]
    spans = {"i16": (-(1 << 15), (1 << 15) - 1), "u16": (0, (1 << 16) - 1)}
    for kind, span in spans.items():
        (got,) = run_rows(architecture, f"v_cvt_{kind}_f16_e32 v120, v16", [rows(codes)], 1)
        np.testing.assert_array_equal(got.ravel(), np.array([clip(v, *span) & 0xFFFF for v in values], np.uint32))
        low = -1.0 if kind == "i16" else 0.0
        scaled = [0 if math.isnan(v) else round(min(max(v, low), 1.0) * span[1]) & 0xFFFF for v in values]
        (got,) = run_rows(architecture, f"v_cvt_norm_{kind}_f16_e32 v120, v16", [rows(codes)], 1)
        np.testing.assert_array_equal(got.ravel(), np.array(scaled, np.uint32))
        (got,) = run_rows(architecture, f"v_cvt_pknorm_{kind}_f16 v120, v16, v16", [rows(codes)], 1)
        np.testing.assert_array_equal(got.ravel(), np.array([s | s << 16 for s in scaled], np.uint32))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_bytes_and_normalised(architecture: str) -> None:
    codes = wide_values("f32")
    values = [float(v) for v in codes.view(np.float32)]
    for kind, span, low in (("i16", (1 << 15) - 1, -1.0), ("u16", (1 << 16) - 1, 0.0)):
        (got,) = run_rows(architecture, f"v_cvt_pknorm_{kind}_f32 v120, v16, v16", [rows(codes)], 1)
        scaled = [0 if math.isnan(v) else round(min(max(v, low), 1.0) * span) & 0xFFFF for v in values]
        np.testing.assert_array_equal(got.ravel()[: len(codes)], np.array([s | s << 16 for s in scaled], np.uint32))
    near = np.concatenate([codes, np.linspace(-1, 257, 2048, dtype=np.float32).view(np.uint32)])
    position, rest = np.arange(len(near), dtype=np.uint32) & 3, np.full(len(near), 0x11223344, np.uint32)
    (got,) = run_rows(architecture, "v_cvt_pk_u8_f32 v120, v16, v48, v80", [rows(near), rows(position), rows(rest)], 1)
    bytes_ = [0 if math.isnan(v) else round(min(max(float(v), 0.0), 255.0)) for v in near.view(np.float32)]
    expected = [(0x11223344 & ~(255 << 8 * int(p))) | b << 8 * int(p) for b, p in zip(bytes_, position, strict=True)]
    np.testing.assert_array_equal(got.ravel()[: len(near)], np.array(expected, np.uint32))
    (got,) = run_rows(architecture, "v_cvt_pkaccum_u8_f32 v120, v16, v48", [rows(near), rows(position)], 1)
    expected = [b << 8 * int(p) for b, p in zip(bytes_, position, strict=True)]
    np.testing.assert_array_equal(got.ravel()[: len(near)], np.array(expected, np.uint32))


# ---- 8-bit formats without a scale -----------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_eight_bits_to_single(name: str, architecture: str) -> None:
    codes = np.arange(256, dtype=np.uint32)
    kind = TYPES[kind_of(name, architecture)]
    expected = codes.astype(np.uint8).view(kind).astype(np.float32).view(np.uint32)
    words = codes | codes[::-1] << 8 | np.roll(codes, 3) << 16 | np.roll(codes, 7) << 24
    for byte, order in enumerate([codes, codes[::-1], np.roll(codes, 3), np.roll(codes, 7)]):
        (got,) = run_rows(architecture, f"v_cvt_f32_{name}_sdwa v120, v16 src0_sel:BYTE_{byte}", [rows(words)], 1)
        same_wide("f32", got.ravel(), expected[order])
    for half in (0, 1):
        low, high = run_rows(
            architecture, f"v_cvt_pk_f32_{name}_sdwa v[120:121], v16 src0_sel:WORD_{half}", [rows(words)], 2
        )
        same_wide("f32", low.ravel(), expected[words >> 16 * half & 255])
        same_wide("f32", high.ravel(), expected[words >> 16 * half + 8 & 255])
    low, high = run_rows(architecture, f"v_cvt_pk_f32_{name}_e32 v[120:121], v16", [rows(words)], 2)
    same_wide("f32", low.ravel(), expected[words & 255])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_single_to_eight_bits(name: str, architecture: str) -> None:
    kind = kind_of(name, architecture)
    codes = wide_values("f32", kind)
    codes = codes[: len(codes) // 64 * 64]
    expected = to_small(kind, codes.view(np.float32), saturate=False)
    (low,) = run_rows(architecture, f"v_cvt_pk_{name}_f32 v120, v16, v48", [rows(codes), rows(codes[::-1].copy())], 1)
    same_small(kind, low.ravel() & 255, expected)
    same_small(kind, low.ravel() >> 8 & 255, expected[::-1])
    assert (low >> 16 == 0).all()
    (high,) = run_rows(architecture, f"v_cvt_pk_{name}_f32 v120, v16, v48 op_sel:[0,0,1]", [rows(codes), rows(codes)], 1)
    same_small(kind, high.ravel() >> 16 & 255, expected)
    assert (high & 0xFFFF == 0).all()
