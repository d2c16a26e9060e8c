"""Division and square roots as clang compiles them, which are correctly rounded, against NumPy and Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from emulator import ARCHITECTURES, Array, kernel_code, launch, output

FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
COUNT = 4096


def operands(name: str) -> tuple[Array, Array]:
    """Every pair of special values, then random codes: denormals, extremes, quotients that overflow or lose digits."""
    dtype = FLOATS[name]
    bits = 8 * np.dtype(dtype).itemsize
    unsigned = np.dtype(f"u{bits // 8}")
    info = np.finfo(dtype)
    special = [
        0,
        1,
        3,
        info.smallest_subnormal,
        info.tiny,
        info.tiny - info.smallest_subnormal,
        info.max,
        info.eps,
        np.inf,
        np.nan,
    ]
    special += [1 + float(info.eps), 2.0**-24, 1 / 3, 7]
    values = np.array(special, dtype)
    values = np.concatenate([values, -values])
    random = np.random.default_rng(bits)
    a, b = (random.integers(0, 1 << bits, COUNT, np.uint64).astype(unsigned).view(dtype) for _ in range(2))
    near = random.standard_normal(COUNT).astype(dtype)
    a[2048:] = near[2048:]
    b[3072:] = near[:1024]
    pairs = np.array(np.meshgrid(values, values)).reshape(2, -1)
    a[: pairs.shape[1]], b[: pairs.shape[1]] = pairs
    return a, b


def same(got: Array, expected: Array) -> None:
    bits = np.dtype(f"u{got.dtype.itemsize}")
    right = (got.view(bits) == expected.view(bits)) | (np.isnan(got) & np.isnan(expected))
    wrong = np.flatnonzero(~right)
    assert len(wrong) == 0, [(got[k], expected[k]) for k in wrong[:4]]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_floats(name: str, architecture: str, level: str) -> None:
    a, b = operands(name)
    quotient, root = output(COUNT, a.dtype), output(COUNT, a.dtype)
    code = kernel_code("division", architecture, level)
    report = launch(code, f"divide_{name}", [a.view(np.uint8), b.view(np.uint8), quotient, root], (COUNT // 256,), (256,))
    assert report.clean, report.text
    with np.errstate(all="ignore"):
        same(np.asarray(quotient), a / b)
        same(np.asarray(root), np.sqrt(a))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_flushed_denormals(architecture: str) -> None:
    a, b = operands("f32")
    quotient, root = output(COUNT), output(COUNT)
    code = kernel_code("division", architecture, "-O3", "-Xclang", "-fdenormal-fp-math-f32=preserve-sign")
    report = launch(code, "divide_f32", [a, b, quotient, root], (COUNT // 256,), (256,))
    assert report.clean, report.text
    tiny = np.finfo(np.float32).tiny

    def flush(x: Array) -> Array:
        return np.where(np.abs(x) < tiny, np.copysign(np.float32(0), x), x)

    with np.errstate(all="ignore"):
        same(np.asarray(quotient), flush(flush(a) / flush(b)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_fast_math(architecture: str) -> None:
    a, b = (np.random.default_rng(k).uniform(0.5, 2, COUNT).astype(np.float32) for k in (1, 2))
    quotient, root = output(COUNT), output(COUNT)
    code = kernel_code("division", architecture, "-O3", "-ffast-math")
    report = launch(code, "divide_f32", [a, b, quotient, root], (COUNT // 256,), (256,))
    assert report.clean, report.text
    np.testing.assert_allclose(quotient, a / b, rtol=3e-7)
    np.testing.assert_allclose(root, np.sqrt(a), rtol=3e-7)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["u32", "i64"])
def test_integers(name: str, architecture: str) -> None:
    dtype = {"u32": np.uint32, "i64": np.int64}[name]
    info = np.iinfo(dtype)
    random = np.random.default_rng(3)
    a, b = (
        random.integers(info.min, info.max, COUNT, dtype) >> random.integers(0, info.bits - 1, COUNT, dtype)
        for _ in range(2)
    )
    a[:6], b[:6] = [info.max, info.max, 0, 1, info.min, 7], [1, info.max, 5, 2, 3, 7]
    b[b == 0] = 1
    quotient, rest = output(COUNT, dtype), output(COUNT, dtype)
    code = kernel_code("division", architecture, "-O3")
    report = launch(code, f"divide_{name}", [a, b, quotient, rest], (COUNT // 256,), (256,))
    assert report.clean, report.text
    towards_zero = [
        int(x) // int(y) if (x < 0) == (y < 0) else -(abs(int(x)) // abs(int(y))) for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(quotient, np.array(towards_zero, dtype))
    np.testing.assert_array_equal(rest, a - np.array(towards_zero, dtype) * b)
