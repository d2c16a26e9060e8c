"""Rotary position embedding."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jax.typing import ArrayLike

from jaxator import _dispatch, _ffi, _rows


@dataclasses.dataclass(frozen=True)
class Options:
    theta: float
    interleaved: bool
    has_tables: bool
    shared: bool
    """Positions (or tables) have only the axis T, and every leading axis of x shares them."""
    choice: str
    """As returned by `_dispatch.choose`."""
    inverse: bool = False

    def rotation(self) -> _rows.RowCall:
        kind = "~" if self.shared else "*"
        angles = f"{kind} t c, {kind} t c" if self.has_tables else f"{kind} t"
        return _rows.RowCall(_rotate, self, f"* t n h, {angles} -> * t n h", replicated=("h", "c"))

    def attributes(self) -> dict[str, Any]:
        return dict(
            theta=np.float64(self.theta), interleaved=self.interleaved, inverse=self.inverse, has_tables=self.has_tables
        )


def _formula(options: Options, x: jax.Array, *angles: jax.Array) -> tuple[jax.Array, ...]:
    """x [..., T, N, H] with positions [..., T], or cosine and sine [..., T, H/2], that broadcast to its leading axes."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    half = x.shape[-1] // 2
    if options.has_tables:
        cosine, sine = angles
    else:
        frequencies = np.asarray(options.theta, np.float64) ** (-np.arange(half) / half) if half else np.zeros(0)
        angle = angles[0][..., None].astype(wide) * jnp.asarray(frequencies, wide)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
    cosine, sine = cosine[..., None, :], (-sine if options.inverse else sine)[..., None, :]
    if options.interleaved:
        first, second = x[..., 0::2].astype(wide), x[..., 1::2].astype(wide)
    else:
        first, second = x[..., :half].astype(wide), x[..., half:].astype(wide)
    turned = first * cosine - second * sine, second * cosine + first * sine
    y = jnp.stack(turned, axis=-1).reshape(x.shape) if options.interleaved else jnp.concatenate(turned, axis=-1)
    return (y.astype(x.dtype),)


