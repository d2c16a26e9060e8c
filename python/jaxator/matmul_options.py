"""What one matmul asks, apart from its arrays, and its XLA formulation.

Leading dimensions of the operands come in two groups: the batch, which the result keeps, and dimensions that are summed,
which arise in gradients of operands that a batch shares. An operand has all dimensions of a group or none.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxator import _dispatch, _ffi, _partition

ACTIVATIONS: dict[str | None, Callable[[jax.Array], jax.Array]] = {
    None: lambda x: x,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
}
"""In the order of the library's numbers."""

ROUTES = {"matmul_f32": 1, "matmul_bf16dot": 2, "tf32": 3}
"""Ways to multiply that can be named, with the library's numbers."""
TF32 = ROUTES["tf32"]

EIGHT_BITS = {"float8_e4m3fn": 1, "float8_e5m2": 2}
"""Element types of eight bits, with the library's numbers."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What one product asks, apart from its arrays: a, b, [bias], [residual] -> out, [preactivation]."""

    choice: _dispatch.Choice
    dtype: str
    """Of a, b, residual and preactivation."""
    out: str
    transpose_a: bool
    transpose_b: bool
    route: int = 0
    batch: int = 0
    """Dimensions of the batch."""
    sum: int = 0
    """Dimensions that are summed, after those of the batch."""
    batch_a: bool = False
    batch_b: bool = False
    batch_bias: bool = False
    sum_a: bool = False
    sum_b: bool = False
    has_bias: bool = False
    activation: str | None = None
    has_residual: bool = False
    preactivation: bool = False
    """Whether z = a b + bias is a result too."""
    gradient: bool = False
    """Whether it is a product of the backward pass; for `explain`."""
    dtype_b: str = ""
    """Of b where it is not that of a, which then have eight bits each."""
    scales_a: int = 0
    """Factors of a's rows (M): 0 none, 1 one for all, 2 one for each; they come after b."""
    scales_b: int = 0
    """Of the N rows of b."""
    wide: tuple[bool, ...] = ()
    """Operands of `product` that come as float32 and are narrowed first: their gradients are partial sums, see `widened`."""

    @property
    def eight_bits(self) -> bool:
        return self.dtype in EIGHT_BITS

    @property
    def kept(self) -> str:
        """The type of residual and preactivation."""
        return "bfloat16" if self.eight_bits else self.dtype

    @property
    def scales(self) -> int:
        """How many operands are scales."""
        return (self.scales_a > 0) + (self.scales_b > 0)

    def leading(self, batched: bool, summed: bool) -> list[str]:
        return [f"b{i}" for i in range(self.batch * batched)] + [f"s{i}" for i in range(self.sum * summed)]

    def factors(self) -> tuple[list[list[str]], list[list[str]]]:
        """Names of the dimensions of every operand and result."""
        a, b = ["k", "m"] if self.transpose_a else ["m", "k"], ["n", "k"] if self.transpose_b else ["k", "n"]
        result = [*self.leading(True, False), "m", "n"]
        operands = [self.leading(self.batch_a, self.sum_a) + a, self.leading(self.batch_b, self.sum_b) + b]
        for kind, batched, rows in ((self.scales_a, self.batch_a, "m"), (self.scales_b, self.batch_b, "n")):
            operands += [[*self.leading(batched, False), rows] if kind == 2 else []] * (kind > 0)
        operands += [[*self.leading(self.batch_bias, False), "n"]] * self.has_bias + [result] * self.has_residual
        return operands, [result] * (1 + self.preactivation)

    def rule(self, operands: Sequence[Any]) -> _partition.Rule:
        def arrays(side: list[list[str]]) -> tuple[tuple[tuple[str, ...], ...], ...]:
            return tuple(tuple((factor,) for factor in dims) for dims in side)

        left, right = self.factors()
        return _partition.Rule(arrays(left), arrays(right), frozenset())

    def sizes(self, operands: Sequence[Any]) -> dict[str, int]:
        """Size of every factor."""
        sizes: dict[str, int] = {}
        for dims, array in zip(self.factors()[0], operands, strict=True):
            sizes.update(zip(dims, array.shape, strict=True))
        return sizes

    def result_shape(self, operands: Sequence[Any]) -> tuple[int, ...]:
        sizes = self.sizes(operands)
        return tuple(sizes[factor] for factor in self.factors()[1][0])

    def attributes(self) -> dict[str, Any]:
        flags = (
            "transpose_a",
            "transpose_b",
            "batch_a",
            "batch_b",
            "batch_bias",
            "sum_a",
            "sum_b",
            "has_bias",
            "has_residual",
        )
        return dict(
            {flag: getattr(self, flag) for flag in flags},
            has_preactivation=self.preactivation,
            gradient=self.gradient,
            activation=np.int64(list(ACTIVATIONS).index(self.activation)),
            route=np.int64(self.route),
            scales_a=np.int64(self.scales_a),
            scales_b=np.int64(self.scales_b),
            batch_rank=np.int64(self.batch),
            sum_rank=np.int64(self.sum),
        )

    def numbers(self, operands: Sequence[Any]) -> list[int]:
        """As the library's queries take them: see src/ffi/matmul_queries.cpp."""
        sizes = self.sizes(operands)
        batch, total = (int(np.prod([n for f, n in sizes.items() if f[0] == group])) for group in "bs")
        flags = (self.transpose_a, self.transpose_b, self.batch_a, self.batch_b, self.sum_a, self.sum_b)
        own_bias = self.has_bias and self.batch_bias
        return [
            _ffi.DTYPES[self.kept],
            batch,
            total,
            sizes["m"],
            sizes["n"],
            sizes["k"],
            *map(int, flags),
            int(own_bias),
            self.route,
            EIGHT_BITS.get(self.dtype, 0),
            EIGHT_BITS.get(self.dtype_b or self.dtype, 0),
        ]


