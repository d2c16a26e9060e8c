"""Which implementation serves a call: decided when the op is traced, from op, shapes, dtypes and the lowering platform."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from jaxator._errors import UnsupportedError

GPU_PLATFORMS = ("cuda", "rocm")
NO_GPU_KERNELS = "this build has no kernels for it"


def choose(op: str, implementation: str | None, refused: Mapping[str, Sequence[str]]) -> str:
    """Returns "auto" (kernels where the lowering platform has them), "cpu" (the kernels by name) or "xla".

    Args:
      op: public name, for errors.
      implementation: what the caller named, or None.
      refused: "cpu" -> reasons why its kernel cannot serve this call; empty if it can.
    """
    reasons = {name: list(rules) for name, rules in refused.items() if rules}
    if implementation is None:
        return "xla" if "cpu" in reasons else "auto"
    if implementation == "xla":
        return "xla"
    if implementation == "cpu":
        if "cpu" in reasons:
            raise UnsupportedError(op, reasons)
        return "cpu"
    if implementation in (*GPU_PLATFORMS, "gfx942", "gfx950"):
        raise UnsupportedError(op, {implementation: [f"implementation={implementation!r}: {NO_GPU_KERNELS}"]})
    raise ValueError(f"implementation={implementation!r}: must be None, 'xla', 'cpu', 'cuda', 'rocm', 'gfx942' or 'gfx950'")


@functools.cache
def has_local_devices(platform: str) -> bool:
    try:
        return bool(jax.local_devices(backend=platform))
    except RuntimeError:
        return False


def run(choice: str, kernel: Callable[..., Any], formula: Callable[..., Any], *operands: jax.Array) -> Any:
    """Calls the kernel or the XLA formulation, as `choose` said.

    The platform is the one that the program is lowered for. A GPU platform that has devices here but no kernels in this
    build takes the formulation; lowered for a machine that is not here, the program names the same custom call as on a CPU.
    """
    if choice == "xla":
        return formula(*operands)
    if choice == "cpu":
        return jax.lax.platform_dependent(*operands, cpu=kernel)
    served = {platform: kernel for platform in ("cpu", *GPU_PLATFORMS) if platform == "cpu" or not has_local_devices(platform)}
    return jax.lax.platform_dependent(*operands, **served, default=formula)
