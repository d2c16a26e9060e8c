"""Compiled kernels against NumPy in float64: both targets, at every optimisation level, in random wave orders, with every
check on."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from emulator import ALL, ARCHITECTURES, Array, kernel_code, launch, output

Result = tuple[Array, Array, float]  # what came out, what should have, the largest difference allowed
Run = Callable[..., None]
LEVELS = ("-O0", "-O1", "-O2", "-O3")
BF16 = ml_dtypes.bfloat16


def normal(*shape: int, dtype: object = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def wide(array: Array) -> Array:
    return np.asarray(array).astype(np.float64)


def vector_add(run: Run, architecture: str) -> Result:
    n = 1000
    a, b, c = normal(n), normal(n + 1)[:n].copy(), output(n)
    run("vector_add", "vadd", [a, b, c, np.int32(n)], (4,), (256,))
    return c, a + b, 0


def transpose(run: Run, architecture: str) -> Result:
    n = 64
    a, c = normal(n, n), output((n, n))
    run("transpose", "transpose", [a, c, np.int32(n)], (2, 2), (256,))
    return c, a.T, 0


def mfma(run: Run, kernel: str, rows: int, depth: int, dtype: object) -> Result:
    a, b, d = normal(rows, depth, dtype=dtype), normal(rows, depth, dtype=dtype)[::-1].copy(), output((rows, rows))
    run("mfma", kernel, [a.view(np.uint8), b.view(np.uint8), d])
    return d, wide(a) @ wide(b).T, 1e-5


def mfma_16(run: Run, architecture: str) -> Result:
    return mfma(run, "mfma16", 16, 16, BF16)


def mfma_32(run: Run, architecture: str) -> Result:
    return mfma(run, "mfma32", 32, 8, BF16)


def mfma_fp8(run: Run, architecture: str) -> Result:
    return mfma(run, "mfmafp8", 16, 32, ml_dtypes.float8_e4m3fn if architecture == "gfx950" else ml_dtypes.float8_e4m3fnuz)


def rms_norm(run: Run, architecture: str) -> Result:
    n, rows = 512, 2
    x, weight, y = normal(rows, n, dtype=BF16), normal(n, dtype=BF16), output((rows, n), np.uint16)
    run(
        "rms_norm", "rmsnorm", [x.view(np.uint16), weight.view(np.uint16), y, np.int32(n), np.float32(1e-5)], (rows,), (256,)
    )
    scale = 1 / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-5)
    return np.asarray(y).view(BF16), wide(x) * scale * wide(weight), 0.03


def gemm(run: Run, architecture: str) -> Result:
    m, n, k = 128, 128, 64
    a, b, c = normal(m, k, dtype=BF16), normal(n, k, dtype=BF16), output((m, n), np.uint16)
    run(
        "gemm",
        "gemm",
        [a.view(np.uint16), b.view(np.uint16), c, np.int32(m), np.int32(n), np.int32(k)],
        (n // 128, m // 128),
        (256,),
    )
    expected = wide(a) @ wide(b).T
    return np.asarray(c).view(BF16), expected, float(np.abs(expected).max()) * 2**-8


def attention(run: Run, architecture: str) -> Result:
    s, d = 64, 128
    q, k, v, o = (*(normal(s, d, dtype=BF16) * BF16(f) for f in (1, -1, 2)), output((s, d), np.uint16))
    scale = d**-0.5
    run(
        "attention",
        "attn",
        [q.view(np.uint16), k.view(np.uint16), v.view(np.uint16), o, np.int32(s), np.float32(scale * np.log2(np.e))],
        (s // 64,),
        (256,),
    )
    logits = np.where(np.tri(s, dtype=bool), scale * wide(q) @ wide(k).T, -np.inf)
    p = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(o).view(BF16), p @ wide(v) / p.sum(1, keepdims=True), 0.05


def quantise(run: Run, architecture: str) -> Result:
    x = normal(512)
    q, scales, y = output(128, np.uint32), output(2), output(512)
    run("quantise", "quant", [x, q, scales, y], (2,), (64,))
    return y, x, float(np.abs(x).max()) / 16


def buffer(run: Run, architecture: str) -> Result:
    n = 1000
    a, b, c = normal(n), normal(n + 1)[:n].copy(), output(n)
    run("buffer", "bufadd", [a, b, c, np.int32(n)], (1,), (256,))
    return c, a + np.append(b[1:], np.float32(0)), 0


def fetch_to_lds(run: Run, architecture: str) -> Result:
    a, c = np.arange(1024, dtype=np.uint32), output(1024, np.uint32)
    run("fetch_to_lds", "gll", [a, c], (1,), (256,))
    return c, a[::-1], 0


def scaled(run: Run, kernel: str, dtype: object) -> Result:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((16, 128)).astype(dtype) for _ in range(2))
    scales = [random.integers(124, 130, (16, 4), np.uint8) for _ in range(2)]
    packed = [x.view(np.uint8).reshape(16, -1) for x in (a, b)]
    if kernel == "mxfp4":
        packed = [np.ascontiguousarray(x[:, ::2] | x[:, 1::2] << 4) for x in packed]
    d = output((16, 16))
    run("scaled_mfma", kernel, [*packed, *scales, d])
    x, y = (wide(v) * np.repeat(2.0 ** (s.astype(np.float64) - 127), 32, 1) for v, s in zip((a, b), scales, strict=True))
    return d, x @ y.T, 1e-3


def mxfp4(run: Run, architecture: str) -> Result:
    return scaled(run, "mxfp4", ml_dtypes.float4_e2m1fn)


def mxfp8(run: Run, architecture: str) -> Result:
    return scaled(run, "mxfp8", ml_dtypes.float8_e4m3fn)


def atomics(run: Run, architecture: str) -> Result:
    n = 500
    x = np.random.default_rng(2).integers(0, 64, 512).astype(np.uint32)
    histogram, total, pair, count = (
        np.zeros(64, np.uint32),
        np.zeros(1, np.float32),
        np.zeros(1, np.uint32),
        np.zeros(2, np.uint32),
    )
    run("atomics", "atomics", [x, histogram, total, pair, count, np.int32(n)], (2,), (256,))
    got = np.concatenate([histogram, total, pair, count])
    return got, np.concatenate([np.bincount(x[:n], minlength=64), [(x & 7).sum(), 0x44004380, 512, 77]]), 0


ONLY_GFX950 = {mxfp4, mxfp8}
CASES = [vector_add, transpose, mfma_16, mfma_32, mfma_fp8, rms_norm, gemm, attention]
CASES += [quantise, buffer, fetch_to_lds, mxfp4, mxfp8, atomics]
RUNS = [(case, name) for case in CASES for name in ARCHITECTURES if name == "gfx950" or case not in ONLY_GFX950]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("case", "architecture"), RUNS, ids=lambda value: getattr(value, "__name__", value))
def test_kernel(case: Callable[[Run, str], Result], architecture: str, level: str) -> None:
    def run(
        file: str, kernel: str, arguments: list[object], grid: tuple[int, ...] = (1,), block: tuple[int, ...] = (64,)
    ) -> None:
        code = kernel_code(file, architecture, level)
        assert code.unknown(kernel) == []
        report = launch(code, kernel, arguments, grid, block, checks=ALL, seed=LEVELS.index(level))
        assert report.clean, report.text

    got, expected, allowed = case(run, architecture)
    assert np.abs(wide(got) - wide(expected)).max() <= allowed
