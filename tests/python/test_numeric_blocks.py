"""Block scales and block quantisation of src/numeric against the float64 model."""

import functools

import numpy as np
import pytest
from numeric_library import NARROW, SCALE_MODES, STREAMS, WIDE, Array, Library, every_library
from numeric_model import MODELS, block_scale, dequantise, draw, encode, float_sweep, pack, quantise, values

KEY = np.array([0x243F6A88, 0x9E3779B9], np.uint32)


@functools.cache
def blocks(source: str) -> Array:
    """Codes [blocks, 32]: normal data at every scale, with what breaks quantisers in known places."""
    random = np.random.default_rng(7)
    smallest, largest = {"f32": (-149, 127), "bf16": (-133, 127), "f16": (-24, 15)}[source]
    exponents = np.arange(smallest - 3, largest + 1)
    x = random.standard_normal((len(exponents), 32)) * np.exp2(exponents)[:, None]
    exact = np.array([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7])  # E2M1's numbers and ties
    special = np.array([
        np.zeros(32), -np.zeros(32), np.append(np.zeros(31), 1), np.append(-np.ones(31), np.nan),
        np.append(np.ones(31), -np.inf), np.ones(32), np.full(32, -(2.0**smallest)), np.full(32, MODELS[source].largest),
        np.concatenate([exact, -exact]), np.concatenate([exact, -exact]) * 2.0**8, np.append(np.full(31, 2.0**-8), 7.99),
        np.append(np.full(31, 448.0), 464),
    ])  # fmt: skip
    return encode(source, np.concatenate([x, special]).ravel()).reshape(-1, 32)


@functools.cache
def expected(source: str, element: str, mode: str, keyed: bool) -> tuple[Array, Array]:
    x = blocks(source)
    draws = draw(8, KEY, STREAMS.index("round_dy"), np.arange(x.size, dtype=np.uint64) + np.uint64(FIRST)).reshape(x.shape)
    scales, codes = quantise(element, mode, values(source, x.ravel()).reshape(x.shape), draws if keyed else None)
    return scales, pack(element, codes)


FIRST = (1 << 36) + 8  # index of the first element: past 32 bits, in the middle of a counter's 16 draws


@functools.cache
def scales_of_sweep(element: str, mode: str) -> Array:
    amax = float_sweep()
    return block_scale(element, mode, values("f32", amax[amax < 1 << 31]))


@every_library
@pytest.mark.parametrize("mode", SCALE_MODES)
def test_scale(library: Library, mode: str) -> None:
    amax = float_sweep()
    amax = amax[amax < 1 << 31]
    for element in NARROW:
        assert np.array_equal(library.block_scale(element, mode, amax), scales_of_sweep(element, mode)), element


@pytest.mark.parametrize("element", NARROW)
def test_what_each_mode_promises(element: str) -> None:
    """rceil never clips and no smaller scale would do; floor is OCP's; even lies between them."""
    amax = float_sweep()
    amax = values("f32", amax[(amax < 0x7F800000) & (amax > 0)])
    byte = {mode: block_scale(element, mode, amax).astype(int) for mode in SCALE_MODES}
    largest, free = MODELS[element].largest, (byte["floor"] > 0) & (byte["rceil"] < 254)
    scaled = amax / np.exp2(byte["rceil"] - 127)
    assert (scaled <= largest).all() and (2 * scaled[free] > largest).all()
    scaled = amax / np.exp2(byte["floor"] - 127)
    assert (np.floor(np.log2(scaled[free])) == np.floor(np.log2(largest))).all()
    assert (byte["floor"] <= byte["even"]).all() and (byte["even"] <= byte["rceil"]).all()
    if element == "e2m1":
        assert 1 - 6 / scaled[free].max() < 0.25
        assert 1 - 6 / (amax / np.exp2(byte["even"] - 127))[free].max() < 1 / 7


@every_library
@pytest.mark.parametrize("source", WIDE)
def test_quantise(library: Library, source: str) -> None:
    for element in NARROW:
        for mode in SCALE_MODES:
            for keyed in (False, True):
                scales, codes = library.quantise(source, element, mode, blocks(source), key=KEY if keyed else None,
                                                 stream="round_dy", first_index=FIRST)  # fmt: skip
                want_scales, want_codes = expected(source, element, mode, keyed)
                assert np.array_equal(scales, want_scales), (element, mode)
                assert np.array_equal(codes, want_codes), (element, mode, keyed)


@every_library
def test_both_copies_of_a_dual_cast_share_each_elements_draw(library: Library) -> None:
    """Blocks along the other axis: strided elements whose draws are keyed by their place in the whole array."""
    rows, columns = 32, 96
    x = encode("bf16", np.random.default_rng(3).standard_normal((rows, columns)).ravel()).reshape(rows, columns)
    draws = draw(8, KEY, STREAMS.index("round_x"), np.arange(x.size, dtype=np.uint64)).reshape(rows, columns)
    exact = values("bf16", x.ravel()).reshape(rows, columns)

    scales, codes = library.quantise("bf16", "e2m1", "rceil", x, key=KEY)
    want_scales, want = quantise("e2m1", "rceil", exact.reshape(-1, 32), draws.reshape(-1, 32))
    assert np.array_equal(scales, want_scales) and np.array_equal(codes, pack("e2m1", want))

    scales, codes = library.quantise("bf16", "e2m1", "rceil", x, blocks=columns, block_stride=1, stride=columns, key=KEY)
    want_scales, want = quantise("e2m1", "rceil", exact.T, draws.T)
    assert np.array_equal(scales, want_scales) and np.array_equal(codes, pack("e2m1", want))


@functools.cache
def every_element_and_scale(element: str) -> tuple[Array, Array]:
    codes = np.arange(2 * MODELS[element].sign_bit, dtype=np.uint8).reshape(-1, 16)
    codes = np.concatenate([codes, codes[:, ::-1]], 1) if element == "e2m1" else codes.reshape(-1, 32)
    scales = np.repeat(np.arange(256, dtype=np.uint8), len(codes))
    return np.tile(codes, (256, 1)), scales


@functools.cache
def dequantised(element: str, target: str) -> Array:
    return dequantise(element, target, *every_element_and_scale(element))


@every_library
def test_dequantise(library: Library) -> None:
    """Every code with every scale."""
    for element in NARROW:
        codes, scales = every_element_and_scale(element)
        for target in WIDE:
            got = library.dequantise(element, target, pack(element, codes), scales)
            assert np.array_equal(got, dequantised(element, target)), (element, target)


@pytest.mark.parametrize("element", NARROW)
def test_round_trip_is_exact_on_the_grid(element: str) -> None:
    """What dequantise makes, quantise takes back, wherever nothing overflows float32. Only rceil keeps E4M3's, whose top
    binade has no 1.875: another mode picks a scale at which such a largest magnitude clips."""
    library = Library("clang_v3", False)
    codes, scales = every_element_and_scale(element)
    x = library.dequantise(element, "f32", pack(element, codes), scales)
    finite = np.isfinite(x.view(np.float32)).all(-1)
    for mode in ("rceil",) if element == "e4m3" else SCALE_MODES:
        scales_again, codes_again = library.quantise("f32", element, mode, x[finite])
        y = library.dequantise(element, "f32", codes_again, scales_again)
        assert np.array_equal(y.view(np.float32), x[finite].view(np.float32)), mode
