"""Attention problems: options, arrays with NaN wherever nothing may be read, and how the op is called on them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
from attention_reference import Array, Inputs

import jaxator as jxt
from jaxator import _ffi

DTYPES = ("float32", "bfloat16", "float16")
OPTIONAL = ("bias", "mask", "query_lengths", "key_lengths", "segments")
"""In the order of the op's operands."""


class Shape(NamedTuple):
    b: int = 2
    t: int = 37
    s: int = 53
    n: int = 4
    k: int = 2
    h: int = 16
    v: int = 16


@dataclasses.dataclass(frozen=True)
class Case:
    """What is asked. `bias`, `mask`: which of B, N, T, S they have, and how many leading axes of size 1 they leave out."""

    shape: Shape = Shape()
    bias: str | None = None
    mask: str | None = None
    bias_dtype: str = "float32"
    query_lengths: bool = False
    key_lengths: bool = False
    segments: bool = False
    scale: float | None = None
    causal: bool = False
    bottom_right: bool = False
    window: tuple[int, int] | None = None
    lower_rank: bool = False
    residual: bool = True
    """Ask for the logsumexp, and give it a cotangent."""

    def broadcast_shape(self, axes: str) -> tuple[int, ...]:
        x = self.shape
        shape = tuple(size if axis in axes else 1 for axis, size in zip("BNTS", (x.b, x.n, x.t, x.s), strict=True))
        while self.lower_rank and shape and shape[0] == 1:
            shape = shape[1:]
        return shape

    def options(self) -> dict[str, Any]:
        """Static keywords of `dot_product_attention`."""
        return {
            "scale": self.scale,
            "is_causal": self.causal,
            "causal_alignment": "bottom_right" if self.bottom_right else "top_left",
            "local_window_size": self.window,
        }


def broadcasts() -> list[str]:
    """All 16 subsets of BNTS; "" has one element."""
    return [
        "".join(a for a, used in zip("BNTS", bits, strict=True) if used)
        for bits in itertools.product((False, True), repeat=4)
    ]


@dataclasses.dataclass(frozen=True)
class Problem:
    case: Case
    inputs: Inputs
    dout: Array
    dlse: Array

    @property
    def arrays(self) -> dict[str, Any]:
        named = {"q": self.inputs.q, "k": self.inputs.k, "v": self.inputs.v}
        return named | {name: getattr(self.inputs, name) for name in OPTIONAL if getattr(self.inputs, name) is not None}

    @property
    def cotangents(self) -> tuple[Array, Array]:
        return self.dout, self.dlse

    def with_arrays(self, **changed: Any) -> Problem:
        return dataclasses.replace(self, inputs=dataclasses.replace(self.inputs, **changed))

    def run(self, implementation: str | None = "cpu") -> dict[str, jax.Array]:
        return compiled_for(self, implementation)(self.arrays, self.cotangents)

    def exact(self, rounding_of_p: float = 0.0) -> dict[str, reference.Bounded]:
        dlse = self.dlse if self.case.residual else None
        return reference.attention(self.inputs, self.dout, dlse, rounding_of_p)

    def check(
        self, results: dict[str, Any], exact: dict[str, reference.Bounded] | None = None, what: str = "", slack: float = 1
    ) -> None:
        exact = self.exact() if exact is None else exact
        assert set(results) == set(exact) - (set() if self.case.residual else {"lse"}), what
        for name, got in results.items():
            expected_dtype = (
                "float32" if name == "lse" else self.case.bias_dtype if name == "dbias" else self.inputs.q.dtype.name
            )
            assert got.dtype.name == expected_dtype, f"{what} {name}: dtype {got.dtype}"
            reference.assert_within(got, exact[name], f"{what} {name}", slack)


def call(case: Case, arrays: dict[str, Any], **options: Any) -> Any:
    """The op on named arrays; a tuple if the case asks for the residual."""
    return jxt.dot_product_attention(
        arrays["q"], arrays["k"], arrays["v"], arrays.get("bias"), arrays.get("mask"),
        query_seq_lengths=arrays.get("query_lengths"), key_value_seq_lengths=arrays.get("key_lengths"),
        segment_ids=arrays.get("segments"), return_residual=case.residual, **(case.options() | options),
    )  # fmt: skip


def value_and_vjp(case: Case, arrays: dict[str, Any], cotangents: tuple[Any, Any], **options: Any) -> dict[str, Any]:
    """out, lse and the gradients of q, k, v and the bias, by name."""
    floats = [name for name in ("q", "k", "v", "bias") if name in arrays]

    def outputs(*some: Any) -> Any:
        return call(case, arrays | dict(zip(floats, some, strict=True)), **options)

    results, vjp = jax.vjp(outputs, *(jnp.asarray(arrays[name]) for name in floats))
    gradients = vjp(tuple(cotangents) if case.residual else cotangents[0])
    named = {"out": results[0], "lse": results[1]} if case.residual else {"out": results}
    return named | {f"d{name}": g for name, g in zip(floats, gradients, strict=True)}


