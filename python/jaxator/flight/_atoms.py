"""Matrix instructions: the table of src/flight/atoms.h, by the library's C function, and the products made of them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from jaxator.flight import _access, _state, _tensor, _tile
from jaxator.flight._errors import FlightError
from jaxator.flight._types import DType, TileType, f32, i32
from jaxator.flight._value import Fragment
from jaxator.flight.layout import ComposedLayout, Layout, Swizzle, composition, propose_swizzle, tile_to_shape
from jaxator.flight.layout._call import call_library


@dataclasses.dataclass(frozen=True)
class Atom:
    """C[m, n] + A[m, k] * B[n, k]^T, done by `lanes` threads. The spreads are layouts (lane, value) -> element."""

    name: str
    kind: str
    lanes: int
    m: int
    n: int
    k: int
    operand: str
    """MLIR's name of the type; "float" is f32, f16 or bf16."""
    result: str
    a: Layout
    b: Layout
    c: Layout


@functools.cache
def atoms(target: str) -> dict[str, Atom]:
    """Those of a target, by name."""
    found = {}
    for line in call_library("jaxator_flight_atoms", "atoms", target).splitlines():
        name, kind, lanes, m, n, k, operand, result, a, b, c = line.split(" ")
        spreads = map(Layout.parse, (a, b, c))
        found[name] = Atom(name, kind, int(lanes), int(m), int(n), int(k), operand, result, *spreads)
    return found


def atom(name: str) -> Atom:
    """The target's atom of this name."""
    target = _state.current("an atom").target.name
    known = atoms(target)
    if name not in known:
        families = sorted({other.rsplit("_", 2)[0] + "_..." if other.startswith("wgmma") else other for other in known})
        raise FlightError(f"{target} has no atom {name!r}; it has {', '.join(families)}")
    return known[name]


def _takes(a: Atom, dtype: DType) -> bool:
    return dtype.mlir == a.operand or (a.operand == "float" and dtype.name in ("f32", "f16", "bf16"))


def mma(name: str, a: Fragment, b: Fragment, c: Fragment) -> Fragment:
    """One matrix instruction of a wave (a warpgroup): each thread has its part of A, B and C in fragments."""
    chosen = atom(name)
    sizes = {"a": chosen.a, "b": chosen.b, "c": chosen.c}
    for which, value in (("a", a), ("b", b), ("c", c)):
        if not isinstance(value, Fragment):
            raise FlightError(f"mma {name}: {which} must be a fragment, not {value!r}")
        wanted = sizes[which].mode(1).size
        if value.size != wanted:
            raise FlightError(f"mma {name}: {which} must have {wanted} elements, not {value.size}: {value!r}")
        if which != "c" and not _takes(chosen, value.dtype):
            raise FlightError(f"mma {name}: {which} must be {chosen.operand}, not {value.dtype}")
    if c.dtype.mlir != chosen.result:
        raise FlightError(f"mma {name}: c must be {chosen.result}, not {c.dtype}")
    text = f'flight.mma "{name}" {a.use()}, {b.use()}, {c.use()} : {a.type.mlir}, {b.type.mlir}, {c.type.mlir}'
    return Fragment(_state.current("mma").op(text), c.dtype, c.shape)


# ---- products of a block ---------------------------------------------------------------------------------------------


