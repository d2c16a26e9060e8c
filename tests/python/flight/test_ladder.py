"""The kernels of docs/flight on every place: sizes that divide and sizes that do not, against float64."""

import ladder_programs
import ml_dtypes
import numpy as np
import pages
import pytest
import tiles_support
from places import EVERYWHERE, TILES, like, run

from jaxator.flight import _compiler

BF16 = np.dtype(ml_dtypes.bfloat16)


def normal(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(shape, dtype, seed=0):
    """So small that every sum is exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("size", [1, 1023, 1024, 4097])
def test_vector_add(place, size):
    x, y = normal(size), normal(size, seed=1)
    (z,) = run(place, pages.kernels("vector-add").vector_add, [x, y], [like(size)])
    np.testing.assert_array_equal(z, x + y)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (1, 33), (100, 70)])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_transpose(place, shape, dtype):
    x = (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)
    (y,) = run(place, pages.kernels("transpose").transpose, [x], [like(shape[::-1], dtype)])
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("place", TILES)
@pytest.mark.parametrize(("shape", "rows"), [((8, 256), 4), ((37, 512), 8), ((1, 1024), 1), ((5, 96), 2)])
def test_softmax(place, shape, rows):
    x = 4 * normal(shape)
    (y,) = run(place, pages.kernels("softmax").softmax, [x], [like(shape)], rows=rows)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    expected = wide / wide.sum(1, keepdims=True)
    # exp is right to 4 units in the last place, the sum of n terms to n / 2 of them at worst, the quotient to 3.
    np.testing.assert_allclose(y, expected, rtol=(8 + shape[1] / 2) * 2.0**-24, atol=1e-30)


@pytest.mark.parametrize("place", TILES)
@pytest.mark.parametrize("shape", [(4, 128), (75, 256), (3, 512), (5, 1536), (2, 4096)])
def test_rms_norm(place, shape):
    page = pages.kernels("rms-norm")
    x, w, dy = normal(shape), normal(shape[1], seed=1), normal(shape, seed=2)
    wide = x.astype(np.float64)
    r = 1 / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    (y,) = run(place, page.rms_norm, [x, w], [like(shape)], epsilon=1e-5)
    np.testing.assert_allclose(y, wide * r * w, rtol=shape[1] * 2.0**-24, atol=1e-6)
    dx, dw = run(place, page.rms_norm_backward, [x, w, dy], [like(shape), like(shape[1])], epsilon=1e-5)
    normed, gw = wide * r, dy * w.astype(np.float64)
    np.testing.assert_allclose(dx, r * (gw - normed * (gw * normed).mean(1, keepdims=True)), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(dw, (dy * normed).sum(0), rtol=1e-4, atol=shape[0] * 4e-6)


@pytest.mark.parametrize("place", TILES)
@pytest.mark.parametrize("sizes", [(64, 64, 64), (128, 64, 192), (100, 72, 88), (1, 1, 8)])
def test_gemm(place, sizes):
    m, n, k = sizes
    a, b = integers((m, k), BF16), integers((n, k), BF16, seed=1)
    (c,) = run(place, pages.kernels("gemm").gemm, [a, b], [like((m, n))])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("place", TILES)
@pytest.mark.parametrize("tile", [(128, 64, 32), (64, 128, 64)])
def test_gemm_of_other_tiles(place, tile):
    a, b = normal((150, 100), BF16), normal((130, 100), BF16, seed=1)
    (c,) = run(place, pages.kernels("gemm").gemm, [a, b], [like((150, 130))], tile=tile)
    wide = a.astype(np.float64), b.astype(np.float64).T
    bound = 100 * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert (np.abs(c - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize("place", TILES)
@pytest.mark.parametrize("sizes", [(64, 64, 64), (100, 72, 160)])
def test_gemm_with_swiglu(place, sizes):
    m, n, k = sizes
    x, gate, up = normal((m, k), BF16), normal((n, k), BF16, seed=1) / 8, normal((n, k), BF16, seed=2)
    gate = gate.astype(BF16)
    (y,) = run(place, pages.kernels("gemm-swiglu").gated, [x, gate, up], [like((m, n))])
    g, u = (x.astype(np.float64) @ w.astype(np.float64).T for w in (gate, up))
    np.testing.assert_allclose(y, g / (1 + np.exp(-g)) * u, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("groups", [[64, 64], [70, 0, 1, 129], [0, 0, 3], [0]])
def test_grouped_gemm(place, groups):
    starts = np.cumsum([0, *groups]).astype(np.int32)
    x, w = integers((50, 96), BF16), integers((len(groups), 80, 96), BF16, seed=1)
    ids = np.random.default_rng(2).integers(0, 50, max(1, starts[-1])).astype(np.int32)
    (y,) = run(place, pages.kernels("grouped-gemm").grouped_gemm, [x, ids, starts, w], [like((len(ids), 80))])
    rows = x.astype(np.float32)[ids]
    for e, weights in enumerate(w.astype(np.float32)):
        np.testing.assert_array_equal(y[starts[e] : starts[e + 1]], rows[starts[e] : starts[e + 1]] @ weights.T)
    assert np.isnan(y[starts[-1] :]).all()  # rows of no group are not touched


@pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
def test_ptx_assembles_without_a_warning():
    names = []
    for page in pages.LADDER:
        for launch in ladder_programs.launches(page, "sm_90a"):
            tiles_support.check_ptx(launch.text)
            names.append(launch.name)
    assert len(names) == 9


@pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_no_spills_and_no_bank_conflicts(target):
    products = 0
    for page in pages.LADDER:
        for launch in ladder_programs.launches(page, target):
            report = tiles_support.compiled(target, launch.text).report["kernels"][launch.name]
            assert report["spills"] == report["scratch_bytes"] == 0, (launch.name, report)
            if "flight.tile_mma" in launch.text:
                assert not report.get("bank_conflicts"), (launch.name, report)
                products += 1
    assert products == 3
