"""What the row ops (norms, activations, position) share: arrays of rows, and parameters that every row uses.

A pattern describes them: ``"* d, ~ d -> * d"``. ``*`` stands for the leading dimensions of a row array, ``~`` for the
dimensions that `jax.vmap` put in front: a parameter has them if it was mapped too, a parameter's gradient always.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxator import _dispatch, _ffi, _partition
from jaxator._errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class RowCall:
    """One direction of a row op."""

    local: Callable[..., Any]
    """local(options, batch_dims, *operands) -> results, on one device's shards."""
    options: Any
    """Frozen dataclass."""
    pattern: str
    replicated: tuple[str, ...]
    batch_dims: int = 0
    """How many dimensions `vmap` has put in front."""

    def _trailing(self, side: int) -> list[tuple[str, list[str]]]:
        return [(array.split()[0], array.split()[1:]) for array in self.pattern.split("->")[side].split(",")]

    def rule(self, operands: Sequence[Any]) -> _partition.Rule:
        batch = [f"v{i}" for i in range(self.batch_dims)]
        first_kind, first_trailing = self._trailing(0)[0]
        assert first_kind == "*", self.pattern
        rows = [f"r{i}" for i in range(operands[0].ndim - self.batch_dims - len(first_trailing))]

        def dims(kind: str, trailing: list[str], batched: bool) -> tuple[tuple[str, ...], ...]:
            leading = batch + rows if kind == "*" else batch if batched else []
            return tuple((f,) for f in leading + trailing)

        return _partition.Rule(
            tuple(dims(k, t, a.ndim > len(t)) for (k, t), a in zip(self._trailing(0), operands, strict=True)),
            tuple(dims(k, t, True) for k, t in self._trailing(1)),
            frozenset(self.replicated),
        )

    def __call__(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        """custom_vmap > partition > local."""
        return _batched(self)(*operands)


@functools.lru_cache(maxsize=1024)
def _batched(call: RowCall) -> Callable[..., Any]:
    local = functools.partial(call.local, call.options, call.batch_dims)
    stable = _Stable(call, local)

    @jax.custom_batching.custom_vmap
    def run(*operands: jax.Array) -> tuple[jax.Array, ...]:
        return _partition.call(stable, call.rule(operands), operands)

    @run.def_vmap
    def run_vmap(size: int, batched: Sequence[bool], *operands: jax.Array) -> tuple[Any, Any]:
        kinds = call._trailing(0)
        parameters = [i for i, (kind, _) in enumerate(kinds) if kind == "~"]
        # Parameters stay shared unless one of them is mapped, now or by an inner vmap.
        own = any(batched[i] for i in parameters)

        def mapped(i: int, a: jax.Array) -> jax.Array:
            if kinds[i][0] == "*":
                return a if batched[i] else jnp.broadcast_to(a, (size, *a.shape))
            inner = operands[0].shape[1 if batched[0] else 0 :][: call.batch_dims]
            has_inner = a.ndim - bool(batched[i]) > len(kinds[i][1])
            if not own and not has_inner:
                return a
            tail = a.shape[a.ndim - len(kinds[i][1]) :]
            if not batched[i]:
                a = a[None]
            if not has_inner:
                a = a.reshape(a.shape[0], *(1,) * call.batch_dims, *tail)
            return jnp.broadcast_to(a, (size, *inner, *tail))

        results = _batched(dataclasses.replace(call, batch_dims=call.batch_dims + 1))(
            *map(mapped, range(len(operands)), operands)
        )
        return results, tuple(True for _ in results)

    return run


class _Stable:
    """A local function that compares by the call it belongs to, so that caches keyed by it are hit."""

    def __init__(self, call: RowCall, local: Callable[..., Any]):
        self.call, self.local = call, local

    def __call__(self, *operands: jax.Array) -> Any:
        return self.local(*operands)

    def __hash__(self) -> int:
        return hash(self.call)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stable) and self.call == other.call


def map_batch(formula: Callable[..., Any], batch_dims: int, ranks: Sequence[int]) -> Callable[..., Any]:
    """The formula mapped over the leading `batch_dims` dimensions of the operands that have them.

    Args:
      formula: function of unbatched operands.
      batch_dims: how many dimensions were put in front.
      ranks: for each operand, its number of dimensions without them; None if it always has them.
    """

    def mapped(*operands: jax.Array) -> Any:
        axes = [0 if rank is None or a.ndim > rank else None for rank, a in zip(ranks, operands, strict=True)]
        f = formula
        for _ in range(batch_dims):
            f = jax.vmap(f, in_axes=axes)
        return f(*operands)

    return mapped