def _divisors(count: int) -> list[tuple[int, int]]:
    return [(rows, count // rows) for rows in range(1, count + 1) if count % rows == 0]


def waves_for(chosen: Atom, m: int, n: int, threads: int) -> Layout | None:
    """The block's waves over (M, N) so that each has an equal part, as square as possible."""
    if threads % chosen.lanes:
        return None
    fits = [
        (rows, columns)
        for rows, columns in _divisors(threads // chosen.lanes)
        if m % (rows * chosen.m) == 0 and n % (columns * chosen.n) == 0
    ]
    if not fits:
        return None
    rows, columns = min(fits, key=lambda pair: (m // pair[0] + n // pair[1], pair))
    return Layout((rows, columns))


def _candidates(target: str, dtype: DType, n: int, in_memory: bool) -> list[str]:
    """Names of atoms, the best first."""
    type_name = {"f8E4M3FN": "fp8", "f8E4M3FNUZ": "fp8", "f8E5M2": "bf8", "f8E5M2FNUZ": "bf8"}.get(dtype.mlir, dtype.name)
    plain = {"i8": "dot_i8", "bf16": "dot_bf16"}.get(dtype.name, "fma_f32")
    if target.startswith("gfx"):
        found = [
            a for a in atoms(target).values() if a.kind == "mfma" and a.name.endswith("_" + type_name) and _takes(a, dtype)
        ]
        # The larger ones read each operand less often; among equals, the one with more k does more at once.
        return [a.name for a in sorted(found, key=lambda a: (-a.m, -a.k))] + [plain]
    if target == "sm_90a":
        k = 32 if type_name in ("fp8", "bf8") else 16
        groups = [f"wgmma_64x{size}x{k}_{type_name}" for size in range(256, 0, -8) if n % size == 0] if in_memory else []
        return [*groups, f"mma_16x8x16_{type_name}", plain]
    return [plain]


def _choose(dtype: DType, m: int, n: int, k: int, in_memory: bool) -> tuple[Atom, Layout]:
    trace = _state.current("dot")
    known = atoms(trace.target.name)
    for name in _candidates(trace.target.name, dtype, n, in_memory):
        if name in known and _takes(known[name], dtype) and k % known[name].k == 0:
            waves = waves_for(known[name], m, n, trace.threads)
            if waves is not None:
                return known[name], waves
    raise FlightError(
        f"dot: {trace.target.name} has no atom for {dtype} that divides M={m}, N={n}, K={k} among {trace.threads} threads"
    )


def dot(a: Any, b: Any, c: Any = None, *, atom_name: str | None = None, waves: Layout | None = None) -> _tile.Tile:
    """c + A * B^T of the whole block: A (M, K) and B (N, K), each a tensor in shared memory or a tile; C a tile (M, N), zero
    if left out. Without a name, the target's best atom for the type and the sizes."""
    for which, operand in (("A", a), ("B", b)):
        if not isinstance(operand, _tensor.Tensor | _tile.Tile) or len(operand.shape) != 2:
            raise FlightError(f"dot: {which} must be a tensor in shared memory or a tile, with two modes, not {operand!r}")
    (m, k), (n, k_of_b) = a.shape, b.shape
    if k != k_of_b or a.dtype != b.dtype:
        raise FlightError(f"dot: A is {a.dtype} {m} x {k}, B is {b.dtype} {n} x {k_of_b}: type and K must be the same")
    in_memory = isinstance(a, _tensor.Tensor) and isinstance(b, _tensor.Tensor)
    if atom_name is None:
        chosen, default_waves = _choose(a.dtype, m, n, k, in_memory)
        waves = waves or default_waves
    else:
        chosen = atom(atom_name)
        if not _takes(chosen, a.dtype):
            raise FlightError(f"dot: {atom_name} takes {chosen.operand}, not {a.dtype}")
        waves = waves or waves_for(chosen, m, n, _state.current("dot").threads)
        if waves is None or k % chosen.k:
            raise FlightError(
                f"dot: M={m}, N={n}, K={k} and {_state.current('dot').threads} threads are no whole number of {atom_name} "
                f"({chosen.m} x {chosen.n} x {chosen.k}, {chosen.lanes} lanes)"
            )
    return _emit(chosen, waves, a, b, c, (m, n))


def _emit(chosen: Atom, waves: Layout, a: Any, b: Any, c: Any, shape: tuple[int, int]) -> _tile.Tile:
    trace = _state.current("dot")
    dtype = i32 if chosen.result == "i32" else f32
    arguments = (trace.target.name, chosen.name, str(waves), "c", f"({shape[0]},{shape[1]})")
    try:
        kind = TileType(dtype, shape, call_library("jaxator_flight_atoms", "spread", *arguments))
    except ValueError as error:
        raise FlightError(f"dot: {error}") from None
    if c is None:
        c = _tile.full(shape, 0, dtype)
    if not isinstance(c, _tile.Tile) or c.shape != shape or c.dtype != dtype:
        raise FlightError(f"dot: C must be a tile of {dtype} {shape[0]} x {shape[1]}, not {c!r}")
    c = c.respread(kind.spread)
    names, types = [], []
    for which, operand in (("a", a), ("b", b)):
        if isinstance(operand, _tile.Tile):
            sizes = f"({operand.shape[0]},{operand.shape[1]})"
            operand = operand.respread(call_library("jaxator_flight_atoms", "spread", *arguments[:3], which, sizes))
            names.append(operand.use())
            types.append(operand.type.mlir)
        else:
            if operand.memory.type.space != "shared":
                raise FlightError(f"dot: {operand!r} is in global memory; copy it to shared memory or load it as a tile")
            name, view = _access.view(operand)
            names.append(name)
            types.append(view.mlir)
    text = f'flight.tile_mma "{chosen.name}" waves "{waves}" {names[0]}, {names[1]}, {c.use()}'
    text += f" : {types[0]}, {types[1]}, {kind.mlir}"
    return _tile.Tile(trace.op(text), kind)


def swizzled(shape: tuple[int, int], dtype: DType) -> ComposedLayout | Layout:
    """A layout (rows, columns) of shared memory, columns contiguous, for operands of `dot`: neither the copies that fill it,
    16 bytes a thread, nor the matrix unit that reads it have bank conflicts. On sm_90a it is the one that wgmma asks for:
    16-byte pieces of eight rows, exclusive-ored with the row."""
    rows, columns = shape
    piece = 128 // dtype.bits
    if _state.is_tracing() and _state.current().target.platform == "rocm":
        found = _conflict_free(rows, columns, dtype, _state.current().target.name)
        if found is not None:
            return found
    width = next((pieces * piece for pieces in (8, 4, 2) if columns % (pieces * piece) == 0), None)
    if width is None or rows % 8:
        return Layout((rows, columns), (columns, 1))
    bits = (width // piece).bit_length() - 1
    block = composition(Swizzle(bits, piece.bit_length() - 1, 3), Layout((8, width), (width, 1)))
    result = tile_to_shape(block, (rows, columns))
    assert isinstance(result, ComposedLayout)
    return result


@functools.cache
def _conflict_free(rows: int, columns: int, dtype: DType, target: str) -> ComposedLayout | None:
    """By proof: what the layout library finds for the atom's reads and the copy's writes, of 16 bytes or else in two of
    8. Rows of more than 128 bytes, which is all banks, are cut up into blocks of columns."""
    piece = 128 // dtype.bits
    width = next((n for n in (columns, 8 * piece) if n <= 8 * piece and columns % n == 0), None)
    if width is None or width % piece:
        return None
    for name in _candidates(target, dtype, rows, True):
        chosen = atoms(target)[name]
        if chosen.kind == "plain" or rows % chosen.m or width % chosen.k:
            continue
        across = width // piece
        write = Layout(((across, chosen.lanes // across), piece), ((piece, width), 1))
        read = composition(Layout((chosen.m, chosen.k), (width, 1)), chosen.a)
        assert isinstance(read, Layout)
        own = chosen.a.mode(1).size * dtype.bits // 8
        for wide in (16, 8):
            options = {"element": dtype.bits // 8, "write_width": wide, "read_width": min(own, 16)}
            swizzle = propose_swizzle(write, read, target, **options)  # type: ignore[arg-type]
            if swizzle is not None:
                blocks = Layout((rows, (width, columns // width)), (width, (1, rows * width)))
                result = composition(swizzle, blocks if columns > width else Layout((rows, columns), (columns, 1)))
                assert isinstance(result, ComposedLayout)
                return result
    return None
