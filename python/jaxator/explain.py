"""Which kernel serves each Jaxator call of a program, with what configuration, and why the others were refused."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jaxator import _dispatch, _ffi, _targets
from jaxator._errors import UnsupportedError
from jaxator.matmul_options import EIGHT_BITS


@dataclasses.dataclass(frozen=True)
class Call:
    """One Jaxator call of a program."""

    op: str
    """Public name, as "rms_norm"."""
    direction: str
    """"forward" or "backward"."""
    target: str
    """What the program is lowered for: "cpu", "cuda" or "rocm"."""
    implementation: str
    """"cpu" (or another target) for its kernels, "xla" for the XLA formulation, "gfx942" or "gfx950" for kernels on the
    emulator."""
    config: dict[str, Any]
    """What the kernel was asked to do it with: kernel, isa, tiles, tasks. Empty for "xla"."""
    refused: dict[str, list[str]]
    """The other implementations -> why each was not taken."""
    operands: tuple[str, ...]
    """Types of the local operands, as "bfloat16[8,128]"."""


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """What `explain` found; prints as a table."""

    platform: str
    calls: list[Call]
    """In program order. A call inside a loop is listed once, calls of every branch of a `lax.cond` are listed."""

    def __str__(self) -> str:
        plural = "call" if len(self.calls) == 1 else "calls"
        head = f"{len(self.calls)} Jaxator {plural} in a program for {self.platform}"
        groups: dict[str, tuple[Call, list[int]]] = {}
        for number, call in enumerate(self.calls, 1):
            groups.setdefault(repr(call), (call, []))[1].append(number)
        rows = [
            (_ranges(numbers), c.op, c.direction, c.implementation, " ".join(c.operands)) for c, numbers in groups.values()
        ]
        table = _table(("call", "op", "pass", "kernels", "operands"), rows)
        details = [line for call, numbers in groups.values() for line in _details(_ranges(numbers), call)]
        return "\n".join([head, *(["", *table, "", *details] if rows else [])])

    __repr__ = __str__


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Tells which kernel and configuration each Jaxator call in fn(*args, **kwargs) uses, and why the others were refused.

    fn is traced, not run, as a program for the platform of JAX's default device. Calls are found wherever they are: in jit,
    grad, vmap, scan, remat, shard_map; operands are those of one device inside shard_map, of all devices elsewhere.

    Args:
      fn: any function that JAX can trace, jitted or not.
      args, kwargs: its arguments. Arrays and `jax.ShapeDtypeStruct`s are traced; everything else is passed as it is.

    Returns:
      An object that prints as a table; `calls` lists what it found.
    """
    platform = _platform()
    jaxpr = _trace(fn, args, kwargs)
    return Explanation(platform, list(_calls(jaxpr, platform, named=False)))


def _platform() -> str:
    device = jax.config.jax_default_device or jax.devices()[0]
    if isinstance(device, str):
        return jax.devices(device)[0].platform
    if device.platform != "gpu":
        return device.platform
    return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"


def _trace(fn: Callable[..., Any], args: Any, kwargs: Any) -> core.Jaxpr:
    leaves, tree = jax.tree.flatten((args, kwargs))
    traced = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]

    def run(*arrays: jax.Array) -> list[Any]:
        filled = list(leaves)
        for i, array in zip(traced, arrays, strict=True):
            filled[i] = array
        args, kwargs = jax.tree.unflatten(tree, filled)
        return [leaf for leaf in jax.tree.leaves(fn(*args, **kwargs)) if hasattr(leaf, "dtype")]

    return jax.make_jaxpr(run)(*(leaves[i] for i in traced)).jaxpr


# ---- finding calls ---------------------------------------------------------------------------------------------------


