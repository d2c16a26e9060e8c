"""Combining attention over disjoint sets of keys."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def merge_attention(out_a: jax.Array, lse_a: jax.Array, out_b: jax.Array, lse_b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The attention over both sets of keys, from the outputs and logsumexps of each.

    Args:
      out_a, out_b: [..., N, V] outputs of `dot_product_attention` for the same queries.
      lse_a, lse_b: float32 [..., N]; -inf where a query saw no key in that set.

    Returns:
      (out, lse) over the union; a query that saw no key in either has 0 and -inf. Differentiable in all four.
    """
    seen_a, seen_b = lse_a > -jnp.inf, lse_b > -jnp.inf
    top = jax.lax.stop_gradient(jnp.maximum(lse_a, lse_b))
    top = jnp.where(seen_a | seen_b, top, 0)

    def weight(lse: jax.Array, seen: jax.Array) -> jax.Array:
        return jnp.where(seen, jnp.exp(jnp.where(seen, lse - top, 0)), 0)

    wa, wb = weight(lse_a, seen_a), weight(lse_b, seen_b)
    total = jnp.where(seen_a | seen_b, wa + wb, 1)
    # By selection: the output of a set without visible keys takes no part, whatever it holds.
    a = jnp.where(seen_a[..., None], out_a.astype(jnp.float32), 0) * (wa / total)[..., None]
    b = jnp.where(seen_b[..., None], out_b.astype(jnp.float32), 0) * (wb / total)[..., None]
    lse = jnp.where(seen_a | seen_b, top + jnp.log(total), -jnp.inf)
    return (a + b).astype(out_a.dtype), lse
