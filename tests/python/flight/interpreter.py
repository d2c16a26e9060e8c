"""The meaning of Flight's text IR in NumPy: what tests compare compiled kernels with, and what runs kernels where there is
no compiler.

All threads of a block go in step. A value of a thread is an array over the threads, (threads,) or (threads, elements); a
tile is an array of its shape. In a branch that threads disagree on both sides run, each with its own mask. Barriers are
nothing then: a kernel without races does the same in this order as in any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from interpreter_memory import Memory, Pointer, Queue
from interpreter_ops import Lanes, Machine
from interpreter_text import Function, Operation, dtype_of, parse


class Block:
    """One block of a kernel, running."""

    def __init__(
        self, function: Function, arguments: dict, block: Sequence[int], grid: Sequence[int], wave: int, eager: bool
    ):
        x, y, z = function.block
        self.lanes = Lanes(x * y * z, wave)
        numbers = np.arange(x * y * z)
        self.thread = [numbers % x, numbers // x % y, numbers // (x * y)]
        self.block, self.grid = block, grid
        self.values = dict(arguments)
        self.queue = Queue(eager)
        self.machine = Machine(self)
        self.printed: list[str] = []

    def run(self, operations: list[Operation], mask: np.ndarray) -> Operation | None:
        """Returns the operation that ends the region, if there is one."""
        for operation in operations:
            if operation.name in ("scf.yield", "scf.condition", "flight.yield", "return"):
                return operation
            self.step(operation, mask)
        return None

    def step(self, operation: Operation, mask: np.ndarray) -> None:
        name = operation.name.replace(".", "_")
        control = getattr(self, name, None)
        if control:
            control(operation, mask)
            return
        results = getattr(self.machine, name)(operation, mask)
        if operation.results:
            self.set(operation.results, [results] if len(operation.results) == 1 else results)

    def set(self, names: list[str], values: Sequence) -> None:
        for name, value in zip(names, values, strict=True):
            self.values[name] = value

    def get(self, names: list[str]) -> list:
        return [self.values[name] for name in names]

    # ---- control flow

    def scf_if(self, operation: Operation, mask: np.ndarray) -> None:
        test = self.values[operation.operands[0]]
        results: list = []
        for region, chosen in zip(operation.regions, (test, ~test), strict=False):
            active = mask & chosen
            if not active.any():
                results.append(None)
                continue
            end = self.run(region.operations, active)
            results.append(self.get(end.operands) if end else [])
        taken = [values for values in results if values is not None]
        if operation.results:
            both = [self.lanes.choose(test, *pair) for pair in zip(*taken, strict=True)] if len(taken) == 2 else taken[0]
            self.set(operation.results, both)

    def scf_for(self, operation: Operation, mask: np.ndarray) -> None:
        counter, first, last, by = operation.operands[:4]
        region = operation.regions[0]
        values = self.get(operation.operands[4:])
        place = self.values[first].copy()
        while True:
            active = mask & (place < self.values[last])
            if not active.any():
                break
            self.values[counter] = place
            self.set(region.arguments, values)
            end = self.run(region.operations, active)
            if end:
                values = [
                    self.lanes.choose(active, new, old) for new, old in zip(self.get(end.operands), values, strict=True)
                ]
            place = place + self.values[by]
        self.set(operation.results, values)

    def scf_while(self, operation: Operation, mask: np.ndarray) -> None:
        test, body = operation.regions
        values = self.get(operation.operands)
        active = mask
        passed = values
        while True:
            self.set(test.arguments, values)
            end = self.run(test.operations, active)
            going, *names = end.operands
            passed = [self.lanes.choose(active, new, old) for new, old in zip(self.get(names), passed, strict=True)]
            active = active & self.values[going]
            if not active.any():
                break
            self.set(body.arguments, passed)
            end = self.run(body.operations, active)
            values = [self.lanes.choose(active, new, old) for new, old in zip(self.get(end.operands), values, strict=True)]
        self.set(operation.results, passed)

    def flight_map(self, operation: Operation, mask: np.ndarray) -> None:
        """The body runs for all elements at once; values from outside must be the same in all threads."""
        inputs = self.get(operation.operands)
        shape = inputs[0].shape
        region = operation.regions[0]
        outer, lanes = self.values, self.lanes
        self.lanes = Lanes(int(np.prod(shape)), lanes.wave)
        self.values = {name: self.lanes.uniform(value, mask) for name, value in outer.items()}
        self.set(region.arguments, [x.reshape(-1) for x in inputs])
        end = self.run(region.operations, np.ones(self.lanes.count, bool))
        results = [x.reshape(shape) for x in self.get(end.operands)]
        self.values, self.lanes = outer, lanes
        self.set(operation.results, results)


def run(
    text: str, arguments: Sequence, grid: Sequence[int], wave: int = 32, eager: bool = False, printed: list | None = None
) -> None:
    """Runs the module's one kernel. Arrays are changed in place; other arguments are scalars. With `eager`, asynchronous
    copies are done when they are asked for, else when they are waited for."""
    function = parse(text)
    assert len(arguments) == len(function.arguments), (len(arguments), function.arguments)
    threads = int(np.prod(function.block))
    for place in itertools.product(*(range(n) for n in reversed(grid))):
        values = {}
        for (name, kind), argument in zip(function.arguments, arguments, strict=True):
            if kind.startswith("!flight.ptr"):
                values[name] = Pointer(Memory(argument.reshape(-1), name))
            else:
                values[name] = np.full(threads, argument, dtype_of(kind))
        block = Block(function, values, place[::-1], grid, wave, eager)
        block.run(function.operations, np.ones(threads, bool))
        if printed is not None:
            printed += block.printed


def run_program(
    program, operands: Sequence[np.ndarray], results: Sequence, wave: int = 32, eager: bool = False
) -> list[np.ndarray]:
    """A traced program on arrays; `results` are the specs of the results. Temporaries and results begin with poison."""
    from jaxator.flight._program import ArrayArgument

    arrays = [np.array(x) for x in operands]
    arrays += [Memory.poisoned(spec.shape, spec.dtype) for spec in [*results, *program.temporaries]]
    for launch in program.launches:
        arguments = [arrays[a.index] if isinstance(a, ArrayArgument) else a.value for a in launch.arguments]
        run(launch.text, arguments, launch.grid, wave, eager)
    return arrays[len(operands) : len(operands) + len(results)]
