"""Kernels from text to results, on x86 and on the emulated GPUs; PTX through ptxas."""

from __future__ import annotations

import mmap

import flightc
import kernels
import numpy as np
import pytest

RANDOM = np.random.default_rng(7)


def integers(*shape: int, dtype=np.float32) -> np.ndarray:
    return flightc.aligned(RANDOM.integers(-8, 8, shape).astype(dtype))


def zeros(*shape: int, dtype=np.float32) -> np.ndarray:
    return flightc.aligned(np.zeros(shape, dtype))


@pytest.fixture(scope="module")
def compiler():
    process = flightc.Process()
    yield process
    assert process.close() == 0


@pytest.fixture(params=flightc.RUNNABLE)
def target(request):
    return request.param


@pytest.mark.parametrize("n", [0, 4, 1020, 4000])
def test_scale(compiler, target, n):
    x, y = integers(4096), flightc.aligned(np.full(4096, -1, np.float32))
    flightc.run(compiler.code(kernels.SCALE, target), target, "scale", [x, y, np.int64(n)], (4,), (256,))
    np.testing.assert_array_equal(y[:n], 2 * x[:n])
    assert (y[n:] == -1).all()


@pytest.mark.parametrize("optimize", [0, 1, 2, 3])
def test_barriers_in_a_loop(compiler, target, optimize):
    x, y = integers(4 * 128), zeros(4)
    code = compiler.code(kernels.block_sum(), target, optimize=optimize)
    flightc.run(code, target, "kernel", [x, y], (4,), (128,))
    np.testing.assert_array_equal(y, x.reshape(4, 128).sum(1))


def test_shuffles_in_a_loop(compiler, target):
    wave = 32 if target == "x86-64" else 64
    x, y = integers(128), zeros(128)
    flightc.run(compiler.code(kernels.wave_sum(wave), target), target, "kernel", [x, y], block=(128,))
    np.testing.assert_array_equal(y, x.reshape(-1, wave).sum(1).repeat(wave))


