"""`jaxator explain`: builds one call of an op from a shape and explains its forward and backward pass."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp

from jaxator.cli import cases
from jaxator.explain import Explanation, explain


def parse_shape(text: str) -> tuple[int, ...]:
    """ "4096,4096" or "4096x4096" -> (4096, 4096)."""
    try:
        return tuple(int(size) for size in text.lower().replace("x", ",").split(","))
    except ValueError:
        raise ValueError(f"shape={text!r}: must be sizes with commas, as 4096,4096") from None


def explain_op(op: str, shape: tuple[int, ...], dtype: str, options: dict[str, Any]) -> Explanation:
    """Explains jax.vjp of the op on operands made from the first one's shape."""
    fn, operands = cases.call_for(op, shape, dtype, options)

    def both(*operands: jax.Array) -> Any:
        results, gradient = jax.vjp(fn, *operands)
        return results, gradient(jax.tree.map(jnp.ones_like, results))

    return explain(both, *operands)


def show(explanation: Explanation, as_json: bool) -> None:
    if as_json:
        calls = [dataclasses.asdict(call) for call in explanation.calls]
        print(json.dumps({"platform": explanation.platform, "calls": calls}, indent=1))
    else:
        print(explanation)
