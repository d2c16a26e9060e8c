"""Conversions with stochastic rounding, and gfx950's with scales. References as in test_conversions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from conversion_cases import (
    MANTISSA,
    MIN_EXPONENT,
    SMALL,
    TYPES,
    bits,
    kind_of,
    rows,
    run_rows,
    same_small,
    same_wide,
    to_small,
    wide_values,
)
from emulator import ARCHITECTURES, Array

# NaN and overflow are among what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")

# ---- stochastic rounding ---------------------------------------------------------------------------------------------


def stochastic(name: str, wide: str, value: float, draw: int, scale: int = 0) -> int | None:
    """The magnitude's code: the high bits of the draw, as many as are dropped, are added below the last place, the rest
    is dropped. None where the result overflows."""
    x = abs(Fraction(value)) / Fraction(2) ** scale
    if x == 0:
        return 0
    exponent = math.floor(math.log2(x)) if x > 2**-1000 else -1000
    exponent += 1 if x >= Fraction(2) ** (exponent + 1) else -1 if x < Fraction(2) ** exponent else 0
    m, least = MANTISSA[name], MIN_EXPONENT[name]
    dropped = MANTISSA[wide] - m
    step = Fraction(2) ** (max(exponent, least) - m)
    # Places of the source below the step are cut off where the result is denormal.
    units = math.floor(x / step * (1 << dropped))
    steps = (units + (draw >> 32 - dropped)) >> dropped
    code = (max(exponent, least) - least << m) + steps
    top = {"fp8": 0x7E, "bf8": 0x7B, "fp8fnuz": 0x7F, "bf8fnuz": 0x7F, "fp6": 0x1F, "bf6": 0x1F, "fp4": 7}[name]
    return code if code <= top else None


def draws(n: int) -> Array:
    random = np.random.default_rng(11).integers(0, 1 << 32, n, np.uint64).astype(np.uint32)
    random[::7], random[1::7] = 0, 0xFFFFFFFF
    return random


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_stochastic_eight_bits(name: str, architecture: str) -> None:
    kind = kind_of(name, architecture)
    codes = wide_values("f32", kind)
    codes = codes[np.isfinite(codes.view(np.float32))]
    random = draws(len(codes))
    selection = "" if architecture == "gfx942" else " op_sel:[0,0,1,1]"
    (got,) = run_rows(architecture, f"v_cvt_sr_{name}_f32 v120, v16, v48{selection}", [rows(codes), rows(random)], 1)
    got = got.ravel()[: len(codes)] >> (24 if selection else 0)
    for code, draw, result in zip(codes, random, got, strict=True):
        value = float(code.view(np.float32))
        magnitude = stochastic(kind, "f32", value, int(draw))
        if magnitude is None:
            assert np.isnan(np.uint8(result).view(TYPES[kind])) or np.isinf(
                np.uint8(result).view(TYPES[kind]).astype(np.float32)
            )
        else:
            negative = math.copysign(1, value) < 0 and (magnitude or not kind.endswith("fnuz"))
            assert result == magnitude | (0x80 if negative else 0), (hex(code), hex(draw))


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_stochastic_halves(name: str) -> None:
    codes = wide_values("f32", name)
    codes = codes[np.isfinite(codes.view(np.float32))]
    random = draws(len(codes))
    (got,) = run_rows("gfx950", f"v_cvt_sr_{name}_f32 v120, v16, v48 op_sel:[0,0,1]", [rows(codes), rows(random)], 1)
    assert (got & 0xFFFF == 0).all()
    got = (got.ravel()[: len(codes)] >> 16).astype(np.uint16)
    if name == "bf16":  # the bits above 16 are those of the float
        expected = (codes.astype(np.uint64) & np.uint64(0x7FFFFFFF)) + (random >> 16)
        np.testing.assert_array_equal(got & 0x7FFF, np.minimum(expected >> np.uint64(16), np.uint64(0x7F80)))
    down, up = (np.nextafter(codes.view(np.float32), np.float32(s)) for s in (0, np.inf))
    del down, up
    values, result = np.abs(codes.view(np.float32).astype(np.float64)), np.abs(got.view(TYPES[name]).astype(np.float64))
    normal = (values > 2.0**-14) & (values < 60000)
    assert (np.abs(result - values)[normal] <= values[normal] * 2.0 ** -MANTISSA[name]).all()


# ---- scaled conversions of gfx950 ------------------------------------------------------------------------------------

SCALES = (127, 120, 135, 0, 254, 255)


def scale_words(n: int, scale: int) -> Array:
    """The exponent of a float; the rest does not matter."""
    return np.full(n, 0x80000000 | scale << 23 | 0x12345, np.uint32)


def values_of(name: str, codes: Array) -> Array:
    return (
        codes.astype(np.uint32).view(np.float32)
        if name == "f32"
        else codes.astype(np.uint16).view(TYPES[name]).astype(np.float64)
    )


def scaled_to_small(small: str, wide: str, codes: Array, scale: int) -> Array:
    """Exact division, one rounding, saturation; a scale of 255 is NaN."""
    with np.errstate(all="ignore"):
        quotient = (
            np.full(len(codes), np.nan) if scale == 255 else values_of(wide, codes).astype(np.float64) * 2.0 ** (127 - scale)
        )
        quotient = np.where(np.signbit(values_of(wide, codes)), -np.abs(quotient), np.abs(quotient))
        # float64 to the small format in one step: where float32 in between is not exact, its last place is made odd.
        single = quotient.astype(np.float32)
        exact = single.astype(np.float64) == quotient
        finite = np.isfinite(single) & np.isfinite(quotient) & ~exact
        towards_zero = np.where(
            np.abs(single.astype(np.float64)) > np.abs(quotient), np.nextafter(single, np.float32(0)), single
        )
        odd = (towards_zero.view(np.uint32) | 1).view(np.float32)
        return to_small(small, np.where(finite, odd, single).astype(np.float32), saturate=True)


@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("small", ["fp8", "bf8", "fp4"])
@pytest.mark.parametrize("scale", SCALES)
def test_scaled_pairs(small: str, wide: str, scale: int) -> None:
    codes = wide_values(wide, small)
    if wide != "f32":
        codes = codes[::5]
    codes = codes[: len(codes) // 64 * 64]
    other = codes[::-1].copy()
    expected = [scaled_to_small(small, wide, c, scale) for c in (codes, other)]
    selection = " op_sel:[0,0,1,1]" if small == "fp4" else " op_sel:[0,0,0,1]"
    if wide == "f32":
        sources, text = [rows(codes), rows(other), rows(scale_words(len(codes), scale))], "v16, v48, v80"
    else:
        sources, text = [rows(codes | other << 16), rows(scale_words(len(codes), scale))], "v16, v48"
        selection = " op_sel:[0,0,1,1]" if small == "fp4" else " op_sel:[0,0,1]"
    (got,) = run_rows("gfx950", f"v_cvt_scalef32_pk_{small}_{wide} v120, {text}{selection}", sources, 1)
    shift, width = (24, 4) if small == "fp4" else (16, 8)
    result = got.ravel() >> shift
    assert (got & ((1 << shift) - 1) == 0).all()
    same_small(small, result & (1 << width) - 1, expected[0])
    same_small(small, result >> width & (1 << width) - 1, expected[1])


@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("scale", SCALES)
def test_scaled_to_wide(small: str, wide: str, scale: int) -> None:
    count, width = 1 << bits(small), bits(small)
    codes = np.arange(count, dtype=np.uint32)
    numbers = codes.astype(np.uint8).view(TYPES[small]).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = np.full(count, np.nan) if scale == 255 else numbers * 2.0 ** (scale - 127)
        expected = exact.astype(TYPES[wide]).view(np.uint32 if wide == "f32" else np.uint16).astype(np.uint32)
    lanes = np.arange(64)
    if width == 6:  # 32 elements in six registers
        order = (codes[None, :32] * 7 + lanes[:, None]) % count
        packed = np.zeros((64, 6), np.uint64)
        for k in range(32):
            word, at = divmod(6 * k, 32)
            packed[:, word] |= order[:, k].astype(np.uint64) << np.uint64(at)
            if at > 26:
                packed[:, word + 1] |= order[:, k].astype(np.uint64) >> np.uint64(32 - at)
        sources = [(packed & np.uint64(0xFFFFFFFF)).astype(np.uint32).T[None], rows(scale_words(64, scale))]
        registers = 32 if wide == "f32" else 16
        got = run_rows(
            "gfx950", f"v_cvt_scalef32_pk32_{wide}_{small} v[120:{119 + registers}], v[16:21], v48", sources, registers
        )
        for k in range(32):
            value = got[k][0] if wide == "f32" else got[k // 2][0] >> 16 * (k % 2) & 0xFFFF
            same_wide(wide, value, expected[order[:, k]])
        return
    first, second = codes[lanes * 5 % count], codes[(lanes * 11 + 3) % count]
    all_first = np.resize(codes, max(count, 64))
    first, second = (all_first, all_first[::-1].copy()) if count >= 64 else (first, second)
    shift, selection = (24, " op_sel:[1,1,0]") if small == "fp4" else (16, " op_sel:[1,0,0]")
    words = (first | second << width) << shift
    results = 2 if wide == "f32" else 1
    destination = "v[120:121]" if wide == "f32" else "v120"
    got = run_rows(
        "gfx950",
        f"v_cvt_scalef32_pk_{wide}_{small} {destination}, v16, v48{selection}",
        [rows(words), rows(scale_words(len(words), scale))],
        results,
    )
    low, high = (got[0], got[1]) if wide == "f32" else (got[0] & 0xFFFF, got[0] >> 16)
    same_wide(wide, low.ravel(), expected[first])
    same_wide(wide, high.ravel(), expected[second])


@pytest.mark.parametrize("wide", ["f32", "f16"])
@pytest.mark.parametrize("small", ["fp8", "bf8"])
def test_scaled_single_byte(small: str, wide: str) -> None:
    codes = np.arange(256, dtype=np.uint32)
    for scale in SCALES:
        with np.errstate(all="ignore"):
            exact = (
                np.full(256, np.nan)
                if scale == 255
                else codes.astype(np.uint8).view(TYPES[small]).astype(np.float64) * 2.0 ** (scale - 127)
            )
            expected = exact.astype(TYPES[wide]).view(np.uint32 if wide == "f32" else np.uint16)
        for byte in range(4):
            selection = f" op_sel:[{byte & 1},{byte >> 1},0]"
            (got,) = run_rows(
                "gfx950",
                f"v_cvt_scalef32_{wide}_{small} v120, v16, v48{selection}",
                [rows(codes << 8 * byte), rows(scale_words(256, scale))],
                1,
            )
            same_wide(wide, got.ravel(), expected)


def next_draw(draw: Array) -> Array:
    return (draw << 1 & 0xFFFFFFFF) ^ np.where(draw >> 31, 197, 0).astype(np.uint32)


def check_stochastic(small: str, wide: str, codes: Array, draw: Array, scale: int, got: Array) -> None:
    top = {"fp8": 0x7E, "bf8": 0x7B, "fp4": 7, "fp6": 0x1F, "bf6": 0x1F}[small]
    sign = 1 << bits(small) - 1
    for value, d, result in zip(values_of(wide, codes), draw, got, strict=True):
        if np.isnan(value):
            assert (
                (result & top) == top
                if small in ("fp4", "fp6", "bf6")
                else np.isnan(np.uint8(result).view(TYPES[small]).astype(np.float32))
            )
            continue
        magnitude = top if np.isinf(value) else stochastic(small, wide, float(value), int(d), scale - 127)
        expected = (top if magnitude is None else magnitude) | (sign if np.signbit(value) else 0)
        assert result == expected, (float(value), hex(d), hex(result), hex(expected))


@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("small", ["fp8", "bf8", "fp4"])
def test_scaled_stochastic(small: str, wide: str) -> None:
    codes = wide_values(wide, small)
    codes = codes[:: 1 if wide == "f32" else 31][:3200]
    codes = codes[: len(codes) // 64 * 64]
    draw = draws(len(codes))
    for scale in (127, 133):
        scales = rows(scale_words(len(codes), scale))
        if small == "fp4":
            other = codes[::-1].copy()
            source = [np.concatenate([rows(codes), rows(other)], 1)] if wide == "f32" else [rows(codes | other << 16)]
            text = "v[16:17]" if wide == "f32" else "v16"
            (got,) = run_rows(
                "gfx950", f"v_cvt_scalef32_sr_pk_fp4_{wide} v120, {text}, v48, v80", [*source, rows(draw), scales], 1
            )
            check_stochastic(small, wide, codes, draw, scale, got.ravel() & 15)
            check_stochastic(small, wide, other, next_draw(draw), scale, got.ravel() >> 4 & 15)
        else:
            (got,) = run_rows(
                "gfx950",
                f"v_cvt_scalef32_sr_{small}_{wide} v120, v16, v48, v80 op_sel:[0,0,1,0]",
                [rows(codes), rows(draw), scales],
                1,
            )
            check_stochastic(small, wide, codes, draw, scale, got.ravel() >> 8)


@pytest.mark.parametrize("is_stochastic", [False, True])
@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("small", ["fp6", "bf6"])
def test_scaled_rows(small: str, wide: str, is_stochastic: bool) -> None:
    pool = wide_values(wide, small)
    picked = np.resize(pool[:: max(1, len(pool) // 4096)], 2 * 64 * 32).reshape(2, 32, 64).astype(np.uint32)
    draw = draws(128).reshape(2, 1, 64)
    scales = scale_words(128, 128).reshape(2, 1, 64)
    if wide == "f32":
        data = [picked] if is_stochastic else [picked[:, 0::2], picked[:, 1::2]]
    else:
        data = [picked[:, 0::2] & 0xFFFF | picked[:, 1::2] << 16]
    stem = f"sr_pk32_{small}_{wide}" if is_stochastic else f"2xpk16_{small}_f32" if wide == "f32" else f"pk32_{small}_{wide}"
    registers = "v[16:47]" if wide == "f32" and is_stochastic else "v[16:31]"
    text = (
        f"{registers}, v[48:63], v80"
        if wide == "f32" and not is_stochastic
        else f"{registers}, v48, v80"
        if is_stochastic
        else f"{registers}, v48"
    )
    sources = [*data, *([draw] if is_stochastic else []), scales]
    got = run_rows("gfx950", f"v_cvt_scalef32_{stem} v[120:125], {text}", sources, 6)
    words = np.stack(got).astype(np.uint64)  # [word, row, lane]
    random = draw[:, 0].copy()
    for k in range(32):
        word, at = divmod(6 * k, 32)
        value = words[word] >> np.uint64(at)
        if at > 26:
            value |= words[word + 1] << np.uint64(32 - at)
        result = (value & np.uint64(63)).astype(np.uint32)
        for row in range(2):
            if is_stochastic:
                check_stochastic(small, wide, picked[row, k], random[row], 128, result[row])
            else:
                same_small(small, result[row], scaled_to_small(small, wide, picked[row, k], 128))
        random = next_draw(random)
