"""Products of tiles: every atom of every target against NumPy, exactly, on operands whose sums are exact."""

import ctypes
import dataclasses
import math

import ml_dtypes
import numpy as np
import pytest
from tiles_support import Tile, check_ptx, kernel, mma_spread, row_major, row_spread, run, target_of, text

from jaxator._library import open_library
from jaxator.flight._compiler import CompileError
from jaxator.flight.layout import Layout, composition

TYPES = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "i8": np.int8,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
SUMS = {"f32": np.float32, "i32": np.int32}


@dataclasses.dataclass(frozen=True)
class Gemm:
    """A kernel that multiplies [M, K] by [N, K]^T (or [K, N]) block by block, through shared memory."""

    place: str
    atom: str
    waves: str
    tile: tuple[int, int, int]
    size: tuple[int, int, int]
    element: str = "bf16"
    result: str = "f32"
    block: int = 256
    b_by_k: bool = True  # B's rows are contiguous along k
    shared_a: str = ""
    shared_b: str = ""
    mode: str = ""
    carried: bool = True
    """The sums go through the loop over k; else each product is added to a tile of zeros."""

    def spread(self, rows, columns):
        width = math.gcd(16 // np.dtype(TYPES[self.element]).itemsize, columns)
        return row_spread((rows, columns), self.block, width)

    def text(self):
        (tm, tn, tk), (m, n, k) = self.tile, self.size
        c = Tile(self.result, (tm, tn), mma_spread(self.place, self.atom, self.waves, "c", (tm, tn)))
        spread_a, spread_b = self.spread(tm, tk), self.spread(tn, tk)
        layout_b = row_major((tn, tk))
        global_b = f"({tn},{tk}):({k},1)"
        if not self.b_by_k:
            spread_b = str(composition(Layout((tk, tn), (tn, 1)), Layout.parse(self.spread(tk, tn))))
            layout_b, global_b = f"({tn},{tk}):(1,{tn})", f"({tn},{tk}):(1,{n})"
        align_b = self.align(k, tk) if self.b_by_k else self.align(n, tn)
        views = {
            "ga": f'!flight.view<{self.element}, global, "({tm},{tk}):({k},1)", {self.align(k, tk)}>',
            "gb": f'!flight.view<{self.element}, global, "{global_b}", {align_b}>',
            "sa": f'!flight.view<{self.element}, shared, "{self.shared_a or row_major((tm, tk))}", 1024>',
            "sb": f'!flight.view<{self.element}, shared, "{self.shared_b or layout_b}", 1024>',
            "gc": f'!flight.view<{self.result}, global, "({tm},{tn}):({n},1)", 4>',
        }
        pointer, shared = f"!flight.ptr<{self.element}, global, 16>", f"!flight.ptr<{self.element}, shared, 1024>"
        old = "%c" if self.carried else "%zeros"
        along_b = "arith.addi %rb, %k" if self.b_by_k else "arith.addi %n0, %kn"
        numbers = {"c0": 0, "cm": tm, "cn": tn, "ck": tk, "sm": m, "sn": n, "sk": k}
        constants = "\n".join(f"    %{name} = arith.constant {value} : index" for name, value in numbers.items())
        body = f"""{constants}
    %bm = flight.block_id x
    %bn = flight.block_id y
    %m0 = arith.muli %bm, %cm : index
    %n0 = arith.muli %bn, %cn : index
    %ra = arith.muli %m0, %sk : index
    %rb = arith.muli %n0, %sk : index
    %ml = arith.subi %sm, %m0 : index
    %nl = arith.subi %sn, %n0 : index
    %none = arith.constant {"0" if self.result == "i32" else "0.0"} : {self.result}
    %zeros = flight.splat %none : {self.result} -> {c}
    %ma = flight.shared {tm * tk} : {shared}
    %mb = flight.shared {tn * tk} : {shared}
    %sa = flight.view %ma[%c0] : {shared} -> {views["sa"]}
    %sb = flight.view %mb[%c0] : {shared} -> {views["sb"]}
    %sums = scf.for %k = %c0 to %sk step %ck iter_args(%c = %zeros) -> ({c}) {{
      %oa = arith.addi %ra, %k : index
      %kn = arith.muli %k, %sn : index
      %ob = {along_b} : index
      %kl = arith.subi %sk, %k : index
      %ga = flight.view %a[%oa] : {pointer} -> {views["ga"]}
      %gb = flight.view %b[%ob] : {pointer} -> {views["gb"]}
      flight.barrier
      flight.tile_copy %ga to %sa bounds(%ml, %kl) spread "{spread_a}" {self.mode} : {views["ga"]} to {views["sa"]}
      flight.tile_copy %gb to %sb bounds(%nl, %kl) spread "{spread_b}" {self.mode} : {views["gb"]} to {views["sb"]}
      flight.commit
      flight.wait 0
      flight.barrier
      %r = flight.tile_mma "{self.atom}" waves "{self.waves}" %sa, %sb, {old} : {views["sa"]}, {views["sb"]}, {c}
      scf.yield %r : {c}
    }}
    %o0 = arith.muli %m0, %sn : index
    %o1 = arith.addi %o0, %n0 : index
    %gc = flight.view %o[%o1] : !flight.ptr<{self.result}, global, 16> -> {views["gc"]}
    flight.tile_store %sums, %gc bounds(%ml, %nl) : {c}, {views["gc"]}"""
        arguments = {"a": f"*{self.element}", "b": f"*{self.element}", "o": f"*{self.result}"}
        return kernel("gemm", arguments, self.block, body)

    def align(self, stride, step):
        """Of each row of an operand, wherever a block begins."""
        return math.gcd(16, math.gcd(stride, step) * np.dtype(TYPES[self.element]).itemsize)

    def check(self, cpu=None):
        m, n, k = self.size
        rng = np.random.default_rng(1)
        a, b = (rng.integers(-3, 4, shape).astype(TYPES[self.element]) for shape in ((m, k), (n, k)))
        out = np.full((m + 1, n), -99, SUMS[self.result])
        arrays = [bits(a), bits(b if self.b_by_k else np.ascontiguousarray(b.T)), out[:m]]
        grid = (-(-m // self.tile[0]), -(-n // self.tile[1]))
        artifact = run(self.place, self.text(), "gemm", arrays, grid, block=self.block, cpu=cpu)
        depth = k if self.carried else (k - 1) % self.tile[2] + 1
        expected = a[:, k - depth :].astype(np.float64) @ b[:, k - depth :].astype(np.float64).T
        np.testing.assert_array_equal(out[:m], expected)
        assert (out[m] == -99).all()
        return artifact


def bits(array):
    if array.dtype.kind == "V" or array.dtype.name not in np.sctypeDict:
        return array.view(np.uint16 if array.itemsize == 2 else np.uint8)
    return array


def atoms(target):
    """Name -> (kind, lanes, m, n, k, operand, result)."""
    function = open_library("libjaxator.so").jaxator_flight_atoms
    buffer, length = ctypes.create_string_buffer(1 << 18), ctypes.c_int()
    assert function(b"atoms", (ctypes.c_char_p * 1)(target.encode()), 1, buffer, len(buffer), ctypes.byref(length)) == 0
    table = {}
    for line in buffer.value.decode().splitlines():
        name, kind, lanes, m, n, k, operand, result, *_ = line.split()
        table[name] = (kind, int(lanes), int(m), int(n), int(k), operand, result)
    return table


CDNA_ATOMS = [
    (target, name)
    for target in ("gfx942", "gfx950")
    for name, atom in atoms(target).items()
    if atom[0] in ("mfma", "mfma_scale") and atom[5] in TYPES
]


@pytest.mark.parametrize("target, name", CDNA_ATOMS)
def test_cdna_atoms(target, name):
    """Four waves in a square, ragged edges in every direction."""
    _, _, m, n, k, operand, result = atoms(target)[name]
    tile = (2 * m, 2 * n, 2 * max(k, 16))
    artifact = Gemm(target, name, "(2,2):(1,2)", tile, (2 * m + 5, n + 16, 2 * tile[2]), operand, result).check()
    report = artifact.report["kernels"]["gemm"]
    assert report["spills"] == 0 and report["scratch_bytes"] == 0


@pytest.mark.parametrize("waves", ["(4,1):(1,0)", "(1,4):(0,1)", "(2,2):(2,1)"])
@pytest.mark.parametrize("b_by_k", [True, False])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_cdna_arrangements(target, waves, b_by_k):
    Gemm(target, "mfma_16x16x16_bf16", waves, (64, 64, 32), (100, 72, 64), b_by_k=b_by_k).check()


@pytest.mark.parametrize("mode", ["", "async"])
def test_cdna_through_swizzled_memory(mode):
    """No bank conflicts, and the same numbers."""
    swizzled = "S<3,3,3> o 0 o (64,64):(64,1)"
    Gemm(
        "gfx950",
        "mfma_16x16x32_bf16",
        "(2,2):(1,2)",
        (64, 64, 64),
        (128, 64, 128),
        shared_a=swizzled,
        shared_b=swizzled,
        mode=mode,
    ).check()


PLAIN = [
    ("fma_f32", "f32", "f32"),
    ("fma_f32", "bf16", "f32"),
    ("fma_f32", "f16", "f32"),
    ("dot_bf16", "bf16", "f32"),
    ("dot_i8", "i8", "i32"),
]


@pytest.mark.parametrize("atom, element, result", PLAIN)
@pytest.mark.parametrize("place", ["x86 tiles", "x86 threads", "gfx942"])
@pytest.mark.parametrize("b_by_k", [True, False])
def test_plain_atoms(place, atom, element, result, b_by_k):
    Gemm(place, atom, "(16,16):(1,16)", (32, 64, 32), (45, 80, 64), element, result, b_by_k=b_by_k).check()


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"])
@pytest.mark.parametrize("atom, element, result", PLAIN)
@pytest.mark.parametrize("tile", [(64, 64, 64), (30, 40, 32), (17, 12, 16), (1, 16, 16), (16, 3, 8)])
def test_register_blocks_of_each_instruction_set(cpu, atom, element, result, tile):
    """Rows and columns that fill register blocks, and that do not; operands contiguous along k and along rows."""
    if not cpu_runs_here(cpu):
        pytest.skip(f"this machine is no {cpu}")
    m, n, k = tile
    for b_by_k in (True, False):
        # One thread holds it all: this route gives threads no meaning.
        gemm = Gemm("x86 tiles", atom, "(1,1):(0,0)", tile, (m + 3, 2 * n, 2 * k), element, result, block=1, b_by_k=b_by_k)
        gemm.check(cpu)


def cpu_runs_here(cpu):
    flags = open("/proc/cpuinfo").read()
    needed = {
        "x86-64-v3": ["avx2", "fma"],
        "x86-64-v4": ["avx512vl", "avx512bw"],
        "x86-64-v4-bf16": ["avx512_bf16", "avx512_vnni"],
    }
    return all(flag in flags for flag in needed[cpu])


def test_extreme_bytes():
    """-128 times -128, summed: the way through unsigned bytes is exact."""
    size = 64
    gemm = Gemm("x86 tiles", "dot_i8", "(16,16):(1,16)", (size, size, size), (size, size, size), "i8", "i32")
    a, b = np.full((size, size), -128, np.int8), np.full((size, size), -128, np.int8)
    a[::2], b[:, ::3] = 127, 127
    out = np.zeros((size, size), np.int32)
    run(gemm.place, gemm.text(), "gemm", [a, b, out])
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64).T)


@pytest.mark.parametrize("place", ["x86 tiles", "x86 threads", "gfx942"])
def test_sums_that_are_not_carried(place):
    """C is the same tile of zeros in every round: products in place must not change it."""
    Gemm(place, "fma_f32", "(16,16):(1,16)", (32, 32, 16), (32, 32, 64), carried=False).check()


@pytest.mark.parametrize("atom, waves, block", [
    ("mma_16x8x16_bf16", "(2,4):(1,2)", 256), ("mma_16x8x16_f16", "(4,2):(1,4)", 256), ("fma_f32", "(16,16):(1,16)", 256),
    ("wgmma_64x64x16_bf16", "(1,1):(0,0)", 128), ("wgmma_64x64x16_f16", "(2,1):(1,0)", 256),
    ("wgmma_64x128x16_bf16", "(1,1):(0,0)", 128),
    ("wgmma_64x32x16_bf16", "(1,2):(0,1)", 256),
])  # fmt: skip
def test_nvidia_atoms_assemble(atom, waves, block):
    element = atom.split("_")[-1] if atom != "fma_f32" else "bf16"
    tile = (128, 128, 64) if "128x16" in atom else (128, 64, 64)
    swizzle = "S<3,3,3> o 0 o "
    gemm = Gemm("sm_90a", atom, waves, tile, (256, 256, 256), element, block=block, mode="async",
                shared_a=f"{swizzle}({tile[0]},64):(64,1)", shared_b=f"{swizzle}({tile[1]},64):(64,1)")  # fmt: skip
    ptx = check_ptx(gemm.text())
    if "fma" in atom:
        return
    assert ("wgmma.mma_async" if "wgmma" in atom else "mma.sync") in ptx
    assert "cp.async.cg" in ptx


@pytest.mark.parametrize("name", ["wgmma_64x64x32_fp8", "wgmma_64x64x32_bf8"])
def test_wgmma_of_bytes_assembles(name):
    element = "f8E4M3FN" if name.endswith("fp8") else "f8E5M2"
    shared = "S<3,4,3> o 0 o (64,128):(128,1)"
    gemm = Gemm(
        "sm_90a", name, "(1,1):(0,0)", (64, 64, 128), (64, 64, 256), element, block=128, shared_a=shared, shared_b=shared
    )
    assert "e4m3" in check_ptx(gemm.text()) or element != "f8E4M3FN"


def operands_as_tiles(place, atom, waves, m, n, k, spread_a=None):
    a = Tile("bf16", (m, k), spread_a or mma_spread(place, atom, waves, "a", (m, k)))
    b = Tile("bf16", (n, k), mma_spread(place, atom, waves, "b", (n, k)))
    c = Tile("f32", (m, n), mma_spread(place, atom, waves, "c", (m, n)))
    views = [f'!flight.view<{t.element}, global, "{row_major(t.shape)}", 4>' for t in (a, b, c)]
    pointer = "!flight.ptr<bf16, global, 16>"
    return f"""    %zero = arith.constant 0 : index
    %none = arith.constant 1.0 : f32
    %va = flight.view %a[%zero] : {pointer} -> {views[0]}
    %vb = flight.view %b[%zero] : {pointer} -> {views[1]}
    %vo = flight.view %o[%zero] : !flight.ptr<f32, global, 16> -> {views[2]}
    %ta = flight.tile_load %va : {views[0]} -> {a}
    %tb = flight.tile_load %vb : {views[1]} -> {b}
    %c = flight.splat %none : f32 -> {c}
    %r = flight.tile_mma "{atom}" waves "{waves}" %ta, %tb, %c : {a}, {b}, {c}
    flight.tile_store %r, %vo : {c}, {views[2]}"""


ARGUMENTS = {"a": "*bf16", "b": "*bf16", "o": "*f32"}


@pytest.mark.parametrize("place, atom, waves, block", [
    ("x86 tiles", "fma_f32", "(8,8):(1,8)", 64), ("x86 threads", "fma_f32", "(8,8):(1,8)", 64),
    ("x86 tiles", "dot_bf16", "(8,8):(8,1)", 64),
    ("gfx942", "mfma_32x32x8_bf16", "(2,1):(1,0)", 128), ("gfx950", "mfma_16x16x32_bf16", "(2,2):(1,2)", 256),
])  # fmt: skip
def test_operands_that_are_tiles(place, atom, waves, block):
    m, n, k = 64, 32, 64
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    out = np.zeros((m, n), np.float32)
    run(
        place,
        kernel("gemm", ARGUMENTS, block, operands_as_tiles(place, atom, waves, m, n, k)),
        "gemm",
        [bits(a), bits(b), out],
        block=block,
    )
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64).T + 1)


