"""Ctrl-C and SIGTERM as a question that a loop asks between its steps."""

import signal
from types import FrameType

EXIT_CODE_BASE = 128
"""A program ended by signal n has exit code 128 + n, as a shell reports it: 130 for Ctrl-C, 143 for SIGTERM."""


class Interrupt:
    """From its creation on, SIGINT and SIGTERM are noted in `received` and end nothing by themselves."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
