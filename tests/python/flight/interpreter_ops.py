"""Operations of the interpreter that have no regions."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
from interpreter_memory import Memory, Pointer, make_view
from interpreter_text import Operation, dtype_of
from interpreter_tiles import COMBINE, TileOperations, operands_in

if TYPE_CHECKING:
    from interpreter import Block


class Lanes:
    """The threads that go in step."""

    def __init__(self, count: int, wave: int):
        self.count, self.wave = count, wave

    def choose(self, mask: np.ndarray, a, b):
        """a in the threads of the mask, else b."""
        if not isinstance(a, np.ndarray) or a is b:
            return a
        if a.shape[:1] != mask.shape or a.ndim > 2:
            return a if mask.all() else self._tile(mask, a, b)
        return np.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)

    def _tile(self, mask: np.ndarray, a, b):
        assert not mask.any() or mask.all(), "threads disagree about a tile"
        return a if mask.any() else b

    def uniform(self, value, mask: np.ndarray):
        """A value from outside of a map, for the elements in it; None if it is no scalar or differs."""
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.shape != mask.shape:
            return None
        active = value[mask]
        same = active.dtype.kind not in "biuf" or (active == active[0]).all() or (active != active).all()
        return np.full(self.count, active[0], value.dtype) if same else None


def _ones_as(kind: str, x: np.ndarray) -> np.ndarray:
    """The bits as unsigned integers."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}")) if x.dtype.kind == "i" else x


_BINARY = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "addf": np.add, "subf": np.subtract, "mulf": np.multiply,
    "divf": np.divide, "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor, "floordivsi": np.floor_divide,
    "maximumf": np.maximum, "minimumf": np.minimum, "maxsi": np.maximum, "minsi": np.minimum, "shli": np.left_shift,
    "shrsi": np.right_shift,
}  # fmt: skip
_UNSIGNED = {
    "divui": np.floor_divide,
    "remui": np.remainder,
    "shrui": np.right_shift,
    "maxui": np.maximum,
    "minui": np.minimum,
}
_COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}
_MATH = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor, "ceil": np.ceil, "absf": np.abs, "absi": np.abs, "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "erf": lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x),
}  # fmt: skip


