"""The kernels that an op launches on CDNA: it runs on the emulator, and its launches are kept."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxator import _targets
from jaxator.judge.launch import Launch, recorded, recording


def record(function: Callable[..., Any], *operands: Any, part: int = 0) -> list[Launch]:
    """Every launch on the emulator while a function runs, in order; only `part` workgroups of each, if that is not 0.

    Raises:
      ValueError: the emulator is not in this installation, or nothing was launched on it.
    """
    refusal = _targets.emulation_refusal()
    if refusal is not None:
        raise ValueError(refusal)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with recording(folder, part):
            jax.block_until_ready(function(*operands))
        launches = recorded(folder, part)
    if not launches:
        raise ValueError("no kernel was launched on the emulator")
    return launches


def record_op(
    op: str, shape: tuple[int, ...], dtype: str, architecture: str, options: Mapping[str, Any] | None = None,
    forward_only: bool = False,
) -> list[Launch]:  # fmt: skip
    """The launches of an op's forward and backward pass, on standard normal operands made from the first one's shape."""
    from jaxator.cli import cases

    if architecture not in _targets.EMULATED:
        raise ValueError(f"target={architecture!r}: must be one of {', '.join(_targets.EMULATED)}")
    function, shapes = cases.call_for(op, shape, dtype, {**(options or {}), "implementation": architecture})
    return record(jax.jit(function if forward_only else with_gradient(function)), *cases.inputs(shapes))


def with_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function's results, and their gradients for cotangents of ones."""

    def both(*operands: jax.Array) -> Any:
        results, gradient = jax.vjp(function, *operands)
        return results, gradient(jax.tree.map(jnp.ones_like, results))

    return both