def _calls(jaxpr: core.Jaxpr, platform: str, named: bool) -> Iterator[Call]:
    """Calls of a jaxpr and of all jaxprs in it.

    Args:
      named: the kernels around this jaxpr were asked for by name, so nothing else was a choice.
    """
    for equation in jaxpr.eqns:
        name, parameters = equation.primitive.name, equation.params
        if name == "ffi_call" and parameters["target_name"].startswith(_ffi.PREFIX):
            yield _kernel_call(equation, platform, named)
        elif parameters.get("name") == _dispatch.FORMULA and "jaxpr" in parameters:
            yield _formula_call(equation, platform)
        elif parameters.get("branches_platforms") is not None:
            served = parameters["branches_platforms"]
            refusal = _refusal(parameters["branches"][-1].jaxpr)
            for platforms, branch in zip(served, parameters["branches"], strict=True):
                # The default (None) is the last branch.
                if platforms is None and refusal is not None:
                    reasons = dict(refusal["reasons"]).get(platform, (refusal["otherwise"],))
                    raise UnsupportedError(refusal["op"], {platform: reasons})
                if platforms is None or platform in platforms:
                    yield from _calls(branch.jaxpr, platform, named=refusal is not None)
                    break
        else:
            for inner in _inner_jaxprs(parameters.values()):
                yield from _calls(inner, platform, named)


def _refusal(jaxpr: core.Jaxpr) -> dict[str, Any] | None:
    """Why the platforms of this branch are refused; None if they are served."""
    return next((equation.params for equation in jaxpr.eqns if equation.primitive.name == _dispatch.REFUSAL), None)


def _inner_jaxprs(parameters: Any) -> Iterator[core.Jaxpr]:
    for value in parameters:
        if isinstance(value, core.ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, core.Jaxpr):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _inner_jaxprs(value)


def _kernel_call(equation: Any, platform: str, named: bool) -> Call:
    handler = equation.params["target_name"].removeprefix(_ffi.PREFIX)
    attributes = dict(equation.params["attributes"])
    emulated = handler.endswith(_ffi.EMULATED)
    handler = handler.removesuffix(_ffi.EMULATED)
    op, direction = _name_of(handler, attributes)
    operands, results = ([variable.aval for variable in side] for side in (equation.invars, equation.outvars))
    if op == "call_kernel":
        geometry = {key: tuple(map(int, np.asarray(attributes[key].val))) for key in ("grid", "block", "cluster")}
        config = {"kernel": attributes["name"], **geometry, "shared_bytes": int(attributes["shared_bytes"])}
        return Call(op, direction, platform, platform, config, {}, _types(operands))
    if attributes.get("gradient"):
        direction = "backward"  # products of a product's gradient
    target = attributes["architecture"] if emulated else platform
    config = _config(target, op, direction, handler, operands, results, attributes)
    kernel_named = bool(attributes.get("dot", attributes.get("route")))
    name = (config["kernel"] if target == "cpu" else "tf32") if kernel_named else target
    reason = f"implementation={name!r} was named" if named else f"the {platform} kernels serve this call and are preferred"
    others = {
        other: [_missing_kernels(other, handler) or f"the program is lowered for {platform}"]
        for other in _targets.PLATFORMS
        if other not in ("cpu", platform)
    }
    return Call(
        op=_public_name(op, attributes),
        direction=direction,
        target=platform,
        implementation=target,
        config=config,
        refused={**(_refused_routes(config, operands, attributes) if target == "cpu" else {}), **others, "xla": [reason]},
        operands=_types(operands),
    )


def _missing_kernels(platform: str, handler: str) -> str | None:
    has = {"cuda": _ffi.has_cuda_kernels, "rocm": _ffi.has_rocm_kernels}[platform](handler)
    return _targets.refusal(platform) if has else "this op has no kernels for it"


def _formula_call(equation: Any, platform: str) -> Call:
    scope = str(equation.source_info.name_stack)
    found = re.search(r"jaxator\.(\w+) xla (?=\{)", scope)
    op = found.group(1) if found else "unknown"
    refused = json.JSONDecoder().raw_decode(scope, found.end())[0] if found else {}
    return Call(
        op=op,
        direction="backward" if "transpose(" in scope else "forward",
        target=platform,
        implementation="xla",
        config={},
        refused=refused,
        operands=_types(v.aval for v in equation.invars),
    )


