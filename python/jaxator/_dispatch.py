"""Which implementation serves a call: decided when the op is traced, from op, shapes, dtypes and the lowering platform."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from jaxator._errors import UnsupportedError

GPU_PLATFORMS = ("cuda", "rocm")
NO_GPU_KERNELS = "this build has no kernels for it"


class Choice(str):
    """What `choose` decided, as text; for `explain` also the op and why its kernels were refused."""

    op: str
    refused: dict[str, list[str]]

    def __new__(cls, text: str, op: str, refused: Mapping[str, Sequence[str]]) -> Choice:
        choice = super().__new__(cls, text)
        choice.op, choice.refused = op, {name: list(rules) for name, rules in refused.items()}
        return choice

    def __getnewargs__(self) -> tuple[str, str, dict[str, list[str]]]:
        return str(self), self.op, self.refused


def choose(op: str, implementation: str | None, refused: Mapping[str, Sequence[str]]) -> Choice:
    """Returns "auto" (kernels where the lowering platform has them), "cpu" (the kernels by name) or "xla".

    Args:
      op: public name, for errors.
      implementation: what the caller named, or None.
      refused: "cpu" -> reasons why its kernel cannot serve this call; empty if it can.
    """
    reasons = {name: list(rules) for name, rules in refused.items() if rules}
    if implementation is None:
        return Choice("xla" if "cpu" in reasons else "auto", op, reasons)
    if implementation == "xla":
        return Choice("xla", op, {"cpu": ["implementation='xla' was named"]})
    if implementation == "cpu":
        if "cpu" in reasons:
            raise UnsupportedError(op, reasons)
        return Choice("cpu", op, {})
    if implementation in (*GPU_PLATFORMS, "gfx942", "gfx950"):
        raise UnsupportedError(op, {implementation: [f"implementation={implementation!r}: {NO_GPU_KERNELS}"]})
    raise ValueError(f"implementation={implementation!r}: must be None, 'xla', 'cpu', 'cuda', 'rocm', 'gfx942' or 'gfx950'")


@functools.cache
def has_local_devices(platform: str) -> bool:
    try:
        return bool(jax.local_devices(backend=platform))
    except RuntimeError:
        return False


FORMULA = "jaxator_formula"
"""Name of the jitted functions that hold an XLA formulation: `explain` looks for it."""


@functools.partial(jax.jit, static_argnums=(0, 1))
def jaxator_formula(formula: Callable[..., Any], options: Any, operands: tuple[jax.Array, ...]) -> Any:
    return formula(options, *operands)


def formulate(choice: str, formula: Callable[..., Any], options: Any, *operands: jax.Array) -> Any:
    """formula(options, *operands), marked so that `explain` finds it in any program.

    It becomes a jitted function with a known name, in a scope that tells the op and why its kernels were refused; so it is
    compiled as a whole, and once, also when called outside of jit.

    Args:
      formula: function of a module, not a closure: it keys the cache with `options`.
    """
    with _scope(choice):
        return jaxator_formula(formula, options, operands)


def _scope(choice: str) -> Any:
    return jax.named_scope(f"jaxator.{getattr(choice, 'op', 'op')} xla {json.dumps(getattr(choice, 'refused', {}))}")


def _marked(choice: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    """As `formulate`, for a closure inside a trace."""

    def jaxator_formula(*operands: jax.Array) -> Any:
        return formula(*operands)

    def call(*operands: jax.Array) -> Any:
        with _scope(choice):
            return jax.jit(jaxator_formula)(*operands)

    return call


def run(choice: str, kernel: Callable[..., Any], formula: Callable[..., Any], *operands: jax.Array) -> Any:
    """Calls the kernel or the XLA formulation, as `choose` said.

    The platform is the one that the program is lowered for. A GPU platform that has devices here but no kernels in this
    build takes the formulation; lowered for a machine that is not here, the program names the same custom call as on a CPU.
    """
    formula = _marked(choice, formula)
    if choice == "xla":
        return formula(*operands)
    if choice == "cpu":
        return jax.lax.platform_dependent(*operands, cpu=kernel)
    served = {platform: kernel for platform in ("cpu", *GPU_PLATFORMS) if platform == "cpu" or not has_local_devices(platform)}
    return jax.lax.platform_dependent(*operands, **served, default=formula)