def epilogue(options: Options, z: jax.Array, *rest: jax.Array) -> tuple[jax.Array, ...]:
    """What follows the product z, in the type of z: [scales], [bias], [residual] -> out, [preactivation]."""
    rest = list(rest)
    for kind, rows in ((options.scales_a, (..., None)), (options.scales_b, (..., None, slice(None)))):
        if kind:
            scales = rest.pop(0)
            z = z * (scales[rows] if kind == 2 else scales)
    if options.has_bias:
        z = z + rest.pop(0)[..., None, :]
    out = ACTIVATIONS[options.activation](z)
    if options.has_residual:
        out = out + rest.pop(0).astype(z.dtype)
    return (out.astype(options.out), z.astype(options.kept)) if options.preactivation else (out.astype(options.out),)


def formula(options: Options, *operands: jax.Array) -> tuple[jax.Array, ...]:
    """The XLA formulation: products and sums in float32 or better."""
    names = {factor: chr(ord("a") + i) for i, factor in enumerate(options.sizes(operands))}
    (left, right, *_), (result, *_) = options.factors()
    kept = [factor for factor in result if factor in {*left, *right}]
    text = [("".join(names[factor] for factor in dims)) for dims in (left, right, kept)]
    wide = jnp.promote_types(options.kept, jnp.float32)
    # The default precision of float32 on a GPU is that of tf32.
    precision = jax.lax.Precision.HIGHEST if options.dtype == "float32" else None
    a, b = (x.astype(options.kept) for x in operands[:2])
    if {*left, *right} - {*kept} != {*left} & {*right} - {*kept}:
        a, b = a.astype(wide), b.astype(wide)  # einsum sums a dimension that one operand alone has in that operand's type
    z = jnp.einsum(f"{text[0]},{text[1]}->{text[2]}", a, b, precision=precision, preferred_element_type=wide)
    return epilogue(options, jnp.broadcast_to(z, options.result_shape(operands)), *operands[2:])
