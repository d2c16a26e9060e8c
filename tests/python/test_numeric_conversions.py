"""src/numeric's conversions over their whole input space. ml_dtypes judges the model once, the model every
build."""

import functools

import ml_dtypes
import numpy as np
import pytest
from numeric_library import FORMATS, NARROW, WIDE, Array, Library, every_library
from numeric_model import MODELS, all_codes, encode, encode_e8m0, float_sweep, values

PAIRS = [(source, target) for source in WIDE for target in FORMATS] + [
    (source, target) for source in NARROW for target in WIDE
]


def same(got: Array, want: Array, source: Array, what: str) -> None:
    if not np.array_equal(got, want):
        wrong = np.flatnonzero(got != want)
        at = wrong[0]
        pytest.fail(f"{what}: {wrong.size} differ; code {source[at]:#x} gives {got[at]:#x}, want {want[at]:#x}")


def as_dtype(name: str, codes: Array) -> Array:
    return codes.astype(MODELS[name].code_type).view(MODELS[name].dtype)


@functools.cache
def nearest(source: str, target: str, saturate: bool) -> Array:
    if target == "f32" and saturate:  # nothing finite overflows, so only infinity tells the modes apart
        codes = nearest(source, target, False).copy()
        codes[codes & 0x7FFFFFFF == 0x7F800000] -= 1
        return codes
    return encode(target, values(source, all_codes(source)), saturate=saturate)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_model_agrees_with_ml_dtypes(source: str, target: str) -> None:
    """Bit for bit but for what docs/numerics.md lists: NaN is canonical, E2M1 has no NaN and never becomes -0."""
    codes = all_codes(source)
    x = as_dtype(source, codes)
    with np.errstate(all="ignore"):
        # float16 and float32 go directly; ml_dtypes' own narrow types are exact in float32.
        want = (x if source in WIDE else x.astype(np.float32)).astype(MODELS[target].dtype).view(MODELS[target].code_type)
    exact = values(source, codes)
    negative = np.signbit(exact) & MODELS[target].signed
    want = np.where(np.isnan(exact), MODELS[target].nan | np.where(negative, MODELS[target].sign_bit, 0), want)
    if target == "e2m1":
        want = np.where(want == 8, 0, want)
    same(nearest(source, target, False), want, codes, f"{source} -> {target}")


@every_library
@pytest.mark.parametrize("source", FORMATS)
def test_nearest_even(library: Library, source: str) -> None:
    codes = all_codes(source)
    for target in FORMATS if source in WIDE else WIDE:
        for saturate in (False, True):
            got = library.convert(source, target, codes, saturate=saturate)
            same(got, nearest(source, target, saturate), codes, f"{source} -> {target}, saturate={saturate}")


@functools.cache
def stochastic_inputs(target: str) -> Array:
    """float32 codes between all neighbours of a small format (a sample of a larger one): the thresholds of 256ths, their
    ties, and points beside them; far below the smallest number; past the largest."""
    model = MODELS[target]
    numbers = np.append(values(target, np.arange(model.sign_bit)), 0)
    numbers = np.unique(numbers[np.isfinite(numbers) & (numbers >= 0)])
    if len(numbers) > 128:
        numbers = numbers[np.unique(np.linspace(0, len(numbers) - 1, 96).astype(int)) // 2 * 2]
    shares = np.array([0, 1, 2, 255, 256, 257, 510, 511, 300, 301, 133]) / 512
    low, step = numbers[:-1], np.diff(numbers)
    points = (low[:, None] + shares * step[:, None]).ravel()
    with np.errstate(over="ignore"):
        points = np.concatenate(
            [
                points,
                points * (1 + 2.0**-23),
                numbers[1] * 2.0 ** np.arange(-40, 0),
                model.largest * np.array([1, 1.01, 1.5]),
            ]
        )
        codes = points.astype(np.float32).view(np.uint32)
    odd = np.array([0, 1, 0x7FFFFF, 0x7F800000, 0x7FC00000], np.uint32)
    return np.unique(np.concatenate([codes, codes + 1, odd])) | np.array([[0], [1 << 31]], np.uint32)


@functools.cache
def stochastic(target: str, draw: int, saturate: bool) -> Array:
    return encode(target, values("f32", stochastic_inputs(target).ravel()), np.array(draw), saturate=saturate)


@every_library
@pytest.mark.parametrize("target", FORMATS[1:])
def test_stochastic(library: Library, target: str) -> None:
    """All 256 draws."""
    codes = stochastic_inputs(target).ravel()
    for draw in range(256):
        saturate = draw % 2 == 0
        got = library.convert("f32", target, codes, np.array([draw], np.uint8), saturate=saturate)
        same(got, stochastic(target, draw, saturate), codes, f"f32 -> {target}, draw {draw}")


@pytest.mark.parametrize("target", FORMATS[1:])
def test_stochastic_is_unbiased_to_half_a_256th_of_a_step(target: str) -> None:
    """Exactly: over the 256 draws, the mean is within 2^-9 of a step of every finite value in range."""
    x = values("f32", stochastic_inputs(target).ravel())
    inside = np.abs(x) <= MODELS[target].largest
    total = sum(values(target, stochastic(target, draw, True)) for draw in range(256))
    places = np.sort(np.abs(values(target, np.arange(MODELS[target].sign_bit))))
    places = places[np.isfinite(places)]
    low = np.clip(np.searchsorted(places, np.abs(x), side="right") - 1, 0, len(places) - 2)
    step = places[low + 1] - places[low]
    assert (np.abs(total[inside] / 256 - x[inside]) <= 2.0**-9 * step[inside]).all()


@every_library
def test_decode_tables(library: Library) -> None:
    for source in NARROW:
        codes = all_codes(source)
        same(library.decode_table(source), nearest(source, "f32", False), codes, source)
    assert np.array_equal(library.e2m1_doubled(), 2 * values("e2m1", all_codes("e2m1")))


@functools.cache
def e8m0(saturate: bool) -> Array:
    return encode_e8m0(values("f32", float_sweep()), saturate=saturate)


@every_library
def test_e8m0(library: Library) -> None:
    codes = float_sweep()
    for saturate in (False, True):
        same(library.encode_e8m0(codes, saturate=saturate), e8m0(saturate), codes, f"f32 -> e8m0, saturate={saturate}")
    scales = np.arange(256, dtype=np.uint8)
    want = np.append(np.exp2(np.arange(255) - 127.0), np.nan).astype(np.float32).view(np.uint32)
    same(library.decode_e8m0(scales), want, scales, "e8m0 -> f32")


def test_e8m0_model_agrees_with_ml_dtypes() -> None:
    """But for the denormals between 2^-127 and the tie above it, which ml_dtypes takes up to 2^-126: not the nearest."""
    codes = float_sweep()
    codes = codes[(codes <= 0x400000) | (codes >= 0x600000)]
    with np.errstate(all="ignore"):
        want = codes.view(np.float32).astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    same(encode_e8m0(values("f32", codes), saturate=False), want, codes, "f32 -> e8m0")
