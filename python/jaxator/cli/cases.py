"""What is measured: each op at real model shapes, with the work it must do, the peers it is compared with and its limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxator
from jaxator import _ffi
from jaxator.cli import peers

Operands = tuple[jax.ShapeDtypeStruct, ...]


@dataclasses.dataclass(frozen=True)
class Case:
    """One op at one shape, both directions to be measured as `directions` says."""

    op: str
    text: str
    """The shape and options."""
    dtype: str
    fn: Callable[..., Any]
    operands: Operands
    gradients: tuple[int, ...]
    """Operands whose gradients the backward pass returns."""
    peers: Mapping[str, Callable[..., Any]]
    """Name -> the same formula without Jaxator."""
    flops: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Direction -> floating-point operations, for an op whose limit is arithmetic."""
    passes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Direction -> bytes that must move, each pass's inputs and results once, for an op whose limit is memory."""
    directions: tuple[str, ...] = ("forward", "forward+backward")


BENCHED = ("rms_norm", "add_rms_norm", "layer_norm", "swiglu", "rope", "matmul", "dot_product_attention")


def ops() -> list[str]:
    """The ops of this build that have cases."""
    return [op for op in BENCHED if hasattr(jaxator, op)]


ROW_SHAPES: dict[str, dict[str, list[tuple[int, ...]]]] = {
    "cpu": {"norm": [(4096, 4096)], "swiglu": [(4096, 2 * 5632)], "rope": [(1, 2048, 32, 128), (1, 2048, 8, 128)]},
    "cuda": {
        "norm": [(8192, 4096), (16384, 8192)],
        "swiglu": [(8192, 2 * 14336)],
        "rope": [(8, 2048, 32, 128)],
    },
}
"""Target -> op, or "norm" for all of them -> sizes of the first operand."""


def cases(op: str, dtype: str | None = None, target: str = "cpu") -> list[Case]:
    """The cases of one op on a target, in bfloat16 unless dtype is given."""
    dtype = dtype or "bfloat16"
    if dtype not in _ffi.DTYPES:
        raise ValueError(f"dtype={dtype!r}: must be one of {', '.join(_ffi.DTYPES)}")
    if op == "dot_product_attention":
        return _attention_cases(dtype) if target == "cpu" else _attention_cuda_cases(dtype)
    if op == "matmul":
        return _matmul_cases(dtype, target)
    shapes = ROW_SHAPES[target]
    return [_row_case(op, shape, dtype) for shape in shapes.get(op, shapes["norm"])]


def known(op: str) -> str:
    """op, or a ValueError that names it and what there is."""
    if op not in ops():
        raise ValueError(f"op={op!r}: must be one of {', '.join(ops())}")
    return op


def call_for(op: str, shape: tuple[int, ...], dtype: str, options: Mapping[str, Any]) -> tuple[Callable[..., Any], Operands]:
    """A call of the op and its operands, from the first operand's shape, for `jaxator explain`."""
    known(op)
    only_attention = {"kv_heads": options.get("kv_heads"), "keys": options.get("keys"), "window": options.get("window"),
                      "causal": options.get("causal") or None}  # fmt: skip
    keywords = {"implementation": options.get("implementation")}
    if op == "dot_product_attention":
        if len(shape) != 4:
            raise ValueError(f"shape={shape}: must be B,T,N,H")
        batch, queries, heads, size = shape
        keys, kv_heads = options.get("keys") or queries, options.get("kv_heads") or heads
        keywords |= {"is_causal": bool(options.get("causal")), "local_window_size": options.get("window")}
        other = _array((batch, keys, kv_heads, size), dtype)
        operands = (_array(shape, dtype), other, other)
    else:
        given = [name for name, value in only_attention.items() if value is not None]
        if given:
            raise ValueError(f"{given[0]}={only_attention[given[0]]}: {op} has no such option")
        operands = _matmul_operands(shape, dtype) if op == "matmul" else _row_operands(op, shape, dtype)
    return lambda *operands: getattr(jaxator, op)(*operands, **keywords), operands


