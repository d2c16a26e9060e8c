"""The formats and rules of src/numeric (docs/numerics.md) in NumPy float64, by other means: neighbours are found by
searching the sorted list of a format's numbers, scales by comparing magnitudes. float64 holds every quotient and distance
exactly."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Format:
    dtype: Any
    """Whose values its codes have: ml_dtypes or NumPy."""
    largest: float
    mantissa: int
    infinity: int | None
    nan: int
    """Code of positive infinity and NaN; the sign bit is added where `signed` says so."""
    signed: bool
    """NaN has a sign, and a negative magnitude that becomes zero keeps it."""

    @property
    def code_type(self) -> Any:
        return {1: np.uint8, 2: np.uint16, 4: np.uint32}[np.dtype(self.dtype).itemsize]

    @property
    def sign_bit(self) -> int:
        return 8 if self.dtype == ml_dtypes.float4_e2m1fn else 1 << (8 * np.dtype(self.dtype).itemsize - 1)


MODELS = {
    "f32": Format(np.float32, float(np.finfo(np.float32).max), 23, 0x7F800000, 0x7FC00000, True),
    "bf16": Format(ml_dtypes.bfloat16, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), 7, 0x7F80, 0x7FC0, True),
    "f16": Format(np.float16, 65504.0, 10, 0x7C00, 0x7E00, True),
    "e4m3": Format(ml_dtypes.float8_e4m3fn, 448.0, 3, None, 0x7F, True),
    "e5m2": Format(ml_dtypes.float8_e5m2, 57344.0, 2, 0x7C, 0x7E, True),
    "e4m3fnuz": Format(ml_dtypes.float8_e4m3fnuz, 240.0, 3, None, 0x80, False),
    "e5m2fnuz": Format(ml_dtypes.float8_e5m2fnuz, 57344.0, 2, None, 0x80, False),
    "e2m1": Format(ml_dtypes.float4_e2m1fn, 6.0, 1, None, 0, False),
}


def values(name: str, codes: Array) -> Array:
    """The codes' exact values in float64. A NaN that has no sign in its format is positive."""
    with np.errstate(invalid="ignore"):
        x = codes.astype(MODELS[name].code_type).view(MODELS[name].dtype).astype(np.float64)
    return x if MODELS[name].signed else np.where(np.isnan(x), np.nan, x)


@functools.cache
def grid(name: str) -> Array:
    """The magnitudes in order, so that the place in the list is the code, and one step more."""
    model = MODELS[name]
    finite = values(name, np.arange(model.sign_bit, dtype=model.code_type))
    finite = finite[: np.flatnonzero(finite == model.largest)[0] + 1]
    assert (np.diff(finite) > 0).all()
    return np.append(finite, 2 * finite[-1] - finite[-2])


def encode(name: str, x: Array, draws: Array | None = None, *, saturate: bool = False) -> Array:
    """Nearest-even, or stochastic with the 8-bit draws."""
    model = MODELS[name]
    negative = np.signbit(x)
    if name == "f32":  # a list of 2^31 numbers would be too long; NumPy's conversion is the model
        assert draws is None and not saturate
        with np.errstate(over="ignore", invalid="ignore"):
            code = np.abs(x).astype(np.float32).view(np.uint32)
    else:
        numbers = grid(name)
        last = len(numbers) - 2
        magnitude = np.where(np.isnan(x), 0, np.abs(x))
        code = np.searchsorted(numbers, magnitude, side="right") - 1  # the lower neighbour
        inside = code <= last
        low = np.minimum(code, last)
        with np.errstate(invalid="ignore"):
            share = np.where(inside, (magnitude - numbers[low]) / (numbers[low + 1] - numbers[low]), 0)
        up = (share > 0.5) | ((share == 0.5) & (low % 2 == 1)) if draws is None else draws < np.rint(share * 256)
        code = low + up
        overflow = ~inside | (code > last)
        special = model.infinity if model.infinity is not None else model.nan
        code = np.where(overflow, last if saturate or name == "e2m1" else special, code)
    code = np.where(np.isnan(x), model.nan, code)
    has_sign = negative if model.signed else negative & (code != 0) & (code != model.nan)
    return (code | np.where(has_sign, model.sign_bit, 0)).astype(model.code_type)


# ---- inputs ------------------------------------------------------------------------------------------------------------


