"""Which implementation serves a call: decided when the op is traced, from op, shapes, dtypes and the lowering platform."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core
from jax.interpreters import batching, mlir

from jaxator import _targets
from jaxator._errors import UnsupportedError


class Choice(str):
    """What `choose` decided, as text: "xla", "auto" or "named", the latter two with the targets whose kernels serve the
    call, as in "auto:cpu,cuda"; "gfx942" is the target of its kernels on the emulator. For `explain` also the op and why the
    other kernels were refused."""

    op: str
    refused: dict[str, list[str]]

    def __new__(cls, text: str, op: str, refused: Mapping[str, Sequence[str]]) -> Choice:
        choice = super().__new__(cls, text)
        choice.op, choice.refused = op, {name: list(rules) for name, rules in refused.items()}
        return choice

    def __eq__(self, other: object) -> bool:
        """With the reasons: choices key caches, and what is found there must not speak of another call."""
        if not str.__eq__(self, other):
            return False
        return not isinstance(other, Choice) or (self.op == other.op and self.refused == other.refused)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __getnewargs__(self) -> tuple[str, str, dict[str, list[str]]]:
        return str(self), self.op, self.refused

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(self.partition(":")[2].split(",")) if ":" in self else ()

    @property
    def named(self) -> bool:
        return self.startswith("named")


def choose(op: str, implementation: str | None, refused: Mapping[str, Sequence[str]]) -> Choice:
    """Decides between the kernels of each target and the XLA formulation.

    Args:
      op: public name, for errors.
      implementation: what the caller named, or None.
      refused: for each target that the op has kernels for ("cpu", "cuda", "rocm"), why they cannot serve this call; empty if
        they can.
    """
    reasons = {platform: list(refused.get(platform, ["this op has no kernels for it"])) for platform in _targets.PLATFORMS}
    for platform in _targets.GPU_PLATFORMS:
        if (missing := _targets.refusal(platform)) is not None:
            reasons[platform] = [missing]
    reasons = {name: rules for name, rules in reasons.items() if rules}
    if implementation is None:
        served = [platform for platform in _targets.PLATFORMS if platform not in reasons]
        return Choice("auto:" + ",".join(served) if served else "xla", op, reasons)
    if implementation == "xla":
        return Choice(
            "xla", op, {target: ["implementation='xla' was named"] for target in _targets.PLATFORMS if target in refused}
        )
    if implementation not in (*_targets.PLATFORMS, *_targets.ARCHITECTURES):
        known = ", ".join(map(repr, ("xla", *_targets.PLATFORMS, *_targets.ARCHITECTURES)))
        raise ValueError(f"implementation={implementation!r}: must be None, {known}")
    platform = _targets.ARCHITECTURES.get(implementation, implementation)
    if implementation != platform and platform not in reasons:
        lowered_for = _targets.architecture(platform)
        if lowered_for != implementation:
            reasons[platform] = [f"implementation={implementation!r}: the program is lowered for {lowered_for}"]
    reasons = {platform: reasons[platform]} if platform in reasons else {}
    served = [platform] if not reasons else []
    if implementation in _targets.EMULATED:
        if rules := refused.get(platform, ["this op has no kernels for it"]):
            reasons[platform] = list(rules)
        else:
            served.append(implementation)
    if not served:
        raise UnsupportedError(op, {implementation: reasons[platform]})
    return Choice("named:" + ",".join(served), op, reasons)


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
    with _scope(choice, {}):
        return jaxator_formula(formula, options, operands)


def _scope(choice: str, refused: Mapping[str, Sequence[str]]) -> Any:
    reasons = {**getattr(choice, "refused", {}), **{name: list(rules) for name, rules in refused.items()}}
    return jax.named_scope(f"jaxator.{getattr(choice, 'op', 'op')} xla {json.dumps(reasons)}")


def _marked(choice: str, refused: Mapping[str, Sequence[str]], formula: Callable[..., Any]) -> Callable[..., Any]:
    """As `formulate`, for a closure inside a trace."""

    def jaxator_formula(*operands: jax.Array) -> Any:
        return formula(*operands)

    def call(*operands: jax.Array) -> Any:
        with _scope(choice, refused):
            return jax.jit(jaxator_formula)(*operands)

    return call


REFUSAL = "jaxator_refusal"
"""Name of the primitive that cannot be lowered: `explain` looks for it."""

# The identity on its operands. It stands on the branch for the platforms that no kernel serves, so lowering for one of them
# raises UnsupportedError with the reasons; without it JAX says that it knows no rule for "platform_index".
_refusal = core.Primitive(REFUSAL)
_refusal.multiple_results = True
_refusal.def_abstract_eval(lambda *avals, **_: list(avals))
batching.primitive_batchers[_refusal] = lambda operands, dims, **params: (_refusal.bind(*operands, **params), dims)


def _lower_refusal(
    ctx: Any, *_: Any, op: str, served: tuple[str, ...], reasons: tuple[tuple[str, tuple[str, ...]], ...], otherwise: str
) -> Any:
    missing = [platform for platform in ctx.module_context.platforms if platform not in served]
    raise UnsupportedError(op, {platform: dict(reasons).get(platform, (otherwise,)) for platform in missing})


mlir.register_lowering(_refusal, _lower_refusal)


def only(
    op: str,
    branches: Mapping[str, Callable[..., Any]],
    reasons: Mapping[str, Sequence[str]],
    otherwise: str,
    *operands: jax.Array,
) -> Any:
    """`lax.platform_dependent` without a default: lowering for another platform raises UnsupportedError.

    Args:
      reasons: platform -> why it has no branch.
      otherwise: the reason of a platform that is in neither.
    """
    parameters = {
        "op": op,
        "served": tuple(branches),
        "reasons": tuple((platform, tuple(rules)) for platform, rules in reasons.items()),
        "otherwise": otherwise,
    }

    def refuse(*operands: jax.Array) -> Any:
        results, tree = jax.tree.flatten(next(iter(branches.values()))(*operands))
        return jax.tree.unflatten(tree, _refusal.bind(*results, **parameters))

    return jax.lax.platform_dependent(*operands, **branches, default=refuse)


def run(
    choice: Choice, kernel: Callable[..., Any], formula: Callable[..., Any], *operands: jax.Array,
    refused: Mapping[str, Sequence[str]] | None = None,
) -> Any:  # fmt: skip
    """Calls the kernel or the XLA formulation, as `choose` said, for the platform that the program is lowered for.

    Args:
      kernel: kernel(target, *operands) with "cpu", "cuda" or "rocm", or an architecture that is emulated.
      formula: formula(*operands).
      refused: targets whose kernels serve the op but not this direction of it, with the reasons.
    """
    refused = {target: rules for target, rules in (refused or {}).items() if rules}
    emulated = [target for target in choice.targets if target in _targets.EMULATED]
    if emulated and (missing := _targets.emulation_refusal()) is not None:
        refused |= {target: [missing] for target in emulated}
    served = [target for target in choice.targets if target not in refused]
    if choice.named and not served:
        raise UnsupportedError(choice.op, {**choice.refused, **refused})
    marked = _marked(choice, refused, formula)
    if not served:
        return marked(*operands)
    branches = {_targets.lowered_for(target): functools.partial(kernel, target) for target in served}
    if choice.named:
        names = [target for target in served if target in _targets.EMULATED] or served
        named = f"implementation={', '.join(map(repr, names))} was named: no kernels of it serve this platform"
        reasons = {_targets.lowered_for(target): rules for target, rules in {**choice.refused, **refused}.items()}
        return only(choice.op, branches, reasons, named, *operands)
    return jax.lax.platform_dependent(*operands, **branches, default=marked)
