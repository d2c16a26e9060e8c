"""Matrix instructions with block scales, exactly, on the emulator."""

import numpy as np
import pytest
from test_tiles_mma import TYPES, atoms, bits
from tiles_support import kernel, mma_spread, run

from jaxator.flight.layout import Layout


@pytest.mark.parametrize("name", ["mfma_scale_16x16x128_fp8", "mfma_scale_32x32x64_bf8"])
def test_scales_of_each_lane(name):
    """Those of 32 neighbours along k: here 2^group for A, and 2^-column for B. The bytes come in halves of k."""
    _, lanes, m, n, k, element, _ = atoms("gfx950")[name]
    groups, count = lanes // m, m * n // lanes
    halves = f"(16,2):(1,{k // 2})"
    vector, sums = f"vector<32x{element}>", f"vector<{count}xf32>"
    body = f"""    %zero = arith.constant 0 : index
    %lane = flight.thread_id x
    %m = arith.constant {m} : index
    %k = arith.constant {k} : index
    %run = arith.constant 16 : index
    %one = arith.constant 127 : i32
    %row = arith.remui %lane, %m : index
    %group = arith.divui %lane, %m : index
    %start = arith.muli %row, %k : index
    %skip = arith.muli %group, %run : index
    %at = arith.addi %start, %skip : index
    %g = arith.index_cast %group : index to i32
    %r = arith.index_cast %row : index to i32
    %scale_a = arith.addi %one, %g : i32
    %scale_b = arith.subi %one, %r : i32
    %va = flight.view %a[%at] : !flight.ptr<{element}, global, 16> -> !flight.view<{element}, global, "{halves}", 16>
    %vb = flight.view %b[%at] : !flight.ptr<{element}, global, 16> -> !flight.view<{element}, global, "{halves}", 16>
    %fa = flight.load %va : !flight.view<{element}, global, "{halves}", 16> -> vector<32x{element}>
    %fb = flight.load %vb : !flight.view<{element}, global, "{halves}", 16> -> vector<32x{element}>
    %none = arith.constant dense<0.0> : vector<{count}xf32>
    %c = flight.mma "{name}" %fa, %fb, %none scale_a(%scale_a) scale_b(%scale_b) : {vector}, {vector}, {sums}
    %v = arith.constant {count} : index
    %to = arith.muli %lane, %v : index
    %vo = flight.view %o[%to] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "{count}:1", 16>
    flight.store %c, %vo : vector<{count}xf32>, !flight.view<f32, global, "{count}:1", 16>"""
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-2, 3, (m, k)).astype(TYPES[element]) for _ in range(2))
    out = np.zeros((lanes, count), np.float32)
    arguments = {"a": f"*{element}", "b": f"*{element}", "o": "*f32"}
    run("gfx950", kernel("scaled", arguments, lanes, body), "scaled", [bits(a), bits(b), out], block=lanes)
    exact = a.astype(np.float64) * np.repeat(2.0 ** np.arange(groups), 32) @ b.astype(np.float64).T * 2.0 ** -np.arange(n)
    spread = Layout.parse(mma_spread("gfx950", name, "(1,1):(0,0)", "c", (m, n)))
    places = np.array([[spread(lane, value) for value in range(count)] for lane in range(lanes)])
    np.testing.assert_array_equal(out, exact.T.ravel()[places])


def test_four_bit_operands_with_scales():
    """Two elements a byte, the even one in the low half; a lane's 32 neighbours along k are its 16 bytes."""
    vector = "vector<32xf4E2M1FN>"
    body = f"""    %i = flight.thread_id x
    %c16 = arith.constant 16 : index
    %c64 = arith.constant 64 : index
    %c4 = arith.constant 4 : index
    %row = arith.remui %i, %c16 : index
    %group = arith.divui %i, %c16 : index
    %a0 = arith.muli %row, %c64 : index
    %a1 = arith.muli %group, %c16 : index
    %at = arith.addi %a0, %a1 : index
    %v = flight.view %x[%at] : !flight.ptr<i8, global, 16> -> !flight.view<i8, global, "16:1", 16>
    %u = flight.view %y[%at] : !flight.ptr<i8, global, 16> -> !flight.view<i8, global, "16:1", 16>
    %a = flight.load %v : !flight.view<i8, global, "16:1", 16> -> vector<16xi8>
    %b = flight.load %u : !flight.view<i8, global, "16:1", 16> -> vector<16xi8>
    %fa = vector.bitcast %a : vector<16xi8> to vector<32xf4E2M1FN>
    %fb = vector.bitcast %b : vector<16xi8> to vector<32xf4E2M1FN>
    %none = arith.constant dense<0.0> : vector<4xf32>
    %one = arith.constant 127 : i32
    %g = arith.index_cast %group : index to i32
    %s = arith.addi %one, %g : i32
    %c = flight.mma "mfma_scale_16x16x128_fp4" %fa, %fb, %none scale_a(%s) : {vector}, {vector}, vector<4xf32>
    %to = arith.muli %i, %c4 : index
    %w = flight.view %z[%to] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "4:1", 16>
    flight.store %c, %w : vector<4xf32>, !flight.view<f32, global, "4:1", 16>"""
    rng = np.random.default_rng(8)
    codes = [rng.integers(0, 16, (16, 128)) for _ in range(2)]
    packed = [(code[:, 0::2] | code[:, 1::2] << 4).astype(np.uint8) for code in codes]
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    a, b = (np.where(code & 8, -1, 1) * magnitudes[code & 7] for code in codes)
    out = np.zeros((64, 4), np.float32)
    run("gfx950", kernel("scaled", {"x": "*i8", "y": "*i8", "z": "*f32"}, 64, body), "scaled", [*packed, out], block=64)
    exact = a * np.repeat(2.0 ** np.arange(4), 32) @ b.T
    spread = Layout.parse(mma_spread("gfx950", "mfma_scale_16x16x128_fp4", "(1,1):(0,0)", "c", (16, 16)))
    places = np.array([[spread(lane, value) for value in range(4)] for lane in range(64)])
    np.testing.assert_array_equal(out, exact.T.ravel()[places])
