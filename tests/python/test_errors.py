"""Named errors: what was given, which rule it breaks, for every argument of the row ops."""

import pickle
import re

import hlo
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxator as jxt
import ops
from jaxator import _ffi
from ops import CASES, OpCase

every_case = pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))

X = np.ones((4, 6), np.float32)
W = np.ones(6, np.float32)
HEADS = np.ones((3, 2, 8), np.float32)

BAD = [
    ("integer x", TypeError, "dtype=int32: must be a float", lambda: jxt.rms_norm(np.ones((2, 3), np.int32))),
    ("scalar x", ValueError, "shape=(): needs at least one axis", lambda: jxt.rms_norm(np.float32(1))),
    ("weight length", ValueError, "weight shape=(5,): must be the last axis of x, (6,)", lambda: jxt.rms_norm(X, W[:5])),
    ("weight rank", ValueError, "weight shape=(4, 6)", lambda: jxt.rms_norm(X, X)),
    ("weight dtype", TypeError, "weight dtype=int32: must be a float", lambda: jxt.rms_norm(X, np.ones(6, np.int32))),
    ("negative epsilon", ValueError, "epsilon=-1.0: must be finite and not negative", lambda: jxt.rms_norm(X, epsilon=-1.0)),
    ("epsilon NaN", ValueError, "epsilon=nan", lambda: jxt.add_rms_norm(X, X, epsilon=float("nan"))),
    ("epsilon inf", ValueError, "epsilon=inf", lambda: jxt.layer_norm(X, epsilon=float("inf"))),
    ("residual shape", ValueError, "float32[3, 6] beside float32[4, 6]: must be equal", lambda: jxt.add_rms_norm(X, X[:3])),
    ("residual dtype", ValueError, "float16[4, 6] beside float32[4, 6]", lambda: jxt.add_rms_norm(X, X.astype(np.float16))),
    ("bias length", ValueError, "bias shape=(5,)", lambda: jxt.layer_norm(X, W, W[:5])),
    ("bias alone", TypeError, "bias dtype=int32", lambda: jxt.layer_norm(X, None, np.ones(6, np.int32))),
    ("up shape", ValueError, "float32[4, 5] beside float32[4, 6]", lambda: jxt.swiglu(X, X[:, :5])),
    ("odd packed", ValueError, "5 columns: must be even", lambda: jxt.swiglu(X[:, :5])),
    ("zero limit", ValueError, "limit=0.0: must be positive", lambda: jxt.swiglu(X, limit=0.0)),
    ("limit NaN", ValueError, "limit=nan", lambda: jxt.swiglu(X, limit=float("nan"))),
    ("rope rank", ValueError, "shape (4, 6): must be [..., T, N, H]", lambda: jxt.rope(X)),
    ("rope odd", ValueError, "H=7: must be even", lambda: jxt.rope(HEADS[..., :7])),
    ("rope theta", ValueError, "theta=0.5: must be finite and at least 1", lambda: jxt.rope(HEADS, theta=0.5)),
    (
        "float positions",
        TypeError,
        "positions dtype=float32: must be an integer",
        lambda: jxt.rope(HEADS, np.ones(3, np.float32)),
    ),
    ("positions shape", ValueError, "shape (4,): must broadcast to (3,)", lambda: jxt.rope(HEADS, np.ones(4, np.int32))),
    (
        "tables shape",
        ValueError,
        "shape (3, 3): must broadcast to (3, 4)",
        lambda: jxt.rope(HEADS, tables=(np.ones((3, 3)),) * 2),
    ),
    ("both", ValueError, "positions and tables", lambda: jxt.rope(HEADS, np.arange(3), tables=(np.ones((3, 4)),) * 2)),
]


@pytest.mark.parametrize(("error", "text", "call"), [b[1:] for b in BAD], ids=[b[0].replace(" ", "-") for b in BAD])
def test_bad_arguments_are_named(error: type, text: str, call) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()
    with pytest.raises(error, match=re.escape(text)):
        jax.jit(call)()


