"""What attention refuses, and that the message names the argument, the value and the rule."""

import copy
import pickle

import attention_problems as problems
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape

import jaxator as jxt
from jaxator import UnsupportedError, _ffi

PROBLEM = problems.make(Case(Shape(2, 6, 8, 4, 2, 8, 8)))
Q, K, V = (PROBLEM.arrays[n] for n in "qkv")


LATER = {
    "sinks": np.zeros(4, np.float32),
    "logit_softcap": 30.0,
    "alibi_slopes": np.zeros(4, np.float32),
    "dropout_rate": 0.1,
    "dropout_key": jax.random.key(0),
    "index_offset": np.zeros(4, np.int32),
    "global_shape": (2, 6, 4, 8),
}


@pytest.mark.parametrize("implementation", [None, "cpu", "xla"])
@pytest.mark.parametrize("name", LATER)
def test_options_of_later_releases_are_refused_by_name(name: str, implementation: str | None) -> None:
    """Never ignored: AI-Hypercomputer/maxtext#4478."""
    with pytest.raises(UnsupportedError, match=f"{name} is given: not supported yet") as caught:
        jxt.dot_product_attention(Q, K, V, implementation=implementation, **{name: LATER[name]})
    assert isinstance(caught.value, NotImplementedError)
    with pytest.raises(UnsupportedError, match=name):
        jax.jit(lambda q: jxt.dot_product_attention(q, K, V, **{name: LATER[name]}))(Q)


def test_absent_values_of_later_options_are_accepted() -> None:
    jxt.dot_product_attention(Q, K, V, **dict.fromkeys(LATER) | {"dropout_rate": 0.0, "deterministic": False})