def _types(avals: Any) -> tuple[str, ...]:
    return tuple(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in avals)


# ---- one call's configuration ----------------------------------------------------------------------------------------


def _name_of(handler: str, attributes: dict[str, Any]) -> tuple[str, str]:
    """Op and direction of a handler: rope's gradient is the same kernel with the inverse rotation."""
    for direction in ("forward", "backward"):
        if handler.endswith("_" + direction):
            return handler.removesuffix("_" + direction), direction
    return handler, "backward" if attributes.get("inverse") else "forward"


def _public_name(op: str, attributes: dict[str, Any]) -> str:
    if op == "attention":
        return "dot_product_attention"
    return "add_rms_norm" if op == "rms_norm" and attributes.get("has_residual") else op


def _config(
    target: str, op: str, direction: str, handler: str, operands: Sequence[Any], results: Sequence[Any],
    attributes: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Kernel and instruction set or architecture, and what the library decided if it can describe the op."""
    if target == "cpu":
        config = {"kernel": handler, "isa": _ffi.cpu_report()["selected"]}
    elif target in _targets.EMULATED:
        config = {"kernel": handler, "architecture": target, "emulated": True}
    else:
        config = {"kernel": handler, "architecture": _targets.architecture(target)}
    platform = _targets.ARCHITECTURES.get(target, target)
    describe = getattr(_ffi.library(), f"jaxator_{op}_{'' if platform == 'cpu' else platform + '_'}describe", None)
    if describe is None or op not in _NUMBERS:
        return config
    numbers = _NUMBERS[op](direction, operands, results, attributes)
    if platform == "rocm":
        numbers = [*numbers, _targets.KERNEL_ARCHITECTURES["rocm"].index(config["architecture"])]
    buffer = ctypes.create_string_buffer(4096)
    describe((ctypes.c_int64 * len(numbers))(*numbers), buffer, len(buffer))
    other = "backward_" if direction == "forward" else "forward_"
    described = {k.removeprefix(f"{direction}_"): v for k, v in json.loads(buffer.value).items() if not k.startswith(other)}
    return config | described


Avals = Sequence[Any]
Attributes = dict[str, Any]

# What `jaxator_<op>_describe` takes: dtype, sizes and options, in the order that src/ffi/library.cpp states.


def _norm_numbers(
    flags: tuple[str, str],
    parameter_at: Callable[..., int | None],
    direction: str,
    operands: Avals,
    results: Avals,
    attributes: Attributes,
) -> list[int]:
    columns = operands[0].shape[-1]
    groups = 1  # pieces of the rows that have parameters of their own, as vmap over a parameter makes
    given = [bool(attributes[flag]) for flag in flags]
    at = parameter_at(*given)
    if at is not None and columns:
        parameter = operands[at] if direction == "forward" else results[1]
        groups = max(1, math.prod(parameter.shape) // columns)
    rows = math.prod(operands[0].shape[:-1]) // groups
    return [_dtype(operands), rows, columns, *map(int, given)]


def _swiglu_numbers(direction: str, operands: Avals, results: Avals, attributes: Attributes) -> list[int]:
    *rows, columns = operands[0].shape
    return [_dtype(operands), math.prod(rows), columns // 2 if attributes["packed"] else columns, int(attributes["packed"])]


def _rope_numbers(direction: str, operands: Avals, results: Avals, attributes: Attributes) -> list[int]:
    x, angles = operands[0], operands[1]
    *rows, heads, columns = x.shape
    angle_rows = math.prod(angles.shape[:-1] if attributes["has_tables"] else angles.shape)
    return [_dtype(operands), math.prod(rows), heads, columns, angle_rows]


def _attention_numbers(direction: str, operands: Avals, results: Avals, attributes: Attributes) -> list[int]:
    (batch, queries, heads, head_size), (_, keys, kv_heads, _), value = (a.shape for a in operands[:3])
    bias = operands[3].shape if attributes["has_bias"] else (1, 1, 1, 1)
    options = ("causal", "bottom_right", "window_left", "window_right", "has_bias", "bias_gradient", "dot")
    sizes = (batch, queries, keys, heads, kv_heads, head_size, value[3])
    return [_dtype(operands), *sizes, *bias, *(int(attributes[option]) for option in options)]


def _matmul_numbers(direction: str, operands: Avals, results: Avals, attributes: Attributes) -> list[int]:
    (a, b), rank = (v.shape for v in operands[:2]), int(attributes["batch_rank"])
    m, k = a[-2:][:: -1 if attributes["transpose_a"] else 1]
    n = b[-2 if attributes["transpose_b"] else -1]
    flags = ("transpose_a", "transpose_b", "batch_a", "batch_b", "sum_a", "sum_b")
    summed = next(
        (
            s[rank * has : -2]
            for s, has, sums in (
                (a, attributes["batch_a"], attributes["sum_a"]),
                (b, attributes["batch_b"], attributes["sum_b"]),
            )
            if sums
        ),
        (),
    )
    own_bias = attributes["has_bias"] and attributes["batch_bias"]
    sizes = (math.prod(results[0].shape[:-2]), math.prod(summed), m, n, k)
    formats = [EIGHT_BITS.get(operand.dtype.name, 0) for operand in operands[:2]]
    dtype = _ffi.DTYPES["bfloat16"] if formats[0] else _dtype(operands)
    return [dtype, *sizes, *(int(attributes[flag]) for flag in flags), int(own_bias), int(attributes["route"]), *formats]


def _dtype(operands: Sequence[Any]) -> int:
    return _ffi.DTYPES[operands[0].dtype.name]


_NUMBERS: dict[str, Callable[..., list[int]]] = {
    "rms_norm": functools.partial(
        _norm_numbers, ("has_residual", "has_weight"), lambda residual, weight: 1 + residual if weight else None
    ),
    "layer_norm": functools.partial(
        _norm_numbers, ("has_weight", "has_bias"), lambda weight, bias: 1 if weight or bias else None
    ),
    "swiglu": _swiglu_numbers,
    "rope": _rope_numbers,
    "attention": _attention_numbers,
    "matmul": _matmul_numbers,
}


def _refused_routes(config: dict[str, Any], operands: Sequence[Any], attributes: dict[str, Any]) -> dict[str, list[str]]:
    """Why the other way to multiply of attention or matmul was not taken."""
    taken = config.get("kernel", "")
    family, _, way = taken.rpartition("_")
    if family not in ("flash", "matmul"):
        return {}
    named_way = attributes.get("dot", attributes.get("route"))
    if way == "bf16dot":
        named = f"implementation={taken!r} was named"
        return {f"{family}_f32": [named if named_way else "the bfloat16 dot is faster on this CPU model"]}
    reasons = []
    if operands[0].dtype.name != "bfloat16":
        reasons.append(f"dtype={operands[0].dtype}: must be bfloat16")
    if not config["isa"].endswith("bf16"):
        reasons.append(f"isa={config['isa']}: needs x86-64-v4-bf16")
    if named_way:
        reasons.append(f"implementation={taken!r} was named")
    elif not _ffi.cpu_report()["fast_bf16_dot"]:
        reasons.append("the bfloat16 dot is slower than float32 FMA on this CPU model")
    return {f"{family}_bf16dot": reasons}


# ---- printing --------------------------------------------------------------------------------------------------------


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 5 -> "1-3,5"."""
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and pieces[-1][1] == number - 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in pieces)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * w for w in widths], *rows]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]


def _details(numbers: str, call: Call) -> list[str]:
    lines = [f"call {numbers}: {call.op} {call.direction}"]
    if call.config:
        values = (f"{key} {str(value).lower() if isinstance(value, bool) else value}" for key, value in call.config.items())
        lines.append("  config: " + ", ".join(values))
    return lines + [f"  not {name}: {reason}" for name, reasons in call.refused.items() for reason in reasons]