@functools.lru_cache(maxsize=64)
def _jitted(case: Case, implementation: str | None) -> Any:
    return jax.jit(functools.partial(value_and_vjp, case, implementation=implementation))


def compiled_for(problem: Problem, implementation: str | None) -> Any:
    """A program for the problem's shapes; the instruction set is chosen when it runs."""
    return _jitted(problem.case, implementation).lower(problem.arrays, problem.cotangents).compile()


def routes(dtype: str) -> Iterator[tuple[str, str, float]]:
    """(implementation, instruction set, rounding of p) of everything that this machine can run."""
    supported = _ffi.cpu_report()["supported"]
    for isa in supported:
        yield ("flash_f32" if dtype == "bfloat16" else "cpu"), isa, 0.0
        if dtype == "bfloat16" and isa == "x86-64-v4-bf16":
            yield "flash_bf16dot", isa, 2.0**-8


def check_everywhere(problem: Problem, force_isa: Any, what: str = "") -> None:
    """Values and gradients on every instruction set and route."""
    programs: dict[str, Any] = {}
    exact: dict[float, Any] = {}
    for implementation, isa, rounding in routes(problem.inputs.q.dtype.name):
        if implementation not in programs:
            programs[implementation] = compiled_for(problem, implementation)
        if rounding not in exact:
            exact[rounding] = problem.exact(rounding)
        force_isa(isa)
        problem.check(
            programs[implementation](problem.arrays, problem.cotangents),
            exact[rounding],
            f"{what} {implementation} on {isa}",
        )


def make(case: Case, dtype: str = "float32", seed: int = 0, poison: bool = True) -> Problem:
    """iid normal numbers; lengths with 0, full and over-long ones; runs of segment ids with padding between and after."""
    x = case.shape
    random = np.random.default_rng([seed, *x])

    def normal(*shape: int, of: str = dtype) -> Array:
        return random.normal(size=shape).astype(jnp.dtype(of))

    def lengths(most: int) -> Array:
        drawn = random.integers(0, most + 2, size=x.b)
        drawn[1::3] = 0
        return drawn.astype(np.int32)

    def ids(length: int) -> Array:
        runs = np.cumsum(random.random((x.b, length)) < 1 / 9, axis=1)
        padding = (random.random((x.b, length)) < 1 / 11) | (np.arange(length) + 3 >= length)
        return np.where(padding, -1 - random.integers(0, 3, size=runs.shape), runs).astype(np.int32)

    inputs = Inputs(
        normal(x.b, x.t, x.n, x.h), normal(x.b, x.s, x.k, x.h), normal(x.b, x.s, x.k, x.v),
        scale=case.scale, causal=case.causal, bottom_right=case.bottom_right, window=case.window,
    )  # fmt: skip
    extra: dict[str, Any] = {}
    if case.bias is not None:
        bias = normal(*case.broadcast_shape(case.bias), of=case.bias_dtype)
        extra["bias"] = np.where(random.random(bias.shape) < 1 / 23, np.asarray(-np.inf, bias.dtype), bias)
    if case.mask is not None:
        extra["mask"] = np.asarray(random.random(case.broadcast_shape(case.mask)) < 2 / 3)
    if case.query_lengths:
        extra["query_lengths"] = lengths(x.t)
    if case.key_lengths:
        extra["key_lengths"] = lengths(x.s)[::-1].copy()
    if case.segments:
        extra["segments"] = (ids(x.t), ids(x.s))
    problem = Problem(
        case, dataclasses.replace(inputs, **extra), normal(x.b, x.t, x.n, x.v), normal(x.b, x.t, x.n, of="float32")
    )
    return poisoned(problem) if poison else problem


def poisoned(problem: Problem) -> Problem:
    """NaN in all padding of q, k, v and a full bias; NaN and inf in the cotangents of rows that see nothing."""
    x = problem.inputs
    queries, keys = x.query_is_real()[:, :, None, None], x.key_is_real()[:, :, None, None]

    def keep(real: Array, array: Array) -> Array:
        return np.where(real, array, np.asarray(np.nan, array.dtype))

    changed = {"q": keep(queries, x.q), "k": keep(keys, x.k), "v": keep(keys, x.v)}
    b, t, s, n, *_ = x.sizes
    if x.bias is not None and x.bias.shape == (b, n, t, s):
        changed["bias"] = keep(x.query_is_real()[:, None, :, None] & x.key_is_real()[:, None, None, :], x.bias)
    problem = problem.with_arrays(**changed)
    blind = np.isneginf(reference.attention(problem.inputs)["lse"].value)
    bad = np.where(np.arange(problem.dout.shape[-1]) % 2, np.inf, np.nan).astype(problem.dout.dtype)
    dout = np.where(blind[..., None], bad, problem.dout)
    return dataclasses.replace(problem, dout=dout, dlse=np.where(blind, np.float32(np.nan), problem.dlse))


def assert_same(got: Any, want: Any, what: str = "") -> None:
    """The same tree of arrays, bit by bit."""
    assert jax.tree.structure(got) == jax.tree.structure(want), what
    for i, (g, w) in enumerate(zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w), err_msg=f"{what} [{i}]")
