"""Which launches the judge's tests look at: ops at shapes that use every kernel of the tree."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

import jaxator as jxt
import ops
from jaxator.judge import Code, Launch, read_rules
from jaxator.judge.ops import record, record_op

ARCHITECTURES = ("gfx942", "gfx950")
DTYPES = ops.DTYPES
RULES = read_rules(pathlib.Path(__file__).with_name("kernel_floors.toml"))


@dataclasses.dataclass(frozen=True)
class JudgedCase:
    record: Callable[[str, str], list[Launch]]
    """(architecture, element type) -> launches, in order."""
    dtypes: tuple[str, ...] = DTYPES
    label: str = ""
    """Behind the kernels' names, where several images have kernels of one name."""

    def launches(self, architecture: str, dtype: str) -> list[tuple[str, Launch]]:
        """(kernel and label, launch), in order."""
        if dtype not in self.dtypes:
            return []
        return [(launch.kernel + self.label, launch) for launch in self.record(architecture, dtype)]


_HALVES = ("bfloat16", "float16")


def _row_op(op: str, shape: tuple[int, ...]) -> JudgedCase:
    return JudgedCase(lambda architecture, dtype: record_op(op, shape, dtype, architecture))


def _attention(length: int, size: int, causal: bool, backward: bool = False) -> JudgedCase:
    def run(architecture: str, dtype: str) -> list[Launch]:
        return record_op(
            "dot_product_attention", (1, length, 1, size), dtype, architecture, {"causal": causal},
            forward_only=not backward,
        )  # fmt: skip

    return JudgedCase(run, _HALVES, f" head size {size}")


def _masked_attention(length: int, size: int) -> JudgedCase:
    """With a mask and a bias, forward and all gradients: the kernels that look at every pair of a query and a key."""

    def run(architecture: str, dtype: str) -> list[Launch]:
        random = np.random.default_rng(0)
        query, key, value = (random.normal(size=(1, length, 1, size)).astype(jnp.dtype(dtype)) for _ in range(3))
        mask, bias = random.random((1, 1, length, length)) < 0.9, random.normal(size=(1, 1, length, length))

        @jax.jit
        def gradients(query, key, value, bias):
            attention = functools.partial(jxt.dot_product_attention, mask=mask, implementation=architecture)
            out, pull_back = jax.vjp(attention, query, key, value, bias)
            return pull_back(out)

        return record(gradients, query, key, value, bias.astype(np.float32))

    return JudgedCase(run, _HALVES, f" head size {size}")


def _matmul(m: int, n: int, k: int, transposed: str = "nn", types: tuple[str, str] | None = None) -> JudgedCase:
    """transposed: "n" or "t" for each operand. types: other element types than the test's, which are looked at once."""

    def run(architecture: str, dtype: str) -> list[Launch]:
        random = np.random.default_rng(0)
        shapes = ((m, k) if transposed[0] == "n" else (k, m), (k, n) if transposed[1] == "n" else (n, k))
        a, b = (
            random.normal(size=shape).astype(jnp.dtype(of_operand))
            for shape, of_operand in zip(shapes, types or (dtype, dtype), strict=True)
        )
        options = dict(transpose_a=transposed[0] == "t", transpose_b=transposed[1] == "t")
        return record(jax.jit(functools.partial(jxt.matmul, **options, implementation=architecture)), a, b)

    return JudgedCase(run, ("bfloat16",) if types else _HALVES)


# Long rows: a block for each, four vectors a thread. Short rows: a wave for each. 77: element by element. The longest rows
# that fit, of 2 and of 4 bytes an element: four vectors a thread in the backward pass.
_NORM_SHAPES = ((64, 4096), (64, 512), (40, 77), (8, 12288), (8, 6144))
_LAYOUTS = ("nn", "nt", "tn", "tt")
_EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")
_EIGHT_BIT_PAIRS = tuple((a, b) for a in _EIGHT_BITS for b in _EIGHT_BITS)
JUDGED = (
    *(_row_op(op, shape) for op in ("rms_norm", "layer_norm") for shape in _NORM_SHAPES),
    *(_row_op("swiglu", shape) for shape in ((64, 8192), (40, 154))),
    *(_row_op("rope", shape) for shape in ((2, 64, 8, 128), (2, 64, 3, 30))),
    *(_matmul(256, 256, 1024, layout) for layout in _LAYOUTS),
    *(_matmul(256, 256, 2048, "nt", pair) for pair in _EIGHT_BIT_PAIRS),
    _matmul(256, 256, 2048),  # blocks share the steps, and a second kernel adds up
    _matmul(100, 130, 77),
    *(_matmul(100, 130, 77, "nn", pair) for pair in _EIGHT_BIT_PAIRS),
    *(_attention(1024, size, causal=True) for size in (64, 128)),
    *(_attention(1024, size, causal=False, backward=True) for size in (64, 128)),
    *(_masked_attention(512, size) for size in (64, 128)),
)


@functools.cache
def judged_launches(architecture: str, dtype: str) -> Mapping[str, Launch]:
    """Kernel and label -> the first launch of it, over all cases of an element type."""
    launches: dict[str, Launch] = {}
    for case in JUDGED:
        for name, launch in case.launches(architecture, dtype):
            launches.setdefault(name, launch)
    return launches


ALIKE = ("matmul_*e5m2*", "matmul_loose_e*")
"""Kernels that differ from others in the element type alone."""


def all_judged_launches(architecture: str) -> Mapping[str, Launch]:
    return {kernel: launch for dtype in DTYPES for kernel, launch in judged_launches(architecture, dtype).items()}


def kernels_left_out(architecture: str) -> list[str]:
    """Kernels of the code objects of these launches that none of them launches."""
    launched: dict[bytes, set[str]] = {}
    for launch in all_judged_launches(architecture).values():
        launched.setdefault(launch.image, set()).add(launch.kernel)
    return [kernel for image, kernels in launched.items() for kernel in sorted(set(Code(image).kernels) - kernels)]
