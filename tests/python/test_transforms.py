"""Every row op under jit, grad, vmap, scan, remat, donation, forward mode and second derivatives.

The kernels treat rows one by one, so a transformed program gives the same bits as a Python loop over plain calls.
"""

import dataclasses
import functools
import itertools

import hlo
import jax
import jax.numpy as jnp
import numpy as np
import ops
import pytest
import reference
from ops import CASES, MAIN, OpCase

import jaxator as jxt

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))
main_case = pytest.mark.parametrize("case", MAIN, ids=ops.names(MAIN))


def assert_same(got, want, what="") -> None:
    """The same tree of arrays, bit by bit."""
    assert jax.tree.structure(got) == jax.tree.structure(want), what
    for i, (g, w) in enumerate(zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w), err_msg=f"{what} [{i}]")


def problem(case: OpCase, dtype: str = "float32", seed: int = 0):
    operands = case.make(case.small, dtype, seed)
    return operands, case.cotangents(operands, seed + 1000)


def stacked(case: OpCase, count: int, dtype: str = "float32"):
    """`count` different problems, each array with a leading dimension."""
    return jax.tree.map(lambda *a: np.stack(a), *(problem(case, dtype, seed) for seed in range(count)))


def is_shared(kind: str) -> bool:
    return kind == "parameter" or "shared" in kind


def at(tree, *index):
    return jax.tree.map(lambda a: a[index], tree)


# ---- jit and grad ---------------------------------------------------------------------------------------------------------


@every_case
def test_jit_changes_nothing(case: OpCase) -> None:
    operands, cotangents = problem(case, "bfloat16")
    plain = case.value_and_vjp(operands, cotangents)
    assert_same(jax.jit(case.value_and_vjp)(operands, cotangents), plain)
    case.assert_right(operands, cotangents, *plain)


@every_case
def test_grad_and_value_and_grad(case: OpCase) -> None:
    operands, cotangents = problem(case)

    def objective(*arrays):
        return sum(jnp.vdot(y, c) for y, c in zip(case(*arrays), cotangents, strict=True))

    chosen = case.differentiable
    _, wanted = case.value_and_vjp(operands, cotangents)
    assert_same(jax.grad(objective, argnums=chosen)(*operands), wanted)
    value, gradients = jax.jit(jax.value_and_grad(objective, argnums=chosen))(*operands)
    assert_same(gradients, wanted)
    exact = sum(np.vdot(np.asarray(y, np.float64), c) for y, c in zip(case(*operands), cotangents, strict=True))
    np.testing.assert_allclose(value, exact, rtol=1e-5, atol=1e-5)


def test_only_some_outputs_are_used() -> None:
    """Missing cotangents count as zeros."""
    case = next(c for c in CASES if c.name == "add_rms_norm")
    operands, cotangents = problem(case)
    for used in (0, 1):
        alone = tuple(c if i == used else np.zeros_like(c) for i, c in enumerate(cotangents))
        got = jax.grad(lambda *a, used=used: jnp.vdot(case(*a)[used], cotangents[used]), argnums=(0, 1, 2))(*operands)
        case.assert_right(operands, alone, case(*operands), got, f"only output {used}")


# ---- vmap -----------------------------------------------------------------------------------------------------------------


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


# ---- scan, remat, donation ------------------------------------------------------------------------------------------------


@every_case
def test_scan(case: OpCase) -> None:
    operands, cotangents = stacked(case, 4)

    def step(total, slices):
        values, gradients = case.value_and_vjp(*slices)
        return total + 1, (values, gradients)

    steps, got = jax.jit(lambda *a: jax.lax.scan(step, 0, a))(operands, cotangents)
    assert steps == 4
    want = [case.value_and_vjp(at(operands, i), at(cotangents, i)) for i in range(4)]
    assert_same(got, jax.tree.map(lambda *a: np.stack(a), *want))


