"""Matrix products with fused bias, activation and residual."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike, DTypeLike

from jaxator import _dispatch, _ffi, _partition, _rows, matmul_call, matmul_options
from jaxator._errors import UnsupportedError
from jaxator.matmul_options import ACTIVATIONS, EIGHT_BITS, ROUTES, TF32, Options

OP = "matmul"


def _check_matrices(a: jax.Array, b: jax.Array, transpose_a: bool, transpose_b: bool) -> tuple[tuple[int, ...], int, int]:
    """(leading dimensions, M, N)."""
    for name, array in (("a", a), ("b", b)):
        if array.ndim < 2:
            raise ValueError(f"{OP}: {name} has shape {array.shape}: needs at least two dimensions")
        if not _rows.is_wide_float(array.dtype) and array.dtype.name not in EIGHT_BITS:
            known = " or ".join(EIGHT_BITS)
            raise TypeError(f"{OP}: {name} has dtype={array.dtype}: must be a float type of at least 16 bits, {known}")
    if a.dtype != b.dtype and not (a.dtype.name in EIGHT_BITS and b.dtype.name in EIGHT_BITS):
        raise TypeError(f"{OP}: dtype of b is {b.dtype}: must be that of a, which is {a.dtype}")
    m, k = a.shape[-2:][:: -1 if transpose_a else 1]
    of_b, n = b.shape[-2:][:: -1 if transpose_b else 1]
    if k != of_b:
        raise ValueError(f"{OP}: b with shape {b.shape} contracts {of_b} elements: a with shape {a.shape} has k={k}")
    try:
        leading = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"{OP}: leading dimensions of a {a.shape[:-2]} and b {b.shape[:-2]} do not broadcast") from None
    return leading, m, n


def _check_scales(name: str, scales: ArrayLike | None, operand: jax.Array, rows: int) -> tuple[int, list[jax.Array]]:
    """Kind (see `Options`) and the scales as float32, in a list that is empty if absent."""
    if scales is None:
        return 0, []
    array = jnp.asarray(scales)
    if operand.dtype.name not in EIGHT_BITS:
        raise TypeError(f"{OP}: {name} is given for dtype={operand.dtype}: only {' and '.join(EIGHT_BITS)} have scales")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(f"{OP}: {name} has dtype={array.dtype}: must be a float type")
    each = (*operand.shape[:-2], rows)
    if array.shape not in ((), each):
        raise ValueError(f"{OP}: {name} has shape {array.shape}: must be () or {each}")
    return (2 if array.ndim else 1), [array.astype(jnp.float32)]


def _check_epilogue(
    a: jax.Array, shape: tuple[int, ...], bias: ArrayLike | None, activation: str | None, residual: ArrayLike | None
) -> tuple[list[jax.Array], list[jax.Array]]:
    """bias as float32 and residual, each in a list that is empty if absent."""
    if activation not in ACTIVATIONS:
        known = ", ".join(repr(name) for name in ACTIVATIONS)
        raise ValueError(f"{OP}: activation={activation!r}: must be one of {known}")
    biases, residuals = [], []
    if bias is not None:
        array = jnp.asarray(bias)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(f"{OP}: bias has dtype={array.dtype}: must be a float type")
        if array.shape != shape[-1:]:
            raise ValueError(f"{OP}: bias has shape {array.shape}: must be {shape[-1:]}")
        # The kernel takes float32; the cast touches N numbers only, and JAX transposes it.
        biases.append(array.astype(jnp.promote_types(_kept(a), jnp.float32)))
    if residual is not None:
        array = jnp.asarray(residual)
        if array.dtype != _kept(a):
            rule = "bfloat16 beside eight bits" if a.dtype.name in EIGHT_BITS else f"that of a, which is {a.dtype}"
            raise TypeError(f"{OP}: residual has dtype={array.dtype}: must be {rule}")
        if array.shape != shape:
            raise ValueError(f"{OP}: residual has shape {array.shape}: must be {shape}")
        residuals.append(array)
    return biases, residuals


def _kept(a: jax.Array) -> Any:
    """The dtype of what has the result's shape."""
    return jnp.dtype("bfloat16") if a.dtype.name in EIGHT_BITS else a.dtype


def _out_type(a: jax.Array, preferred: DTypeLike | None) -> str:
    if preferred is None:
        return _kept(a).name
    dtype = jnp.dtype(preferred)
    if dtype not in (_kept(a), jnp.float32):
        rule = (
            "bfloat16 for operands of eight bits"
            if a.dtype.name in EIGHT_BITS
            else f"the operands' dtype, which is {a.dtype}"
        )
        raise ValueError(f"{OP}: preferred_element_type={dtype}: must be float32 or {rule}")
    return dtype.name


def _choose(dtype: Any, implementation: str | None) -> tuple[_dispatch.Choice, int]:
    """The choice, and the number of the kernel that was named."""
    unknown = [] if dtype.name in _ffi.DTYPES else [f"dtype={dtype}: must be one of {', '.join(_ffi.DTYPES)}"]
    refused = {"cpu": list(unknown), "cuda": list(unknown), "rocm": [] if dtype.name in EIGHT_BITS else list(unknown)}
    if dtype == jnp.float32 and implementation != "tf32":
        refused["cuda"] = ["dtype=float32: exact float32 products are XLA's; implementation='tf32' names the matrix unit's"]
        refused["rocm"] = ["dtype=float32: exact float32 products are XLA's"]
    if implementation not in ROUTES:
        return _dispatch.choose(OP, implementation, refused), 0
    if implementation == "tf32":
        if dtype != jnp.float32:
            raise UnsupportedError(OP, {implementation: [f"dtype={dtype}: must be float32"]})
        return _dispatch.choose(OP, "cuda", refused), TF32
    report = _ffi.cpu_report()
    if implementation == "matmul_bf16dot" and not (dtype == jnp.bfloat16 and "x86-64-v4-bf16" in report["supported"]):
        reason = f"dtype={dtype}, cpu={report['brand']!r}: needs bfloat16 and AVX512_BF16"
        raise UnsupportedError(OP, {implementation: [reason]})
    return _dispatch.choose(OP, "cpu", refused), ROUTES[implementation]


