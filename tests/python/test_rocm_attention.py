"""Attention on AMD's GPUs: lowered for ROCm without hardware, and run on the emulator by programs for CPUs, with an error
for every race, missing wait, access out of bounds and read of uninitialised memory. Padding holds NaN."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import attention_problems as problems
import attention_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Problem, Shape
from test_attention_values import OPTIONS

import jaxator as jxt
from jaxator import _targets

ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Of the probabilities, which the matrix units take in the type of the values."""
ARCHITECTURES = ("gfx942", "gfx950")

every_dtype = pytest.mark.parametrize("dtype", ROUNDING)
every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
emulated = pytest.mark.skipif(_targets.emulation_refusal() is not None, reason="the emulator is not built")

Arrays = dict[str, Any]


def run(given: list[Problem], implementation: str) -> list[Arrays]:
    """All problems in one program."""

    def program(*arguments: Any) -> list[Arrays]:
        return [
            problems.value_and_vjp(p.case, *a, implementation=implementation) for p, a in zip(given, arguments, strict=True)
        ]

    return jax.jit(program)(*((p.arrays, p.cotangents) for p in given))


def check(cases: dict[Any, Case], dtype: str, architecture: str) -> None:
    """Within the bounds; exact zeros and -inf in rows that see nothing and in padding."""
    given = {name: problems.make(case, dtype) for name, case in cases.items()}
    for (name, problem), got in zip(given.items(), run(list(given.values()), architecture), strict=True):
        what = f"{name} {dtype} {architecture}"
        # P is rounded before its products, and so is dS, which is made of P.
        problem.check(got, problem.exact(2 * ROUNDING[dtype]), what)
        blind = np.isneginf(reference.attention(problem.inputs)["lse"].value)
        for key in ("out", "dq"):
            assert (np.asarray(got[key])[blind] == 0).all(), f"{what} {key}: rows that see nothing"
        if problem.case.residual:
            assert np.isneginf(np.asarray(got["lse"])[blind]).all(), f"{what} lse: rows that see nothing"
        padding = ~problem.inputs.key_is_real()
        for key in ("dk", "dv"):
            assert (np.asarray(got[key])[padding] == 0).all(), f"{what} {key}: padding"


# ---- values on the emulator --------------------------------------------------------------------------------------------

SMALL = {name: case for name, case in OPTIONS.items() if max(case.shape.h, case.shape.v) <= 128}


@emulated
@every_architecture
@pytest.mark.parametrize("part", range(2))
def test_every_option(part: int, architecture: str) -> None:
    check(dict(list(SMALL.items())[part::2]), "bfloat16", architecture)


@emulated
@every_architecture
def test_options_in_float16(architecture: str) -> None:
    check({name: SMALL[name] for name in ("plain", "causal bottom right T > S", "everything")}, "float16", architecture)


@emulated
@every_architecture
@pytest.mark.parametrize("size", [64, 128])
def test_lengths(size: int, architecture: str) -> None:
    """Tiles are 256 rows of one side by 32 or 64 of the other."""
    cases: dict[Any, Case] = {"full": Case(Shape(1, 130, 300, 4, 2, size, size))}
    for length, bottom_right in ((1, False), (77, True), (130, False), (300, True)):
        shape = Shape(1, length, length - 10 * bottom_right, 2, 1, size, size)
        cases[length] = Case(shape, causal=True, bottom_right=bottom_right)
    cases["more tiles than buffers"] = Case(Shape(1, 40, 420, 1, 1, size, size), mask="BNTS")
    check(cases, "bfloat16", architecture)


SINGLE: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "bottom right": {"bottom_right": True},
    "window": {"window": (60, 20)},
    "left window": {"window": (130, 0)},
    "query lengths": {"query_lengths": True},
    "key lengths": {"key_lengths": True},
    "segments": {"segments": True},
    "mask": {"mask": "BNTS"},
    "bias": {"bias": "BNTS"},
    "scale": {"scale": -0.21},
}


@emulated
@every_architecture
def test_options_over_several_tiles(architecture: str) -> None:
    shape = Shape(b=2, t=270, s=140, n=1, k=1, h=72, v=72)
    check({name: Case(shape, **options) for name, options in SINGLE.items()}, "bfloat16", architecture)


@pytest.mark.full
@emulated
@every_dtype
@every_architecture
@pytest.mark.parametrize("size", [64, 128])
def test_pairs_of_options_over_several_tiles(size: int, architecture: str, dtype: str) -> None:
    shape = Shape(b=3, t=290, s=150, n=2, k=1, h=size, v=size)
    for a, b in itertools.combinations_with_replacement(SINGLE, 2):
        check({f"{a}, {b}": Case(shape, **(SINGLE[a] | SINGLE[b]))}, dtype, architecture)