def inputs(arrays: Any) -> Any:
    """Standard normal arrays for a tree of shapes, from seed 0."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape, np.float32), a.dtype), arrays)


# ---- row ops ---------------------------------------------------------------------------------------------------------


def _array(shape: tuple[int, ...], dtype: str) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def _row_operands(op: str, shape: tuple[int, ...], dtype: str) -> Operands:
    x, parameter = _array(shape, dtype), _array(shape[-1:], "float32")
    with_parameters = {
        "rms_norm": (x, parameter),
        "add_rms_norm": (x, x, parameter),
        "layer_norm": (x, parameter, parameter),
    }
    return with_parameters.get(op, (x,))


# Arrays of the first operand's size that must move, forward and backward. add_rms_norm's residual has x's gradient; swiglu
# is packed, so its result is half of its operand.
_MOVED: dict[str, tuple[float, float]] = {
    "rms_norm": (2, 3),
    "add_rms_norm": (4, 4),
    "layer_norm": (2, 3),
    "swiglu": (1.5, 2.5),
    "rope": (2, 2),
}


def _row_case(op: str, shape: tuple[int, ...], dtype: str) -> Case:
    operands = _row_operands(op, shape, dtype)
    size = int(np.prod(shape)) * jnp.dtype(dtype).itemsize
    forward, backward = _MOVED[op]
    text = f"{shape[0]}x2x{shape[1] // 2}" if op == "swiglu" else "x".join(map(str, shape))
    return Case(
        op=op,
        text=text,
        dtype=dtype,
        fn=getattr(jaxator, op),
        operands=operands,
        gradients=tuple(i for i in range(len(operands)) if not (op == "add_rms_norm" and i == 1)),
        peers=peers.ROWS[op],
        passes={"forward": int(forward * size), "forward+backward": int((forward + backward) * size)},
    )


# ---- matmul ----------------------------------------------------------------------------------------------------------

PRODUCTS: dict[str, list[tuple[tuple[int, ...], str]]] = {
    "cpu": [((1024, 4096, 4096), ""), ((16, 4096, 4096), ""), ((1024, 4096, 4096), "gelu")],
    "cuda": [
        *(((m, n, k), "") for m, n, k in ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 14336, 4096), (8192, 4096, 14336))),
        *(((m, n, k), "") for n, k in ((4096, 14336), (14336, 4096)) for m in (16, 32, 64, 128, 256, 512)),
        ((16, 2048, 2048, 2048), ""),
        *(((8192, 14336, 4096), what) for what in ("bias", "gelu_tanh", "residual")),
    ],
}
"""Target -> ([batch,] M, N, K) and what follows the product."""


def _matmul_operands(shape: tuple[int, ...], dtype: str) -> Operands:
    if len(shape) < 3:
        raise ValueError(f"shape={shape}: must be M,N,K, after batch dimensions if there are any")
    *batch, m, n, k = shape
    return _array((*batch, m, k), dtype), _array((*batch, k, n), dtype)


def _matmul_cases(dtype: str, target: str) -> list[Case]:
    return [_matmul_case(dtype, shape, what) for shape, what in PRODUCTS[target]]


def _matmul_case(dtype: str, shape: tuple[int, ...], what: str) -> Case:
    """what: "" for the product alone, "bias", "residual", or an activation, which comes with a bias."""
    operands = _matmul_operands(shape, dtype)
    *batch, m, n, _ = shape
    activation = what if what not in ("", "bias", "residual") else None
    if what == "residual":
        operands += (_array((*batch, m, n), dtype),)
    elif what:
        operands += (_array((n,), dtype),)
    flops = 2.0 * float(np.prod(shape))

    def ours(a: jax.Array, b: jax.Array, *rest: jax.Array) -> jax.Array:
        follows = {"residual" if what == "residual" else "bias": rest[0]} if rest else {}
        return jaxator.matmul(a, b, activation=activation, **follows)

    return Case(
        op="matmul",
        text="x".join(map(str, shape)) + (f" {what}" if what else ""),
        dtype=dtype,
        fn=ours,
        operands=operands,
        gradients=tuple(range(len(operands))),
        peers=peers.matmul(activation),
        # Each gradient is a product of the same size.
        flops={"forward": flops, "forward+backward": 3 * flops},
        directions=("forward", "forward+backward") if m >= 1024 and not what else ("forward",),
    )


# ---- attention -------------------------------------------------------------------------------------------------------


def _attention_cases(dtype: str) -> list[Case]:
    both, forward = ("forward", "forward+backward"), ("forward",)
    return [
        _attention_case(dtype, 2048, None, both),
        _attention_case(dtype, 8192, None, forward),
        _attention_case(dtype, 2048, 256, both),
        _attention_case(dtype, 8192, 256, forward),
    ]


def _attention_cuda_cases(dtype: str) -> list[Case]:
    return [
        _attention_cuda_case(dtype, batch, length, heads, kv_heads, size, causal)
        for size, heads, kv_heads in ((128, 32, 8), (128, 16, 16), (64, 32, 8))
        for batch, length in ((4, 2048), (1, 8192), (1, 16384))
        for causal in (True, False)
    ]


def _attention_cuda_case(dtype: str, batch: int, length: int, heads: int, kv_heads: int, size: int, causal: bool) -> Case:
    query, other = _array((batch, length, heads, size), dtype), _array((batch, length, kv_heads, size), dtype)
    # As everybody counts on GPUs: half of the square under a causal mask.
    flops = 4.0 * batch * heads * length * length * size * (0.5 if causal else 1)
    return Case(
        op="dot_product_attention",
        text=f"B{batch} S{length} N{heads} K{kv_heads} H{size} {'causal' if causal else 'full'}",
        dtype=dtype,
        fn=lambda q, k, v: jaxator.dot_product_attention(q, k, v, is_causal=causal),
        operands=(query, other, other),
        gradients=(0, 1, 2),
        peers={
            "cuDNN by jax.nn": lambda q, k, v: jax.nn.dot_product_attention(
                q, k, v, is_causal=causal, implementation="cudnn"
            )
        },
        flops={"forward": flops, "forward+backward": 3.5 * flops},
    )


def _attention_case(dtype: str, length: int, window: int | None, directions: tuple[str, ...]) -> Case:
    batch, heads, kv_heads, size = 1, 8, 2, 128
    numbers = (_ffi.DTYPES[dtype], batch, length, heads, kv_heads, size, -1 if window is None else window)
    useful, visited = (_ffi.query("jaxator_attention_pairs", which, *numbers) for which in (0, 1))
    flops = 4.0 * size * useful
    text = f"B{batch} S{length} N{heads} K{kv_heads} H{size} causal"
    if window is not None:
        # The time of a window should follow the tiles that it visits.
        text += f" window {window} visits {visited / 1e6:.2f}M pairs ({visited / useful:.2f}x useful)"
    local = None if window is None else (window, 0)
    query, other = _array((batch, length, heads, size), dtype), _array((batch, length, kv_heads, size), dtype)

    def ours(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jaxator.dot_product_attention(q, k, v, is_causal=True, local_window_size=local)

    return Case(
        op="dot_product_attention",
        text=text,
        dtype=dtype,
        fn=ours,
        operands=(query, other, other),
        gradients=(0, 1, 2),
        peers=peers.attention(local),
        # The backward pass has five products of the same size where the forward pass has two.
        flops={"forward": flops, "forward+backward": 3.5 * flops},
        directions=directions,
    )