def _apply(options: Options, operands: tuple[jax.Array, ...], mesh: Any, in_specs: Any) -> tuple[jax.Array, ...]:
    rule = options.rule(operands)
    if mesh is not None:
        fn = functools.partial(_apply, options, mesh=None, in_specs=None)
        return _partition.over_mesh(fn, rule, mesh, in_specs, operands)
    if in_specs is not None:
        raise ValueError(f"in_specs={in_specs}: needs mesh")
    if options.choice == "xla":
        return _dispatch.formulate(options.choice, matmul_options.formula, options, *operands)
    return matmul_call.apply(options, operands)


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    scale_a: ArrayLike | None = None,
    scale_b: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    activation: Literal["gelu", "gelu_tanh", "silu", "relu"] | None = None,
    residual: ArrayLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    implementation: str | None = None,
    mesh: Mesh | None = None,
    in_specs: Sequence[PartitionSpec] | None = None,
) -> jax.Array:
    """``activation(scale_a * (a @ b) * scale_b + bias) + residual`` in one pass, in any layout without copies.

    Products and sums are float32; what follows the product is too, and the result is rounded once. Where the contracted
    dimension is sharded, the partial sums are added up in float32 before bias, activation and residual.

    Args:
      a: float array [..., M, K]; with transpose_a it is stored as [..., K, M].
      b: float array [..., K, N] of a's dtype, or both are float8_e4m3fn or float8_e5m2, in any pair; with transpose_b it is
        stored as [..., N, K]. Leading dimensions broadcast; an array without them is shared by the batch and not repeated.
      scale_a, scale_b: for arrays of eight bits, what their elements are multiplied by: one number, or one for each row,
        [..., M] and [..., N].
      bias: float array [N] of any float dtype, added to the product.
      activation: "gelu" (with the error function), "gelu_tanh" (its tanh form), "silu" or "relu".
      residual: array [..., M, N] of a's dtype, added last; bfloat16 beside eight bits.
      preferred_element_type: dtype of the result: None or a's dtype (bfloat16 for eight bits), or float32.
      implementation: None chooses; "cpu", "matmul_f32", "matmul_bf16dot" (its two ways to multiply, see `explain`), "cuda",
        "tf32" (float32 operands rounded to 11 significant bits; k contiguous in both, else XLA transposes first), "rocm",
        "gfx942" or "gfx950" (in a program for CPUs: on the emulator) or "xla" names one.
      mesh, in_specs: run by `jax.shard_map` over this mesh, with one PartitionSpec for each array given, in the order a, b,
        scale_a, scale_b, bias, residual. Every dimension may be sharded.

    Returns:
      Array [..., M, N].

    Raises:
      ValueError, TypeError: an argument breaks a rule; the text names it.
      UnsupportedError: a named implementation cannot serve the call.

    Differentiable in a, b, bias and residual, by reverse mode to any order: gradients are products in the other layouts.
    Products of eight-bit arrays have no gradient, in any operand: quantise inside a `jax.custom_vjp`.
    With an activation the kernel also writes ``a @ b + bias`` for the backward pass, checkpoint name
    "jaxator.matmul.preactivation". The gradient that reaches the product is rounded to a's dtype before it is multiplied.

    Differences from `jax.numpy.matmul`: operands have at least two dimensions and one dtype; float32 operands are multiplied
    exactly on a GPU too, unless "tf32" is named; without a name, arrays whose rows are no multiple of 16 bytes are XLA's on
    GPUs.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    leading, m, n = _check_matrices(a, b, transpose_a, transpose_b)
    biases, residuals = _check_epilogue(a, (*leading, m, n), bias, activation, residual)
    kind_a, scales_a = _check_scales("scale_a", scale_a, a, m)
    kind_b, scales_b = _check_scales("scale_b", scale_b, b, n)
    # An operand has all leading dimensions or none.
    a, b = (x if x.ndim == 2 else jnp.broadcast_to(x, (*leading, *x.shape[-2:])) for x in (a, b))
    scales = [s if s.ndim < 2 else jnp.broadcast_to(s, (*leading, s.shape[-1])) for s in (*scales_a, *scales_b)]
    choice, route = _choose(a.dtype, implementation)
    options = Options(
        choice,
        dtype=a.dtype.name,
        out=_out_type(a, preferred_element_type),
        transpose_a=bool(transpose_a),
        transpose_b=bool(transpose_b),
        route=route,
        batch=len(leading),
        batch_a=a.ndim > 2,
        batch_b=b.ndim > 2,
        has_bias=bool(biases),
        activation=activation,
        has_residual=bool(residuals),
        dtype_b=b.dtype.name if b.dtype != a.dtype else "",
        scales_a=kind_a,
        scales_b=kind_b,
    )
    return _apply(options, (a, b, *scales, *biases, *residuals), mesh, in_specs)[0]
