"""The kernel libraries: loading, registration with XLA, and the one function that makes a custom call.

The libraries have plain C symbols and link no Python, so ctypes opens them and one build serves every Python version. All
targets are registered when the package is imported: a program loaded by `jax.export` finds them without tracing an op.
"""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from jaxator import _targets
from jaxator._library import open_library

PREFIX = "jaxator."
"""Custom-call targets are named `jaxator.<handler>`."""

HANDLERS = (
    "attention_forward",
    "attention_backward",
    "call_kernel",
    "layer_norm_forward",
    "layer_norm_backward",
    "matmul",
    "rms_norm_forward",
    "rms_norm_backward",
    "rope",
    "swiglu_forward",
    "swiglu_backward",
)

ISAS = ("x86-64-v3", "x86-64-v4", "x86-64-v4-bf16")
"""Kernel sets in the library's order."""

DTYPES = {"float32": 0, "bfloat16": 1, "float16": 2}
"""Element types that kernels take, with the library's numbers."""


def library() -> ctypes.CDLL:
    """The XLA bridge; it opens the kernels beside it."""
    return open_library("libjaxator_xla.so")


def query(name: str, *numbers: int) -> int:
    """Asks the library for a number: `name(int64, ...) -> int64`."""
    function = getattr(library(), name)
    function.restype = ctypes.c_int64
    return function(*map(ctypes.c_int64, numbers))


@functools.cache
def attribute_version() -> np.int64:
    return np.int64(query("jaxator_attribute_version"))


def cpu_report() -> dict[str, Any]:
    """What the library found: vendor, brand, supported and selected instruction sets."""
    buffer = ctypes.create_string_buffer(4096)
    library().jaxator_cpu_report(buffer, len(buffer))
    return json.loads(buffer.value)


def cuda_report() -> dict[str, Any]:
    """What the CUDA driver says: problem ("" if none), devices; and the images of this build."""
    buffer = ctypes.create_string_buffer(65536)
    library().jaxator_cuda_report(buffer, len(buffer))
    return json.loads(buffer.value)


def rocm_report() -> dict[str, Any]:
    """What HIP says: problem ("" if none), devices; whether the emulator can be used; and the images of this build."""
    buffer = ctypes.create_string_buffer(65536)
    library().jaxator_rocm_report(buffer, len(buffer))
    return json.loads(buffer.value)


def force_isa(name: str | None) -> None:
    """Uses one kernel set from now on in this process (None: chosen by CPU model). For tests and measurements."""
    error = ctypes.create_string_buffer(512)
    index = -1 if name is None else ISAS.index(name)
    if library().jaxator_cpu_force_isa(index, error, len(error)):
        raise RuntimeError(error.value.decode())


def _stages(name: str, **stages: str) -> dict[str, Any]:
    lib = library()
    found = {"instantiate": f"jaxator_{name}_instantiate", **stages}
    return {stage: jax.ffi.pycapsule(getattr(lib, symbol)) for stage, symbol in found.items()}


def has_cuda_kernels(name: str) -> bool:
    return hasattr(library(), f"jaxator_{name}_cuda")


def has_rocm_kernels(name: str) -> bool:
    return hasattr(library(), f"jaxator_{name}_rocm_initialize")


EMULATED = "_emulated"
"""End of the names of handlers that run an op's ROCm kernels in programs for CPUs."""


def targets() -> list[str]:
    """Names of all custom calls."""
    emulated = [name + EMULATED for name in HANDLERS if has_rocm_kernels(name)]
    return [PREFIX + name for name in (*HANDLERS, *emulated)]


def scratch_floats(op: str, target: str, *numbers: int) -> int:
    """Asks the library for `jaxator_<op>_[<platform>_]scratch_floats`."""
    platform = "rocm" if target in _targets.EMULATED else target
    return query(f"jaxator_{op}_{'' if platform == 'cpu' else platform + '_'}scratch_floats", *numbers)


def _register() -> None:
    refuse = jax.ffi.pycapsule(library().jaxator_no_kernels)
    for name in HANDLERS:
        jax.ffi.register_ffi_target(PREFIX + name, _stages(name, execute=f"jaxator_{name}"), platform="cpu")
        if has_cuda_kernels(name):
            cuda = _stages(name, initialize=f"jaxator_{name}_cuda_initialize", execute=f"jaxator_{name}_cuda")
            jax.ffi.register_ffi_target(PREFIX + name, cuda, platform="CUDA")
        else:
            jax.ffi.register_ffi_target(PREFIX + name, refuse, platform="CUDA")
        # A program lowered elsewhere may name the call for a GPU; this build then answers with an error that says so.
        if has_rocm_kernels(name):
            rocm = _stages(name, initialize=f"jaxator_{name}_rocm_initialize", execute=f"jaxator_{name}_rocm")
            jax.ffi.register_ffi_target(PREFIX + name, rocm, platform="ROCM")
            emulated = _stages(name, execute=f"jaxator_{name}{EMULATED}")
            jax.ffi.register_ffi_target(PREFIX + name + EMULATED, emulated, platform="cpu")
        else:
            own = getattr(library(), f"jaxator_{name}_rocm", None)
            jax.ffi.register_ffi_target(PREFIX + name, refuse if own is None else jax.ffi.pycapsule(own), platform="ROCM")


_register()


def varying_axes(*arrays: Any) -> frozenset[str]:
    """Manual mesh axes over which any of the arrays varies."""
    return frozenset().union(*(jax.typeof(a).mat.varying for a in arrays))


def vary(axes: frozenset[str], *arrays: jax.Array) -> tuple[jax.Array, ...]:
    """The arrays, typed as varying over `axes` too. The transpose of this cast is the psum that a replicated operand's
    gradient needs."""

    def cast(array: jax.Array) -> jax.Array:
        missing = tuple(sorted(axes - varying_axes(array)))
        return jax.lax.pcast(array, missing, to="varying") if missing else array

    return tuple(cast(array) for array in arrays)


def call(
    handler: str, results: Sequence[jax.ShapeDtypeStruct], *operands: jax.Array,
    target: str = "cpu", input_output_aliases: Mapping[int, int] | None = None, **attributes: Any,
) -> tuple[jax.Array, ...]:  # fmt: skip
    """One custom call. Every operand must vary over the same manual axes (see `vary`); so do the results.

    Args:
      target: as `_dispatch.run` passes it to the kernel. It matters only for an emulated architecture: its kernels have
        another handler, everything else is told apart by the platform.
    """
    axes = varying_axes(*operands)
    if axes:
        like = jax.typeof(operands[0])
        results = [
            jax.ShapeDtypeStruct(
                r.shape, r.dtype, sharding=NamedSharding(like.sharding.mesh, P()), manual_axis_type=like.mat
            )
            for r in results
        ]
    if target in _targets.EMULATED:
        handler, attributes = handler + EMULATED, {**attributes, "architecture": target}
    aliases = dict(input_output_aliases or {})
    custom_call = jax.ffi.ffi_call(PREFIX + handler, list(results), vmap_method=None, input_output_aliases=aliases)
    return tuple(custom_call(*operands, version=attribute_version(), **attributes))


def empty(shape: Sequence[int], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(tuple(shape), jnp.dtype(dtype))
