"""Every row op under jit, grad, scan, remat and donation.

The kernels treat rows one by one, so a transformed program gives the same bits as a Python loop over plain calls.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from trees import assert_same, at, is_shared, problem, stacked

import jaxator as jxt
import ops
from ops import CASES, MAIN, OpCase

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))
main_case = pytest.mark.parametrize("case", MAIN, ids=ops.names(MAIN))


# ---- jit and grad ----------------------------------------------------------------------------------------------------


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


# ---- scan, remat, donation -------------------------------------------------------------------------------------------


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
        # Before optimisation: XLA may find the second run equal to the first one.
        text = jax.jit(remat.value_and_vjp).lower(operands, cotangents).as_text()
        return text.count("custom_call @jaxator.rms_norm_forward")

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


def test_the_module_checks_bits() -> None:
    """`assert_same` would see one wrong bit."""
    a = np.float32([1, 2, 3])
    with pytest.raises(AssertionError):
        assert_same((a,), (np.nextafter(a, np.float32(9)),))
    assert reference.UNIT["float32"] == np.finfo(np.float32).eps / 2