@every_case
def test_implementation_names(case: OpCase) -> None:
    operands = case.make(case.small, "float32")
    with pytest.raises(ValueError, match=r"implementation='fast': must be None, 'xla', 'cpu'"):
        case(*operands, implementation="fast")


@every_case
def test_a_dtype_without_kernels(case: OpCase) -> None:
    """float64 takes the XLA formulation, unless the kernels were named."""
    with jax.enable_x64(True):
        operands = [
            a.astype(np.float64) if k == "row" else a
            for a, k in zip(case.make(case.small, "float32"), case.operands, strict=True)
        ]
        with pytest.raises(
            jxt.UnsupportedError, match=r"cpu: dtype=float64: must be one of float32, bfloat16, float16"
        ) as caught:
            case(*operands, implementation="cpu")
        assert caught.value.reasons == {"cpu": ["dtype=float64: must be one of float32, bfloat16, float16"]}
        assert all(v.dtype == np.float64 for v in case(*operands))
        assert not hlo.custom_calls(jax.jit(lambda *a: case(*a)).lower(*operands).compile().as_text())


@every_case
def test_narrow_floats_are_refused(case: OpCase) -> None:
    operands = case.make(case.small, "float32")
    for i in case.differentiable:
        narrow = [
            a.astype(ml_dtypes.float8_e4m3fn) if k == case.operands[i] else a
            for a, k in zip(operands, case.operands, strict=True)
        ]
        with pytest.raises(TypeError, match="dtype=float8_e4m3fn: must be a float type of 16 bits or more"):
            case(*narrow)


def test_float64_takes_the_formulation_in_float64() -> None:
    with jax.enable_x64(True):
        x = np.random.default_rng(0).normal(size=(3, 10))
        y = jxt.rms_norm(x)
        assert y.dtype == np.float64
        np.testing.assert_allclose(y, x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), rtol=1e-12)
        with pytest.raises(jxt.UnsupportedError, match="dtype=float64"):
            jxt.rms_norm(x, implementation="cpu")


def test_error_can_be_pickled_and_lists_every_reason() -> None:
    error = jxt.UnsupportedError("op", {"cpu": ["a=1: rule one", "b=2: rule two"], "cuda": ("c=3: rule three",)})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is jxt.UnsupportedError
    assert again.reasons == error.reasons == {"cpu": ["a=1: rule one", "b=2: rule two"], "cuda": ["c=3: rule three"]}
    assert str(again) == str(error)
    assert all(
        text in str(error) for text in ("jaxator.op", "cpu: a=1: rule one", "cpu: b=2: rule two", "cuda: c=3: rule three")
    )


# ---- below the public functions: a call that no public function makes is an error, not a crash --------


def raw(*operands, handler="rms_norm_forward", results=1, **attributes):
    attributes = {
        "epsilon": np.float32(1e-6),
        "has_residual": False,
        "has_weight": False,
        "version": _ffi.attribute_version(),
    } | attributes
    like = jax.ShapeDtypeStruct(X.shape, jnp.float32)
    return jax.ffi.ffi_call(_ffi.PREFIX + handler, [like] * results)(*operands, **attributes)


def test_attributes_of_another_version_are_refused_when_compiled() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="version"):
        jax.jit(lambda x: raw(x, version=np.int64(10**6))).lower(X).compile()


def test_bad_attributes_are_refused_when_compiled() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="epsilon=-1"):
        jax.jit(lambda x: raw(x, epsilon=np.float32(-1))).lower(X).compile()


def test_missing_operands_are_an_error_at_run_time() -> None:
    compiled = jax.jit(lambda x: raw(x, has_weight=True)).lower(X).compile()
    with pytest.raises(jax.errors.JaxRuntimeError):
        jax.block_until_ready(compiled(X))
    np.testing.assert_array_equal(jxt.rms_norm(X[:1]), jxt.rms_norm(X)[:1])  # the process goes on


def test_force_isa_names_what_it_refuses() -> None:
    with pytest.raises(ValueError):
        _ffi.force_isa("x86-64-v9")
    assert _ffi.cpu_report()["selected"] in _ffi.cpu_report()["supported"]
