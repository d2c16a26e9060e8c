"""The function that `flax.nnx.MultiHeadAttention(attention_fn=...)` takes; imports no flax."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from jaxator._errors import UnsupportedError


def flax_attention(query, key, value, bias=None, mask=None, *, dropout_rng=None, dropout_rate=0.0, broadcast_dropout=True,
                   deterministic=True, dtype=None, precision=None, module=None, promote_dtype=None, is_causal=False,
                   input_positions=None, **options: Any):  # fmt: skip
    """`dot_product_attention` with the signature of `flax.nnx.dot_product_attention`.

    Args:
      query: [..., T, N, H]; key: [..., S, K, H]; value: [..., S, K, V]; any number of batch dimensions.
      bias, mask: broadcastable to [..., N, T, S]; a mask of any dtype, nonzero = takes part.
      deterministic: flax's meaning: no dropout.
      dtype, promote_dtype: query, key and value are promoted to dtype (flax's promote_dtype if given, else to their common one).
      is_causal: as in `dot_product_attention`.
      options: further options of `dot_product_attention` (bind them with functools.partial).

    Raises:
      UnsupportedError: active dropout, or module, precision or input_positions given.

    Returns:
      [..., T, N, V].
    """
    from jaxator.attention import dot_product_attention

    refused = [
        f"{name}={value!r}: not supported"
        for name, value in (("module", module), ("precision", precision), ("input_positions", input_positions))
        if value is not None
    ]
    if dropout_rate > 0 and not deterministic:
        refused.append(
            f"dropout_rate={dropout_rate}, broadcast_dropout={broadcast_dropout}: active dropout is not supported yet"
        )
    if refused:
        raise UnsupportedError("flax_attention", {"cpu": refused})
    if promote_dtype is not None:
        query, key, value = promote_dtype((query, key, value), dtype=dtype)
    else:
        target = dtype if dtype is not None else jnp.result_type(query, key, value)
        query, key, value = (jnp.asarray(a).astype(target) for a in (query, key, value))

    batch = query.shape[:-3]

    def one_batch(array):
        return array.reshape(math.prod(array.shape[: len(batch)]), *array.shape[len(batch) :])

    def logits_shaped(array):
        """[..., N, T, S] -> [B|1, N|1, T|1, S|1]."""
        array = jnp.asarray(array)
        array = array.reshape((1,) * (len(batch) + 3 - array.ndim) + array.shape)
        if array.shape[: len(batch)] != (1,) * len(batch):
            array = jnp.broadcast_to(array, (*batch, *array.shape[len(batch) :]))
        return one_batch(array)

    out = dot_product_attention(
        one_batch(query),
        one_batch(key),
        one_batch(value),
        None if bias is None else logits_shaped(bias),
        None if mask is None else logits_shaped(mask).astype(bool),
        is_causal=is_causal,
        **options,
    )
    return out.reshape(*query.shape[:-1], value.shape[-1])
