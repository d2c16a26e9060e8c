"""Calls from several Python threads at once: the values of one thread, also when each thread is the first to use an op."""

import concurrent.futures
import threading

import child
import jax
import numpy as np
import pytest

import ops
from ops import MAIN, OpCase

THREADS = 6


def at_once(work, count: int = THREADS) -> list:
    """work(i) on `count` threads that start together."""
    gate = threading.Barrier(count)

    def run(i: int):
        gate.wait()
        return work(i)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def assert_same(got, want) -> None:
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))


@pytest.mark.parametrize("case", MAIN, ids=ops.names(MAIN))
def test_one_compiled_program(case: OpCase) -> None:
    shape = (64, 2, 64) if case.is_rope else (257, 768)  # enough rows for XLA's thread pool
    problems = []
    for seed in range(THREADS):
        operands = case.make(shape, "bfloat16", seed)
        problems.append((operands, case.cotangents(operands, seed)))
    run = jax.jit(case.value_and_vjp)
    want = [run(*p) for p in problems]
    for _ in range(3):
        assert_same(at_once(lambda i: jax.block_until_ready(run(*problems[i]))), want)


def test_tracing_and_compiling_at_once() -> None:
    """Every thread its own op and shape, none traced before."""

    def work(i: int):
        case = MAIN[i % len(MAIN)]
        operands = case.make((5 + i, 3, 10 + 2 * i), "float32")
        cotangents = case.cotangents(operands)
        return operands, cotangents, jax.block_until_ready(jax.jit(case.value_and_vjp)(operands, cotangents))

    for i, (operands, cotangents, results) in enumerate(at_once(work, 2 * len(MAIN))):
        MAIN[i % len(MAIN)].assert_right(operands, cotangents, *results, what=f"thread {i}")


def test_sharded_programs_at_once() -> None:
    """Eight virtual devices share the pool: no deadlock, no mixed results."""
    case = MAIN[1]
    mesh = jax.make_mesh((8,), ("p",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices("cpu")[:8])
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("p"))
    run = jax.jit(lambda *a: case(*a))
    want, given = [], []
    for seed in range(3):
        operands = case.make((64, 512), "float32", seed)
        want.append(run(*operands))
        given.append((*(jax.device_put(a, rows) for a in operands[:2]), operands[2]))
        jax.block_until_ready(run(*given[-1]))
    for _ in range(5):
        assert_same(at_once(lambda i: jax.block_until_ready(run(*given[i])), 3), want)


def test_first_use_of_the_library_in_threads() -> None:
    """A fresh process whose threads import jaxator and call it at once."""
    assert child.run("first_use", threads=4) == {"right": 4}
