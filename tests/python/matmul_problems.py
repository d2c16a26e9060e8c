"""Matmul problems: operands, the result and its gradients in NumPy float64, and bounds for the kernels' roundings."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import reference
import shapes
from reference import Array, Exact

import jaxator as jxt

ACTIVATIONS = (None, "relu", "silu", "gelu", "gelu_tanh")


def _activation(kind: str | None, z: Array) -> tuple[Array, Array]:
    """Value and derivative."""
    if kind is None:
        return z, np.ones_like(z)
    if kind == "relu":
        return np.maximum(z, 0), (z > 0).astype(z.dtype)
    if kind == "silu":
        s = 1 / (1 + np.exp(-z))
        return z * s, s * (1 + z * (1 - s))
    if kind == "gelu":
        phi = 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(z / math.sqrt(2)))
        return z * phi, phi + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (z + 0.044715 * z**3))
    return 0.5 * z * (1 + t), 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * c * (1 + 3 * 0.044715 * z * z)


def _sum_to(array: Array, lead: shapes.Shape) -> Array:
    """Summed over the leading dimensions along which an operand was repeated."""
    array = array.sum(axis=tuple(range(array.ndim - 2 - len(lead))))
    return array.sum(axis=tuple(i for i, n in enumerate(lead) if n == 1 != array.shape[i]), keepdims=True)


@dataclasses.dataclass(frozen=True)
class Problem:
    """One product with one set of options."""

    m: int
    n: int
    k: int
    dtype: str = "float32"
    lead_a: shapes.Shape = ()
    lead_b: shapes.Shape = ()
    transpose_a: bool = False
    transpose_b: bool = False
    has_bias: bool = False
    activation: str | None = None
    has_residual: bool = False
    float32_result: bool = False

    @property
    def lead(self) -> shapes.Shape:
        return np.broadcast_shapes(self.lead_a, self.lead_b)

    def options(self, **more: Any) -> dict[str, Any]:
        chosen = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b, "activation": self.activation}
        return {**chosen, **({"preferred_element_type": jnp.float32} if self.float32_result else {}), **more}

    def operands(self, seed: int = 0) -> tuple[Array, ...]:
        """a, b, [bias], [residual]: iid normal."""
        random = np.random.default_rng([seed, self.m, self.n, self.k])
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        drawn = [random.normal(size=(*self.lead_a, *a)), random.normal(size=(*self.lead_b, *b))]
        arrays = [x.astype(jnp.dtype(self.dtype)) for x in drawn]
        if self.has_bias:
            arrays.append(random.normal(size=self.n).astype(np.float32))
        if self.has_residual:
            arrays.append(random.normal(size=(*self.lead, self.m, self.n)).astype(jnp.dtype(self.dtype)))
        return tuple(arrays)

    def cotangent(self, seed: int = 1) -> Array:
        dtype = np.float32 if self.float32_result else jnp.dtype(self.dtype)
        return np.random.default_rng(seed).normal(size=(*self.lead, self.m, self.n)).astype(dtype)

    def __call__(self, *operands: Any, **more: Any) -> jax.Array:
        rest = list(operands[2:])
        bias = rest.pop(0) if self.has_bias else None
        residual = rest.pop(0) if self.has_residual else None
        return jxt.matmul(*operands[:2], bias=bias, residual=residual, **self.options(**more))

    def value_and_vjp(self, operands: Any, cotangent: Any, **more: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        value, vjp = jax.vjp(lambda *a: self(*a, **more), *operands)
        return value, vjp(cotangent)

    def exact(self, operands: tuple[Array, ...], cotangent: Array) -> tuple[Exact, tuple[Exact, ...]]:
        """The result and the gradient of every operand, with the errors that the contract allows."""
        wide = [x.astype(np.float64) for x in operands]
        a = wide[0].swapaxes(-1, -2) if self.transpose_a else wide[0]
        b = wide[1].swapaxes(-1, -2) if self.transpose_b else wide[1]
        bias = wide[2] if self.has_bias else np.zeros(self.n)
        residual = wide[-1] if self.has_residual else np.zeros(1)
        z, size = a @ b + bias, np.abs(a) @ np.abs(b) + np.abs(bias)
        y, slope = _activation(self.activation, z)
        # Each term of a sum is rounded once a partial sum; an activation stretches the error by at most 1.13, and its own is
        # that of an exponential with a relative error of 4e-6 (16-bit types) or 3e-7.
        own = (4e-6 if self.dtype != "float32" else 3e-7) / 2**-24 if self.activation not in (None, "relu") else 0
        value = Exact(y + residual, size + np.abs(residual) + (own + 8) * np.abs(z) / (self.k + 4), 1.13 * (self.k + 4))
        return value, self._gradients(a, b, z, size, slope, cotangent.astype(np.float64))

    def _gradients(self, a: Array, b: Array, z: Array, size: Array, slope: Array, dy: Array) -> tuple[Exact, ...]:
        dz = dy * slope
        # dz is rounded to the operands' type; the saved z was too, and the slope changes by at most 1.2 for each unit of z.
        unit, step = reference.UNIT[self.dtype] / 2**-24, 1.2 if self.activation not in (None, "relu") else 0
        wrong = (
            (unit + 8) * np.abs(dz)
            + step * np.abs(dy) * (unit * np.abs(z) + (self.k + 4) * size)
            + 8 * np.abs(dy) * bool(step)
        )

        def product(
            x: Array, y: Array, x_wrong: Array, y_wrong: Array, lead: shapes.Shape, terms: int
        ) -> tuple[Array, Array]:
            error = x_wrong @ np.abs(y) + np.abs(x) @ y_wrong + (terms + 2) * (np.abs(x) @ np.abs(y))
            return _sum_to(x @ y, lead), _sum_to(error, lead)

        repeats = math.prod(self.lead)
        zeros_a, zeros_b = np.zeros_like(a), np.zeros_like(b)
        da = product(dz, b.swapaxes(-1, -2), wrong, zeros_b.swapaxes(-1, -2), self.lead_a, self.n * repeats)
        db = product(a.swapaxes(-1, -2), dz, zeros_a.swapaxes(-1, -2), wrong, self.lead_b, self.m * repeats)
        da, db = (
            (tuple(x.swapaxes(-1, -2) for x in g) if t else g) for g, t in ((da, self.transpose_a), (db, self.transpose_b))
        )
        gradients = [Exact(*da, 1), Exact(*db, 1)]
        if self.has_bias:
            flat = (self.m * repeats, self.n)
            error = wrong.reshape(flat).sum(axis=0) + (self.m * repeats + 4) * np.abs(dz).reshape(flat).sum(axis=0)
            gradients.append(Exact(dz.reshape(flat).sum(axis=0), error, 1))
        if self.has_residual:
            gradients.append(Exact(dy, np.abs(dy), 1))
        return tuple(gradients)

    def assert_right(
        self, operands: tuple[Array, ...], cotangent: Array, value: Any, gradients: Any, what: str = ""
    ) -> None:
        want, wanted = self.exact(operands, cotangent)
        reference.assert_within(value, want, f"{what} {self} result")
        for i, (got, exact) in enumerate(zip(gradients, wanted, strict=True)):
            reference.assert_within(got, exact, f"{what} {self} gradient of operand {i}")


def _values() -> tuple[Problem, ...]:
    """Every shape; layouts, dtypes and what follows the product in turn, so that all pairs of them occur."""
    problems = []
    for i, (m, n, k) in enumerate(shapes.PRODUCTS):
        for turn in range(4):
            at = 4 * i + turn
            problems.append(
                Problem(
                    m,
                    n,
                    k,
                    dtype=("float32", "bfloat16", "float16")[at % 3],
                    transpose_a=turn in (1, 3),
                    transpose_b=turn in (2, 3),
                    has_bias=at % 2 == 1,
                    activation=ACTIVATIONS[at % 5],
                    has_residual=at // 2 % 2 == 1,
                    float32_result=at % 7 == 0,
                )
            )
    return tuple(problems)


def _batches() -> tuple[Problem, ...]:
    leads = (((3,), ()), ((), (3,)), ((3,), (3,)), ((2, 1), (3,)), ((2, 3), ()), ((0,), ()), ((1,), (4,)))
    return tuple(
        Problem(
            5, 9, 7, "bfloat16", *lead, transpose_a=i % 2 == 1, transpose_b=i % 3 == 1, has_bias=True,
            activation=ACTIVATIONS[i % 5], has_residual=i % 2 == 0,
        )
        for i, lead in enumerate(leads)
    )  # fmt: skip


VALUES = _values()
BATCHES = _batches()
EPILOGUES = tuple(
    Problem(6, 10, 12, "bfloat16", has_bias=bias, activation=activation, has_residual=residual)
    for activation in ACTIVATIONS
    for bias in (False, True)
    for residual in (False, True)
)
