"""The row ops on an NVIDIA GPU inside programs: capture into CUDA graphs, transformations, threads, repeated launches, large
arrays. A transformed program gives the same bits as plain calls."""

import concurrent.futures
import dataclasses
import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees import assert_same, at, is_shared, problem, stacked

import jaxator as jxt
import ops
from ops import CASES, MAIN, OpCase

pytestmark = pytest.mark.gpu
every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))
main_case = pytest.mark.parametrize("case", MAIN, ids=ops.names(MAIN))

PLAIN = {"xla_gpu_enable_command_buffer": ""}
CAPTURED = {"xla_gpu_graph_min_graph_size": 1}
"""Compiler options: every call is recorded into a CUDA graph of its own and replayed."""


@pytest.fixture(autouse=True)
def on_gpu():
    with jax.default_device(jax.devices("cuda")[0]):
        yield


def kernels(case: OpCase):
    return functools.partial(case.value_and_vjp, implementation="cuda")


def mid_shape(case: OpCase):
    return (33, 8, 64) if case.is_rope else (65, 768)


def fresh(tree):
    """The arrays in device buffers of their own."""
    return jax.tree.map(lambda a: jnp.array(a, copy=True), tree)


@every_case
def test_captured_calls(case: OpCase) -> None:
    """Three calls with other values in other buffers: a graph that kept an address or a value would show."""
    captured, plain = (jax.jit(kernels(case), compiler_options=options) for options in (CAPTURED, PLAIN))
    kept = []
    for seed in range(3):
        operands = case.make(mid_shape(case), "bfloat16", seed)
        given = fresh((operands, case.cotangents(operands, seed)))
        kept.append((given, captured(*given)))
    for given, got in kept:
        assert_same(got, plain(*given))
    case.assert_right(*jax.device_get(kept[-1][0]), *jax.device_get(kept[-1][1]))


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@every_case
def test_captured_calls_with_donation(case: OpCase) -> None:
    captured = jax.jit(kernels(case), compiler_options=CAPTURED, donate_argnums=(0, 1))
    for seed in range(3):
        given = problem(case, "bfloat16", seed)
        assert_same(captured(*fresh(given)), kernels(case)(*given))


@every_case
def test_scan(case: OpCase) -> None:
    operands, cotangents = stacked(case, 4)
    for options in (PLAIN, CAPTURED):
        run = jax.jit(lambda *a: jax.lax.scan(lambda c, s: (c, kernels(case)(*s)), 0, a)[1], compiler_options=options)
        got = run(operands, cotangents)
        want = [kernels(case)(at(operands, i), at(cotangents, i)) for i in range(4)]
        assert_same(got, jax.tree.map(lambda *a: np.stack(a), *want))


@every_case
def test_remat(case: OpCase) -> None:
    given = problem(case, "bfloat16")
    remat = dataclasses.replace(case, op=jax.checkpoint(functools.partial(case.op, implementation="cuda")))
    assert_same(jax.jit(remat.value_and_vjp)(*given), kernels(case)(*given))


@every_case
def test_vmap(case: OpCase) -> None:
    """Over everything, parameters too; over all but what is shared; of sizes that put the parts at odd addresses."""
    for shape in ((3, 5, 2, 6) if case.is_rope else (3, 31), case.small):
        problems = []
        for seed in range(3):
            operands = case.make(shape, "bfloat16", seed)
            problems.append((operands, case.cotangents(operands, seed)))
        operands, cotangents = jax.tree.map(lambda *a: np.stack(a), *problems)
        got = jax.jit(jax.vmap(kernels(case)))(operands, cotangents)
        assert_same(got, jax.tree.map(lambda *a: np.stack(a), *(kernels(case)(*p) for p in problems)))
        shared = tuple(a[0] if is_shared(kind) else a for a, kind in zip(operands, case.operands, strict=True))
        axes = tuple(None if is_shared(kind) else 0 for kind in case.operands)
        mapped = dataclasses.replace(case, op=jax.vmap(functools.partial(case.op, implementation="cuda"), in_axes=axes))
        case.assert_right(shared, cotangents, *jax.jit(mapped.value_and_vjp)(shared, cotangents))