@functools.cache
def float_sweep() -> Array:
    """float32 codes: every exponent and sign with mantissas at both ends, at single bits, and at and beside the ties of
    every format; the largest ones of the top exponent are NaN, the lowest exponent's are denormals."""
    single = [(1 << bit) + beside for bit in range(23) for beside in (-1, 0, 1)]
    ties = []
    for bits, patterns in ((1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (7, 128), (10, 96)):
        top = np.linspace(0, (1 << bits) - 1, patterns).astype(int)
        half = 1 << (22 - bits)
        ties += [(int(t) << (23 - bits)) + half + beside for t in top for beside in (-1, 0, 1)]
    mantissas = np.unique(np.array([0, 1, 2, 0x7FFFFF, 0x7FFFFE, *single, *ties]) & 0x7FFFFF).astype(np.uint32)
    exponents = np.arange(512, dtype=np.uint32) << 23
    return (exponents[:, None] | mantissas).ravel()


@functools.cache
def all_codes(name: str) -> Array:
    """Every code of a format of at most 16 bits; the sweep of float32."""
    if name == "f32":
        return float_sweep()
    return np.arange(2 * MODELS[name].sign_bit, dtype=MODELS[name].code_type)


# ---- E8M0, scales, blocks --------------------------------------------------------------------------------------------


def encode_e8m0(x: Array, *, saturate: bool) -> Array:
    good = np.isfinite(x) & (x > 0)
    mantissa, exponent = np.frexp(np.where(good, x, 1))  # mantissa in [1/2, 1)
    byte = np.maximum(exponent - 1 + (mantissa >= 0.75) + 127, 0)
    byte = np.where(good, np.where(byte > 254, 254 if saturate else 255, byte), 255)
    if saturate:
        byte = np.where(np.isposinf(x), 254, np.where(x == 0, 0, byte))
    return byte.astype(np.uint8)


def block_scale(element: str, mode: str, amax: Array) -> Array:
    model = MODELS[element]
    good = np.isfinite(amax) & (amax > 0)
    mantissa, exponent = np.frexp(np.where(good, amax, 1))
    largest_mantissa, largest_exponent = np.frexp(model.largest)
    if mode == "rceil":
        exponent = exponent + (mantissa > largest_mantissa)
    elif mode == "even":
        steps = np.floor(mantissa * 2 ** (model.mantissa + 1) + 0.5)
        exponent = exponent + (steps == 2 ** (model.mantissa + 1))
    byte = np.clip(exponent - largest_exponent + 127, 0, 254)
    return np.where(good, byte, np.where(amax == 0, 127, 255)).astype(np.uint8)


def quantise(element: str, mode: str, x: Array, draws: Array | None = None) -> tuple[Array, Array]:
    """x: values [blocks, 32]. Scales and one code per element."""
    magnitude = np.where(np.isnan(x), np.inf, np.abs(x))
    scales = block_scale(element, mode, magnitude.max(-1))
    bad = scales == 255
    scaled = np.where(bad[:, None], 0, x) / np.exp2(np.where(bad, 0, scales.astype(int) - 127))[:, None]
    codes = encode(element, scaled, draws, saturate=True)
    return scales, np.where(bad[:, None], 0, codes).astype(np.uint8)


def pack(element: str, codes: Array) -> Array:
    return codes[:, 0::2] | codes[:, 1::2] << 4 if element == "e2m1" else codes


def dequantise(element: str, target: str, codes: Array, scales: Array) -> Array:
    """Codes of the target, from one code per element."""
    exact = values(element, codes) * np.exp2(scales.astype(int) - 127)[:, None]
    return encode(target, np.where(scales[:, None] == 255, np.nan, exact))


# ---- randomness and Hadamard ----------------------------------------------------------------------------------------------


def philox(counters: Array, keys: Array) -> Array:
    """Philox4x32-10 as the paper writes it: ten rounds over (L0, R0), (L1, R1), with the key raised between rounds."""
    mask, word = np.uint64(0xFFFFFFFF), np.uint64(32)
    right0, left0, right1, left1 = (counters[:, i].astype(np.uint64) for i in range(4))
    key0, key1 = (keys[:, i].astype(np.uint64) for i in range(2))
    for turn in range(10):
        if turn > 0:
            key0, key1 = (key0 + np.uint64(0x9E3779B9)) & mask, (key1 + np.uint64(0xBB67AE85)) & mask
        product0, product1 = np.uint64(0xD2511F53) * right0, np.uint64(0xCD9E8D57) * right1
        right0, left0, right1, left1 = (
            (product1 >> word) ^ left0 ^ key0,
            product1 & mask,
            (product0 >> word) ^ left1 ^ key1,
            product0 & mask,
        )
    return np.stack([right0, left0, right1, left1], -1).astype(np.uint32)


def draw(bits: int, key: Array, stream: int, indices: Array) -> Array:
    """The 128 bits as one integer, little end first, cut into pieces."""
    pieces = 128 // bits
    blocks = indices // np.uint64(pieces)
    counters = np.stack(
        [blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), np.full_like(blocks, stream), 0 * blocks], -1
    )
    words = philox(counters.astype(np.uint32), np.broadcast_to(key, (len(indices), 2)))
    numbers = [int.from_bytes(row.astype("<u4").tobytes(), "little") for row in words]
    return np.array(
        [n >> (int(i) % pieces * bits) & ((1 << bits) - 1) for n, i in zip(numbers, indices, strict=True)], np.uint32
    )


def hadamard(x: Array, signs: int = 0) -> Array:
    """The float32 butterfly along the last axis, whole arrays at a time."""
    n = x.shape[-1]
    negate = np.array([signs >> i & 1 for i in range(n)], bool)
    x = np.where(negate, -x, x).astype(np.float32)
    stride = 1
    with np.errstate(over="ignore", invalid="ignore"):
        while stride < n:
            pairs = x.reshape(*x.shape[:-1], n // (2 * stride), 2, stride)
            x = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], -2).reshape(x.shape)
            stride *= 2
        return x * np.float32(1 / np.sqrt(n))
