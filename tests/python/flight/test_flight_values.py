"""Numbers of every type: operators, conversions and functions against NumPy."""

import operator

import ml_dtypes
import numpy as np
import pytest
from places import EVERYWHERE, INTERPRETER, like, run

from jaxator import flight

COUNT = 64


@flight.kernel
def pairs(a, b, y, body: flight.Constexpr):
    i = flight.thread_id()
    y[i] = body(a[i], b[i])


@flight.jit
def launch(a, b, y, *, body):
    pairs(a, b, y, body).launch(grid=1, block=COUNT)


@flight.kernel
def fragments(a, b, y, body: flight.Constexpr):
    i = flight.thread_id()
    y.local_tile(4, i).store(body(a.local_tile(4, i).load(), b.local_tile(4, i).load()))


@flight.jit
def launch_fragments(a, b, y, *, body):
    fragments(a, b, y, body).launch(grid=1, block=COUNT // 4)


def numbers(dtype):
    random = np.random.default_rng(3)
    if np.dtype(dtype).kind in "iu":
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = random.integers(max(least, -100), min(greatest, 100), COUNT)
        b = np.where((c := random.integers(max(least, -9), 9, COUNT)) == 0, 5, c)
        return a.astype(dtype), b.astype(dtype)
    return (np.round(random.standard_normal((2, COUNT)) * 32) / 8 + 0.0625).astype(dtype)


ARITHMETIC = ["add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers(place, dtype):
    a, b = numbers(dtype)
    for name in ARITHMETIC:
        function = getattr(operator, name)
        with np.errstate(all="ignore"):
            expected = function(a, b)
        (y,) = run(place, launch, [a, b], [like(COUNT, expected.dtype)], body=function)
        np.testing.assert_array_equal(y, expected, err_msg=name)
        (y,) = run(place, launch_fragments, [a, b], [like(COUNT, expected.dtype)], body=function)
        np.testing.assert_array_equal(y, expected, err_msg=f"fragments {name}")


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
def test_floats(place, dtype):
    a, b = numbers(dtype)
    for name in ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne"):
        function = getattr(operator, name)
        expected = function(a, b)
        for launcher in (launch, launch_fragments):
            (y,) = run(place, launcher, [a, b], [like(COUNT, expected.dtype)], body=function)
            if name == "truediv" and np.dtype(dtype).itemsize < 8:
                # Quotients may be off by the last bit or two where the target divides by a reciprocal.
                tolerance = 3 * np.finfo(np.float32).eps if dtype == "float32" else float(ml_dtypes.finfo(dtype).eps)
                np.testing.assert_allclose(y.astype(np.float64), expected.astype(np.float64), rtol=tolerance)
            else:
                np.testing.assert_array_equal(y, expected, err_msg=name)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_shifts_and_signs(place):
    a, b = numbers("int32")
    b = np.abs(b) % 8
    for body in (operator.lshift, operator.rshift, lambda x, y: -x + abs(y), lambda x, y: ~x, lambda x, y: x**3 - 2 * y):
        (y,) = run(place, launch, [a, b], [like(COUNT, "int32")], body=body)
        np.testing.assert_array_equal(y, body(a, b))
    unsigned = a.astype(np.uint32)
    (y,) = run(place, launch, [unsigned, b.astype(np.uint32)], [like(COUNT, "uint32")], body=operator.rshift)
    np.testing.assert_array_equal(y, unsigned >> b.astype(np.uint32))


TYPES = ["bool", "int8", "int32", "int64", "uint8", "uint32", "float16", "float32", "float64", ml_dtypes.bfloat16]


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("source", TYPES, ids=lambda t: np.dtype(t).name)
def test_conversions(place, source):
    values = np.arange(COUNT) if np.dtype(source).kind in "bu" else np.arange(COUNT) - 32
    a = (values % 2 == 1) if source == "bool" else (values / (4 if np.dtype(source).kind not in "iu" else 1)).astype(source)
    for target in TYPES:
        if source == "float64" and np.dtype(target).itemsize == 2:
            continue  # refused: see test_errors
        if np.dtype(target).kind == "u" and (a < 0).any() and np.dtype(source).kind not in "iu":
            a = np.abs(a)  # a negative float has no unsigned value
        expected = a.astype(target)
        (y,) = run(place, launch, [a, a], [like(COUNT, target)], body=lambda x, _, t=target: x.to(t))
        np.testing.assert_array_equal(y, expected, err_msg=str(target))


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize(
    "name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf", "floor", "ceil"]
)
def test_functions(place, name):
    import math

    a = np.linspace(0.01 if name in ("log", "log2", "sqrt", "rsqrt") else -4, 4, COUNT).astype(np.float32)
    reference = {
        "exp2": np.exp2, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": np.vectorize(math.erf), "log2": np.log2,
    }.get(name, getattr(np, name, None))  # fmt: skip
    (y,) = run(place, launch, [a, a], [like(COUNT)], body=lambda x, _: getattr(flight, name)(x))
    expected = reference(a.astype(np.float64))
    # A few units in the last place of f32, of the value or of 1.
    assert (np.abs(y - expected) <= 8 * 2.0**-24 * np.maximum(np.abs(expected), 1)).all(), np.abs(y - expected).max()


@pytest.mark.parametrize("place", EVERYWHERE)
def test_choosing(place):
    a, b = numbers("float32")
    a[3] = np.nan
    (y,) = run(place, launch, [a, b], [like(COUNT)], body=lambda x, y: flight.where(x < y, x, 7.0))
    np.testing.assert_array_equal(y, np.where(a < b, a, 7))
    (y,) = run(place, launch, [a, b], [like(COUNT)], body=lambda x, y: max(x, y) - min(y, 1.0))
    np.testing.assert_array_equal(y, np.maximum(a, b) - np.minimum(b, 1))
    (y,) = run(place, launch, [a, b], [like(COUNT)], body=lambda x, y: flight.fma(x, 2.0, y))
    np.testing.assert_array_equal(y, 2 * a + b)
    (y,) = run(place, launch_fragments, [a, b], [like(COUNT, "bool")], body=lambda x, y: ~((x < y) & (y > 0.0)))
    np.testing.assert_array_equal(y, ~((a < b) & (b > 0)))


@pytest.mark.parametrize("place", EVERYWHERE)
def test_bits(place):
    a, b = numbers("float32")
    (y,) = run(place, launch, [a, b], [like(COUNT, "int32")], body=lambda x, y: flight.bitcast(x, flight.i32))
    np.testing.assert_array_equal(y, a.view(np.int32))
    (y,) = run(
        place, launch_fragments, [a, b], [like(COUNT, "uint32")], body=lambda x, y: flight.bitcast(x, flight.u32) >> 16
    )
    np.testing.assert_array_equal(y, a.view(np.uint32) >> 16)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_fragments(place):
    a, b = numbers("float32")
    rows = a.reshape(-1, 4)

    def body(x, y):
        square = x.reshape((2, 2))
        square[0, None] = flight.vector(square[1, 0], square[1, 1])
        other = flight.fragment(4, flight.f32)
        for k in flight.static_range(4):
            other[k] = square[k] * 2.0
        at = flight.thread_id() % 4
        other[at] = y[at]
        return other + x.sum() - x.max()

    expected = 2 * rows[:, [1, 1, 3, 3]]
    at = np.arange(COUNT // 4)
    expected[at, at % 4] = b.reshape(-1, 4)[at, at % 4]
    expected += np.add.accumulate(rows, axis=1)[:, 3:] - rows.max(1, keepdims=True)
    (y,) = run(place, launch_fragments, [a, b], [like(COUNT)], body=body)
    np.testing.assert_allclose(y.reshape(-1, 4), expected, atol=1e-5)


@pytest.mark.parametrize("place", EVERYWHERE)
def test_lanes(place):
    from jaxator.flight._program import TARGETS

    a, b = numbers("float32")
    wave = TARGETS["x86-64" if "gfx" not in place else place].wave
    lanes = a.reshape(-1, wave)
    cases = [
        (lambda x, y: flight.wave_max(x), np.repeat(lanes.max(1), wave)),
        (lambda x, y: flight.wave_sum(x), np.repeat(lanes.sum(1), wave)),  # multiples of 1/16: exact
        (lambda x, y: flight.shuffle_up(x, 3), np.concatenate([lanes[:, :3], lanes[:, :-3]], 1).reshape(-1)),
        (lambda x, y: flight.shuffle_down(x, 1), np.concatenate([lanes[:, 1:], lanes[:, -1:]], 1).reshape(-1)),
        (lambda x, y: flight.shuffle(x, 5), np.repeat(lanes[:, 5], wave)),
        (lambda x, y: flight.shuffle_xor(x.to(flight.bf16), 1).to(flight.f32), lanes[:, np.arange(wave) ^ 1].reshape(-1)),
        (
            lambda x, y: (flight.lane_id() + 100 * flight.wave_id()).to(flight.f32),
            np.arange(COUNT) % wave + 100 * (np.arange(COUNT) // wave),
        ),
    ]
    for i, (body, expected) in enumerate(cases):
        (y,) = run(place, launch, [a, b], [like(COUNT)], body=body)
        np.testing.assert_array_equal(y, expected, err_msg=f"case {i}")


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("stream", ["dropout", "round_dy"])
def test_philox_draws_what_the_library_draws(place, stream):
    from numeric_model import draw

    key = (0x12345678, 0x9ABCDEF0)
    places = np.concatenate([np.arange(40), 2**32 - 5 + np.arange(24)]).astype(np.int64)
    (y,) = run(
        place, launch, [places, places], [like(COUNT, "uint32")], body=lambda i, _: flight.random_bits(key, stream, i)
    )
    number = {"dropout": 0, "round_dy": 3}[stream]
    np.testing.assert_array_equal(y, draw(32, np.array(key, np.uint32), number, places.astype(np.uint64)))


def test_operators_with_numpy_scalars():
    a, b = numbers("float32")
    (y,) = run(INTERPRETER, launch, [a, b], [like(COUNT)], body=lambda x, y: x * np.float32(2) + np.int32(1))
    np.testing.assert_array_equal(y, a * 2 + 1)


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"])
def test_narrow_floats_are_stored(place, name):
    """Every code to f32 and back; numbers between codes round to nearest even, and past the ends."""
    dtype = getattr(ml_dtypes, f"float8_{name}")
    x = np.arange(256, dtype=np.uint8).view(dtype)
    between = np.concatenate([np.linspace(-20, 20, 2 * COUNT), np.geomspace(1e-7, 1e6, 2 * COUNT)]).astype(np.float32)
    between[:4] = np.nan, np.inf, -np.inf, -1e-9

    @flight.kernel
    def kernel(a, b, y, z):
        i = flight.thread_id()
        y.local_tile(4, i).store(a.local_tile(4, i).load().to(flight.f32))
        z.local_tile(4, i).store(b.local_tile(4, i).load().to(a.dtype))

    @flight.jit
    def launch_(a, b, y, z):
        kernel(a, b, y, z).launch(grid=1, block=COUNT)

    y, z = run(place, launch_, [x, between], [like(4 * COUNT), like(4 * COUNT, dtype)])
    np.testing.assert_array_equal(y, x.astype(np.float32))
    np.testing.assert_array_equal(z.view(np.uint8), between.astype(dtype).view(np.uint8))