@main_case
def test_threads(case: OpCase) -> None:
    """Each with its own problem, some with programs of their own: first use and loading included."""
    problems = []
    for seed in range(6):
        operands = case.make((17 + seed // 3, *mid_shape(case)[1:]), "float16", seed)
        problems.append((operands, case.cotangents(operands, seed)))
    run = jax.jit(kernels(case), compiler_options=CAPTURED)
    gate = threading.Barrier(len(problems))

    def work(i: int):
        gate.wait()
        return [jax.block_until_ready(run(*problems[i])) for _ in range(5)]

    with concurrent.futures.ThreadPoolExecutor(len(problems)) as pool:
        for given, results in zip(problems, pool.map(work, range(len(problems))), strict=True):
            for got in results:
                assert_same(got, results[0])
            case.assert_right(*given, *jax.device_get(results[0]))


@main_case
def test_relaunches_are_equal(case: OpCase) -> None:
    """Bit by bit, with the whole device busy."""
    operands = case.make((1100, 8, 128) if case.is_rope else (2111, 4096), "bfloat16")
    given = fresh((operands, case.cotangents(operands)))
    run = jax.jit(kernels(case))
    first = run(*given)
    same = jax.jit(
        lambda a, b: jnp.all(jnp.array([jnp.all(x == y) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True)]))
    )
    assert all([same(first, run(*given)) for _ in range(40)])


LARGE = (2**19 + 3, 4104)
"""More than 2^31 elements."""


@pytest.mark.parametrize("case", [c for c in MAIN if not c.is_rope], ids=lambda c: c.name.replace(" ", "-"))
def test_arrays_of_more_than_2_31_elements(case: OpCase) -> None:
    """Rows repeat with a period, so every row of the results is known, and so are the sums over rows."""
    period = 1024
    shape = (period, LARGE[1] // 2 if case.packed else LARGE[1])
    operands = case.make(shape, "bfloat16")
    cotangents = case.cotangents(operands)
    small = jax.jit(kernels(case))(operands, cotangents)
    case.assert_right(operands, cotangents, *jax.device_get(small))

    rows = jnp.arange(LARGE[0]) % period
    repeat = jax.jit(lambda a: jnp.take(a, rows, axis=0))
    large = tuple(repeat(a) if kind == "row" else a for a, kind in zip(operands, case.operands, strict=True))
    assert large[0].size > 2**31
    values, gradients = jax.jit(kernels(case))(large, tuple(map(repeat, cotangents)))
    differ = jax.jit(lambda a, b: jnp.sum(jnp.any(a != jnp.take(b, rows, axis=0), axis=-1)))
    for i, (got, want) in enumerate(zip(values, small[0], strict=True)):
        assert differ(got, want) == 0, f"output {i}"
    for i, got, want in zip(case.differentiable, gradients, small[1], strict=True):
        if case.operands[i] == "row":
            assert differ(got, want) == 0, f"gradient of operand {i}"
        else:
            # Sums of equal terms: the first 3 rows come once more, and rounding grows with the terms' magnitudes.
            extra = np.asarray(
                jax.jit(kernels(case))(*jax.tree.map(lambda a: a[:3] if a.ndim > 1 else a, (operands, cotangents)))[1][i]
            )
            times = LARGE[0] // period
            np.testing.assert_allclose(got, times * np.asarray(want) + extra, atol=2e-6 * times * period**0.5 * 30)


def test_rope_of_more_than_2_31_elements() -> None:
    period, heads, size = 1024, 27, 152
    x = np.random.default_rng(0).normal(size=(period, heads, size)).astype(jnp.bfloat16)
    positions = np.arange(period, dtype=np.int32) * 100
    run = jax.jit(functools.partial(jxt.rope, implementation="cuda"))
    want = run(x, positions)
    rows = jnp.arange(LARGE[0]) % period
    large = jax.jit(lambda a: jnp.take(a, rows, axis=0))(jnp.asarray(x))
    assert large.size > 2**31
    got = run(large, jnp.take(jnp.asarray(positions), rows))
    assert jax.jit(lambda a, b: jnp.sum(a != jnp.take(b, rows, axis=0)))(got, want) == 0