@pytest.mark.parametrize("move", ["xor", "up", "down", "index"])
@pytest.mark.parametrize("amount", [0, 1, 5, 31, 33, 63, 64])
def test_shuffle(compiler, target, move, amount):
    """A lane outside of the wave gives the own value."""
    wave = 32 if target == "x86-64" else 64
    x, y = np.arange(128, dtype=np.int32), zeros(128, dtype=np.int32)
    flightc.run(compiler.code(kernels.shuffle(move, amount), target), target, "kernel", [x, y], block=(128,))
    lane = np.arange(128) % wave
    source = {"xor": lane ^ amount, "up": lane - amount, "down": lane + amount, "index": np.full(128, amount)}[move]
    source = np.where((source >= 0) & (source < wave), source, lane)
    np.testing.assert_array_equal(y, np.arange(128) // wave * wave + source)


@pytest.mark.parametrize("swizzle", ["S<3,2,3> o 0 o ", "S<0,4,3> o 0 o ", "S<5,2,5> o 0 o ", "S<2,3,-4> o 0 o "])
def test_transpose_through_shared_memory(compiler, target, swizzle):
    x, y = integers(32, 32), zeros(32, 32)
    flightc.run(compiler.code(kernels.transpose(swizzle), target), target, "kernel", [x, y])
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("swizzle", ["S<3,2,3> o 0 o ", "S<0,4,3> o 0 o ", "S<5,2,5> o 0 o "])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_bank_conflicts_are_those_that_the_emulator_counts(compiler, target, swizzle):
    answer, code = compiler.compile(kernels.transpose(swizzle), target)
    emulator = flightc.emulator
    report = emulator.launch(emulator.Code(code), "kernel", [integers(32, 32), zeros(32, 32)], (1,), (64,))
    extra = sum(bank["cycles"] - bank["conflict_free_cycles"] for bank in report.banks)
    assert answer["report"]["kernels"]["kernel"]["bank_conflicts"] == extra > 0
    assert all("without conflicts" in remark["message"] and remark["frames"] for remark in answer["report"]["remarks"])


# Layout, its places for dynamic leaves a and b, count, stride between threads, alignment in bytes, dynamic leaves.
LAYOUTS = [
    ("7:1", lambda a, b: range(7), 7, 8, 4, ""),
    ("8:1", lambda a, b: range(8), 8, 8, 16, ""),
    ("(4,2):(1,16)", lambda a, b: [i % 4 + 16 * (i // 4) for i in range(8)], 8, 32, 16, ""),
    ("(2,4):(16,1)", lambda a, b: [16 * (i % 2) + i // 2 for i in range(8)], 8, 32, 16, ""),
    ("((2,2),2):((1,8),2)", lambda a, b: [i % 2 + 8 * (i // 2 % 2) + 2 * (i // 4) for i in range(8)], 8, 16, 8, ""),
    ("4:0", lambda a, b: [0] * 4, 4, 3, 4, ""),
    ("(3,2):(1,?)", lambda a, b: [i % 3 + a * (i // 3) for i in range(6)], 6, 48, 4, "%a"),
    ("(4,3):(1,?{div=4})", lambda a, b: [i % 4 + a * (i // 4) for i in range(12)], 12, 64, 16, "%a"),
    ("(2,2):(?,?)", lambda a, b: [a * (i % 2) + b * (i // 2) for i in range(4)], 4, 64, 4, "%a, %b"),
]


@pytest.mark.parametrize("layout,places,count,stride,align,dims", LAYOUTS, ids=[case[0] for case in LAYOUTS])
@pytest.mark.parametrize("dtype,element", [(np.float32, "f32"), (np.uint8, "i8"), (np.float64, "f64"), (np.int16, "i16")])
def test_views(compiler, target, layout, places, count, stride, align, dims, dtype, element):
    a, b = 20, 7
    align = max(align * np.dtype(dtype).itemsize // 4, np.dtype(dtype).itemsize)
    code = compiler.code(kernels.copy(layout, count, align, element, pointer_align=max(16, align), dims=dims), target)
    x, y = integers(1024, dtype=dtype), zeros(1024, dtype=dtype)
    flightc.run(code, target, "kernel", [x, y, np.int64(stride), np.int64(a), np.int64(b)], block=(8,))
    expected = np.zeros_like(y)
    for thread in range(8):
        at = [thread * stride + place for place in places(a, b)]
        expected[at] = x[at]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("count", [1, 4, 6])
def test_masks(compiler, target, count):
    """From an offset on nothing is read, `other` is put instead; nor is anything written. What is past it is not mapped."""
    limit = 8 * count - 3
    mask = f"""    %limit = arith.constant dense<{limit}> : vector<{count}xindex>
    %steps = arith.constant dense<[{", ".join(map(str, range(count)))}]> : vector<{count}xindex>
    %at = vector.broadcast %offset : index to vector<{count}xindex>
    %places = arith.addi %at, %steps : vector<{count}xindex>
    %mask = arith.cmpi slt, %places, %limit : vector<{count}xindex>
    %other = arith.constant 9.0 : f32
"""
    text = kernels.copy(f"{count}:1", count, 4, masked=mask)
    x, y = integers(limit), zeros(limit)
    flightc.run(compiler.code(text, target), target, "kernel", [x, y, np.int64(count), np.int64(1), np.int64(1)], block=(8,))
    np.testing.assert_array_equal(y, x)
    everywhere = text.replace(f" mask(%mask : vector<{count}xi1>) : vector<{count}xf32>", f" : vector<{count}xf32>")
    assert everywhere != text
    y = zeros(8 * count)
    flightc.run(
        compiler.code(everywhere, target), target, "kernel", [x, y, np.int64(count), np.int64(1), np.int64(1)], block=(8,)
    )
    np.testing.assert_array_equal(y, np.append(x, [9.0] * (8 * count - limit)))


COORDINATES = kernels.module(
    """    %tx = flight.thread_id x
    %ty = flight.thread_id y
    %tz = flight.thread_id z
    %bx = flight.block_id x
    %by = flight.block_id y
    %gx = flight.grid_dim x
    %gy = flight.grid_dim y
    %c4 = arith.constant 4 : index
    %c2 = arith.constant 2 : index
    %c24 = arith.constant 24 : index
    %zy = arith.muli %tz, %c2 : index
    %zy1 = arith.addi %zy, %ty : index
    %zyx = arith.muli %zy1, %c4 : index
    %t = arith.addi %zyx, %tx : index
    %b0 = arith.muli %by, %gx : index
    %b = arith.addi %b0, %bx : index
    %first = arith.muli %b, %c24 : index
    %at = arith.addi %first, %t : index
    %g = arith.muli %gy, %at : index
    %n = arith.index_cast %g : index to i64
    %v = vector.broadcast %n : i64 to vector<1xi64>
    %view = flight.view %x[%at] : !flight.ptr<i64, global, 8> -> !flight.view<i64, global, "1:1", 8>
    flight.store %v, %view : vector<1xi64>, !flight.view<i64, global, "1:1", 8>""",
    "%x: !flight.ptr<i64, global, 8>",
    block=(4, 2, 3),
)


def test_coordinates(compiler, target):
    x = zeros(24 * 15, dtype=np.int64)
    flightc.run(compiler.code(COORDINATES, target), target, "kernel", [x], (5, 3), (4, 2, 3))
    np.testing.assert_array_equal(x, 3 * np.arange(24 * 15))


SCALARS = kernels.module(
    """    %c0 = arith.constant 0 : index
    %a8 = arith.extsi %a : i8 to i64
    %b16 = arith.extsi %b : i16 to i64
    %c32 = arith.extsi %c : i32 to i64
    %truth = arith.extui %t : i1 to i64
    %f = arith.fptosi %e : f32 to i64
    %g = arith.fptosi %h : f64 to i64
    %v = vector.from_elements %truth, %a8, %b16, %c32, %d, %f, %g, %d : vector<8xi64>
    %view = flight.view %x[%c0] : !flight.ptr<i64, global, 8> -> !flight.view<i64, global, "8:1", 8>
    flight.store %v, %view : vector<8xi64>, !flight.view<i64, global, "8:1", 8>""",
    "%x: !flight.ptr<i64, global, 8>, %t: i1, %a: i8, %b: i16, %c: i32, %d: i64, %e: f32, %h: f64",
    block=(1, 1, 1),
)


def test_scalars(compiler, target):
    x = zeros(8, dtype=np.int64)
    values = [
        np.bool_(True),
        np.int8(-3),
        np.int16(-300),
        np.int32(-70000),
        np.int64(1 << 40),
        np.float32(-5),
        np.float64(1 << 33),
    ]
    flightc.run(compiler.code(SCALARS, target), target, "kernel", [x, *values], block=(1,))
    np.testing.assert_array_equal(x, [1, -3, -300, -70000, 1 << 40, -5, 1 << 33, 1 << 40])


UNIFORM_IF = kernels.module(
    f"""    %thread = flight.thread_id x
    %c0 = arith.constant 0 : i64
    %c63 = arith.constant 63 : index
    %other = arith.subi %c63, %thread : index
    %sums = flight.shared 64 : {kernels.SHARED}
{kernels.load("value", "%x", "%thread")}{kernels.store("%value", "%sums", "%thread", "start", "shared")}
    %reverse = arith.cmpi ne, %flag, %c0 : i64
    %chosen, %count = scf.if %reverse -> (f32, i64) {{
      flight.barrier
{kernels.load("there", "%sums", "%other", "shared")}
      %one = arith.constant 1 : i64
      scf.yield %there, %one : f32, i64
    }} else {{
      scf.yield %value, %flag : f32, i64
    }}
    %end = arith.index_cast %count : i64 to index
    %first = arith.constant 0 : index
    %step = arith.constant 1 : index
    %twice = scf.for %i = %first to %end step %step iter_args(%sum = %chosen) -> (f32) {{
      flight.barrier
      %more = arith.addf %sum, %sum : f32
      scf.yield %more : f32
    }}
{kernels.store("%twice", "%y", "%thread", "result")}""",
    f"%x: {kernels.PTR}, %y: {kernels.PTR}, %flag: i64",
)


@pytest.mark.parametrize("flag", [0, 1])
def test_barrier_under_a_uniform_condition(compiler, target, flag):
    """And its result as the bound of a loop around a barrier."""
    x, y = integers(64), zeros(64)
    flightc.run(compiler.code(UNIFORM_IF, target), target, "kernel", [x, y, np.int64(flag)])
    np.testing.assert_array_equal(y, 2 * x[::-1] if flag else x)


SWAP = kernels.module(
    f"""    %thread = flight.thread_id x
    %first = arith.constant 0 : index
    %step = arith.constant 1 : index
    %end = arith.index_cast %n : i64 to index
{kernels.load("a", "%x", "%thread")}
    %one = arith.constant 1.0 : f32
    %b = arith.addf %a, %one : f32
    %p, %q = scf.for %i = %first to %end step %step iter_args(%u = %a, %v = %b) -> (f32, f32) {{
      flight.barrier
      scf.yield %v, %u : f32, f32
    }}
{kernels.store("%p", "%y", "%thread", "result")}""",
    f"%x: {kernels.PTR}, %y: {kernels.PTR}, %n: i64",
)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_carried_values_change_places(compiler, target, n):
    x, y = integers(64), zeros(64)
    flightc.run(compiler.code(SWAP, target), target, "kernel", [x, y, np.int64(n)])
    np.testing.assert_array_equal(y, x + n % 2)


def test_copies_are_asynchronous_or_done(compiler, target):
    x, y = integers(256), zeros(256)
    flightc.run(compiler.code(COPY, target), target, "kernel", [x, y, np.int64(50)], block=(64,))
    expected = np.where(np.arange(256) < 200, x, 0)
    np.testing.assert_array_equal(y, expected.reshape(64, 4)[::-1].ravel())


COPY = kernels.module(
    f"""    %thread = flight.thread_id x
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c63 = arith.constant 63 : index
    %limit = arith.index_cast %n : i64 to index
    %there = arith.cmpi slt, %thread, %limit : index
    %other = arith.subi %c63, %thread : index
    %at = arith.muli %thread, %c4 : index
    %from_at = arith.muli %other, %c4 : index
    %s = flight.shared 256 : {kernels.SHARED}
    %from = flight.view %x[%at] : {kernels.PTR} -> !flight.view<f32, global, "4:1", 16>
    %to = flight.view %s[%at] : {kernels.SHARED} -> !flight.view<f32, shared, "4:1", 16>
    flight.copy_async %from to %to mask(%there)
      : !flight.view<f32, global, "4:1", 16> to !flight.view<f32, shared, "4:1", 16>
    flight.commit
    flight.wait 0
    flight.barrier
    %back = flight.view %s[%from_at] : {kernels.SHARED} -> !flight.view<f32, shared, "4:1", 16>
    %v = flight.load %back : !flight.view<f32, shared, "4:1", 16> -> vector<4xf32>
    %ys = flight.view %y[%at] : {kernels.PTR} -> !flight.view<f32, global, "4:1", 16>
    flight.store %v, %ys : vector<4xf32>, !flight.view<f32, global, "4:1", 16>""",
    f"%x: {kernels.PTR}, %y: {kernels.PTR}, %n: i64",
)

PRINT = kernels.module(
    """    %t = flight.thread_id x
    flight.print "100% of {}: {} {} {}"(%t, %f, %n, %b : index, f32, i8, i1)""",
    "%f: f32, %n: i8, %b: i1",
    block=(3, 1, 1),
)


def test_print(compiler, capfd):
    flightc.run(compiler.code(PRINT, "x86-64"), "x86-64", "kernel", [np.float32(1.5), np.int8(-7), np.bool_(True)])
    assert capfd.readouterr().out == "".join(f"100% of {t}: 1.5 -7 1\n" for t in range(3))
    answer, _ = compiler.compile(PRINT, "gfx942")
    assert "flight.print is not available on gfx942" in answer["error"]["message"]


PTX = {
    "scale": kernels.SCALE,
    "block_sum": kernels.block_sum(),
    "wave_sum": kernels.wave_sum(32),
    "transpose": kernels.transpose(),
    "coordinates": COORDINATES,
    "scalars": SCALARS,
    "uniform_if": UNIFORM_IF,
    "copy": COPY,
}


@pytest.mark.skipif(not flightc.PTXAS.exists(), reason="no ptxas here")
@pytest.mark.parametrize("name", PTX)
def test_ptx_assembles_without_warnings(compiler, name):
    said = flightc.assemble(compiler.code(PTX[name], "sm_90a"))
    assert "warning" not in said and "0 bytes spill stores" in said, said


def test_what_ptx_is_made_of(compiler):
    copy = compiler.code(COPY, "sm_90a").decode()
    assert "cp.async.cg.shared.global" in copy and "cp.async.wait_group" in copy and "bar.sync" in copy
    assert "ld.global.v4" in compiler.code(kernels.SCALE, "sm_90a").decode()


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_older_cpus(compiler, cpu):
    x, y = integers(4096), zeros(4096)
    code = compiler.code(kernels.SCALE, "x86-64", cpu=cpu)
    flightc.run(code, "x86-64", "scale", [x, y, np.int64(4096)], (4,))
    np.testing.assert_array_equal(y, 2 * x)


FAR = kernels.module(
    f"""    %at = arith.index_cast %n : i64 to index
    %c0 = arith.constant 0 : index
{kernels.load("value", "%x", "%c0")}{kernels.store("%value", "%y", "%at", "far")}""",
    f"%x: {kernels.PTR}, %y: {kernels.PTR}, %n: i64",
    block=(1, 1, 1),
)
PLACE = (1 << 32) + 5  # in elements: neither it nor its bytes fit in 32 bits


def test_offsets_of_64_bits_on_x86(compiler):
    room = mmap.mmap(-1, 4 * (PLACE + 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
    y = np.frombuffer(room, np.float32)
    flightc.run(compiler.code(FAR, "x86-64"), "x86-64", "kernel", [np.float32([7]), y, np.int64(PLACE)])
    assert y[PLACE] == 7 and y[5] == 0


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_offsets_of_64_bits_on_gpus(compiler, target):
    emulator = flightc.emulator
    x = np.float32([7])
    with emulator.Device(target) as device:
        device.map(x, x.nbytes, "x")
        y = device.allocate(4 * (PLACE + 1), "y")
        code = emulator.Code(compiler.code(FAR, target))
        report = device.launch(code, "kernel", [np.uint64(x.ctypes.data), np.uint64(y), np.int64(PLACE)], block=(1,))
        assert report.clean, report.text
        assert device.read(y + 4 * PLACE, 1, np.float32)[0] == 7