@pytest.mark.full
@emulated
@every_dtype
@every_architecture
def test_every_option_in_every_dtype(architecture: str, dtype: str) -> None:
    for name, case in SMALL.items():
        check({name: case}, dtype, architecture)


@emulated
@every_architecture
def test_head_sizes(architecture: str) -> None:
    """Sizes that are no multiple of 8 are padded, others are read to a width of 64 or 128."""
    sizes = [(1, 1), (8, 8), (33, 100), (64, 72), (128, 8)]
    check({s: Case(Shape(1, 33, 41, 2, 1, *s), causal=True, bottom_right=True) for s in sizes}, "bfloat16", architecture)


@emulated
@every_dtype
@every_architecture
@pytest.mark.parametrize("size", [64, 128])
def test_maximum_rises_late(size: int, architecture: str, dtype: str) -> None:
    """Logits of up to 300 that grow along the keys, for some queries alone: sums of later tiles begin anew."""
    random = np.random.default_rng(5)
    q, k, v = (random.normal(size=(1, length, 1, size)) for length in (70, 230, 230))
    grows = np.arange(70) % 7 == 3
    q = np.where(grows[:, None, None], 3 + np.abs(q), q)
    k = np.where(np.arange(230)[:, None, None] >= 64, np.linspace(0, 12, 230)[:, None, None] * np.abs(k), k)
    arrays = [jnp.asarray(x, dtype) for x in (q / size, k, v)]
    got = jxt.dot_product_attention(*arrays, scale=1.0, implementation=architecture)
    want = jax.nn.dot_product_attention(*(x.astype(jnp.float32) for x in arrays), scale=1.0)
    np.testing.assert_allclose(np.asarray(got, np.float32), np.asarray(want), rtol=0, atol=4 * ROUNDING[dtype])


@pytest.mark.full
@emulated
@every_dtype
@every_architecture
def test_more_head_sizes(architecture: str, dtype: str) -> None:
    equal = (7, 24, 40, 63, 65, 80, 96, 112, 120, 127, 128)
    for size in [*((n, n) for n in equal), (8, 128), (64, 128), (128, 64)]:
        check({size: Case(Shape(1, 133, 141, 2, 1, *size), causal=True)}, dtype, architecture)


@pytest.mark.full
@emulated
@every_dtype
@every_architecture
def test_lengths_around_tiles(architecture: str, dtype: str) -> None:
    lengths = [
        (1, 1),
        (1, 129),
        (2, 3),
        (31, 33),
        (63, 64),
        (64, 65),
        (127, 129),
        (255, 257),
        (256, 256),
        (257, 1),
        (640, 384),
    ]
    for (t, s), size, causal in itertools.product(lengths, (64, 128), (False, True)):
        check({(t, s, size, causal): Case(Shape(1, t, s, 3, 3, size, size), causal=causal)}, dtype, architecture)


@emulated
@every_architecture
def test_broadcasts(architecture: str) -> None:
    """Of mask and bias; every dtype of a bias."""
    shape = Shape(t=75, s=91, h=40, v=40)
    biases = {"": "float32", "BT": "bfloat16", "NS": "float16"}
    cases = {f"bias {axes}": Case(shape, bias=axes, bias_dtype=kind) for axes, kind in biases.items()}
    check(cases | {f"mask {axes}": Case(shape, mask=axes) for axes in ("S", "BNT")}, "bfloat16", architecture)


@pytest.mark.full
@emulated
@every_dtype
@every_architecture
@pytest.mark.parametrize("name", ["bias", "mask"])
def test_every_broadcast(name: str, architecture: str, dtype: str) -> None:
    for i, (axes, keys) in enumerate(itertools.product(problems.broadcasts(), (90, 91))):
        extra = {"bias_dtype": ("float32", "bfloat16", "float16")[i % 3]} if name == "bias" else {}
        check({(axes, keys): Case(Shape(t=75, s=keys, h=40, v=40), **{name: axes}, **extra)}, dtype, architecture)


@emulated
@every_architecture
def test_zero_sizes(architecture: str) -> None:
    for zero in ("b", "t", "s"):
        case = Case(Shape(**(Shape(b=2, t=3, s=4, n=2, k=1, h=8, v=8)._asdict() | {zero: 0})))
        (got,) = run([problems.make(case, "bfloat16")], architecture)
        assert np.isneginf(np.asarray(got["lse"])).all()
        assert all((np.asarray(got[name]) == 0).all() for name in got if name != "lse")


