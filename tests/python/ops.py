"""The table of row ops: everything that a generic test needs to know about each of them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import reference
import shapes
from reference import Array, Exact

import jaxator as jxt

DTYPES = ("float32", "bfloat16", "float16")
EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class OpCase:
    """One op with one set of operands and options."""

    name: str
    op: Callable[..., Any]
    """op(*operands, **keywords)"""
    operands: tuple[str, ...]
    """What each one is: "row" (like x), "parameter" (one for all rows), "position" (integers [..., T]) or "table" (floats
    [..., T, H/2], constant in the gradient); "shared position" and "shared table" have no leading axes."""
    forward: Callable[..., tuple[Exact, ...]]
    """forward(*float64 operands); add_rms_norm gets its rounded sum through `outputs_of`."""
    vjp: Callable[..., tuple[Exact, ...]]
    """vjp(cotangents, *float64 operands): one result for each differentiable operand."""
    outputs: int = 1
    is_rope: bool = False
    packed: bool = False
    """x holds two halves, so it is twice as wide as the output."""
    all_orders: bool = False
    """Differentiable more than once, in reverse mode."""
    checkpoint_names: tuple[str, ...] = ()

    @property
    def differentiable(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.operands) if kind in ("row", "parameter"))

    @property
    def parameters(self) -> tuple[int, ...]:
        return tuple(i for i, kind in enumerate(self.operands) if kind == "parameter")

    @property
    def shapes(self) -> tuple[shapes.Shape, ...]:
        return shapes.ROPE if self.is_rope else shapes.ROWS

    @property
    def small(self) -> shapes.Shape:
        return shapes.SMALL_ROPE if self.is_rope else shapes.SMALL_ROWS

    @property
    def sharded(self) -> shapes.Shape:
        return shapes.SHARDED_ROPE if self.is_rope else shapes.SHARDED_ROWS

    def row_shape(self, shape: shapes.Shape) -> shapes.Shape:
        return (*shape[:-1], 2 * shape[-1]) if self.packed else shape

    def make(self, shape: shapes.Shape, dtype: str, seed: int = 0, parameter_dtype: str = "float32") -> tuple[Array, ...]:
        """Operands for one shape of `shapes`: iid normal numbers; increasing positions with gaps."""
        random = np.random.default_rng([seed, *shape, len(self.name)])
        row = self.row_shape(shape)

        def operand(kind: str) -> Array:
            if kind == "row":
                return random.normal(size=row).astype(jnp.dtype(dtype))
            if kind == "parameter":
                return random.normal(size=row[-1:]).astype(jnp.dtype(parameter_dtype))
            leading = row[-3:-2] if "shared" in kind else row[:-2]
            if "position" in kind:
                return np.cumsum(random.integers(1, 40, size=leading), axis=-1).astype(np.int32)
            assert "table" in kind, kind
            return random.normal(size=(*leading, row[-1] // 2)).astype(np.float32)

        return tuple(map(operand, self.operands))

    def cotangents(self, operands: tuple[Array, ...], seed: int = 1) -> tuple[Array, ...]:
        random = np.random.default_rng([seed, operands[0].size])
        shape = operands[0].shape if not self.packed else (*operands[0].shape[:-1], operands[0].shape[-1] // 2)
        return tuple(random.normal(size=shape).astype(operands[0].dtype) for _ in range(self.outputs))

    def __call__(self, *operands: Any, **keywords: Any) -> tuple[jax.Array, ...]:
        """The outputs, always as a tuple."""
        results = self.op(*operands, **keywords)
        return results if isinstance(results, tuple) else (results,)

    def value_and_vjp(
        self, operands: Any, cotangents: Any, **keywords: Any
    ) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        """Outputs, and gradients of the differentiable operands."""
        chosen = self.differentiable

        def outputs(*some: Any) -> tuple[jax.Array, ...]:
            full = list(operands)
            for i, operand in zip(chosen, some, strict=True):
                full[i] = operand
            return self(*full, **keywords)

        values, vjp = jax.vjp(outputs, *(operands[i] for i in chosen))
        return values, vjp(tuple(cotangents))

    def assert_right(
        self,
        operands: tuple[Array, ...],
        cotangents: tuple[Array, ...],
        values: Any,
        gradients: Any,
        what: str = "",
        slack: float = 1,
    ) -> None:
        """Outputs and gradients are within the bounds of the float64 reference.

        slack: how many times the kernels' roundings are allowed, relative to the row's largest terms.
        """

        def allowed(exact: Exact) -> Exact:
            return (
                exact
                if slack == 1
                else Exact(exact.value, exact.scale.max(axis=-1, keepdims=True, initial=0), slack * exact.roundings)
            )

        wide = [a.astype(np.float64) for a in operands]
        wide_cotangents = [a.astype(np.float64) for a in cotangents]
        if "add_" in self.name:
            total = reference.rounded_sum(operands[:2])
            np.testing.assert_array_equal(np.asarray(values[1]), total, err_msg=f"{what} {self.name} sum")
            wide = [total.astype(np.float64), *wide[2:]]
        results = self.forward(*wide)
        for i, (got, exact) in enumerate(zip(values, results, strict=self.outputs == 1)):
            reference.assert_within(got, allowed(exact), f"{what} {self.name} output {i}")
        wanted = self.vjp(wide_cotangents, *wide)
        if "add_" in self.name:
            wanted = (wanted[0], *wanted)
        for i, got, exact in zip(self.differentiable, gradients, wanted, strict=True):
            reference.assert_within(got, allowed(exact), f"{what} {self.name} gradient of operand {i}")


def _case(
    name: str,
    function: str,
    operands: str,
    *,
    forward: Callable[..., Exact] | None = None,
    vjp: Callable[..., Any] | None = None,
    adapt: Callable[..., Any] | None = None,
    options: Mapping[str, Any] = {},
    **more: Any,
) -> OpCase:
    """forward and vjp are by default those of `reference` under the function's name.

    adapt(function, *operands, **keywords) calls the function, where operands are not its first arguments.
    """
    forward = forward or getattr(reference, function)
    vjp = vjp or getattr(reference, f"{function}_vjp")

    def op(*arrays: Any, **keywords: Any) -> Any:
        public = getattr(jxt, function)
        merged = {**options, **keywords}
        return adapt(public, *arrays, **merged) if adapt else public(*arrays, **merged)

    return OpCase(
        name,
        op,
        tuple(operands.split(", ")),
        lambda *a: (forward(*a, **options),),
        lambda cotangents, *a: vjp(cotangents[0], *a, **options),
        **more,
    )


def _add_rms_norm(name: str, operands: str, **options: Any) -> OpCase:
    def vjp(cotangents: Any, *a: Array) -> tuple[Exact, ...]:
        return reference.rms_norm_vjp(cotangents[0], *a, dtotal=cotangents[1], **options)

    case = _case(
        name,
        "add_rms_norm",
        operands,
        forward=reference.rms_norm,
        vjp=reference.rms_norm_vjp,
        options=options,
        outputs=2,
        checkpoint_names=("jaxator.add_rms_norm.sum",),
    )
    return dataclasses.replace(case, vjp=vjp)


def _bias_only(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *a, **options: function(*a[:-1], None, a[-1], **options)


def _tables(function: Callable[..., Any], x: Any, cos: Any, sin: Any, **options: Any) -> Any:
    return function(x, tables=(cos, sin), **options)


def _rope(name: str, operands: str, **more: Any) -> OpCase:
    return _case(name, "rope", operands, is_rope=True, all_orders=True, **more)


_TABLES = {"adapt": _tables, "forward": reference.rope_tables, "vjp": reference.rope_tables_vjp}
_PACKED = {"forward": reference.swiglu_packed, "vjp": reference.swiglu_packed_vjp}

LIMIT = 1.0
"""Of swiglu: half of the normal inputs reach it."""

CASES: tuple[OpCase, ...] = (
    _case("rms_norm", "rms_norm", "row, parameter"),
    _case("rms_norm bare", "rms_norm", "row", options={"epsilon": EPSILON}),
    _case("rms_norm offset", "rms_norm", "row, parameter", options={"epsilon": 0.5, "weight_offset": 1.0}),
    _add_rms_norm("add_rms_norm", "row, row, parameter"),
    _add_rms_norm("add_rms_norm bare", "row, row"),
    _add_rms_norm("add_rms_norm offset", "row, row, parameter", epsilon=0.5, weight_offset=1.0),
    _case("layer_norm", "layer_norm", "row, parameter, parameter"),
    _case("layer_norm weight", "layer_norm", "row, parameter", options={"epsilon": 0.5}),
    _case("layer_norm bare", "layer_norm", "row"),
    _case(
        "layer_norm bias",
        "layer_norm",
        "row, parameter",
        adapt=lambda f, *a, **k: _bias_only(f)(*a, **k),
        forward=_bias_only(reference.layer_norm),
        vjp=lambda dy, *a, **k: _bias_only(functools.partial(reference.layer_norm_vjp, dy))(*a, **k),
    ),
    _case("swiglu", "swiglu", "row, row"),
    _case("swiglu limit", "swiglu", "row, row", options={"limit": LIMIT}),
    _case("swiglu packed", "swiglu", "row", packed=True, **_PACKED),
    _case("swiglu packed limit", "swiglu", "row", packed=True, **_PACKED, options={"limit": LIMIT}),
    _rope("rope", "row"),
    _rope("rope interleaved", "row", options={"interleaved": True, "theta": 500.0}),
    _rope("rope positions", "row, position"),
    _rope("rope positions interleaved", "row, position", options={"interleaved": True}),
    _rope("rope shared positions", "row, shared position"),
    _rope("rope tables", "row, table, table", **_TABLES),
    _rope("rope shared tables", "row, shared table, shared table", **_TABLES),
    _rope("rope tables interleaved", "row, table, table", **_TABLES, options={"interleaved": True}),
)
"""Every op with every kind of operand list."""

MAIN: tuple[OpCase, ...] = tuple(
    c
    for c in CASES
    if c.name
    in ("rms_norm", "add_rms_norm", "layer_norm", "swiglu", "swiglu packed", "rope positions", "rope shared tables")
)
"""One case for each way of passing operands, for tests that cost seconds."""


def names(cases: tuple[OpCase, ...]) -> list[str]:
    return [case.name.replace(" ", "-") for case in cases]


def supported_isas() -> tuple[str, ...]:
    """Instruction sets of this machine that have kernels."""
    from jaxator import _ffi

    return tuple(_ffi.cpu_report()["supported"])


def rows_in(case: OpCase, shape: shapes.Shape) -> int:
    return math.prod(case.row_shape(shape)[:-1])
