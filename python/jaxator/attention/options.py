"""What one attention call asks, apart from its arrays: hashable, so that it keys every cache."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxator import _partition

BIAS, MASK, QUERY_LENGTHS, KEY_LENGTHS, SEGMENTS = "bias", "mask", "query_lengths", "key_lengths", "segment_ids"

KERNELS = {"cpu": 0, "flash_f32": 1, "flash_bf16dot": 2}
"""Implementations by name: the kernel chosen by CPU model, the float32 FMA route, the bfloat16 dot route."""


@dataclasses.dataclass(frozen=True)
class Options:
    scale: float
    causal: bool
    bottom_right: bool
    window: tuple[int, int]
    """(left, right), -1 = unbounded."""
    present: tuple[str, ...]
    """Optional operands, in the handler's order: BIAS, MASK, QUERY_LENGTHS, KEY_LENGTHS, SEGMENTS."""
    choice: str
    """As returned by `_dispatch.choose`."""
    kernel: str = "cpu"

    def has(self, name: str) -> bool:
        return name in self.present

    def attributes(self) -> dict[str, Any]:
        return dict(
            scale=np.float32(self.scale),
            causal=self.causal,
            bottom_right=self.bottom_right,
            window_left=np.int64(self.window[0]),
            window_right=np.int64(self.window[1]),
            has_bias=self.has(BIAS),
            has_mask=self.has(MASK),
            has_query_lengths=self.has(QUERY_LENGTHS),
            has_key_lengths=self.has(KEY_LENGTHS),
            has_segment_ids=self.has(SEGMENTS),
            dot=np.int64(KERNELS[self.kernel]),
        )

    def unpack(self, operands: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """q, k, v and the optional operands by name (segment ids as a pair)."""
        q, k, v, *rest = operands
        named: dict[str, Any] = {}
        for name in self.present:
            named[name] = (rest.pop(0), rest.pop(0)) if name == SEGMENTS else rest.pop(0)
        assert not rest
        return q, k, v, named

    def rule(self, operands: Any, backward: bool, bias_gradient: bool = False) -> _partition.Rule:
        """Batch and heads may be sharded; sequences, whose positions causal and window count, may not.

        Query heads are (kv head, group). With one kv head the group itself may be cut, and dk, dv are then partial sums.
        """
        q, k, _, named = self.unpack(operands[: len(operands) - 4 * backward])
        groups = q.shape[2] // k.shape[2] if k.shape[2] else 1
        heads, sizes = "k", {}
        if groups > 1 and k.shape[2] > 1:
            heads, sizes = "(k g)", {"k": k.shape[2], "g": groups}
        elif groups > 1:
            heads = "g"

        def broadcast(array: Any, prefix: str) -> str:
            full = ("b", heads, "t", "s")
            return " ".join(f"{prefix}{i}" if n == 1 else full[i] for i, n in enumerate(array.shape))

        left = [f"b t {heads} h", "b s k h", "b s k v"]
        if self.has(BIAS):
            left.append(broadcast(named[BIAS], "x"))
        if self.has(MASK):
            left.append(broadcast(named[MASK], "m"))
        left += ["b"] * (self.has(QUERY_LENGTHS) + self.has(KEY_LENGTHS)) + ["b t", "b s"] * self.has(SEGMENTS)
        out = [f"b t {heads} v", f"b t {heads}"]
        if backward:
            right = left[:3] + ([left[3]] if bias_gradient else [])
            left += out + out
        else:
            right = out
        whole = ["t", "s", "h", "v", *(f"{p}{i}" for p in "xm" for i in range(4)), *(["k"] if heads == "g" else [])]
        return _partition.Rule.parse(f"{', '.join(left)} -> {', '.join(right)}", replicated=whole, **sizes)
