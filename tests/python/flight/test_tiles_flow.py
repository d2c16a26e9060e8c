"""Tiles through shared memory, loops and branches, and in layouts of every kind, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from tiles_support import (
    BLOCK,
    PLACES,
    Tile,
    check_ptx,
    column_spread,
    ir,
    load,
    random,
    raw,
    row_major,
    row_spread,
    run,
    store,
    sum_of,
    text,
    view,
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", ["", "async"])
@pytest.mark.parametrize("rows", [64, 50])
@pytest.mark.parametrize("shared", ["(64,64):(64,1)", "S<3,3,3> o 0 o (64,64):(64,1)", "(64,64):(72,1)"])
def test_tile_copy(place, mode, rows, shared):
    """Rows that are not there become zeros in shared memory."""
    shape = (64, 64)
    tile = Tile("bf16", shape, row_spread(shape, BLOCK, 8))
    other = Tile("bf16", shape, column_spread(shape, BLOCK, 2))
    source, kind = view("%x", "%zero", row_major(shape), "bf16", align=16)
    target = f'!flight.view<bf16, shared, "{shared}", 128>'
    body = f"""
    %rows = arith.constant {rows} : index
    %columns = arith.constant 64 : index
    %memory = flight.shared {64 * 72} : !flight.ptr<bf16, shared, 128>
    %there = flight.view %memory[%zero] : !flight.ptr<bf16, shared, 128> -> {target}
    %from = {source}
    flight.tile_copy %from to %there bounds(%rows, %columns) spread "{tile.spread}" {mode} : {kind} to {target}
    flight.commit
    flight.wait 0
    flight.barrier
    %v = flight.tile_load %there : {target} -> {other}"""
    x = random((rows, 64), ml_dtypes.bfloat16)
    y = np.full(shape, 99, ml_dtypes.bfloat16)
    source_ir = ir({"x": "*bf16", "y": "*bf16"}, body + store("v", "%y", other))
    run(place, source_ir, "f", [raw(x), raw(y)])
    np.testing.assert_array_equal(y[:rows].astype(np.float32), x.astype(np.float32))
    np.testing.assert_array_equal(y[rows:].astype(np.float32), 0)
    if place == PLACES[0]:
        # What is known to be ragged goes through registers.
        assert ("cp.async.cg" in check_ptx(source_ir)) == (mode == "async" and rows == 64)


@pytest.mark.parametrize("place", PLACES)
def test_tiles_carried_by_loops_and_branches(place):
    """A for loop that swaps two tiles, a while loop, and a branch; one initial tile is used again afterwards."""
    shape = (8, 64)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 2))
    body = (
        load("v", "%x", tile)
        + load("w", "%y", tile)
        + f"""
    %one = arith.constant 1 : index
    %three = arith.constant 3 : index
    %n_ = arith.index_cast %n : i64 to index
    %a, %b = scf.for %i = %zero to %three step %one iter_args(%c = %v, %d = %w) -> ({tile}, {tile}) {{
      %m = {sum_of(tile, "c", "d")}
      scf.yield %d, %m : {tile}, {tile}
    }}
    %k, %l = scf.while (%p = %zero, %q = %a) : (index, {tile}) -> (index, {tile}) {{
      %more = arith.cmpi slt, %p, %n_ : index
      scf.condition(%more) %p, %q : index, {tile}
    }} do {{
    ^bb0(%p: index, %q: {tile}):
      %next = arith.addi %p, %one : index
      %o = {sum_of(tile, "q", "b")}
      scf.yield %next, %o : index, {tile}
    }}
    %big = arith.cmpi sgt, %n_, %one : index
    %r = scf.if %big -> ({tile}) {{
      %u = {sum_of(tile, "l", "v")}
      scf.yield %u : {tile}
    }} else {{
      scf.yield %l : {tile}
    }}"""
    )
    for n in (0, 1, 3):
        v, w = random(shape), random(shape, seed=1)
        z = np.zeros(shape, np.float32)
        run(
            place,
            ir({"x": "*f32", "y": "*f32", "z": "*f32", "n": "i64"}, body + store("r", "%z", tile)),
            "f",
            [v, w, z, np.int64(n)],
        )
        a, b = v, w
        for _ in range(3):
            a, b = b, a + b
        np.testing.assert_array_equal(z, a + n * b + (v if n > 1 else 0))


@pytest.mark.parametrize("place", PLACES)
def test_a_loop_starts_again_from_the_same_tile(place):
    """The initial tile of an inner loop is made outside the outer one: it must not be overwritten."""
    shape = (8, 64)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 2))
    body = (
        load("v", "%x", tile)
        + f"""
    %one = arith.constant 1 : index
    %three = arith.constant 3 : index
    %nothing = arith.constant 0.0 : f32
    %z = flight.splat %nothing : f32 -> {tile}
    %start = {sum_of(tile, "v", "v")}
    %r = scf.for %i = %zero to %three step %one iter_args(%sum = %z) -> ({tile}) {{
      %inner = scf.for %j = %zero to %three step %one iter_args(%c = %start) -> ({tile}) {{
        %m = {sum_of(tile, "c", "v")}
        scf.yield %m : {tile}
      }}
      %next = {sum_of(tile, "sum", "inner")}
      scf.yield %next : {tile}
    }}"""
    )
    x, y = random(shape), np.zeros(shape, np.float32)
    run(place, ir({"x": "*f32", "y": "*f32"}, body + store("r", "%y", tile)), "f", [x, y])
    np.testing.assert_array_equal(y, 15 * x)


@pytest.mark.parametrize("place", [p for p in PLACES if p.startswith("x86")])
def test_load_comes_before_a_store_to_the_same_memory(place):
    """In place, turned around: the loads are done when the store begins. (A barrier of a GPU orders shared memory only.)"""
    shape = (32, 32)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 1))
    body = load("v", "%x", tile, layout="(32,32):(1,32)")
    body += "\n    flight.barrier" + store("v", "%x", tile)
    x = random(shape)
    expected = x.T.copy()
    run(place, ir({"x": "*f32"}, body), "f", [x])
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", [(3, 20), (5, 7), (1, 96), (24, 1)])
def test_odd_shapes(place, shape):
    """Sizes that are no multiple of a vector or of the threads' runs."""
    rows, columns = shape
    tile = Tile("f32", shape, f"(({rows},{columns}),1):((1,{rows}),0)")
    block = rows * columns
    result = tile.without(1)
    body = load("v", "%x", tile) + f"\n    %r = flight.reduce add %v along 1 : {tile} -> {result}"
    body += store("r", "%y", result) + store("v", "%z", tile)
    x, y, z = random(shape), np.zeros((rows, 1), np.float32), np.zeros(shape, np.float32)
    run(place, ir({"x": "*f32", "y": "*f32", "z": "*f32"}, body, block), "f", [x, y, z], block=block)
    np.testing.assert_array_equal(y, x.sum(1, keepdims=True))
    np.testing.assert_array_equal(z, x)


