"""Text found on any machine with Python: the sources of its standard library, as bytes.

A file belongs to the training or the validation part as a whole, so that no validation window was seen in training.
"""

import sysconfig
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Third-party packages differ from machine to machine; test suites are absent from some distributions' Python.
_SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
_VALIDATION_ONE_IN = 16
_FILE_END = b"\0"


@dataclass(frozen=True)
class Corpus:
    """Bytes of the two parts, uint8 [length]; files in the order of their paths, each ended by one zero byte."""

    train: NDArray[np.uint8]
    validation: NDArray[np.uint8]


def load_corpus(folder: Path | None = None) -> Corpus:
    """Reads every Python source below `folder` (the running Python's standard library by default)."""
    root = folder or Path(sysconfig.get_paths()["stdlib"])
    parts: dict[bool, list[bytes]] = {True: [], False: []}
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    for name in names:
        if _SKIPPED_FOLDERS.isdisjoint(name.split("/")):
            # A checksum of the name: no file changes sides when another one is added.
            in_validation = zlib.crc32(name.encode()) % _VALIDATION_ONE_IN == 0
            parts[in_validation].append((root / name).read_bytes() + _FILE_END)
    return Corpus(*(np.frombuffer(b"".join(parts[side]), np.uint8) for side in (False, True)))


def _windows(data: NDArray[np.uint8], starts: NDArray[np.int64], length: int) -> NDArray[np.int32]:
    return data[starts[:, None] + np.arange(length)].astype(np.int32)


def _check_length(data: NDArray[np.uint8], length: int, part: str) -> None:
    if len(data) < length:
        raise ValueError(f"the {part} text has {len(data)} bytes; sequences of {length - 1} need at least {length}")


def training_batch(data: NDArray[np.uint8], seed: int, step: int, batch: int, sequence_length: int) -> NDArray[np.int32]:
    """The batch of `step`, int32 [batch, sequence_length + 1]: inputs and, shifted by one, targets.

    A function of (seed, step) alone: the position in the data is the step, which is all that a checkpoint must keep.
    """
    length = sequence_length + 1
    _check_length(data, length, "training")
    generator = np.random.Generator(np.random.Philox(key=[seed, step]))
    return _windows(data, generator.integers(0, len(data) - length + 1, batch), length)


def validation_batches(data: NDArray[np.uint8], sequences: int, batch: int, sequence_length: int) -> list[NDArray[np.int32]]:
    """Fixed batches, each int32 [batch, sequence_length + 1]: `sequences` windows spread evenly over the text."""
    length = sequence_length + 1
    _check_length(data, length, "validation")
    starts = np.linspace(0, len(data) - length, sequences).astype(np.int64)
    return [_windows(data, starts[i : i + batch], length) for i in range(0, sequences, batch)]