@emulated
@every_architecture
def test_same_bits_again(architecture: str) -> None:
    """Also whatever else is in the batch: no sum goes over blocks."""
    case = Case(Shape(2, 200, 150, 4, 2, 64, 64), causal=True)
    problem = problems.make(case, "bfloat16")
    (first,), (again,) = run([problem], architecture), run([problem], architecture)
    problems.assert_same(first, again)
    one = Problem(Case(case.shape._replace(b=1), causal=True), problem.inputs, problem.dout[:1], problem.dlse[:1])
    one = one.with_arrays(q=problem.inputs.q[:1], k=problem.inputs.k[:1], v=problem.inputs.v[:1])
    (alone,) = run([one], architecture)
    problems.assert_same({name: np.asarray(a)[:1] for name, a in first.items()}, alone)


@emulated
@every_architecture
def test_under_transformations(architecture: str) -> None:
    """vmap, scan and remat; cotangents of out alone."""
    random = np.random.default_rng(3)
    q, k, v = (jnp.asarray(random.normal(size=(2, 1, 40, 2, 16)), jnp.bfloat16) for _ in range(3))

    def program(implementation: str, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        attend = functools.partial(jxt.dot_product_attention, is_causal=True, implementation=implementation)
        mapped = jax.vmap(attend)(q, k, v)
        layer = jax.checkpoint(lambda carry, kv: (carry + attend(carry, *kv), None))
        scanned = jax.lax.scan(layer, q[0], (k, v))[0]
        return jnp.sin(mapped.astype(jnp.float32)).sum() + scanned.astype(jnp.float32).sum()

    got, want = (
        jax.jit(jax.value_and_grad(program, (1, 2, 3)), static_argnums=0)(implementation, q, k, v)
        for implementation in (architecture, "xla")
    )
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=0.05, atol=0.05)


# ---- what is refused ---------------------------------------------------------------------------------------------------


@emulated
@every_architecture
def test_refusals_by_name(architecture: str) -> None:
    q = jnp.ones((1, 4, 2, 16), jnp.bfloat16)
    attend = functools.partial(jxt.dot_product_attention, implementation=architecture)
    with pytest.raises(jxt.UnsupportedError, match="dtype=float32: must be bfloat16 or float16"):
        attend(*[q.astype(jnp.float32)] * 3)
    wide = jnp.ones((1, 4, 2, 136), jnp.bfloat16)
    with pytest.raises(jxt.UnsupportedError, match="head size=136: must be at most 128"):
        attend(wide, wide, q)


# ---- what programs are lowered to --------------------------------------------------------------------------------------


def lowered_for_rocm(function: Any, *arguments: Any) -> str:
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("rocm",)).as_text()


def loss(q: jax.Array, bias: jax.Array, implementation: str | None = None) -> jax.Array:
    return jxt.dot_product_attention(q, q, q, bias, implementation=implementation).astype(jnp.float32).sum()


@pytest.mark.parametrize("implementation", [None, "rocm", "gfx942"])
def test_lowering_names_the_kernels(implementation: str | None) -> None:
    q, bias = jnp.ones((1, 8, 2, 20), jnp.bfloat16), jnp.ones((8, 8))
    text = lowered_for_rocm(jax.grad(functools.partial(loss, implementation=implementation), (0, 1)), q, bias)
    for name in ("jaxator.attention_forward", "jaxator.attention_backward"):
        assert text.count(f"stablehlo.custom_call @{name}(") == 1, text
    assert "emulated" not in text


def test_lowering_to_the_formulation() -> None:
    q, bias = jnp.ones((1, 8, 2, 20), jnp.bfloat16), jnp.ones((8, 8))
    for other in (q.astype(jnp.float32), jnp.ones((1, 8, 2, 136), jnp.bfloat16)):
        assert "custom_call @jaxator." not in lowered_for_rocm(jax.grad(loss), other, bias)
    with jxt.target("gfx1201"):
        assert "custom_call @jaxator." not in lowered_for_rocm(jax.grad(loss), q, bias)


@emulated
@every_architecture
def test_explain(architecture: str) -> None:
    q, bias = jnp.ones((1, 8, 2, 20), jnp.bfloat16), jnp.ones((8, 8))
    found = jxt.explain(jax.grad(functools.partial(loss, implementation=architecture)), q, bias)
    assert [(c.direction, c.target, c.implementation) for c in found.calls] == [
        ("forward", "cpu", architecture), ("backward", "cpu", architecture),
    ]  # fmt: skip
    assert [c.config["kernel"] for c in found.calls] == ["attention_forward", "attention_backward"]