@pytest.mark.parametrize("place", PLACES)
def test_three_modes_and_nested_layouts(place):
    shape = (2, 8, 16)
    tile = Tile("f32", shape, "((2,8,16),1):((1,2,16),0)")
    nested = "(2,(2,4),(4,4)):(128,(16,32),(1,4))"
    body = (
        load("v", "%x", tile, layout=nested)
        + f"""
    %a = flight.reduce max %v along 1 : {tile} -> {tile.without(1)}
    %b = flight.broadcast %a : {tile.without(1)} -> {tile}"""
    )
    x, y = random(shape), np.zeros(shape, np.float32)
    run(place, ir({"x": "*f32", "y": "*f32"}, body + store("b", "%y", tile)), "f", [x, y])
    np.testing.assert_array_equal(y, np.broadcast_to(x.max(1, keepdims=True), shape))


@pytest.mark.parametrize("place", PLACES)
def test_strides_of_run_time(place):
    shape = (16, 32)
    tile = Tile("f32", shape, row_spread(shape, BLOCK, 2))
    kind = f'!flight.view<f32, global, "{text(shape)}:(?{{div=4}},1)", 16>'
    body = f"""
    %d = arith.index_cast %stride : i64 to index
    %from = flight.view %x[%zero] dims(%d) : !flight.ptr<f32, global, 16> -> {kind}
    %v = flight.tile_load %from : {kind} -> {tile}"""
    for stride in (32, 40, 128):
        x, y = random((16, stride)), np.zeros(shape, np.float32)
        run(
            place,
            ir({"x": "*f32", "y": "*f32", "stride": "i64"}, body + store("v", "%y", tile)),
            "f",
            [x, y, np.int64(stride)],
        )
        np.testing.assert_array_equal(y, x[:, :32])
