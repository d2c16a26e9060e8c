"""Elementary functions on tiles: within their stated error of float64 on every target, over all orders of magnitude."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from tiles_support import PLACES, Tile, check_ptx, kernel, row_major, row_spread, run, view

# Name, reference, units in the last place that src/flight/passes/elementary.h states.
FUNCTIONS = {
    "exp": (np.exp, 2),
    "exp2": (np.exp2, 2),
    "expm1": (np.expm1, 4),
    "log": (np.log, 2),
    "log2": (np.log2, 3),
    "log10": (np.log10, 3),
    "log1p": (np.log1p, 3),
    "sin": (np.sin, 2),
    "cos": (np.cos, 2),
    "tanh": (np.tanh, 3),
    "erf": (scipy.special.erf, 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2),
}
SHAPE = (8, 512)
EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    1.1754944e-38,
    3.4e38,
    -3.4e38,
    1.0,
    -1.0,
    0.5,
    2.0,
    88.7,
    89.0,
    -87.3,
    -103.9,
]


def function_kernel(name, element):
    tile = Tile(element, SHAPE, row_spread(SHAPE, 256, 4))
    load, kind = view("%x", "%at", row_major(SHAPE), element, align=16 if element == "f32" else 8)
    store, _ = view("%y", "%at", row_major(SHAPE), element, align=16 if element == "f32" else 8)
    body = f"""
    %block = flight.block_id x
    %size = arith.constant {SHAPE[0] * SHAPE[1]} : index
    %at = arith.muli %block, %size : index
    %from = {load}
    %v = flight.tile_load %from : {kind} -> {tile}
    %w = flight.map (%v) : ({tile}) -> {tile} {{
    ^bb0(%e: {element}):
      %r = math.{name} %e : {element}
      flight.yield %r : {element}
    }}
    %to = {store}
    flight.tile_store %w, %to : {tile}, {kind}"""
    return kernel("apply", {"x": f"*{element}", "y": f"*{element}"}, 256, body)


def arguments(name, count):
    """A third over all exponents, a third near 1, a third where no function is constant or endless."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << 32, count // 3, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (1 + rng.standard_normal(count // 3) * 0.3).astype(np.float32)
    wide = (rng.standard_normal(count - 2 * (count // 3)) * 30).astype(np.float32)
    x = np.concatenate([bits, near, wide])
    if name in ("sin", "cos"):
        x[np.abs(x) > 2.0**40] = 1.5
    x[: len(EDGES)] = [0.25 if name in ("sin", "cos") and abs(e) > 2.0**40 else e for e in EDGES]
    return x


def units(y, reference):
    """Distance in units in the last place of the reference, denormal ones at the least."""
    exponent = np.floor(np.log2(np.maximum(np.abs(reference), 2.0**-126)))
    return np.abs(y.astype(np.float64) - reference) / 2.0 ** (exponent - 23)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(place, name):
    reference_of, bound = FUNCTIONS[name]
    blocks = 64 if place == "x86 tiles" else 2
    x = arguments(name, blocks * SHAPE[0] * SHAPE[1])
    y = np.zeros_like(x)
    run(place, function_kernel(name, "f32"), "apply", [x, y], grid=(blocks,))
    with np.errstate(all="ignore"):
        reference = reference_of(x.astype(np.float64))
        rounded = reference.astype(np.float32)
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(y[special], rounded[special])
    distance = units(y[~special], reference[~special])
    worst = np.argmax(distance)
    assert distance[worst] <= bound, f"{distance[worst]:.2f} units at {x[~special][worst]!r}: {y[~special][worst]!r}"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_half_precision_is_rounded_once(place, element):
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.float16
    x = np.linspace(-4, 4, SHAPE[0] * SHAPE[1]).astype(dtype)
    y = np.zeros_like(x)
    run(place, function_kernel("tanh", element), "apply", [x.view(np.uint16), y.view(np.uint16)])
    reference = np.tanh(x.astype(np.float64))
    # One rounding of a value that is itself right to 3 units of float32.
    unit = 2.0 ** np.floor(np.log2(np.maximum(np.abs(reference), 2.0**-14))) * 2.0 ** (-7 if element == "bf16" else -10)
    assert (np.abs(y.astype(np.float64) - reference) <= 0.501 * unit).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ptx(name):
    check_ptx(function_kernel(name, "f32"))


NARROW = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}


def conversion_kernel(op, source, result):
    tiles = [Tile(element, SHAPE, row_spread(SHAPE, 256, 4)) for element in (source, result)]
    (load, from_kind), (store, to_kind) = (
        view(pointer, "%zero", row_major(SHAPE), tile.element, align=4)
        for pointer, tile in zip(("%x", "%y"), tiles, strict=True)
    )
    body = f"""
    %zero = arith.constant 0 : index
    %from = {load}
    %v = flight.tile_load %from : {from_kind} -> {tiles[0]}
    %w = flight.map (%v) : ({tiles[0]}) -> {tiles[1]} {{
    ^bb0(%e: {source}):
      %r = arith.{op} %e : {source} to {result}
      flight.yield %r : {result}
    }}
    %to = {store}
    flight.tile_store %w, %to : {tiles[1]}, {to_kind}"""
    return kernel("apply", {"x": f"*{source}", "y": f"*{result}"}, 256, body)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("element", NARROW)
def test_every_code_of_8_bits_is_widened(place, element):
    codes = np.resize(np.arange(256, dtype=np.uint8), SHAPE)
    y = np.zeros(SHAPE, np.float32)
    run(place, conversion_kernel("extf", element, "f32"), "apply", [codes, y])
    expected = codes.view(NARROW[element]).astype(np.float32)
    np.testing.assert_array_equal(y, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y[there]), np.signbit(expected[there]))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("element", NARROW)
def test_narrowing_is_to_nearest_even(place, element):
    """Numbers, the middles between them, and what is just beside the middles; then all orders of magnitude."""
    dtype = NARROW[element]
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    beside = [np.nextafter(middles, direction).astype(np.float32) for direction in (np.float32(-np.inf), np.float32(np.inf))]
    bits = np.random.default_rng(5).integers(0, 1 << 32, 2048, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.array(EDGES + [448, 464, 480, 57344, 61440, 65536, 240, 248], np.float32)
    x = np.resize(np.concatenate([edges, -edges, numbers, middles, *beside, bits]), SHAPE).astype(np.float32)
    y = np.zeros(SHAPE, np.uint8)
    run(place, conversion_kernel("truncf", "f32", element), "apply", [x, y])
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(y.view(dtype).astype(np.float32)), nan)
    np.testing.assert_array_equal(y[~nan], expected.view(np.uint8)[~nan])
