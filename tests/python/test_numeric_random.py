"""Philox, keyed draws, unbiased rounding, and the Hadamard transform of src/numeric."""

import functools
import math

import numpy as np
import pytest
from numeric_library import NARROW, Array, Library, every_library
from numeric_model import MODELS, draw, float_sweep, hadamard, philox, values

# The known answers published with Random123 for philox4x32, 10 rounds: counter, key, result.
PUBLISHED = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@every_library
def test_philox(library: Library) -> None:
    counters, keys, results = (np.array(part, np.uint32) for part in zip(*PUBLISHED, strict=True))
    assert np.array_equal(library.philox(counters, keys), results)
    assert np.array_equal(philox(counters, keys), results)
    random = np.random.default_rng(11)
    counters, keys = random.integers(0, 1 << 32, (4096, 4), np.uint32), random.integers(0, 1 << 32, (4096, 2), np.uint32)
    assert np.array_equal(library.philox(counters, keys), philox(counters, keys))


@functools.cache
def draws(bits: int, stream: int) -> tuple[Array, Array, Array]:
    key = np.array([0xDEADBEEF, 0x12345678], np.uint32)
    edges = [[0, 1], [1 << 32, 1 << 36], [(1 << 64) - 300]]
    indices = np.concatenate([np.arange(300, dtype=np.uint64) + np.uint64(edge) for group in edges for edge in group])
    return key, indices, draw(bits, key, stream, indices)


@every_library
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32])
def test_draws(library: Library, bits: int) -> None:
    for stream in (0, 1, 4, 0xFFFFFFFF):
        key, indices, want = draws(bits, stream)
        assert np.array_equal(library.draw(bits, key, stream, indices), want)


@pytest.mark.parametrize("element", NARROW)
def test_keyed_rounding_is_unbiased(element: str) -> None:
    """The mean over n keyed draws differs from the exact value by at most 2^-9 of a step and the draws' own scatter.
    Hoeffding's bound for n draws of one step: P(|mean - expectation| >= e steps) <= 2 exp(-2 n e^2); e is chosen so that a
    perfect generator fails for one key in 10^9, all values together."""
    library = Library("clang_v3", False)
    random = np.random.default_rng(5)
    numbers = np.unique(np.abs(values(element, np.arange(MODELS[element].sign_bit))))
    numbers = numbers[np.isfinite(numbers)]
    low = random.integers(0, len(numbers) - 1, 32)
    share = random.random(32)
    step = numbers[low + 1] - numbers[low]
    x = (numbers[low] + share * step).astype(np.float32)

    n, key = 1 << 15, np.array([1, 2], np.uint32)
    indices = np.arange(32 * n, dtype=np.uint64)
    eight = library.draw(8, key, 1, indices).astype(np.uint8)
    rounded = library.convert("f32", element, np.repeat(x, n).view(np.uint32), eight, saturate=True)
    error = (values(element, rounded).reshape(32, n).mean(-1) - x.astype(np.float64)) / step
    scatter = math.sqrt(math.log(2 * 32 / 1e-9) / (2 * n))
    assert np.abs(error).max() <= 2.0**-9 + scatter
    assert abs(error.mean()) <= 2.0**-9 + math.sqrt(math.log(2 / 1e-9) / (2 * 32 * n))


@functools.cache
def hadamard_inputs(n: int) -> Array:
    """Normal data, and finite numbers of any exponent: denormals, cancellation, overflow."""
    random = np.random.default_rng(13)
    bits = random.choice(float_sweep(), (2000, n)).view(np.float32)
    near = (random.standard_normal((500, n)) * np.exp2(random.integers(-149, -120, (500, n)))).astype(np.float32)
    far = random.standard_normal((500, n)).astype(np.float32)
    far[:50] = np.copysign(np.float32(3e38), far[:50])
    return np.concatenate([np.where(np.isfinite(bits), bits, 0), near, far, np.eye(n, dtype=np.float32)]).astype(np.float32)


@functools.cache
def transformed(n: int, signs: int) -> Array:
    return hadamard(hadamard_inputs(n), signs)


@every_library
@pytest.mark.parametrize("n", [16, 32])
def test_hadamard(library: Library, n: int) -> None:
    """Every bit of the stated butterfly. Which NaN comes of infinities is the processor's business."""
    if library.variant == "clang_fast_math":
        pytest.skip("float32 arithmetic: the promise needs a compiler that keeps the order of sums")
    for signs in (0, 0xB504F333):
        got, want = library.hadamard(hadamard_inputs(n), signs), transformed(n, signs)
        nan = np.isnan(want)
        assert np.array_equal(nan, np.isnan(got))
        assert np.array_equal(np.where(nan, 0, got).view(np.uint32), np.where(nan, 0, want).view(np.uint32))
    assert np.isnan(transformed(n, 0)).any() and (np.abs(transformed(n, 0)) < 2.0**-126).any()


@pytest.mark.parametrize("n", [16, 32])
def test_hadamard_is_orthonormal_in_sylvester_order(n: int) -> None:
    library = Library("clang_v3", False)
    matrix = library.hadamard(np.eye(n, dtype=np.float32)).astype(np.float64)
    sign = np.array([[(-1) ** (i & j).bit_count() for j in range(n)] for i in range(n)])
    scale = np.float32(1 / math.sqrt(n))
    assert np.array_equal(matrix, sign * np.float64(scale))
    # 1 / sqrt(n) is off by at most half a place: 2^-24 relative, twice in a product.
    assert np.abs(matrix @ matrix.T - np.eye(n)).max() <= (0 if n == 16 else 2.0**-22)
    x = np.random.default_rng(1).standard_normal((1000, n)).astype(np.float32)
    for signs in (0, 0x7FEDCBA9):
        y = library.hadamard(x, signs).astype(np.float64)
        norm = np.linalg.norm(x.astype(np.float64), axis=-1)
        # log2(n) sums and a product, each with an error of 2^-24 of a vector of the same norm.
        assert (np.abs(np.linalg.norm(y, axis=-1) / norm - 1) <= (math.log2(n) + 3) * 2.0**-24).all()


@every_library
def test_hadamard_signs_are_a_draw(library: Library) -> None:
    key = np.array([3, 4], np.uint32)
    assert library.hadamard_signs(key) == int(draw(32, key, 4, np.zeros(1, np.uint64))[0])