@main_case
def test_gradient_through_scan(case: OpCase) -> None:
    """Differentiated from outside; the parameters are closed over, so their gradients add up over the steps."""
    operands, cotangents = stacked(case, 4)
    shared = tuple(a[0] if is_shared(kind) else a for a, kind in zip(operands, case.operands, strict=True))

    def whole(*arrays):
        followers = {i: a for i, a in enumerate(arrays) if not is_shared(case.operands[i])}

        def step(carry, slices):
            return carry, case(*(slices[i] if i in slices else arrays[i] for i in range(len(arrays))))

        return jax.lax.scan(step, 0, followers)[1]

    scanned = dataclasses.replace(case, op=whole)
    values, gradients = jax.jit(scanned.value_and_vjp)(shared, cotangents)
    # The parameters' sums over the steps are float32 additions, as many as there are steps: within the bound over all rows.
    scanned.assert_right(shared, cotangents, values, gradients)


POLICIES = {
    "everything": jax.checkpoint_policies.everything_saveable,
    "nothing": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


@pytest.mark.parametrize("policy", [*POLICIES, "names"])
@every_case
def test_remat_gives_the_same_gradients(case: OpCase, policy: str) -> None:
    operands, cotangents = problem(case)
    chosen = POLICIES.get(policy) or jax.checkpoint_policies.save_only_these_names(*case.checkpoint_names)
    remat = dataclasses.replace(case, op=jax.checkpoint(case.op, policy=chosen))
    assert_same(jax.jit(remat.value_and_vjp)(operands, cotangents), case.value_and_vjp(operands, cotangents), policy)


@pytest.mark.parametrize("case", [c for c in CASES if c.checkpoint_names], ids=lambda c: c.name.replace(" ", "-"))
def test_documented_checkpoint_names_save_the_forward_pass(case: OpCase) -> None:
    """With the names saved the kernel is not run again; with nothing saved it is."""
    operands, cotangents = problem(case)

    def forward_calls(policy) -> int:
        # Through a product, so that the op's operands are not the arguments of the checkpointed function.
        def outputs(*a):
            return case.op(*(x * 2 if kind == "row" else x for x, kind in zip(a, case.operands, strict=True)))

        remat = dataclasses.replace(case, op=jax.checkpoint(outputs, policy=policy))
        text = jax.jit(remat.value_and_vjp).lower(operands, cotangents).compile().as_text()
        return sum("forward" in call.target for call in hlo.custom_calls(text))

    assert forward_calls(jax.checkpoint_policies.save_only_these_names(*case.checkpoint_names)) == 1
    assert forward_calls(jax.checkpoint_policies.nothing_saveable) == 2
    assert all(name in (getattr(jxt, case.name.split()[0]).__doc__ or "") for name in case.checkpoint_names)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@every_case
def test_donated_operands(case: OpCase) -> None:
    operands, cotangents = problem(case)
    want = case(*operands)
    donated = tuple(map(jnp.array, operands))
    got = jax.jit(lambda *a: case(*a), donate_argnums=tuple(range(len(donated))))(*donated)
    assert_same(got, want)
    if got[0].shape == operands[0].shape:  # a buffer that can be used again is taken
        assert donated[0].is_deleted()


# ---- forward mode and second derivatives --------------------------------------------------------------------------------------


def tangents_of(case: OpCase, operands):
    random = np.random.default_rng(5)
    return tuple(random.normal(size=operands[i].shape).astype(operands[i].dtype) for i in case.differentiable)


def of_differentiable(case: OpCase, operands, **keywords):
    def outputs(*some):
        full = list(operands)
        for i, a in zip(case.differentiable, some, strict=True):
            full[i] = a
        return case(*full, **keywords)

    return outputs, tuple(operands[i] for i in case.differentiable)


@every_case
def test_kernels_refuse_forward_mode_and_second_derivatives_by_name(case: OpCase) -> None:
    operands, cotangents = problem(case)
    outputs, some = of_differentiable(case, operands, implementation="cpu")
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(outputs, some, tangents_of(case, operands))
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jit(jax.jacfwd(lambda x: outputs(x, *some[1:])))(some[0])

    def gradient_norm(x):
        return sum(jnp.vdot(g, g) for g in jax.vjp(outputs, x, *some[1:])[1](tuple(map(jnp.asarray, cotangents))))

    if case.all_orders:
        return
    with pytest.raises(jxt.UnsupportedError, match=r"second derivative.*implementation='xla'") as caught:
        jax.grad(gradient_norm)(some[0])
    assert isinstance(caught.value, NotImplementedError)
    assert list(caught.value.reasons) == ["second derivative"]


@every_case
def test_xla_formulation_has_forward_mode(case: OpCase) -> None:
    """<cotangent, J tangent> = <J^T cotangent, tangent>, the right side in float64."""
    operands, cotangents = problem(case)
    tangents = tangents_of(case, operands)
    outputs, some = of_differentiable(case, operands, implementation="xla")
    _, got = jax.jit(functools.partial(jax.jvp, outputs))(some, tangents)
    wide, wide_cotangents, exact = exact_vjp(case, operands, cotangents)
    left = sum(np.vdot(np.asarray(t, np.float64), c) for t, c in zip(got, wide_cotangents, strict=True))
    right = sum(np.vdot(g, t) for g, t in zip(exact, tangents, strict=True))
    # Relative to the sum of magnitudes: float32 over a few hundred terms.
    magnitude = sum(np.vdot(np.abs(np.asarray(t, np.float64)), np.abs(c)) for t, c in zip(got, wide_cotangents, strict=True))
    assert abs(left - right) <= 1e-5 * magnitude


def exact_vjp(case: OpCase, operands, cotangents):
    """Operands and cotangents in float64, and the gradients there of every differentiable operand (sums not rounded)."""
    wide = [np.asarray(a, np.float64) for a in operands]
    wide_cotangents = [np.asarray(c, np.float64) for c in cotangents]
    if "add_" in case.name:
        gradients = case.vjp(wide_cotangents, wide[0] + wide[1], *wide[2:])
        gradients = (gradients[0], *gradients)
    else:
        gradients = case.vjp(wide_cotangents, *wide)
    return wide, wide_cotangents, [g.value for g in gradients]


@every_case
@pytest.mark.parametrize("implementation", ["xla", None])
def test_second_derivatives_are_right(case: OpCase, implementation: str | None) -> None:
    """The derivative of <gradient, direction> against central differences of the float64 gradients."""
    if implementation is None and not case.all_orders:
        return  # refused by name: see above
    operands, cotangents = problem(case)
    outputs, some = of_differentiable(case, operands, implementation=implementation)
    directions = tangents_of(case, operands)
    along = np.random.default_rng(7).normal(size=some[0].shape)

    def slope(x):
        gradients = jax.vjp(outputs, x, *some[1:])[1](tuple(map(jnp.asarray, cotangents)))
        return sum(jnp.vdot(g, d) for g, d in zip(gradients, directions, strict=True))

    got = np.vdot(np.asarray(jax.jit(jax.grad(slope))(some[0]), np.float64), along)

    def exact_slope(step):
        moved = (np.asarray(operands[0], np.float64) + step * along, *operands[1:])
        return sum(np.vdot(g, d) for g, d in zip(exact_vjp(case, moved, cotangents)[2], directions, strict=True))

    h = 1e-6
    want = (exact_slope(h) - exact_slope(-h)) / (2 * h)
    # Central differences are right to about 1e-8 here; float32 over a few thousand terms of size 1 to about 1e-4 of their norm.
    assert abs(got - want) <= 1e-4 * (abs(want) + np.sqrt(some[0].size) * 10), (got, want)


def test_the_module_checks_bits() -> None:
    """`assert_same` would see one wrong bit."""
    a = np.float32([1, 2, 3])
    with pytest.raises(AssertionError):
        assert_same((a,), (np.nextafter(a, np.float32(9)),))
    assert reference.UNIT["float32"] == np.finfo(np.float32).eps / 2
