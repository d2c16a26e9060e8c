"""Where elements of matrices lie in registers, and cases made of matrices."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
from assembly import LANES, Case, run_case
from emulator import ARCHITECTURES, Array

GFX942, GFX950 = ("gfx942",), ("gfx950",)
# Register and bit of element k in a lane, and the lane, as the calculator writes them; `i` is the row of A or the column of
# B.
WORD = ("0", "0")
PAIR_OF_WORDS = ("k % 2", "0")
ONE_PAIR, TWO_PAIRS = ("k // 2", "16 * (k % 2)"), ("k // 2 % 2", "16 * (k % 2)")
ONE_QUAD, TWO_QUADS = ("0", "8 * k"), ("k // 4 % 2", "8 * (k % 4)")
FOUR_PAIRS, FOUR_QUADS = ("k // 2 % 4", "16 * (k % 2)"), ("k // 4 % 4", "8 * (k % 4)")
D_32 = ("4 * (i // 8) + i % 4", "(32 * (i // 4)) % 64 + j")
D_16 = ("i % 4", "16 * (i // 4) + j")


@dataclasses.dataclass(frozen=True)
class Layout:
    shape: tuple[int, int, int, int]  # M, N, K, blocks
    place: tuple[str, str]
    lane: str
    result: tuple[str, str]


LAYOUTS = {
    "32x32x1_2b_f32": Layout((32, 32, 1, 2), WORD, "32 * block + i", ("16 * block + 4 * (i // 8) + i % 4", D_32[1])),
    "16x16x1_4b_f32": Layout((16, 16, 1, 4), WORD, "16 * block + i", ("4 * block + i % 4", D_16[1])),
    "4x4x1_16b_f32": Layout((4, 4, 1, 16), WORD, "4 * block + i", ("i", "4 * block + j")),
    "32x32x2_f32": Layout((32, 32, 2, 1), WORD, "32 * k + i", D_32),
    "16x16x4_f32": Layout((16, 16, 4, 1), WORD, "16 * k + i", D_16),
    "16x16x8_xf32": Layout((16, 16, 8, 1), PAIR_OF_WORDS, "16 * (k // 2) + i", D_16),
    "32x32x4_xf32": Layout((32, 32, 4, 1), PAIR_OF_WORDS, "32 * (k // 2) + i", D_32),
    "32x32x4_2b_16": Layout((32, 32, 4, 2), ONE_PAIR, "32 * block + i", ("16 * block + 4 * (i // 8) + i % 4", D_32[1])),
    "16x16x4_4b_16": Layout((16, 16, 4, 4), ONE_PAIR, "16 * block + i", ("4 * block + i % 4", D_16[1])),
    "4x4x4_16b_16": Layout((4, 4, 4, 16), ONE_PAIR, "4 * block + i", ("i", "4 * block + j")),
    "32x32x8_16": Layout((32, 32, 8, 1), TWO_PAIRS, "32 * (k // 4) + i", D_32),
    "16x16x16_16": Layout((16, 16, 16, 1), TWO_PAIRS, "16 * (k // 4) + i", D_16),
    "32x32x16_16": Layout((32, 32, 16, 1), FOUR_PAIRS, "32 * (k // 8) + i", D_32),
    "16x16x32_16": Layout((16, 16, 32, 1), FOUR_PAIRS, "16 * (k // 8) + i", D_16),
    "32x32x4_2b_i8": Layout((32, 32, 4, 2), ONE_QUAD, "32 * block + i", ("16 * block + 4 * (i // 8) + i % 4", D_32[1])),
    "16x16x4_4b_i8": Layout((16, 16, 4, 4), ONE_QUAD, "16 * block + i", ("4 * block + i % 4", D_16[1])),
    "4x4x4_16b_i8": Layout((4, 4, 4, 16), ONE_QUAD, "4 * block + i", ("i", "4 * block + j")),
    "32x32x16_8": Layout((32, 32, 16, 1), TWO_QUADS, "32 * (k // 8) + i", D_32),
    "16x16x32_8": Layout((16, 16, 32, 1), TWO_QUADS, "16 * (k // 8) + i", D_16),
    "32x32x32_8": Layout((32, 32, 32, 1), FOUR_QUADS, "32 * (k // 16) + i", D_32),
    "16x16x64_8": Layout((16, 16, 64, 1), FOUR_QUADS, "16 * (k // 16) + i", D_16),
    "16x16x4_f64": Layout((16, 16, 4, 1), WORD, "16 * k + i", ("2 * (i // 4)", "16 * (i % 4) + j")),
    "4x4x4_4b_f64": Layout((4, 4, 4, 4), WORD, "4 * block + 16 * k + i", ("0", "16 * (i % 4) + 4 * block + j")),
}  # fmt: skip
# Types of A and B by architecture.
FP8 = {"gfx942": ml_dtypes.float8_e4m3fnuz, "gfx950": ml_dtypes.float8_e4m3fn}
BF8 = {"gfx942": ml_dtypes.float8_e5m2fnuz, "gfx950": ml_dtypes.float8_e5m2}
Kind = object


def same(kind: Kind) -> dict[str, Kind]:
    return {"gfx942": kind, "gfx950": kind}


@dataclasses.dataclass(frozen=True)
class Instruction:
    layout: str
    a: dict[str, Kind]
    b: dict[str, Kind]
    architectures: tuple[str, ...] = ARCHITECTURES


INSTRUCTIONS: dict[str, Instruction] = {}
for shape in ("32x32x1_2b_f32", "16x16x1_4b_f32", "4x4x1_16b_f32", "32x32x2_f32", "16x16x4_f32"):
    INSTRUCTIONS[f"f32_{shape}"] = Instruction(shape, same(np.float32), same(np.float32))
for shape in ("16x16x8_xf32", "32x32x4_xf32"):
    INSTRUCTIONS[f"f32_{shape}"] = Instruction(shape, same(np.float32), same(np.float32), GFX942)
for name, kind in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
    for shape in ("32x32x4_2b", "16x16x4_4b", "4x4x4_16b", "32x32x8", "16x16x16"):
        INSTRUCTIONS[f"f32_{shape}_{name}"] = Instruction(f"{shape}_16", same(kind), same(kind))
    for shape in ("32x32x16", "16x16x32"):
        INSTRUCTIONS[f"f32_{shape}_{name}"] = Instruction(f"{shape}_16", same(kind), same(kind), GFX950)
for shape in ("32x32x4_2b_i8", "16x16x4_4b_i8", "4x4x4_16b_i8"):
    INSTRUCTIONS[f"i32_{shape}"] = Instruction(shape, same(np.int8), same(np.int8))
for shape in ("32x32x16", "16x16x32"):
    INSTRUCTIONS[f"i32_{shape}_i8"] = Instruction(f"{shape}_8", same(np.int8), same(np.int8))
    for a, a_kind in (("fp8", FP8), ("bf8", BF8)):
        for b, b_kind in (("fp8", FP8), ("bf8", BF8)):
            INSTRUCTIONS[f"f32_{shape}_{a}_{b}"] = Instruction(f"{shape}_8", a_kind, b_kind)
for shape in ("32x32x32", "16x16x64"):
    INSTRUCTIONS[f"i32_{shape}_i8"] = Instruction(f"{shape}_8", same(np.int8), same(np.int8), GFX950)
for shape in ("16x16x4_f64", "4x4x4_4b_f64"):
    INSTRUCTIONS[f"f64_{shape}"] = Instruction(shape, same(np.float64), same(np.float64))

EXACT = np.array([-4, -3, -2, -1.5, -1, 0, 0.5, 1, 2, 3, 4, 6])  # in every format


def values(kind: Kind, shape: tuple[int, ...], seed: int) -> Array:
    random = np.random.default_rng(seed)
    picked = random.integers(-128, 128, shape) if kind == np.int8 else random.choice(EXACT, shape)
    return picked.astype(kind)


def put(registers: Array, word: int, bit: int, lane: int, code: int, bits: int) -> None:
    """Into registers[word, lane], across words."""
    registers[word, lane] |= (code << bit) & 0xFFFFFFFF
    if bit + bits > 32:
        registers[word + 1, lane] |= code >> (32 - bit) if bits <= 32 else code >> 32


def codes_of(matrix: Array) -> Array:
    return matrix.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[matrix.dtype.itemsize]).astype(object)


def fill(layout: Layout, matrix: Array, words: int) -> Array:
    """matrix: [block, row, k]."""
    registers = np.zeros((words, LANES), object)
    codes = codes_of(matrix)
    for block, i, k in np.ndindex(matrix.shape):
        names = {"block": block, "i": i, "k": k}
        word, bit, lane = (eval(text, names) for text in (*layout.place, layout.lane))  # noqa: S307
        put(registers, word, bit, lane, int(codes[block, i, k]), 8 * matrix.dtype.itemsize)
    return registers.astype(np.uint32)


def result_of(layout: Layout, registers: Array, kind: Kind) -> Array:
    m, n, _, blocks = layout.shape
    out = np.zeros((blocks, m, n), kind)
    for block, i, j in np.ndindex(out.shape):
        word, lane = (eval(text, {"block": block, "i": i, "j": j}) for text in layout.result)  # noqa: S307
        count = 2 if kind == np.float64 else 1
        out[block, i, j] = registers[word : word + count, lane].astype(np.uint32).copy().view(kind)[0]
    return out


def place_result(layout: Layout, matrix: Array, words: int) -> Array:
    registers = np.zeros((words, LANES), np.uint32)
    for block, i, j in np.ndindex(matrix.shape):
        word, lane = (eval(text, {"block": block, "i": i, "j": j}) for text in layout.result)  # noqa: S307
        parts = np.array([matrix[block, i, j]]).view(np.uint32)
        registers[word : word + len(parts), lane] = parts
    return registers


def span(letter: str, first: int, count: int) -> str:
    return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"


def held(letter: str, first: int, registers: Array) -> dict[str, object]:
    return {f"{letter}{first + k}": registers[k] for k in range(len(registers))}


A_AT, B_AT, C_AT = 4, 20, 40  # first registers
SETTLED = " s_nop 15\n s_nop 15"


def words_of(layout: Layout, size: int) -> int:
    m, _, k, blocks = layout.shape
    return max(1, m * k * blocks * size // (4 * LANES))


def product(a: Array, b: Array, c: Array) -> Array:
    """a, b: [block, row or column, k]."""
    wide = np.int64 if c.dtype == np.int32 else np.float64
    return np.einsum("bik,bjk->bij", a.astype(wide), b.astype(wide)) + c.astype(wide)


class MatrixTable:
    def __init__(self) -> None:
        self.cases: dict[str, Case] = {}
        self.checks: dict[str, tuple[Layout, Array]] = {}

    def put(self, name: str, case: Case, layout: Layout, expected: Array) -> None:
        assert name not in self.cases, name
        self.cases[name] = case
        self.checks[name] = (layout, expected)

    def add(
        self,
        name: str,
        mnemonic: str,
        layout: Layout,
        a: Array,
        b: Array,
        c: Array,
        expected: Array,
        suffix: str = "",
        architectures: tuple[str, ...] = ARCHITECTURES,
        result: str = "v",
        accumulator: str | None = None,
    ) -> None:
        a_words, b_words = (words_of(layout, x.dtype.itemsize) for x in (a, b))
        c_words = c.size * c.dtype.itemsize // (4 * LANES)
        inputs = held("v", A_AT, fill(layout, a, a_words)) | held("v", B_AT, fill(layout, b, b_words))
        if accumulator is None:
            inputs |= held(result, C_AT, place_result(layout, c, c_words))
        accumulator = accumulator or span(result, C_AT, c_words)
        text = f"v_mfma_{mnemonic} {span(result, C_AT, c_words)}, {span('v', A_AT, a_words)}, {span('v', B_AT, b_words)}, "
        text += f"{accumulator}{suffix}\n{SETTLED}"
        outputs = [f"{result}{C_AT + k}" for k in range(c_words)]
        self.put(name, Case(text, inputs, outputs, architectures=architectures), layout, expected)

    def check(self, module: str, name: str) -> None:
        """Runs a case of the module's CASES, which are this table's, on each architecture that has the instruction."""
        case = self.cases[name]
        layout, expected = self.checks[name]
        for architecture in case.architectures:
            got = run_case(module, name, architecture)
            registers = np.stack([got[r] for r in case.outputs])
            kind = np.float64 if "_f64_" in case.text else np.int32 if "_i32_" in case.text else np.float32
            result = result_of(layout, registers, kind).astype(np.float64)
            np.testing.assert_array_equal(result, expected.astype(np.float64), err_msg=f"{case.text} on {architecture}")
