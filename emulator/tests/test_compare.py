"""Vector comparisons: all conditions and types against Python's comparisons, in the numbering of AMD's CDNA3 ISA document
(VOPC)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from assembly import LANES, Case, on_each_architecture, run_case, split_pairs, words
from emulator import Array
from floats import F16, F32, F64, Format, Signalling, inputs

FLOAT: dict[str, Callable[..., bool]] = {
    "f": lambda a, b: False, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: a < b or a > b, "ge": lambda a, b: a >= b, "o": lambda a, b: a == a and b == b,
    "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b, "nlg": lambda a, b: not (a < b or a > b), "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b,
    "neq": lambda a, b: not a == b, "nlt": lambda a, b: not a < b, "tru": lambda a, b: True,
}  # fmt: skip
INTEGER = {
    "f": FLOAT["f"],
    "lt": FLOAT["lt"],
    "eq": FLOAT["eq"],
    "le": FLOAT["le"],
    "gt": FLOAT["gt"],
    "ne": FLOAT["neq"],
    "ge": FLOAT["ge"],
    "t": FLOAT["tru"],
}
EXEC = 0xFFFFFFFF_F0F0FF0F


def mask(bits: list[bool], lanes: int = EXEC) -> int:
    return sum(int(bit) << k for k, bit in enumerate(bits)) & lanes


def signed(values: Array, bits: int) -> list[int]:
    return [int(v) - (1 << bits) if int(v) >> bits - 1 else int(v) for v in values]


W = [words(1), words(2)]
W[1][:16] = W[0][:16]  # some are equal
WIDE = [W[0].astype(np.uint64) << np.uint64(32) | W[1], W[1].astype(np.uint64) << np.uint64(32) | W[0]]
WIDE[1][:8] = WIDE[0][:8]
CODES = {form: [inputs(form, 3), inputs(form, 4)] for form in (F16, F32, F64)}
for pair in CODES.values():
    pair[1][:16] = pair[0][:16]
VALUES: dict[str, list[list[object]]] = {
    **{suffix: [[form.decode(int(c)) for c in codes] for codes in CODES[form]] for suffix,
        form in (("f16", F16), ("f32", F32), ("f64", F64))},
    "u16": [[int(v) & 0xFFFF for v in w] for w in W], "i16": [signed(w & 0xFFFF, 16) for w in W],
    "u32": [[int(v) for v in w] for w in W], "i32": [signed(w, 32) for w in W],
    "u64": [[int(v) for v in w] for w in WIDE], "i64": [signed(w, 64) for w in WIDE],
}  # fmt: skip
RAW = {
    "f16": CODES[F16],
    "f32": CODES[F32],
    "f64": CODES[F64],
    "u16": W,
    "i16": W,
    "u32": W,
    "i32": W,
    "u64": WIDE,
    "i64": WIDE,
}

CASES: dict[str, Case] = {}
EXPECTED: dict[str, dict[str, int]] = {}
for kind, values in VALUES.items():
    is_wide = kind.endswith("64")
    if is_wide:
        held: dict[str, object] = dict(
            zip(("v2", "v3", "v4", "v5"), (*split_pairs(RAW[kind][0]), *split_pairs(RAW[kind][1])), strict=True)
        )
    else:
        held = {"v1": RAW[kind][0].astype(np.uint32), "v2": RAW[kind][1].astype(np.uint32)}
    operands = "v[2:3], v[4:5]" if is_wide else "v1, v2"
    for condition, holds in (FLOAT if kind.startswith("f") else INTEGER).items():
        result = mask([holds(a, b) for a, b in zip(*values, strict=True)])
        name = f"{condition}_{kind}"
        CASES[f"v_cmp_{name}"] = Case(
            f"v_cmp_{name}_e64 s[20:21], {operands}", held | {"exec": EXEC}, ("s20", "s21", "exec")
        )
        EXPECTED[f"v_cmp_{name}"] = {"s20": result & 0xFFFFFFFF, "s21": result >> 32, "exec": EXEC}
        CASES[f"v_cmpx_{name}"] = Case(f"v_cmpx_{name}_e32 vcc, {operands}", held | {"exec": EXEC}, ("vcc", "exec"))
        EXPECTED[f"v_cmpx_{name}"] = {"vcc": result, "exec": result}


def class_bit(form: Format, code: int) -> int:
    value = form.decode(code)
    negative = code >> form.bits - 1
    if isinstance(value, float):
        if math.isnan(value):
            return 0 if isinstance(value, Signalling) else 1
        return (2 if negative else 9) if value else (5 if negative else 6)
    smallest = Fraction(2) ** (1 - form.bias)
    return (4 if negative else 7) if abs(value) < smallest else (3 if negative else 8)


CLASSES = np.array([1 << k % 11 | (1 << (k * 7) % 11) for k in range(LANES)], np.uint32)
for suffix, form in (("f16", F16), ("f32", F32), ("f64", F64)):
    codes = CODES[form][0]
    result = mask([bool(int(c) >> class_bit(form, int(code)) & 1) for c, code in zip(CLASSES, codes, strict=True)])
    held = dict(zip(("v2", "v3"), split_pairs(codes), strict=True)) if form is F64 else {"v2": codes.astype(np.uint32)}
    source = "v[2:3]" if form is F64 else "v2"
    CASES[f"v_cmp_class_{suffix}"] = Case(
        f"v_cmp_class_{suffix}_e64 s[20:21], {source}, v4", held | {"v4": CLASSES, "exec": EXEC}, ("s20", "s21")
    )
    EXPECTED[f"v_cmp_class_{suffix}"] = {"s20": result & 0xFFFFFFFF, "s21": result >> 32}
    CASES[f"v_cmpx_class_{suffix}"] = Case(
        f"v_cmpx_class_{suffix}_e32 vcc, {source}, v4", held | {"v4": CLASSES, "exec": EXEC}, ("vcc", "exec")
    )
    EXPECTED[f"v_cmpx_class_{suffix}"] = {"vcc": result, "exec": result}
absolute = mask([abs(a) < -b for a, b in zip(*VALUES["f32"], strict=True)], (1 << 64) - 1)  # type: ignore[operator, arg-type]
CASES["modifiers"] = Case(
    "v_cmp_lt_f32_e64 vcc, |v1|, -v2",
    {"v1": RAW["f32"][0].astype(np.uint32), "v2": RAW["f32"][1].astype(np.uint32)},
    ("vcc",),
)
EXPECTED["modifiers"] = {"vcc": absolute}


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_compare(name: str, architecture: str) -> None:
    got = run_case(__name__, name, architecture)
    for register, value in EXPECTED[name].items():
        result = int(got[register]) if register in ("vcc", "exec") else int(got[register][0])
        assert result == value, f"{CASES[name].text}: {register} is {result:#x}, not {value:#x}"