BAD = {
    "rank of query": ((Q[0, 0], K, V), {}, ValueError, r"query, key, value have 2, 4, 4 axes: must all be \[B, T, N, H\] or all \[T, N, H\]"),
    "mixed ranks": ((Q, K[0], V[0]), {}, ValueError, "have 4, 3, 3 axes"),
    "batch": ((Q, K[:1], V[:1]), {}, ValueError, "batch sizes 2, 1, 1: must be equal"),
    "length": ((Q, K, V[:, 1:]), {}, ValueError, r"key \[2, 8, 2, 8\] and value \[2, 7, 2, 8\]: must have the same length and heads"),
    "value heads": ((Q, K, V[:, :, :1]), {}, ValueError, "must have the same length and heads"),
    "head size": ((Q, K[..., :4], V), {}, ValueError, "key head size 4: must be the query's, 8"),
    "heads": ((Q[:, :, :3], K, V), {}, ValueError, "3 query heads: must be a multiple of the 2 key/value heads"),
    "no kv heads": ((Q, K[:, :, :0], V[:, :, :0]), {}, ValueError, "4 query heads: must be a multiple of the 0 key/value heads"),
    "dtypes": ((Q, K.astype(jnp.bfloat16), V), {}, TypeError, "dtypes float32, bfloat16, float32: .* must have one float dtype"),
    "integers": ((Q.astype(int), K.astype(int), V.astype(int)), {}, TypeError, "must have one float dtype"),
    "float8": ([a.astype(jnp.float8_e4m3fn) for a in (Q, K, V)], {}, TypeError, "dtypes float8_e4m3fn, .* must have one float dtype of 16 bits or more"),
    "bias shape": ((Q, K, V), {"bias": np.zeros((3, 8), np.float32)}, ValueError, r"bias shape=\(3, 8\): must broadcast to \[B, N, T, S\] = \[2, 4, 6, 8\]"),
    "bias rank": ((Q, K, V), {"bias": np.zeros((1,) * 5, np.float32)}, ValueError, "bias shape=.* must broadcast"),
    "bias dtype": ((Q, K, V), {"bias": np.zeros((6, 8), np.int32)}, TypeError, "bias dtype=int32: must be a float type"),
    "mask shape": ((Q, K, V), {"mask": np.ones((2, 6, 8), bool)}, ValueError, r"mask shape=\(2, 6, 8\): must broadcast"),
    "mask dtype": ((Q, K, V), {"mask": np.ones((6, 8), np.float32)}, TypeError, r"mask dtype=float32: must be bool \(True = takes part\)"),
    "query lengths": ((Q, K, V), {"query_seq_lengths": [1, 2, 3]}, ValueError, r"query_seq_lengths shape=\(3,\): must be \(2,\)"),
    "key lengths": ((Q, K, V), {"key_value_seq_lengths": 4}, ValueError, r"key_value_seq_lengths shape=\(\): must be \(2,\)"),
    "float lengths": ((Q, K, V), {"key_value_seq_lengths": [1.0, 2.0]}, TypeError, "key_value_seq_lengths dtype=float32: must be an integer type"),
    "segments": ((Q, K, V), {"segment_ids": np.zeros((2, 6), int)}, ValueError, r"segment_ids of the key shape=\(2, 6\): must be \(2, 8\)"),
    "float segments": ((Q, K, V), {"segment_ids": (np.zeros((2, 6)), np.zeros((2, 8)))}, TypeError, "segment_ids of the query dtype=float32: must be"),
    "window": ((Q, K, V), {"local_window_size": (3, -1)}, ValueError, r"local_window_size=\(3, -1\): both sides must be 0 or more"),
    "alignment": ((Q, K, V), {"causal_alignment": "right"}, ValueError, "causal_alignment='right': must be 'top_left' or 'bottom_right'"),
    "implementation": ((Q, K, V), {"implementation": "cudnn"}, ValueError, "implementation='cudnn': must be"),
    "in_specs": ((Q, K, V), {"in_specs": ()}, ValueError, "needs mesh"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_with_value_and_rule(name: str) -> None:
    arrays, options, error, message = BAD[name]
    with pytest.raises(error, match=message):
        jxt.dot_product_attention(*arrays, **options)


@pytest.mark.parametrize("name", ("cuda", "rocm", "gfx942", "gfx950"))
def test_gpu_implementations_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{name}: dtype=float32: must be bfloat16 or float16") as caught:
        jxt.dot_product_attention(Q, K, V, implementation=name)
    assert list(caught.value.reasons) == [name]


def test_head_size_beyond_256() -> None:
    """Named: refused with every reason. Not named: the XLA formulation."""
    wide = problems.make(Case(Shape(1, 5, 6, 2, 1, 257, 300), causal=True))
    q, k, v = (wide.arrays[n] for n in "qkv")
    for implementation in ("cpu", "flash_f32"):
        with pytest.raises(UnsupportedError) as caught:
            jxt.dot_product_attention(q, k, v, implementation=implementation)
        assert caught.value.reasons == {"cpu": ["head size=257: must be 1 to 256", "value size=300: must be 1 to 256"]}
    wide.check(wide.run(None), slack=4)


def test_bf16dot_needs_bfloat16_and_the_instruction() -> None:
    with pytest.raises(UnsupportedError, match="flash_bf16dot: dtype=float32, cpu=.*: needs bfloat16 and AVX512_BF16"):
        jxt.dot_product_attention(Q, K, V, implementation="flash_bf16dot")


@pytest.mark.skipif("x86-64-v4-bf16" not in _ffi.cpu_report()["supported"], reason="no AVX512_BF16 here")
def test_a_route_that_the_instruction_set_lacks_is_a_run_time_error(force_isa) -> None:
    """The handler answers with an error that JAX raises; the process goes on."""
    problem = problems.make(Case(Shape(1, 5, 6, 2, 1, 8, 8)), "bfloat16")
    run = problems.compiled_for(problem, "flash_bf16dot")
    force_isa("x86-64-v3")
    with pytest.raises(jax.errors.JaxRuntimeError, match="bf16"):
        jax.block_until_ready(run(problem.arrays, problem.cotangents))
    force_isa(None)
    problem.check(run(problem.arrays, problem.cotangents), problem.exact(2.0**-8))


def test_named_kernel_elsewhere_is_an_error_at_lowering() -> None:
    """No silent change of implementation: a named CPU kernel cannot be lowered for a GPU."""
    function = jax.jit(lambda q: jxt.dot_product_attention(q, K, V, implementation="cpu"))
    with pytest.raises((NotImplementedError, ValueError), match="cuda"):
        function.trace(Q).lower(lowering_platforms=("cuda",))


def test_the_error_survives_pickling_and_copying() -> None:
    """Errors cross process boundaries in data loaders and test runners."""
    with pytest.raises(UnsupportedError) as caught:
        jxt.dot_product_attention(Q, K, V, logit_softcap=3.0)
    for other in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert type(other) is UnsupportedError and str(other) == str(caught.value) and other.reasons == caught.value.reasons