class Machine(TileOperations):
    def __init__(self, block: Block):
        self._block = block

    def __getattr__(self, name: str):
        group, _, op = name.partition("_")
        if group == "arith" and op in _BINARY:
            return self._quiet(lambda o, m: _BINARY[op](*self._in(o)))
        if group == "arith" and op in _UNSIGNED:
            return self._quiet(lambda o, m: self._unsigned(_UNSIGNED[op], o, m))
        if group == "math" and op in _MATH:
            return self._quiet(lambda o, m: _MATH[op](*self._in(o)))
        raise AttributeError(name)

    @staticmethod
    def _quiet(run):
        def quiet(operation, mask):
            with np.errstate(all="ignore"):
                return run(operation, mask)

        return quiet

    def _in(self, operation: Operation) -> list:
        return self._block.get(operation.operands)

    @property
    def _count(self) -> int:
        return self._block.lanes.count

    # ---- arith

    def arith_constant(self, operation: Operation, mask: np.ndarray):
        text, kind = re.fullmatch(r" (.*?)(?: : (.*))?", operation.text).groups()
        if kind is None:
            return np.full(self._count, text == "true")
        dtype = dtype_of(kind)
        inner = re.fullmatch(r"dense<\[?(.*?)\]?>", text)
        numbers = np.array([_number(x, dtype) for x in (inner[1] if inner else text).split(", ")], dtype)
        if not kind.startswith("vector"):
            return np.full(self._count, numbers[0], dtype)
        count = int(re.match(r"vector<(\d+)x", kind)[1])
        return np.broadcast_to(numbers, (self._count, count)).copy()

    def _unsigned(self, apply, operation: Operation, mask: np.ndarray):
        a, b = (_ones_as("u", x) for x in self._in(operation))
        if apply in (np.floor_divide, np.remainder):
            b = np.where(b == 0, 1, b).astype(b.dtype)  # only in threads that are not at work
        return apply(a, b).view(self._in(operation)[0].dtype)

    def arith_remsi(self, operation: Operation, mask: np.ndarray):
        a, b = self._in(operation)
        return np.fmod(a, np.where(b == 0, 1, b).astype(b.dtype))

    def arith_negf(self, operation: Operation, mask: np.ndarray):
        return -self._in(operation)[0]

    def arith_select(self, operation: Operation, mask: np.ndarray):
        test, a, b = self._in(operation)
        return np.where(test if test.ndim == a.ndim else test[:, None], a, b)

    def _compare(self, operation: Operation):
        predicate = re.match(r" (\w+),", operation.text)[1]
        a, b = self._in(operation)
        if predicate.startswith("u") and predicate != "une":
            a, b = _ones_as("u", a), _ones_as("u", b)
        return _COMPARE[predicate[-2:]](a, b)

    def arith_cmpi(self, operation: Operation, mask: np.ndarray):
        return self._compare(operation)

    def arith_cmpf(self, operation: Operation, mask: np.ndarray):
        a, b = self._in(operation)
        predicate = re.match(r" (\w+),", operation.text)[1]
        result = self._compare(operation)
        return result & ~np.isnan(a) & ~np.isnan(b) if predicate[0] == "o" else result

    def _convert(self, operation: Operation, unsigned: bool = False):
        (x,) = self._in(operation)
        target = dtype_of(operation.types.split(" to ")[1])
        with np.errstate(all="ignore"):
            return (_ones_as("u", x) if unsigned else x).astype(target)

    def _signed(self, operation: Operation, mask: np.ndarray):
        return self._convert(operation)

    def _zero(self, operation: Operation, mask: np.ndarray):
        return self._convert(operation, unsigned=True)

    arith_extf = arith_truncf = arith_sitofp = arith_fptosi = arith_extsi = arith_trunci = arith_index_cast = _signed
    arith_extui = arith_uitofp = arith_index_castui = _zero

    def arith_fptoui(self, operation: Operation, mask: np.ndarray):
        target = dtype_of(operation.types.split(" to ")[1])
        return self._in(operation)[0].astype(np.dtype(f"u{target.itemsize}")).view(target)

    def arith_bitcast(self, operation: Operation, mask: np.ndarray):
        return self._in(operation)[0].view(dtype_of(operation.types.split(" to ")[1]))

    def math_fma(self, operation: Operation, mask: np.ndarray):
        a, b, c = self._in(operation)
        return (a.astype(np.longdouble) * b + c).astype(a.dtype)

    # ---- vectors

    def vector_broadcast(self, operation: Operation, mask: np.ndarray):
        count = int(re.search(r"to vector<(\d+)x", operation.types)[1])
        return np.repeat(self._in(operation)[0][:, None], count, axis=1)

    def vector_from_elements(self, operation: Operation, mask: np.ndarray):
        return np.stack(self._in(operation), axis=1)

    def _place(self, operation: Operation) -> np.ndarray:
        at = re.search(r"\[(%?[\w#]+)\]", operation.text)[1]
        return self._block.values[at] if at.startswith("%") else np.full(self._count, int(at))

    def vector_extract(self, operation: Operation, mask: np.ndarray):
        source = self._in(operation)[0]
        return source[np.arange(self._count), self._place(operation) % source.shape[1]]

    def vector_insert(self, operation: Operation, mask: np.ndarray):
        value, target = self._in(operation)[:2]
        result = target.copy()
        result[np.arange(self._count), self._place(operation) % target.shape[1]] = value
        return result

    def vector_shuffle(self, operation: Operation, mask: np.ndarray):
        places = [int(x) for x in re.search(r"\[([\d, ]+)\]", operation.text)[1].split(",")]
        return np.concatenate(self._in(operation), axis=1)[:, places]

    def vector_reduction(self, operation: Operation, mask: np.ndarray):
        kind = re.search(r"<(\w+)>", operation.text)[1]
        (source,) = self._in(operation)
        if kind in ("and", "or"):
            return source.all(1) if kind == "and" else source.any(1)
        combine, columns = COMBINE[kind[:3]], _ones_as("u", source) if kind in ("maxui", "minui") else source
        result = columns[:, 0]
        for i in range(1, source.shape[1]):
            result = combine(result, columns[:, i])
        return result.view(source.dtype)

    # ---- flight: geometry and memory

    def _axis(self, operation: Operation) -> int:
        return "xyz".index(operation.text.strip())

    def flight_thread_id(self, operation: Operation, mask: np.ndarray):
        return self._block.thread[self._axis(operation)].astype(np.int64)

    def flight_block_id(self, operation: Operation, mask: np.ndarray):
        return np.full(self._count, self._block.block[self._axis(operation)], np.int64)

    def flight_grid_dim(self, operation: Operation, mask: np.ndarray):
        return np.full(self._count, self._block.grid[self._axis(operation)], np.int64)

    def flight_shared(self, operation: Operation, mask: np.ndarray):
        count = int(operation.text.split()[0])
        return Pointer(Memory(Memory.poisoned(count, dtype_of(operation.types)), "shared memory"))

    def flight_view(self, operation: Operation, mask: np.ndarray):
        pointer, offset, *dims = self._in(operation)
        return make_view(pointer, offset, re.search(r'-> .*"(.*)"', operation.types)[1], dims)

    def flight_load(self, operation: Operation, mask: np.ndarray):
        view = self._in(operation)[0]
        named = [self._block.values[x] for x in operands_in(operation, "mask")]
        active = mask[:, None] & (named[0] if named else True)
        active = np.broadcast_to(active, view.places.shape)
        other = [self._block.values[x] for x in operands_in(operation, "other")]
        return view.memory.load(view.places, active, other[0][:, None] if other else np.zeros(1, view.memory.array.dtype))

    def flight_store(self, operation: Operation, mask: np.ndarray):
        value, view = self._in(operation)[:2]
        named = [self._block.values[x] for x in operands_in(operation, "mask")]
        active = np.broadcast_to(mask[:, None] & (named[0] if named else True), view.places.shape)
        view.memory.store(view.places, active, value)

    def flight_copy_async(self, operation: Operation, mask: np.ndarray):
        source, target = self._in(operation)[:2]
        named = [self._block.values[x] for x in operands_in(operation, "mask")]
        active = np.broadcast_to(mask[:, None], source.places.shape)
        inside = active & (named[0][:, None] if named else True)

        def copy():
            target.memory.store(target.places, active, source.memory.load(source.places, inside, np.zeros(1)))

        self._block.queue.add(copy)

    def flight_commit(self, operation: Operation, mask: np.ndarray):
        self._block.queue.commit()

    def flight_wait(self, operation: Operation, mask: np.ndarray):
        self._block.queue.wait(int(operation.text))

    def flight_barrier(self, operation: Operation, mask: np.ndarray):
        assert mask.all(), "a barrier that not all threads reach"

    def flight_shuffle(self, operation: Operation, mask: np.ndarray):
        value, amount = self._in(operation)
        wave, lane = self._block.lanes.wave, np.arange(self._count)
        inside = lane % wave
        move = operation.text.split()[0]
        target = {"xor": inside ^ amount, "up": inside - amount, "down": inside + amount, "index": amount}[move]
        valid = (target >= 0) & (target < wave)
        return value[np.where(valid, lane - inside + target, lane)]

    def flight_print(self, operation: Operation, mask: np.ndarray):
        text = re.match(r' "(.*?)"', operation.text)[1]
        for thread in np.flatnonzero(mask):
            values = [x[thread] for x in self._in(operation)]
            self._block.printed.append(text.format(*values))


def _number(text: str, dtype: np.dtype):
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("0x"):
        return np.array(int(text, 16)).astype(f"u{dtype.itemsize}").view(dtype)
    if dtype.kind in "iu":
        return np.array(int(text)).astype(np.int64 if int(text) < 2**63 else np.uint64).astype(dtype)
    return float(text)
