"""Values and gradients of matmul against NumPy float64: shapes, layouts, dtypes, epilogues, batches, on CPU and GPU."""

import dataclasses
import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matmul_problems import BATCHES, EPILOGUES, VALUES, Problem

import jaxator as jxt
import ops

CAPTURED = {"xla_gpu_graph_min_graph_size": 1}
"""Compiler options that put a single call into a CUDA graph."""


def jitted(problem: Problem, **more):
    return jax.jit(functools.partial(problem.value_and_vjp, **more))


def check(problem: Problem, what: str, **more) -> None:
    operands, cotangent = problem.operands(), problem.cotangent()
    problem.assert_right(operands, cotangent, *jitted(problem, **more)(operands, cotangent), what=what)


@pytest.mark.parametrize("group", range(4))
def test_every_shape_and_layout(group: int, force_isa) -> None:
    for problem in VALUES[group::4]:
        operands, cotangent = problem.operands(), problem.cotangent()
        run = jitted(problem, implementation="cpu").lower(operands, cotangent).compile()
        for isa in ops.supported_isas():
            force_isa(isa)
            problem.assert_right(operands, cotangent, *run(operands, cotangent), what=isa)


def test_batches() -> None:
    for problem in BATCHES:
        check(problem, "batch", implementation="cpu")


def test_epilogues() -> None:
    for problem in EPILOGUES:
        check(problem, "epilogue", implementation="cpu")


def test_xla_formulation_has_the_same_meaning() -> None:
    for problem in (*VALUES[::5], *BATCHES, *EPILOGUES[::3]):
        check(problem, "xla", implementation="xla")


@pytest.mark.parametrize("name", ["matmul_f32", "matmul_bf16dot"])
def test_named_ways_to_multiply(name: str) -> None:
    if name == "matmul_bf16dot" and "x86-64-v4-bf16" not in ops.supported_isas():
        pytest.skip("this CPU has no AVX512_BF16")
    for problem in EPILOGUES[::4]:
        check(problem, name, implementation=name)


def test_default_implementation_runs_the_kernel() -> None:
    problem = EPILOGUES[-1]
    operands = problem.operands()
    text = jax.jit(problem).lower(*operands).as_text()
    assert text.count("stablehlo.custom_call @jaxator.matmul") == 1, text
    assert "jaxator." not in jax.jit(functools.partial(problem, implementation="xla")).lower(*operands).as_text()


def test_gradients_have_the_dtypes_of_the_operands() -> None:
    problem = Problem(4, 6, 8, "bfloat16", has_bias=True, has_residual=True)
    operands = list(problem.operands())
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
        operands[2] = operands[2].astype(dtype)
        _, gradients = jitted(problem)(operands, problem.cotangent())
        assert [g.dtype for g in gradients] == [o.dtype for o in operands]


def test_no_transposition_reaches_the_kernels() -> None:
    """Gradients read the operands as they lie."""
    for transpose_a, transpose_b in itertools.product((False, True), repeat=2):
        problem = Problem(64, 32, 48, transpose_a=transpose_a, transpose_b=transpose_b)
        text = jitted(problem).lower(problem.operands(), problem.cotangent()).compile().as_text()
        assert not re.search(r" (transpose|copy)\(%", text), text


@pytest.mark.gpu
def test_every_shape_on_cuda() -> None:
    for problem in (*VALUES, *BATCHES, *EPILOGUES):
        name = "tf32" if problem.dtype == "float32" else "cuda"
        if name == "cuda":
            check(problem, "cuda", implementation=name)
        else:
            _check_tf32(problem)


def _check_tf32(problem: Problem) -> None:
    """Operands whose last 13 bits are zeros are multiplied exactly; the gradient's factor is not such a number."""
    operands, cotangent = (jax.tree.map(_short, x) for x in (problem.operands(), problem.cotangent()))
    value = jax.jit(functools.partial(problem, implementation="tf32"))(*operands)
    want, _ = problem.exact(operands, cotangent)
    # Truncation of products to the unit's internal width: 2^-21 of each.
    np.testing.assert_array_less(
        np.abs(np.asarray(value) - want.value), 1e-30 + (want.roundings * 2**-24 + 2**-20) * want.scale
    )


def _short(x: np.ndarray) -> np.ndarray:
    return (x.view(np.int32) & ~0x1FFF).view(np.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, CAPTURED], ids=["default", "captured"])
def test_relaunches_are_equal_on_cuda(options: dict) -> None:
    """Also with tiles that are cut along k, in a cluster and over scratch."""
    for m, n, k in ((16, 4096, 8192), (256, 4096, 8192), (1024, 2048, 1024)):
        problem = Problem(m, n, k, "bfloat16", has_bias=True, activation="gelu", has_residual=True)
        operands, cotangent = problem.operands(), problem.cotangent()
        run = jax.jit(functools.partial(problem.value_and_vjp, implementation="cuda"), compiler_options=options)
        first = jax.tree.map(np.asarray, run(operands, cotangent))
        for _ in range(3):
            fresh = jax.tree.map(jnp.array, (operands, cotangent))
            jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, run(*fresh)), first)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", range(4))
def test_large_products_on_cuda(layout: int) -> None:
    """Many tiles for each block, tiles cut along k, and both in odd sizes: XLA's values but for one rounding of either."""
    plain = Problem(0, 0, 0, "bfloat16", transpose_a=layout % 2 == 1, transpose_b=layout >= 2)
    every = {"has_bias": True, "activation": "silu", "has_residual": True}
    for m, n, k, follows in (
        (4096, 4104, 520, {}),
        (4104, 4096, 512, {"has_bias": True}),
        (2056, 4096, 512, every),
        (16, 4096, 8192, {}),
        (128, 4096, 8192, every),
        (256, 4096, 8192, every),
        (512, 4104, 4104, {"has_bias": True}),
        (64, 1024, 1024, every),
    ):
        problem = dataclasses.replace(plain, m=m, n=n, k=k, **follows)
        operands = problem.operands()
        got, want = (
            np.asarray(jax.jit(functools.partial(problem, implementation=name))(*operands), np.float32)
            for name in ("cuda", "xla")
        )
        np.testing.assert_array_less(np.abs(got - want), 2.0**-7 * np.abs(want) + 1e-4 * np.sqrt(k), err_msg=str(problem))


@pytest.mark.gpu
def test_default_on_cuda() -> None:
    """Rows of 16 bytes take the kernel, others and float32 XLA."""
    for problem, kernels in (
        (Problem(32, 64, 48, "bfloat16"), 3),
        (Problem(32, 63, 48, "bfloat16"), 0),
        (Problem(32, 64, 48), 0),
    ):
        text = jitted(problem).lower(problem.operands(), problem.cotangent()).compile().as_text()
        assert text.count('custom_call_target="jaxator.matmul"') == kernels, text


def test_explain_names_the_kernel() -> None:
    problem = Problem(32, 64, 48, "bfloat16")
    calls = jxt.explain(problem.value_and_vjp, problem.operands(), problem.cotangent()).calls
    assert [(c.op, c.direction) for c in calls] == [("matmul", "forward"), ("matmul", "backward"), ("matmul", "backward")]
    assert all(c.config["kernel"].startswith("matmul_") and c.config["task_rows"] > 0 for c in calls)
