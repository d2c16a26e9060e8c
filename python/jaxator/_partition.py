"""Sharding: one rule an op, and the route by which its local function runs on the shards.

A rule names the factor behind each dimension, as in an einsum: ``"b t d, d -> b t d"``. A factor may be sharded unless it is
listed as replicated. A result that lacks a sharded factor is a partial sum there: the route adds it up over those mesh axes,
exactly once. A dimension made of two factors is written ``(k g)``, the major one first.

Routes, chosen by `call`:

* every mesh axis manual (inside `jax.shard_map`): the local function;
* some axis explicit: `jax.shard_map` over the operands' own shardings;
* some axes manual, the rest automatic: the local function, for which XLA gathers the automatic axes;
* everything else: `custom_partitioning`. Over several devices that route cannot be exported, and it defeats the persistent
  compilation cache unless ``jax_remove_custom_partitioning_ptr_from_cache_key`` is set; on one device it is inlined.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxator import _ffi

Axes = tuple[str, ...]
Dimension = tuple[str, ...]
"""Factors of one dimension, major first."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """Factors of every operand's and result's dimensions."""

    operands: tuple[tuple[Dimension, ...], ...]
    results: tuple[tuple[Dimension, ...], ...]
    replicated: frozenset[str]
    sizes: tuple[tuple[str, int], ...] = ()
    """Sizes of the factors that appear in a compound dimension."""

    @staticmethod
    def parse(text: str, replicated: Sequence[str] = (), **sizes: int) -> Rule:
        def arrays(side: str) -> tuple[tuple[Dimension, ...], ...]:
            return tuple(
                tuple(tuple(d.strip("()").split()) for d in re.findall(r"\([^)]*\)|\S+", array)) for array in side.split(",")
            )

        left, right = text.split("->")
        return Rule(arrays(left), arrays(right), frozenset(replicated), tuple(sorted(sizes.items())))

    def text(self) -> str:
        def dimension(factors: Dimension) -> str:
            return factors[0] if len(factors) == 1 else "(" + " ".join(factors) + ")"

        def side(arrays: tuple[tuple[Dimension, ...], ...]) -> str:
            return ", ".join(" ".join(map(dimension, array)) for array in arrays)

        return f"{side(self.operands)} -> {side(self.results)}"

    def solve(self, specs: Sequence[P], shapes: Sequence[Sequence[int]], mesh_shape: Mapping[str, int]) -> dict[str, Axes]:
        """Mesh axes of each factor, from operand shardings that may disagree: the first operand that shards a factor wins.

        A factor whose size the axes do not divide stays whole: XLA would pad the shards, and a kernel would sum the padding.
        """
        sizes = dict(self.sizes)
        for dims, shape in zip(self.operands, shapes, strict=True):
            sizes.update({d[0]: n for d, n in zip(dims, shape, strict=True) if len(d) == 1})
        chosen: dict[str, Axes] = {}
        used: set[str] = set()
        for dims, spec in zip(self.operands, specs, strict=True):
            for factors, entry in zip(dims, (*spec, *(None,) * (len(dims) - len(spec))), strict=True):
                axes = tuple(a for a in _axes(entry) if a not in used)
                # Major factor first: a minor one can be cut only where the major one is whole and has size 1.
                for factor in factors:
                    ways = math.prod(mesh_shape[a] for a in axes)
                    if axes and factor not in self.replicated and factor not in chosen and sizes[factor] % ways == 0:
                        chosen[factor] = axes
                        used.update(axes)
                        break
                    if sizes[factor] != 1:
                        break
        return chosen

    def spec(self, dims: tuple[Dimension, ...], chosen: Mapping[str, Axes]) -> P:
        return P(*(sum((chosen.get(f, ()) for f in factors), ()) or None for factors in dims))

    def summed(self, dims: tuple[Dimension, ...], chosen: Mapping[str, Axes]) -> Axes:
        """Axes over which a result is a partial sum."""
        present = {f for factors in dims for f in factors}
        return tuple(a for factor, axes in chosen.items() if factor not in present for a in axes)


def _axes(entry: Any) -> Axes:
    return () if entry is None or entry is P.UNCONSTRAINED else (entry,) if isinstance(entry, str) else tuple(entry)


def _local(
    local: Callable[..., Any], rule: Rule, chosen: Mapping[str, Axes], operands: Sequence[jax.Array]
) -> tuple[jax.Array, ...]:
    """The local function on the shards, and the sums that its results still need."""
    sums = [rule.summed(dims, chosen) for dims in rule.results]
    if any(sums) and hasattr(local, "summed"):  # more than a sum: what follows it comes after
        return local.summed(sums[0], *operands)
    results = local(*_ffi.vary(_ffi.varying_axes(*operands), *operands))
    return tuple(jax.lax.psum(r, axes) if axes else r for r, axes in zip(results, sums, strict=True))


@functools.lru_cache(maxsize=1024)
def _automatic(local: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    """One `custom_partitioning` object for each local function (with its options) and rule."""

    @custom_partitioning
    def op(*operands: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(local(*operands))

    def partition(mesh: Any, operands: Any, results: Any) -> Any:
        # The callback sees each operand's own sharding; nothing has reconciled them.
        shapes = [a.shape for a in operands]
        specs = [a.sharding.spec if isinstance(a.sharding, NamedSharding) else P() for a in operands]
        chosen = rule.solve(specs, shapes, dict(mesh.shape))

        def lower(*shards: jax.Array) -> tuple[jax.Array, ...]:
            manual = AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=(AxisType.Manual,) * len(mesh.axis_names))
            with jax.sharding.use_abstract_mesh(manual):
                return _local(local, rule, chosen, shards)

        def shardings(arrays: tuple[tuple[Dimension, ...], ...]) -> tuple[NamedSharding, ...]:
            return tuple(NamedSharding(mesh, rule.spec(dims, chosen)) for dims in arrays)

        return mesh, lower, shardings(rule.results), shardings(rule.operands)

    # A compound dimension is one factor of its own here: Shardy would cut a smaller one among its parts (two key/value heads on
    # eight devices) by a piece of a mesh axis, which custom_partitioning cannot express. The callback sees both shardings.
    joined = dataclasses.replace(
        rule,
        operands=tuple(tuple(("".join(d),) for d in dims) for dims in rule.operands),
        results=tuple(tuple(("".join(d),) for d in dims) for dims in rule.results),
        sizes=(),
    )
    # In the order of appearance, as Shardy's verifier wants them.
    dimensions = [d for dims in (*joined.operands, *joined.results) for d in dims]
    factors = dict.fromkeys(f for d in dimensions for f in d)
    op.def_partition(
        partition=partition,
        sharding_rule=joined.text(),
        need_replication_factors=tuple(f for f in factors if f in rule.replicated),
    )
    return op


def _explicit_mesh(operands: Sequence[jax.Array]) -> AbstractMesh | None:
    """The mesh of the first operand that has explicit axes."""
    for operand in operands:
        mesh = jax.typeof(operand).sharding.mesh
        if not mesh.empty and mesh.explicit_axes:
            return mesh
    return None


def _explicit_solution(rule: Rule, mesh: AbstractMesh, operands: Sequence[jax.Array]) -> dict[str, Axes]:
    return rule.solve([jax.typeof(a).sharding.spec for a in operands], [a.shape for a in operands], dict(mesh.shape))


def _resharded(rule: Rule, mesh: AbstractMesh, chosen: Mapping[str, Axes], operands: Sequence[jax.Array]) -> list[jax.Array]:
    return [
        jax.sharding.reshard(a, NamedSharding(mesh, rule.spec(dims, chosen)))
        for a, dims in zip(operands, rule.operands, strict=True)
    ]


def align(rule: Rule, operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """The operands with types that fit the rule. Runs outside the op's custom_vjp, so that JAX itself transposes the casts:
    the gradient of a replicated operand is summed, that of a resharded one goes back to its sharding."""
    mesh = _explicit_mesh(operands)
    if mesh is not None:
        operands = _resharded(rule, mesh, _explicit_solution(rule, mesh, operands), operands)
    return _ffi.vary(_ffi.varying_axes(*operands), *operands)


def call(local: Callable[..., Any], rule: Rule, operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Runs `local` on the shards of the operands.

    Args:
      local: hashable function from local operands to a tuple of local results.
      rule: factors of the operands and results.
      operands: arrays, in the rule's order.
    """
    mesh = _explicit_mesh(operands)
    if mesh is not None:
        chosen = _explicit_solution(rule, mesh, operands)
        operands = _resharded(rule, mesh, chosen, operands)  # residuals and cotangents; aligned operands stay as they are
        return jax.shard_map(
            lambda *shards: _local(local, rule, chosen, shards),
            mesh=mesh,
            in_specs=tuple(rule.spec(dims, chosen) for dims in rule.operands),
            out_specs=tuple(rule.spec(dims, chosen) for dims in rule.results),
            # Naming none means all, without those that an enclosing vmap maps over.
            axis_names=set() if mesh.are_all_axes_explicit else set(mesh.explicit_axes),
        )(*operands)
    if jax.sharding.get_abstract_mesh().manual_axes:
        return _local(local, rule, {}, operands)
    return tuple(_automatic(local, rule)(*operands))


