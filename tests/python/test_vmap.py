"""Every row op under vmap: the same bits as a Python loop, over every subset of arguments, also nested."""

import dataclasses
import itertools

import hlo
import jax
import numpy as np
import pytest
from trees import assert_same, at, is_shared, stacked

import ops
from ops import CASES, MAIN, OpCase

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))
main_case = pytest.mark.parametrize("case", MAIN, ids=ops.names(MAIN))


@pytest.mark.parametrize("with_gradient", [False, True], ids=["value", "gradient"])
@every_case
def test_vmap_over_every_subset_of_arguments(case: OpCase, with_gradient: bool) -> None:
    size = 3
    operands, cotangents = stacked(case, size)
    count = len(operands)
    for subset in itertools.product((False, True), repeat=count):
        if not any(subset):
            continue
        axes = tuple(0 if mapped else None for mapped in subset)
        given = tuple(a if mapped else a[0] for a, mapped in zip(operands, subset, strict=True))

        def pick(i, given=given, subset=subset):
            return tuple(a[i] if mapped else a for a, mapped in zip(given, subset, strict=True))

        if with_gradient:
            got = jax.jit(jax.vmap(case.value_and_vjp, in_axes=(axes, 0)))(given, cotangents)
            want = [case.value_and_vjp(pick(i), at(cotangents, i)) for i in range(size)]
        else:
            got = jax.vmap(lambda *a: case(*a), in_axes=axes)(*given)
            want = [case(*pick(i)) for i in range(size)]
        assert_same(got, jax.tree.map(lambda *a: np.stack(a), *want), f"mapped {subset}")


@every_case
def test_vmap_over_other_axes(case: OpCase) -> None:
    operands, cotangents = stacked(case, 3)
    want = [case.value_and_vjp(at(operands, i), at(cotangents, i)) for i in range(3)]
    moved = jax.tree.map(lambda a: np.moveaxis(a, 0, -1), (operands, cotangents))
    got = jax.jit(jax.vmap(case.value_and_vjp, in_axes=-1, out_axes=1))(*moved)
    assert_same(got, jax.tree.map(lambda *a: np.stack(a, axis=1), *want))


@main_case
def test_nested_vmap(case: OpCase) -> None:
    """Each operand mapped by the outer vmap, the inner one, both or neither."""
    many, cotangents = stacked(case, 6)
    two = jax.tree.map(lambda a: a.reshape(2, 3, *a.shape[1:]), (many, cotangents))
    kinds = ("both", "inner", "outer", "neither")
    count = len(case.operands)
    # All combinations of up to two operands; of three, those in which some operand differs from the first.
    for choice in itertools.product(kinds, repeat=count) if count < 3 else [("both", k, l) for k in kinds for l in kinds]:
        inner = tuple(0 if k in ("both", "inner") else None for k in choice)
        outer = tuple(0 if k in ("both", "outer") else None for k in choice)
        if all(a is None for a in inner) or all(a is None for a in outer):
            continue
        index = {"both": (slice(None), slice(None)), "inner": (0, slice(None)), "outer": (slice(None), 0), "neither": (0, 0)}
        given = tuple(a[index[k]] for a, k in zip(two[0], choice, strict=True))

        def pick(i, j, given=given, choice=choice):
            index = {"both": (i, j), "inner": (j,), "outer": (i,), "neither": ()}
            return tuple(a[index[k]] for a, k in zip(given, choice, strict=True))

        got = jax.jit(jax.vmap(jax.vmap(case.value_and_vjp, in_axes=(inner, 0)), in_axes=(outer, 0)))(given, two[1])
        for i, j in itertools.product(range(2), range(3)):
            want = case.value_and_vjp(pick(i, j), at(two[1], i, j))
            assert_same(at(got, i, j), want, f"{choice} at {i}, {j}")


@main_case
def test_gradient_of_a_vmapped_call(case: OpCase) -> None:
    """Unmapped parameters get the sum of the gradients of all copies."""
    operands, cotangents = stacked(case, 4)
    shared = tuple(a[0] if is_shared(kind) else a for a, kind in zip(operands, case.operands, strict=True))
    axes = tuple(None if is_shared(kind) else 0 for kind in case.operands)
    mapped = dataclasses.replace(case, op=jax.vmap(case.op, in_axes=axes))
    values, gradients = jax.jit(mapped.value_and_vjp)(shared, cotangents)
    mapped.assert_right(shared, cotangents, values, gradients)


@every_case
def test_vmap_of_no_rows(case: OpCase) -> None:
    operands, cotangents = jax.tree.map(lambda a: a[:0], stacked(case, 1))
    values, gradients = jax.jit(jax.vmap(case.value_and_vjp))(operands, cotangents)
    assert [v.shape for v in values] == [c.shape for c in cotangents]
    assert [g.shape for g in gradients] == [operands[i].shape for i in case.differentiable]


@pytest.fixture
def elsewhere(monkeypatch):
    """As on a platform without kernels: every wrapper stays, the innermost call is the XLA formulation."""
    from jaxator import _dispatch, _partition, _rows

    def clear() -> None:
        jax.clear_caches()
        _rows._batched.cache_clear()
        _partition._automatic.cache_clear()

    clear()
    with monkeypatch.context() as patch:
        run = _dispatch.run
        patch.setattr(_dispatch, "run", lambda choice, *rest: run(_dispatch.Choice("xla", choice.op, {}), *rest))
        yield
    clear()


@main_case
def test_formulation_of_a_platform_without_kernels(case: OpCase, elsewhere) -> None:
    """Plain, mapped over everything, and mapped over all that follows the rows, twice."""
    slack = 4 + 2 * 40 * 8  # as in test_values: positions up to 40 a step
    operands, cotangents = stacked(case, 2)
    shared = tuple(a[0] if is_shared(kind) else a for a, kind in zip(operands, case.operands, strict=True))
    axes = tuple(None if is_shared(kind) else 0 for kind in case.operands)
    assert not hlo.custom_calls(jax.jit(case.value_and_vjp).lower(at(operands, 0), at(cotangents, 0)).compile().as_text())
    for given, in_axes in ((operands, (0,) * len(operands)), (shared, axes)):
        one = jax.vmap(case.value_and_vjp, in_axes=(in_axes, 0))
        twice = jax.vmap(one, in_axes=(in_axes, 0))
        nested = tuple(a if axis is None else np.stack([a, a[::-1]]) for a, axis in zip(given, in_axes, strict=True))
        results = jax.jit(one)(given, cotangents)
        nested_results = jax.jit(twice)(nested, tuple(np.stack([c, c[::-1]]) for c in cotangents))
        for i in range(2):
            arrays = tuple(a if axis is None else a[i] for a, axis in zip(given, in_axes, strict=True))
            for got in (at(results, i), at(nested_results, 0, i), at(nested_results, 1, 1 - i)):
                case.assert_right(arrays, at(cotangents, i), *got, slack=slack)
