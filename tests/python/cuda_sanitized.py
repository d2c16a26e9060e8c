"""Every CUDA kernel once or a few times on short shapes, for compute-sanitizer: ``python cuda_sanitized.py GROUP``."""

from __future__ import annotations

import dataclasses
import functools
import sys

import attention_problems as problems
import jax
from attention_problems import Case, Shape
from matmul_problems import Problem

import ops

KERNELS = {
    "rows": ("norm", "swiglu", "rope"),
    "matmul": ("matmul",),
    "attention": ("attention",),
}
"""Group -> what its kernels' names contain. Others, XLA's own, are not looked at."""


def rows() -> None:
    """Sizes for the kernels that hold a row in registers and those that stream it, and rows at odd addresses."""
    for case in ops.MAIN:
        for shape in ((3, 2, 128),) if case.is_rope else ((5, 256), (3, 77), (2, 16384)):
            operands = case.make(shape, "bfloat16", 0)
            run = jax.jit(functools.partial(case.value_and_vjp, implementation="cuda"))
            jax.block_until_ready(run(operands, case.cotangents(operands, 1)))


def matmul() -> None:
    """All tiles, clusters that share b's tile or k, epilogues, ranges of steps, layouts, operands at odd addresses."""
    follows = {"has_bias": True, "activation": "silu", "has_residual": True}
    every = [
        Problem(16, 1032, 2056, "bfloat16"),
        Problem(264, 2056, 520, "bfloat16", **follows),
        Problem(520, 1032, 2056, "float16", transpose_a=True, transpose_b=True, **follows),
        Problem(1032, 2056, 136, "bfloat16", has_bias=True),
        Problem(130, 70, 65, "bfloat16", **follows),
        Problem(136, 200, 264, "bfloat16", lead_a=(3,), lead_b=(3,)),
    ]
    for problem in every:
        run = jax.jit(functools.partial(problem.value_and_vjp, implementation="cuda"))
        jax.block_until_ready(run(problem.operands(), problem.cotangent()))
    shared = Problem(8712, 2056, 4096, "bfloat16", has_bias=True)
    jax.block_until_ready(jax.jit(functools.partial(shared, implementation="cuda"))(*shared.operands()))
    tf32 = Problem(136, 72, 64)
    jax.block_until_ready(jax.jit(functools.partial(tf32, implementation="tf32"))(*tf32.operands()))


def attention() -> None:
    """Head sizes of all kernels, with and without what is read pair by pair; lengths that end inside of tiles."""
    for size in (64, 128, 256):
        case = Case(Shape(2, 200, 150, 2, 1, size, size), causal=True)
        pairs, lengths = dataclasses.replace(case, bias="NTS", segments=True), dataclasses.replace(case, key_lengths=True)
        for chosen in (case, pairs, lengths):
            problem = problems.make(chosen, "bfloat16")
            if size <= 128:
                run = jax.jit(functools.partial(problems.value_and_vjp, chosen, implementation="cuda"))
                jax.block_until_ready(run(problem.arrays, problem.cotangents))
            else:
                run = jax.jit(functools.partial(problems.call, chosen, implementation="cuda"))
                jax.block_until_ready(run(problem.arrays))


if __name__ == "__main__":
    with jax.default_device(jax.devices("cuda")[0]):
        {"rows": rows, "matmul": matmul, "attention": attention}[sys.argv[1]]()
    print("done")
