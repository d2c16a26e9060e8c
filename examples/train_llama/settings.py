"""What one run of the demo is asked to do. Imports no JAX, so that the launcher stays small."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

Implementation = Literal["plain", "jaxator"]

CONFIG_FILE = "config.json"
ATTENTION_FILE = "attention.json"
METRICS_FILE = "metrics.jsonl"
RESULT_FILE = "result.json"
SAMPLE_FILE = "sample.txt"
CHECKPOINT_FOLDER = "checkpoints"


@dataclass(frozen=True)
class Settings:
    """One run. Two runs with equal settings, whatever their `implementation`, see the same batches and start weights.

    Sizes: `sequence_length` in bytes (one byte is one token), `batch` in sequences, `width` the model's, `hidden` the
    feed-forward's, `head_size` of queries, keys and values.
    """

    implementation: Implementation
    steps: int
    sequence_length: int
    batch: int
    seed: int
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    learning_rate: float
    weight_decay: float
    warmup_steps: int
    validation_sequences: int
    checkpoint_every: int
    sample_bytes: int

    def validate(self) -> None:
        """Raises ValueError naming the first value that no run can have."""
        for field in fields(self):
            value = getattr(self, field.name)
            may_be_zero = field.name in ("seed", "warmup_steps", "weight_decay", "sample_bytes")
            if isinstance(value, int | float) and (value < 0 or (value == 0 and not may_be_zero)):
                raise ValueError(f"{field.name}={value} must be {'at least 0' if may_be_zero else 'positive'}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads={self.heads} must be a multiple of kv_heads={self.kv_heads}")
        if self.head_size % 2:
            raise ValueError(f"head_size={self.head_size} must be even: RoPE turns pairs")
        if self.validation_sequences % self.batch:
            raise ValueError(
                f"validation_sequences={self.validation_sequences} must be a multiple of batch={self.batch}: "
                "every validation batch has the shape of a training batch"
            )

    @property
    def tokens_per_step(self) -> int:
        return self.batch * self.sequence_length

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Settings":
        return cls(**json.loads((folder / CONFIG_FILE).read_text()))

    def differences(self, other: "Settings") -> list[str]:
        """What differs, as "name=mine (theirs)"; empty when `other` asks for the same run."""
        pairs = ((field.name, getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return [f"{name}={mine} ({theirs})" for name, mine, theirs in pairs if mine != theirs]
