"""Products on an NVIDIA GPU whose last tiles are cut along k and shared by many clusters: values, bits, and CUDA graphs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matmul_problems import Problem

import jaxator as jxt

pytestmark = pytest.mark.gpu

CAPTURED = {"xla_gpu_graph_min_graph_size": 1}
EVERYTHING = {"has_bias": True, "activation": "gelu_tanh", "has_residual": True}
SHARED = {
    "three ranges": Problem(8712, 2056, 4096, "bfloat16"),
    "more ranges than tiles": Problem(8192, 2056, 4104, "bfloat16", has_bias=True),
    "pairs, everything follows": Problem(8456, 2304, 4096, "bfloat16", **EVERYTHING),
    "single blocks": Problem(4616, 4096, 4104, "bfloat16", **EVERYTHING),
    "transposed": Problem(8456, 2304, 4104, "float16", transpose_a=True, transpose_b=True, **EVERYTHING),
}
every_product = pytest.mark.parametrize("name", SHARED)


@pytest.fixture(autouse=True)
def on_gpu():
    with jax.default_device(jax.devices("cuda")[0]):
        yield


def drawn(problem: Problem, seed: int) -> list[jax.Array]:
    """Operands of the problem's shapes, made on the device."""
    shapes = jax.eval_shape(problem.operands)
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    return [jax.random.normal(key, x.shape, jnp.float32).astype(x.dtype) for key, x in zip(keys, shapes, strict=True)]


def ours(problem: Problem, **options):
    return jax.jit(functools.partial(problem, implementation="cuda"), **options)


@every_product
def test_values(name: str) -> None:
    """XLA's values but for one rounding of either. A part that is missing or counted twice is off by several units."""
    problem = SHARED[name]
    operands = drawn(problem, 0)
    (call,) = jxt.explain(problem, *operands).calls
    assert call.config["clusters_sharing_the_rest"] > 1, call.config
    got, want = (
        np.asarray(jax.jit(functools.partial(problem, implementation=which))(*operands), np.float32)
        for which in ("cuda", "xla")
    )
    np.testing.assert_array_less(np.abs(got - want), 2.0**-7 * np.abs(want) + 1e-4 * np.sqrt(problem.k))


@every_product
def test_bits_do_not_depend_on_the_launch(name: str) -> None:
    """Ranges of steps are fixed by the shape, and their sums are added in one order, whichever is there first."""
    problem = SHARED[name]
    operands = drawn(problem, 1)
    run = ours(problem)
    first = run(*operands)
    for _ in range(20):
        assert bool(jnp.array_equal(run(*operands), first))


@every_product
def test_captured_calls(name: str) -> None:
    """The flags of a launch are zeroed inside of the graph too: a second replay would else take the sums of the first."""
    problem = SHARED[name]
    captured, plain = ours(problem, compiler_options=CAPTURED), ours(problem)
    for seed in (2, 3, 4):
        operands = drawn(problem, seed)
        for _ in range(3):
            assert bool(jnp.array_equal(captured(*operands), plain(*operands)))


def test_other_programs_use_the_memory_in_between() -> None:
    """Scratch holds whatever was there before, flags that say "ready" too."""
    problem = SHARED["more ranges than tiles"]
    operands = drawn(problem, 5)
    run, fill = ours(problem), jax.jit(lambda: [jnp.ones(40 * 2**20, jnp.int32) for _ in range(4)])
    want = run(*operands)
    for _ in range(5):
        jax.block_until_ready(fill())
        assert bool(jnp.array_equal(run(*operands), want))
