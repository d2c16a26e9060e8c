"""Ops on whole tiles against NumPy: on x86 by both routes and on the emulator, where missing waits, races and unset values
fail."""

import numpy as np
import pytest
from tiles_support import BLOCK, DTYPES, PLACES, Tile, column_spread, ir, load, random, raw, row_spread, run, store


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "rows, columns", [(16, 64), (11, 64), (16, 61), (1, 1), (13, 3), (0, 64), (16, 0), (20, 70), (-3, 5)]
)
def test_bounds(place, rows, columns):
    """From the bounds on nothing is read and nothing is written; `other` stands in for what is not there."""
    shape = (16, 64)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 4))
    body = """
    %r = arith.index_cast %rows : i64 to index
    %c = arith.index_cast %columns : i64 to index
    %seven = arith.constant 7.0 : f32
    %size = arith.constant 64 : index"""
    body += load("v", "%x", tile, "bounds(%r, %c) other(%seven : f32)")
    body += store("v", "%y", tile) + store("v", "%z", tile, "bounds(%r, %c)")
    x = random(shape)
    y, z = np.full(shape, -1, np.float32), np.full(shape, -1, np.float32)
    arguments = {"x": "*f32", "y": "*f32", "z": "*f32", "rows": "i64", "columns": "i64"}
    run(place, ir(arguments, body), "f", [x, y, z, np.int64(rows), np.int64(columns)])
    there = np.zeros(shape, bool)
    there[: max(rows, 0), : max(columns, 0)] = True
    np.testing.assert_array_equal(y, np.where(there, x, 7))
    np.testing.assert_array_equal(z, np.where(there, x, -1))


@pytest.mark.parametrize("place", PLACES)
def test_nothing_outside_the_bounds_is_touched(place):
    """The arrays end where the bounds do: the emulator and a guard value tell."""
    shape, rows = (16, 64), 5
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 4))
    body = f"\n    %r = arith.constant {rows} : index\n    %c = arith.constant 64 : index"
    body += load("v", "%x", tile, "bounds(%r, %c)") + store("v", "%y", tile, "bounds(%r, %c)")
    x, y = random((rows, 64)), np.full((rows + 1, 64), -1, np.float32)
    run(place, ir({"x": "*f32", "y": "*f32"}, body), "f", [x, y])
    np.testing.assert_array_equal(y[:rows], x)
    np.testing.assert_array_equal(y[rows:], -1)


COMBINE = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("combine", COMBINE)
@pytest.mark.parametrize("mode", [0, 1])
def test_reduce(place, element, combine, mode):
    shape = (8, 128)
    x = random(shape, DTYPES[element], seed=3)
    if combine == "mul":
        x = np.where(np.random.default_rng(4).random(shape) < 0.5, 1, -1).astype(DTYPES[element])
    elif element == "i8":
        x = (x / 5).astype(np.int8)
    tile = Tile(element, shape, row_spread(shape, BLOCK, 2))
    result = tile.without(mode)
    body = load("v", "%x", tile)
    body += f"\n    %r = flight.reduce {combine} %v along {mode} : {tile} -> {result}"
    body += store("r", "%y", result)
    y = np.zeros(result.shape, DTYPES[element])
    run(place, ir({"x": f"*{element}", "y": f"*{element}"}, body), "f", [raw(x), raw(y)])
    expected = COMBINE[combine](x.astype(np.float64), axis=mode, keepdims=True).astype(DTYPES[element])
    np.testing.assert_array_equal(y.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape, spread", [
    ((4, 64), row_spread((4, 64), BLOCK, 1)),
    ((2, 512), row_spread((2, 512), BLOCK, 4)),
    ((64, 16), column_spread((64, 16), BLOCK, 4)),
    ((96, 8), "((96,2),4):((1,96),192)"),  # a row of 96 threads: no power of two
    ((16, 8), "((16,8,2),1):((1,16,0),0)"),  # every thread twice
    ((16, 8), "((2,8,16),2):((0,16,1),0)"),  # every element twice in a thread, too
])  # fmt: skip
@pytest.mark.parametrize("mode", [0, 1])
def test_reduce_across_lanes_waves_and_copies(place, shape, spread, mode):
    threads = 192 if shape[0] == 96 else BLOCK
    x = random(shape, seed=5)
    tile = Tile("f32", shape, spread)
    result = tile.without(mode)
    repeated = (
        f"\n    %again = flight.broadcast %r : {result} -> {tile}"
        f"\n    %d = flight.map (%v, %again) : ({tile}, {tile}) -> {tile} {{\n    ^bb0(%a: f32, %b: f32):"
        "\n      %e = arith.subf %a, %b : f32\n      flight.yield %e : f32\n    }"
    )
    body = load("v", "%x", tile) + f"\n    %r = flight.reduce add %v along {mode} : {tile} -> {result}" + repeated
    body += store("r", "%y", result) + store("d", "%z", tile)
    y, z = np.zeros(result.shape, np.float32), np.zeros(shape, np.float32)
    run(place, ir({"x": "*f32", "y": "*f32", "z": "*f32"}, body, threads), "f", [x, y, z], block=threads)
    np.testing.assert_array_equal(y, x.sum(mode, keepdims=True))
    np.testing.assert_array_equal(z, x - x.sum(mode, keepdims=True))


