"""What the compiler says of a launcher's kernels, for the one who tunes them."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxator.flight import _cache, _compiler, _trace
from jaxator.flight._program import TARGETS, ArrayArgument, ArraySpec, Launch

_COLUMNS = ("registers", "accumulators", "scalars", "shared_bytes", "spills", "scratch_bytes", "bank_conflicts")
_FIRST_ADDRESS = 1 << 44
_TIME_LIMIT_S = 60.0


@dataclasses.dataclass(frozen=True)
class KernelReport:
    """What one kernel needs of its target. None: not known there."""

    kernel: str
    target: str
    registers: int | None
    """Vector registers; of x86 those that are used, of 16 or 32; of NVIDIA GPUs a thread's, where ptxas is found."""
    accumulators: int | None
    scalars: int | None
    """Scalar registers; on x86 general ones."""
    shared_bytes: int
    spills: int | None
    """Registers that did not fit; on x86 how many instructions store one."""
    scratch_bytes: int | None
    """A thread's own memory; on x86 the stack that spills take."""
    bank_conflicts: int | None
    matrix_busy: float | None
    """Of CDNA kernels with matrix instructions: the share of the matrix cores' time that is used in the middle of the kernel,
    as `jaxator judge` models it from a run of the first block on the emulator. Not measured. None without the emulator."""
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        known = [f"{name} {value}" for name in _COLUMNS if (value := getattr(self, name)) is not None]
        if self.matrix_busy is not None:
            known.append(f"matrix cores busy {100 * self.matrix_busy:.1f} %")
        return "\n  ".join([f"{self.kernel} on {self.target}: " + ", ".join(known), *self.remarks])


def report(
    launcher: Callable[..., Any], *operands: Any, out_shape: Any, target: str, scalars: Mapping[str, Any] | None = None,
    options: _compiler.Options | None = None,
) -> list[KernelReport]:  # fmt: skip
    """Traces and compiles a launcher as `call` does, and tells what each kernel that it launches needs.

    Args:
      launcher, operands, out_shape, scalars, options: as `call`. Operands are arrays or, for zeros, `jax.ShapeDtypeStruct`s: a
        kernel for CDNA with matrix instructions runs one block on them.
      target: "x86-64", "gfx942", "gfx950" or "sm_90a".

    Raises:
      FlightError, UnsupportedError, ValueError: as `call`.
    """
    if target not in TARGETS:
        raise ValueError(f"flight.report: target={target!r}: must be {', '.join(map(repr, TARGETS))}")
    arrays = [_array(operand) for operand in operands]
    constants: dict[str, Any] = dict(scalars or {})
    for name, value in constants.items():
        if isinstance(value, (jax.Array, np.ndarray)):  # read by the kernel when it runs
            arrays.append(np.asarray(value))
            constants[name] = arrays[-1].dtype
    specs = [ArraySpec(a.shape, a.dtype) for a in arrays]
    results = [ArraySpec(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(out_shape)]
    program = _trace.trace(launcher, target, specs[: len(operands)], results, constants)
    specs += [*results, *program.temporaries]
    return [_report(launch, target, arrays, specs, options) for launch in program.launches]


def _array(operand: Any) -> np.ndarray:
    return np.zeros(operand.shape, operand.dtype) if isinstance(operand, jax.ShapeDtypeStruct) else np.asarray(operand)


def _report(
    launch: Launch, target: str, arrays: Sequence[np.ndarray], specs: Sequence[ArraySpec], options: _compiler.Options | None
) -> KernelReport:
    artifact = _cache.compiled(target, launch.text, options)
    needs = artifact.kernels[launch.name]
    busy = None
    if TARGETS[target].platform == "rocm" and "mma" in launch.text:
        busy = _matrix_busy(launch, artifact.code, arrays, specs)
    remarks = [_text(remark) for remark in json.loads(artifact.report).get("remarks", ())]
    return KernelReport(
        launch.name, target, **{name: needs[name] for name in _COLUMNS}, matrix_busy=busy, remarks=tuple(remarks)
    )


def _text(remark: Mapping[str, Any]) -> str:
    places = [f"{path}:{line} in {function}" for function, path, line, _ in remark["frames"]]
    return " at ".join([remark["message"], *places[:1]])


def _matrix_busy(launch: Launch, code: bytes, arrays: Sequence[np.ndarray], specs: Sequence[ArraySpec]) -> float | None:
    from jaxator import judge
    from jaxator.judge.launch import Memory

    try:
        info = judge.Code(code).kernel(launch.name)
    except ImportError:  # a package without the emulator
        return None
    block, memory, address = bytearray(info["argument_bytes"]), [], _FIRST_ADDRESS
    for argument, parameter in zip(launch.arguments, info["parameters"], strict=True):
        if isinstance(argument, ArrayArgument):
            packed = struct.pack("<Q", address)
            size = int(np.prod(specs[argument.index].shape)) * specs[argument.index].dtype.itemsize
            given = argument.index < len(arrays)
            content = np.ascontiguousarray(arrays[argument.index]).tobytes() if given else bytes(size)
            memory.append(Memory(address, content, ((0, size),)))
            address = (address + size + 4096) & ~4095
        else:
            packed = argument.value.tobytes()
        block[parameter["offset"] : parameter["offset"] + len(packed)] = packed
    # A model of one compute unit: the other blocks would run as the first does.
    geometry = judge.Geometry(launch.grid, launch.block, 0, 1)
    measures = judge.measure(
        judge.Launch(code, launch.name, geometry, bytes(block), tuple(memory)), time_limit_s=_TIME_LIMIT_S
    )
    return measures.schedule.steady if measures.matrix_instructions else None