@pytest.mark.parametrize("place, change, message", [
    ("gfx942", {"atom": "mfma_16x16x32_bf16"}, "gfx942 has no atom mfma_16x16x32_bf16; it has fma_f32, dot_bf16"),
    ("x86 tiles", {"atom": "mfma_16x16x16_bf16"}, "x86-64 has no atom mfma_16x16x16_bf16"),
    ("gfx942", {"element": "f16"}, "mfma_16x16x16_bf16 multiplies bf16, not 'f16'"),
    ("gfx942", {"waves": "(2,4):(1,2)"}, "waves (2,4):(1,2) of 64 lanes are 512 threads, the block has 256"),
    ("gfx942", {"element": "f16", "atom": "mfma_16x16x32_fp8"}, "mfma_16x16x32_fp8 multiplies f8E4M3FNUZ, not 'f16'"),
])  # fmt: skip
def test_refused(place, change, message):
    good = Gemm("gfx942", "mfma_16x16x16_bf16", "(2,2):(1,2)", (64, 64, 32), (64, 64, 64))
    ir = good.text()
    for name, value in change.items():
        old, new = ("bf16", value) if name == "element" else (f'"{getattr(good, name)}"', f'"{value}"')
        ir = ir.replace(f"<{old}", f"<{new}") if name == "element" else ir.replace(old, new)
    with pytest.raises(CompileError) as caught:
        run(place, ir, "gemm", [])
    assert message in str(caught.value)


def test_a_spread_that_is_not_the_atoms_is_refused():
    wrong = row_spread((64, 64), 256, 4)
    body = operands_as_tiles("gfx942", "mfma_16x16x16_bf16", "(2,2):(1,2)", 64, 32, 64, wrong)
    with pytest.raises(CompileError, match="must have the spread"):
        run("gfx942", kernel("gemm", ARGUMENTS, 256, body), "gemm", [])


def test_table_is_the_same_from_python():
    table = atoms("gfx950")
    assert table["mfma_32x32x16_bf16"] == ("mfma", 64, 32, 32, 16, "bf16", "f32")
    assert (
        mma_spread("gfx950", "mfma_32x32x16_bf16", "(1,1):(0,0)", "c", (32, 32))
        == "(((32,2),1),((4,4),1,1)):(((32,4),0),((1,8),32,1024))"
    )
    with pytest.raises(ValueError, match="N = 30 must be a multiple of 32"):
        mma_spread("gfx950", "mfma_32x32x16_bf16", "(1,1):(0,0)", "c", (32, 30))
    assert target_of("x86 tiles") == "x86-64" and text((1, 2)) == "(1,2)"
