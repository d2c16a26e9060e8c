"""Attention on random combinations of shapes, options, dtypes, instruction sets and routes."""

import attention_problems as problems
import attention_reference as reference
import numpy as np
import pytest
from attention_problems import DTYPES, Case, Shape
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxator import _ffi

optional_axes = st.none() | st.sampled_from(problems.broadcasts())
lengths = st.integers(1, 40) | st.sampled_from([0, 64, 130, 257])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kv = draw(st.integers(1, 3), label="K")
    sizes = (draw(st.integers(0, 4)), draw(lengths), draw(lengths), kv * draw(st.integers(1, 4)), kv)
    if max(sizes[1:3]) > 64:
        sizes = (min(sizes[0], 1), *sizes[1:3], kv, kv)
    heads = (draw(st.integers(1, 40)), draw(st.integers(1, 40)))
    side = st.integers(0, 50)
    return Case(
        Shape(*sizes, *heads),
        bias=draw(optional_axes, label="bias"), mask=draw(optional_axes, label="mask"), bias_dtype=draw(st.sampled_from(DTYPES)),
        query_lengths=draw(st.booleans()), key_lengths=draw(st.booleans()), segments=draw(st.booleans()),
        scale=draw(st.none() | st.floats(-2, 2, width=32)), causal=draw(st.booleans()), bottom_right=draw(st.booleans()),
        window=draw(st.none() | st.tuples(side, side)), lower_rank=draw(st.booleans()), residual=draw(st.booleans()),
    )  # fmt: skip


def check(case: Case, dtype: str, seed: int) -> None:
    try:
        problems.check_everywhere(problems.make(case, dtype, seed), _ffi.force_isa)
    finally:
        _ffi.force_isa(None)


random_problems = given(case=cases(), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 1000))


@settings(deadline=None, derandomize=True, max_examples=60, database=None)
@random_problems
def test_random_combinations(case: Case, dtype: str, seed: int) -> None:
    check(case, dtype, seed)


@pytest.mark.full
@settings(deadline=None, max_examples=600, database=None, print_blob=True)
@random_problems
def test_many_random_combinations(case: Case, dtype: str, seed: int) -> None:
    check(case, dtype, seed)


@settings(deadline=None, derandomize=True, max_examples=6, database=None)
@given(case=cases(), seed=st.integers(0, 1000))
def test_random_combinations_of_the_xla_formulation(case: Case, seed: int) -> None:
    problem = problems.make(case, "float32", seed)
    problem.check(problem.run("xla"), slack=4)


@settings(deadline=None, derandomize=True, max_examples=30, database=None)
@given(case=cases(), seed=st.integers(0, 1000))
def test_the_reference_agrees_with_loops(case: Case, seed: int) -> None:
    """Visibility spelled out pair by pair, for one entry, head and query at a time."""
    problem = problems.make(case, "float32", seed)
    x = problem.inputs
    b, t, s, n, kv, *_ = x.sizes
    got = reference.attention(x)
    random = np.random.default_rng(seed)
    for _ in range(5 if b * t * n else 0):
        i, row, head = (int(random.integers(0, m)) for m in (b, t, n))
        queries = t if x.query_lengths is None else min(max(int(x.query_lengths[i]), 0), t)
        keys = s if x.key_lengths is None else min(max(int(x.key_lengths[i]), 0), s)
        logits = {}
        for key in range(keys if row < queries else 0):
            at = row + (keys - queries if x.bottom_right else 0)
            sees = not (x.causal and key > at) and (x.window is None or at - x.window[0] <= key <= at + x.window[1])
            if x.segments:
                sees = sees and x.segments[0][i, row] == x.segments[1][i, key] >= 0
            if x.mask is not None:
                sees = sees and np.broadcast_to(x.mask, (b, n, t, s))[i, head, row, key]
            if not sees:
                continue
            scale = np.float32(1 / np.sqrt(x.q.shape[3]) if x.scale is None else x.scale)
            logit = float(scale) * (x.q[i, row, head].astype(float) @ x.k[i, key, head * kv // n].astype(float))
            if x.bias is not None:
                logit += float(np.broadcast_to(x.bias, (b, n, t, s))[i, head, row, key])
            if logit > -np.inf:
                logits[key] = logit
        if not logits:
            assert got["lse"].value[i, row, head] == -np.inf and (got["out"].value[i, row, head] == 0).all()
            continue
        lse = np.logaddexp.reduce(list(logits.values()))
        out = sum(np.exp(logit - lse) * x.v[i, key, head * kv // n].astype(float) for key, logit in logits.items())
        np.testing.assert_allclose(got["lse"].value[i, row, head], lse, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(got["out"].value[i, row, head], out, rtol=1e-11, atol=1e-11)
