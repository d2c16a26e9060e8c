"""The error that tells why an implementation was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class UnsupportedError(NotImplementedError):
    """A named implementation cannot do what was asked.

    Attributes:
      reasons: implementation -> list of ``"argument=value: rule"``.
    """

    def __init__(self, op: str, reasons: Mapping[str, Sequence[str]]):
        self.op = op
        self.reasons = {name: list(rules) for name, rules in reasons.items()}
        lines = [f"  {name}: {rule}" for name, rules in self.reasons.items() for rule in rules]
        super().__init__("\n".join([f"jaxator.{op} has no implementation for this call:", *lines]))

    def __reduce__(self):
        return type(self), (self.op, self.reasons)