@pytest.mark.parametrize("place", PLACES)
def test_nan_wins_maximum_and_minimum(place):
    shape = (8, 128)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 2))
    x = random(shape)
    x[3, 77] = np.nan
    result = tile.without(1)
    body = load("v", "%x", tile)
    for i, combine in enumerate(("max", "min")):
        body += f"\n    %r{i} = flight.reduce {combine} %v along 1 : {tile} -> {result}" + store(f"r{i}", f"%y{i}", result)
    ys = [np.zeros((8, 1), np.float32) for _ in range(2)]
    run(place, ir({"x": "*f32", "y0": "*f32", "y1": "*f32"}, body), "f", [x, *ys])
    np.testing.assert_array_equal(ys[0], x.max(1, keepdims=True))
    np.testing.assert_array_equal(ys[1], x.min(1, keepdims=True))


@pytest.mark.parametrize("place", PLACES)
def test_iota_splat_and_values_from_outside(place):
    shape = (16, 32)
    tile = Tile("i32", shape, row_spread(shape, BLOCK, 2))
    body = f"""
    %i = flight.iota 0 : {tile}
    %j = flight.iota 1 : {tile}
    %hundred = arith.constant 100 : i32
    %h = flight.splat %hundred : i32 -> {tile}
    %v = flight.map (%i, %j, %h) : ({tile}, {tile}, {tile}) -> {tile} {{
    ^bb0(%a: i32, %b: i32, %c: i32):
      %d = arith.muli %a, %c : i32
      %e = arith.addi %d, %b : i32
      %f = arith.addi %e, %n : i32
      flight.yield %f : i32
    }}"""
    y = np.zeros(shape, np.int32)
    run(place, ir({"y": "*i32", "n": "i32"}, body + store("v", "%y", tile)), "f", [y, np.int32(7)])
    np.testing.assert_array_equal(y, 100 * np.arange(16)[:, None] + np.arange(32) + 7)


@pytest.mark.parametrize("place", PLACES)
def test_map_with_branches_and_two_results(place):
    """What has no vector form is done element by element."""
    shape = (16, 32)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 2))
    body = (
        load("v", "%x", tile)
        + f"""
    %zerof = arith.constant 0.0 : f32
    %a, %b = flight.map (%v) : ({tile}) -> ({tile}, {tile}) {{
    ^bb0(%e: f32):
      %negative = arith.cmpf olt, %e, %zerof : f32
      %r = scf.if %negative -> (f32) {{
        %n = arith.negf %e : f32
        scf.yield %n : f32
      }} else {{
        %two = arith.constant 2.0 : f32
        %d = arith.mulf %e, %two : f32
        scf.yield %d : f32
      }}
      %s = arith.addf %e, %r : f32
      flight.yield %r, %s : f32, f32
    }}"""
    )
    x = random(shape)
    y, z = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    run(
        place,
        ir({"x": "*f32", "y": "*f32", "z": "*f32"}, body + store("a", "%y", tile) + store("b", "%z", tile)),
        "f",
        [x, y, z],
    )
    expected = np.where(x < 0, -x, 2 * x)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(z, x + expected)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "f64"])
def test_transpose_and_respread(place, element):
    shape = (64, 32)
    tile = Tile(element, shape, row_spread(shape, BLOCK, 4))
    turned = Tile(element, (32, 64), tile.spread)
    # The same threads and values, by the transposed place: strides of the row and the column change.
    rows, columns = shape
    across = columns // 4
    turned = Tile(
        element, (32, 64), f"(({across},{BLOCK // across}),(4,{rows * across // BLOCK})):((4,32),(1,{32 * BLOCK // across}))"
    )
    again = Tile(element, (32, 64), row_spread((32, 64), BLOCK, 4))
    body = load("v", "%x", tile)
    body += f"\n    %t = flight.transpose %v [1, 0] : {tile} -> {turned}"
    body += f"\n    %r = flight.respread %t : {turned} -> {again}" + store("r", "%y", again)
    x = random(shape, DTYPES[element])
    y = np.zeros((32, 64), DTYPES[element])
    run(place, ir({"x": f"*{element}", "y": f"*{element}"}, body), "f", [raw(x), raw(y)])
    np.testing.assert_array_equal(y.astype(np.float64), x.T.astype(np.float64))


@pytest.mark.parametrize("place", PLACES)
def test_respread_of_conditions_and_copies(place):
    shape = (16, 32)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 4))
    other = Tile("f32", shape, column_spread(shape, BLOCK, 1))
    body = (
        load("v", "%x", tile)
        + f"""
    %zerof = arith.constant 0.0 : f32
    %c = flight.map (%v) : ({tile}) -> {tile.of("i1")} {{
    ^bb0(%e: f32):
      %p = arith.cmpf ogt, %e, %zerof : f32
      flight.yield %p : i1
    }}
    %d = flight.respread %c : {tile.of("i1")} -> {other.of("i1")}
    %w = flight.respread %v : {tile} -> {other}
    %r = flight.map (%d, %w) : ({other.of("i1")}, {other}) -> {other} {{
    ^bb0(%p: i1, %e: f32):
      %k = arith.select %p, %e, %zerof : f32
      flight.yield %k : f32
    }}"""
    )
    x = random(shape)
    y = np.zeros(shape, np.float32)
    run(place, ir({"x": "*f32", "y": "*f32"}, body + store("r", "%y", other)), "f", [x, y])
    np.testing.assert_array_equal(y, np.maximum(x, 0))
