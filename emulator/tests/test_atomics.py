"""Atomic operations on global, flat and buffer memory and on LDS, against the pseudocode of AMD's CDNA3 and CDNA4 ISA
documents."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from assembly import LANES, Case, join_pairs, on_each_architecture, split_pairs, words
from emulator import ARCHITECTURES, Array
from memory_cases import (
    BUFFER,
    FLAT,
    GFX950,
    LANE,
    MemoryTable,
)

TABLE = MemoryTable()
CASES = TABLE.cases
add = TABLE.add_text


INTEGER: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda old, v, bits: old + v, "sub": lambda old, v, bits: old - v,
    "inc": lambda old, v, bits: 0 if old >= v else old + 1,
    "dec": lambda old, v, bits: v if old == 0 or old > v else old - 1, "and": lambda old, v, bits: old & v,
    "or": lambda old, v, bits: old | v,
    "xor": lambda old, v, bits: old ^ v, "swap": lambda old, v, bits: v, "umin": lambda old, v, bits: min(old, v),
    "umax": lambda old, v, bits: max(old, v),
    "smin": lambda old, v, bits: min(old, v, key=lambda x: (x ^ 1 << bits - 1)),
    "smax": lambda old, v, bits: max(old, v, key=lambda x: (x ^ 1 << bits - 1)),
}  # fmt: skip
OLD32, NEW32 = words(40), words(41)
OLD64, NEW64 = join_pairs(words(42), words(43)), join_pairs(words(44), words(45))
NEW32[:6], NEW64[:6] = OLD32[:6], OLD64[:6]


def apply(function: Callable[[int, int, int], int], bits: int) -> Array:
    old, new = (OLD32, NEW32) if bits == 32 else (OLD64, NEW64)
    return np.array([function(int(o), int(n), bits) & (1 << bits) - 1 for o, n in zip(old, new, strict=True)], np.uint64)


def memory_of(values: Array, bits: int) -> Array:
    return np.concatenate([values.astype(np.uint32 if bits == 32 else np.uint64).view(np.uint8), np.zeros(64, np.uint8)])


def add_atomic(stem: str, bits: int, after: Array, data: dict[str, Array], source: str) -> None:
    """Global, flat and buffer forms, with and without the value before."""
    old = OLD32 if bits == 32 else OLD64
    held = data | {"v29": LANE * np.uint32(bits // 8)}
    result = "v0" if bits == 32 else "v[0:1]"
    expected = {"v0": OLD32} if bits == 32 else dict(zip(("v0", "v1"), split_pairs(OLD64), strict=True))
    memory, final = memory_of(old, bits), memory_of(after, bits)
    add(f"global_atomic_{stem}", f"global_atomic_{stem} v29, {source}, s[10:11]", {}, final, memory, **held)
    add(
        f"global_atomic_{stem} returning",
        f"global_atomic_{stem} {result}, v29, {source}, s[10:11] sc0",
        expected,
        final,
        memory,
        **held,
    )
    add(f"flat_atomic_{stem}", f"{FLAT}flat_atomic_{stem} {result}, v[30:31], {source} sc0", expected, final, memory, **held)
    setup = BUFFER.format(records="0x240")
    add(f"buffer_atomic_{stem}", f"{setup}buffer_atomic_{stem} {source}, v29, s[20:23], 0 offen", {}, final, memory, **held)
    first = [r for r in data]
    back = dict(zip(first, expected.values(), strict=False))
    add(
        f"buffer_atomic_{stem} returning",
        f"{setup}buffer_atomic_{stem} {source}, v29, s[20:23], 0 offen sc0",
        back,
        final,
        memory,
        **held,
    )


for stem, function in INTEGER.items():
    add_atomic(stem, 32, apply(function, 32), {"v4": NEW32}, "v4")
    add_atomic(f"{stem}_x2", 64, apply(function, 64), dict(zip(("v4", "v5"), split_pairs(NEW64), strict=True)), "v[4:5]")
swapped32 = np.where(LANE % 2 == 0, NEW32, OLD32)
compare32 = np.where(LANE % 2 == 0, OLD32, OLD32 ^ np.uint32(1))
add_atomic("cmpswap", 32, swapped32, {"v4": NEW32, "v5": compare32}, "v[4:5]")
compare64 = np.where(LANE % 2 == 0, OLD64, OLD64 ^ np.uint64(1 << 40))
pairs = dict(zip(("v4", "v5", "v6", "v7"), (*split_pairs(NEW64), *split_pairs(compare64)), strict=True))
add_atomic("cmpswap_x2", 64, np.where(LANE % 2 == 0, NEW64, OLD64), pairs, "v[4:7]")

# Floats.
F32_OLD, F32_NEW = (np.random.default_rng(k).standard_normal(LANES).astype(np.float32) for k in (1, 2))
F64_OLD, F64_NEW = (np.random.default_rng(k).standard_normal(LANES) for k in (3, 4))
HALVES = [np.random.default_rng(k).standard_normal((LANES, 2)) for k in (5, 6)]


def pack(values: Array, kind: object) -> Array:
    return np.ascontiguousarray(values.astype(kind)).view(np.uint32).ravel()


def packed_sum(dtype: object) -> tuple[Array, Array, Array]:
    a, b = (x.astype(dtype) for x in HALVES)
    return pack(a, dtype), pack(b, dtype), pack(a.astype(np.float32) + b.astype(np.float32), dtype)


FLOATS = {
    "add_f32": (F32_OLD.view(np.uint32), F32_NEW.view(np.uint32), (F32_OLD + F32_NEW).view(np.uint32)),
    "pk_add_f16": packed_sum(np.float16),
    "pk_add_bf16": packed_sum(ml_dtypes.bfloat16),
    "add_f64": (F64_OLD.view(np.uint64), F64_NEW.view(np.uint64), (F64_OLD + F64_NEW).view(np.uint64)),
    "min_f64": (F64_OLD.view(np.uint64), F64_NEW.view(np.uint64), np.minimum(F64_OLD, F64_NEW).view(np.uint64)),
    "max_f64": (F64_OLD.view(np.uint64), F64_NEW.view(np.uint64), np.maximum(F64_OLD, F64_NEW).view(np.uint64)),
}  # fmt: skip
for stem, (old, new, after) in FLOATS.items():
    wide = old.dtype.itemsize == 8
    held = (dict(zip(("v4", "v5"), split_pairs(new), strict=True)) if wide else {"v4": new}) | {
        "v29": LANE * np.uint32(old.dtype.itemsize)
    }
    source, result = ("v[4:5]", "v[0:1]") if wide else ("v4", "v0")
    expected = dict(zip(("v0", "v1"), split_pairs(old), strict=True)) if wide else {"v0": old}
    memory, final = memory_of(old, 8 * old.dtype.itemsize), memory_of(after, 8 * old.dtype.itemsize)
    add(
        f"global_atomic_{stem}",
        f"global_atomic_{stem} {result}, v29, {source}, s[10:11] sc0",
        expected,
        final,
        memory,
        **held,
    )
    add(f"flat_atomic_{stem}", f"{FLAT}flat_atomic_{stem} {result}, v[30:31], {source} sc0", expected, final, memory, **held)
    add(
        f"buffer_atomic_{stem}",
        f"{BUFFER.format(records='0x240')}buffer_atomic_{stem} {source}, v29, s[20:23], 0 offen",
        {},
        final,
        memory,
        GFX950 if "bf16" in stem else ARCHITECTURES,
        **held,
    )

# The same in LDS. Lane k works on element k.
LDS_INTEGER = {
    "add_u": "add",
    "sub_u": "sub",
    "inc_u": "inc",
    "dec_u": "dec",
    "min_i": "smin",
    "max_i": "smax",
    "min_u": "umin",
    "max_u": "umax",
    "and_b": "and",
    "or_b": "or",
    "xor_b": "xor",
}


def add_lds_atomic(
    stem: str,
    kind: str,
    bits: int,
    old: Array,
    after: Array,
    data: dict[str, Array],
    sources: str,
    only_returning: bool = False,
) -> None:
    held = data | {"v29": LANE * np.uint32(bits // 8)}
    block = np.zeros(1024, np.uint8)
    block[: old.nbytes] = old.view(np.uint8)
    register, second = ("v0", "v2") if bits == 32 else ("v[0:1]", "v[2:3]")
    names = (("v0", "v2"), ("v1", "v3"))
    before, final = ([v] if bits == 32 else list(split_pairs(v)) for v in (old, after))
    expected = {names[k][0]: part for k, part in enumerate(before)} | {names[k][1]: part for k, part in enumerate(final)}
    read = f"s_waitcnt lgkmcnt(0)\n ds_read_b{bits} {second}, v29 offset:8"
    shifted = np.concatenate([np.zeros(8, np.uint8), block])[:1024]
    returning = f"ds_{stem}_rtn_{kind}"
    text = f"{returning} {register}, v29, {sources} offset:8\n {read}"
    TABLE.add(returning, Case(text, held, tuple(expected), lds=shifted), expected)
    if not only_returning:
        text = f"ds_{stem}_{kind} v29, {sources} offset:8\n {read}"
        changed = {r: v for r, v in expected.items() if r in ("v2", "v3")}
        TABLE.add(f"ds_{stem}_{kind}", Case(text, held, tuple(changed), lds=shifted), changed)


for bits, old, new in ((32, OLD32, NEW32), (64, OLD64, NEW64)):
    data = {"v4": new} if bits == 32 else dict(zip(("v4", "v5"), split_pairs(new), strict=True))
    source = "v4" if bits == 32 else "v[4:5]"
    kind_of_bits = np.uint32 if bits == 32 else np.uint64
    for stem, function in LDS_INTEGER.items():
        operation, kind = stem.split("_")
        add_lds_atomic(
            operation, f"{kind}{bits}", bits, old, apply(INTEGER[function], bits).astype(kind_of_bits), data, source
        )
    add_lds_atomic("rsub", f"u{bits}", bits, old, apply(lambda o, v, b: v - o, bits).astype(kind_of_bits), data, source)
    add_lds_atomic("wrxchg", f"b{bits}", bits, old, new, data, source, only_returning=True)
    extra = compare32 if bits == 32 else compare64
    two = {"v6": extra} if bits == 32 else dict(zip(("v6", "v7"), split_pairs(extra), strict=True))
    both = "v6, v4" if bits == 32 else "v[6:7], v[4:5]"
    add_lds_atomic("cmpst", f"b{bits}", bits, old, np.where(LANE % 2 == 0, new, old), data | two, both)
    masked = (old & ~new | extra).astype(kind_of_bits)
    add_lds_atomic("mskor", f"b{bits}", bits, old, masked, data | two, "v4, v6" if bits == 32 else "v[4:5], v[6:7]")
for kind, old, new in (("f32", F32_OLD, F32_NEW), ("f64", F64_OLD, F64_NEW)):
    bits = 8 * old.dtype.itemsize
    raw = np.uint32 if bits == 32 else np.uint64
    data = {"v4": new.view(raw)} if bits == 32 else dict(zip(("v4", "v5"), split_pairs(new.view(raw)), strict=True))
    source = "v4" if bits == 32 else "v[4:5]"
    for stem, after in (("add", old + new), ("min", np.minimum(old, new)), ("max", np.maximum(old, new))):
        add_lds_atomic(stem, kind, bits, old.view(raw), after.view(raw), data, source)
    compare = np.where(LANE % 2 == 0, old, new).view(raw)
    two = {"v6": compare} if bits == 32 else dict(zip(("v6", "v7"), split_pairs(compare), strict=True))
    add_lds_atomic(
        "cmpst",
        kind,
        bits,
        old.view(raw),
        np.where(LANE % 2 == 0, new, old).view(raw),
        data | two,
        "v6, v4" if bits == 32 else "v[6:7], v[4:5]",
    )
for stem in ("f16", "bf16"):
    old, new, after = FLOATS[f"pk_add_{stem}"]
    add_lds_atomic("pk_add", stem, 32, old, after, {"v4": new}, "v4")


@pytest.mark.parametrize(("name", "architecture"), on_each_architecture(CASES))
def test_atomics(name: str, architecture: str) -> None:
    TABLE.check(__name__, name, architecture)