def _rotate(options: Options, batch_dims: int, *operands: jax.Array) -> tuple[jax.Array, ...]:
    def kernel(target: str, x: jax.Array, *angles: jax.Array) -> tuple[jax.Array, ...]:
        trailing = 1 + options.has_tables
        if options.shared and angles[0].ndim > trailing:
            # Mapped by vmap: each mapped element has its own, so the axes between it and T are written out.
            between = x.shape[batch_dims:-3]
            angles = tuple(
                jnp.broadcast_to(
                    a.reshape(*a.shape[:batch_dims], *(1,) * len(between), *a.shape[batch_dims:]),
                    (*a.shape[:batch_dims], *between, *a.shape[batch_dims:]),
                )
                for a in angles
            )
        return _ffi.call("rope", [_ffi.empty(x.shape, x.dtype)], x, *angles, target=target, **options.attributes())

    ranks = [None] + [1 + options.has_tables if options.shared else None] * (len(operands) - 1)
    formula = _rows.map_batch(functools.partial(_formula, options), batch_dims, ranks)
    return _dispatch.run(options.choice, kernel, formula, *operands)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rope(options: Options, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return options.rotation()(*operands)


def _rope_fwd(options: Options, operands: tuple[jax.Array, ...]) -> tuple[Any, Any]:
    return _rope(options, operands), operands[1:]


def _rope_bwd(options: Options, angles: tuple[jax.Array, ...], cotangents: tuple[jax.Array, ...]) -> tuple[Any]:
    # The inverse rotation, again with a gradient: a rotation is linear in x, so every order of derivative is right.
    (dx,) = _rope(dataclasses.replace(options, inverse=not options.inverse), (cotangents[0], *angles))
    none = tuple(jnp.zeros_like(a) if options.has_tables else np.zeros(a.shape, jax.dtypes.float0) for a in angles)
    return ((dx, *none),)


_rope.defvjp(_rope_fwd, _rope_bwd)


def _angles(
    x: jax.Array, positions: ArrayLike | None, tables: tuple[ArrayLike, ArrayLike] | None
) -> tuple[tuple[jax.Array, ...], bool]:
    """(positions or tables as the kernel takes them, whether they have only the axis T)."""
    leading, t, half = x.shape[:-3], x.shape[-3], x.shape[-1] // 2
    if tables is not None:
        if positions is not None:
            raise ValueError("rope: positions and tables are given: must be one of them")
        # Cast to a constant for differentiation: a table is data, not a parameter.
        arrays = tuple(jax.lax.stop_gradient(jnp.asarray(a)).astype(jnp.float32) for a in tables)
        full: tuple[int, ...] = (*leading, t, half)
    else:
        positions = jnp.arange(t, dtype=jnp.int32) if positions is None else jnp.asarray(positions)
        if not jnp.issubdtype(positions.dtype, jnp.integer):
            raise TypeError(f"rope: positions dtype={positions.dtype}: must be an integer type")
        arrays, full = (positions.astype(jnp.int32),), (*leading, t)
    own = full[len(leading) :]
    for array in arrays:
        if (
            array.ndim < len(own)
            or array.ndim > len(full)
            or any(n not in (1, m) for n, m in zip(array.shape[::-1], full[::-1], strict=False))
        ):
            name = "tables have" if tables is not None else "positions have"
            raise ValueError(f"rope: {name} shape {array.shape}: must broadcast to {full}")
    shared = all(math.prod(a.shape[: a.ndim - len(own)]) == 1 for a in arrays)
    if shared:
        return tuple(jnp.broadcast_to(a.reshape(a.shape[a.ndim - len(own) :]), own) for a in arrays), True
    return tuple(jnp.broadcast_to(a, full) for a in arrays), False


def rope(
    x: ArrayLike, positions: ArrayLike | None = None, *, theta: float = 10000.0, tables: tuple[ArrayLike, ArrayLike] | None = None,
    interleaved: bool = False, implementation: str | None = None, mesh: Mesh | None = None,
    in_specs: Sequence[PartitionSpec] | None = None,
) -> jax.Array:  # fmt: skip
    """Turns each pair of a head's elements by an angle that grows with the position.

    Pair i < H/2 turns by ``position * theta**(-2i/H)``: (x[i], x[i + H/2]), or (x[2i], x[2i + 1]) if interleaved.

    Args:
      x: float array [..., T, N, H], H even.
      positions: integers, broadcastable to [..., T]; default 0 to T-1 (inside `jax.shard_map`, of the local block: give
        positions where T is cut there). The kernels reduce angles in float64, so cos and sin
        are right to float32 for every int32 position; the XLA formulation's angle has an error of position * 6e-8.
      theta: base of the frequencies, at least 1.
      tables: (cosine, sine), each broadcastable to [..., T, H/2], used instead of positions; they get no gradient.
      interleaved: which elements form a pair.
      implementation: None chooses; "cpu", "cuda", "rocm" or "xla" names one. "gfx942" and "gfx950" name AMD's kernels for
        programs for CPUs too, which run them on an emulator, as in `rms_norm`.
      mesh, in_specs: run by `jax.shard_map` over this mesh, with one PartitionSpec for x and one for positions (or each
        table). Every axis but H may be sharded; positions count in the whole array.

    Returns:
      Array like x.

    Raises:
      ValueError, TypeError: an argument breaks a rule; the text names it.
      UnsupportedError: a named implementation cannot serve the call.

    Differentiable in x, by reverse mode in any order (the gradient is the inverse rotation).

    Source: Su et al., "RoFormer", arXiv:2104.09864.
    """
    (x,), _ = _rows.check("rope", (x,), {})
    if x.ndim < 3:
        raise ValueError(f"rope: x has shape {x.shape}: must be [..., T, N, H]")
    if x.shape[-1] % 2:
        raise ValueError(f"rope: H={x.shape[-1]}: must be even")
    if not (math.isfinite(theta) and theta >= 1):
        raise ValueError(f"rope: theta={theta}: must be finite and at least 1")
    angles, shared = _angles(x, positions, tables)
    choice = _dispatch.choose("rope", implementation, _rows.refusals((x,), "cpu", "cuda", "rocm"))
    options = Options(float(theta), bool(interleaved), has_tables=tables is not None, shared=shared, choice=choice)
    return _rows.apply(_rope, _formula, options, options.rotation(), (x, *angles), mesh, in_specs)[0]
