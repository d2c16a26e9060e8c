"""No array of T x S, forward or backward: what the compiled programs say of their memory. Nothing runs here."""

import functools

import attention_problems as problems
import jax
import jax.numpy as jnp
import pytest
from attention_problems import Case, Shape

MB = 1 << 20


def temporary_bytes(case: Case, gradient: bool, dtype: str = "bfloat16", implementation: str | None = None) -> int:
    x = case.shape

    def struct(*shape, of=dtype):
        return jax.ShapeDtypeStruct(shape, jnp.dtype(of))

    arrays = {"q": struct(x.b, x.t, x.n, x.h), "k": struct(x.b, x.s, x.k, x.h), "v": struct(x.b, x.s, x.k, x.v)}
    for name, axes, of in (("bias", case.bias, case.bias_dtype), ("mask", case.mask, "bool")):
        if axes is not None:
            arrays[name] = struct(*case.broadcast_shape(axes), of=of)
    if case.key_lengths:
        arrays["key_lengths"] = struct(x.b, of="int32")
    if case.segments:
        arrays["segments"] = (struct(x.b, x.t, of="int32"), struct(x.b, x.s, of="int32"))
    function = functools.partial(problems.value_and_vjp if gradient else problems.call, case, implementation=implementation)
    cotangents = ((struct(x.b, x.t, x.n, x.v), struct(x.b, x.t, x.n, of="float32")),) if gradient else ()
    return jax.jit(function).lower(arrays, *cotangents).compile().memory_analysis().temp_size_in_bytes


OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (256, 0)},
    "lengths and segments": {"key_lengths": True, "segments": True},
    "bias of a row": {"bias": "S"},
    "bias of each head": {"bias": "N"},
    "mask of a batch": {"mask": "BS"},
}


@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("name", OPTIONS)
def test_far_below_the_logits(name: str, gradient: bool) -> None:
    shape = Shape(2, 4096, 4096, 8, 2, 64, 64)
    logits = shape.b * shape.n * shape.t * shape.s * 4
    used = temporary_bytes(Case(shape, **OPTIONS[name]), gradient)
    assert used < logits / 10, f"{used / MB:.0f} MB beside {logits / MB:.0f} MB of logits"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_grows_with_the_length_not_its_square(causal: bool, gradient: bool, dtype: str) -> None:
    sizes = {
        length: temporary_bytes(Case(Shape(1, length, length, 4, 2, 64, 64), causal=causal), gradient, dtype)
        for length in (4096, 8192, 16384, 32768)
    }
    for length in (8192, 16384, 32768):
        assert sizes[length] <= 2.1 * sizes[length // 2] + MB, sizes


@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
def test_one_head_of_131072_keys(gradient: bool) -> None:
    """128 GiB of logits. Each slot of the backward pass sums dk and dv of the one key/value head in float32: 64 MiB."""
    case = Case(Shape(1, 131072, 131072, 2, 1, 64, 64), causal=True)
    assert temporary_bytes(case, gradient) < 48 * (131072 * 128 * 4)


def test_the_check_can_fail() -> None:
    """The XLA formulation does hold logits."""
    shape = Shape(1, 1024, 1024, 4, 2, 64, 64)
    assert temporary_bytes(Case(shape), False, implementation="xla") >= shape.n * shape.t * shape.s * 4