def over_mesh(
    fn: Callable[..., Any], rule: Rule, mesh: Any, in_specs: Sequence[P] | None, operands: Sequence[jax.Array]
) -> Any:
    """`jax.shard_map` of fn(operands) over a mesh that the caller gave.

    Args:
      in_specs: one PartitionSpec for each operand; the outputs' follow from the rule.
    """
    if in_specs is None or len(in_specs) != len(operands):
        raise ValueError(
            f"in_specs={in_specs}: needs one PartitionSpec for each of the {len(operands)} arrays given with mesh"
        )
    chosen = rule.solve(in_specs, [a.shape for a in operands], dict(mesh.shape))
    for spec, dims in zip(in_specs, rule.operands, strict=True):
        wanted = rule.spec(dims, chosen)
        if [_axes(e) for e in (*spec, *(None,) * (len(dims) - len(spec)))] != [_axes(e) for e in wanted]:
            raise ValueError(
                f"in_specs has {spec}: the op can be sharded as {wanted} there ({rule.text()}, whole: {sorted(rule.replicated)})"
            )
    out_specs = tuple(rule.spec(dims, chosen) for dims in rule.results)
    place = jax.sharding.reshard if AxisType.Explicit in mesh.axis_types else jax.lax.with_sharding_constraint
    placed = [place(a, NamedSharding(mesh, spec)) for a, spec in zip(operands, in_specs, strict=True)]
    if any(rule.summed(dims, chosen) for dims in rule.results):
        # Inside shard_map partial results would be the caller's to add up; on operands of these shardings they are ours.
        return fn(placed)
    if AxisType.Explicit in mesh.axis_types:
        operands = placed
    return jax.shard_map(lambda *shards: fn(shards), mesh=mesh, in_specs=tuple(in_specs), out_specs=out_specs)(*operands)