def extents(x: jax.Array, batch_dims: int) -> tuple[tuple[int, ...], int, int]:
    """(mapped dimensions, columns, rows of one mapped element) of a row array."""
    batch, columns = x.shape[:batch_dims], x.shape[-1]
    return batch, columns, int(np.prod(x.shape[batch_dims:-1])) if columns else 0


def first_order(op: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a backward pass as the end of differentiation: a derivative of it raises UnsupportedError."""

    def wrap(backward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
        def once(options: Any, *operands: Any) -> Any:
            return backward(options, *operands)

        def forward(options: Any, *operands: Any) -> Any:
            return backward(options, *operands), None

        def refuse(options: Any, _: Any, cotangents: Any) -> Any:
            raise UnsupportedError(
                op, {"second derivative": ["the kernels give first derivatives; use implementation='xla'"]}
            )

        once.defvjp(forward, refuse)
        return once

    return wrap


# ---- the public edge -------------------------------------------------------------------------------------------------


def is_wide_float(dtype: Any) -> bool:
    """Narrower floats have no implicit promotion in JAX, so the float32 formulations cannot take them."""
    return jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize >= 2


def check(
    op: str, rows: Sequence[Any], parameters: dict[str, Any], epsilon: float = 0.0
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Row arrays and present parameters as arrays; raises for a shape, dtype or epsilon that breaks a rule."""
    rows = tuple(map(jnp.asarray, rows))
    x = rows[0]
    for array in rows:
        if not is_wide_float(array.dtype):
            raise TypeError(f"{op}: dtype={array.dtype}: must be a float type of 16 bits or more")
        if array.ndim == 0:
            raise ValueError(f"{op}: shape=(): needs at least one axis")
        if array.shape != x.shape or array.dtype != x.dtype:
            raise ValueError(f"{op}: {array.dtype}{list(array.shape)} beside {x.dtype}{list(x.shape)}: must be equal")
    present = {name: jnp.asarray(p) for name, p in parameters.items() if p is not None}
    for name, p in present.items():
        if not is_wide_float(p.dtype):
            raise TypeError(f"{op}: {name} dtype={p.dtype}: must be a float type of 16 bits or more")
        if p.shape != x.shape[-1:]:
            raise ValueError(f"{op}: {name} shape={p.shape}: must be the last axis of x, {x.shape[-1:]}")
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"{op}: epsilon={epsilon}: must be finite and not negative")
    return rows, tuple(present.values())


def refusals(rows: Sequence[jax.Array], *targets: str) -> dict[str, list[str]]:
    """For each target that an op has kernels for, why they cannot take these arrays."""
    dtype = rows[0].dtype
    reasons = [] if dtype.name in _ffi.DTYPES else [f"dtype={dtype}: must be one of {', '.join(_ffi.DTYPES)}"]
    return {target: list(reasons) for target in targets}


def apply(op: Callable[..., Any], formula: Callable[..., Any], options: Any, forward: RowCall, operands: Sequence[jax.Array],
          mesh: Any, in_specs: Any) -> tuple[jax.Array, ...]:  # fmt: skip
    """Runs op(options, operands) by the route that mesh, in_specs and the operands' types ask for.

    Args:
      op: the function with the kernel's gradient.
      formula: the XLA formulation, formula(options, *operands); differentiated by JAX when it was chosen by name.
      forward: gives the sharding rule.
    """
    rule = forward.rule(operands)
    if mesh is not None:
        return _partition.over_mesh(
            functools.partial(apply, op, formula, options, forward, mesh=None, in_specs=None), rule, mesh, in_specs, operands
        )
    if in_specs is not None:
        raise ValueError(f"in_specs={in_specs}: needs mesh")
    if options.choice == "xla":
        return _dispatch.formulate(options.choice, formula, options, *operands)
    return op_call(op, options, _partition.align(rule, operands))


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def op_call(op: Callable[..., Any], options: Any, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Compiled when called outside of jit: eager execution of the wrappers would cost about 1 ms a call."""
    return op(options, operands)
