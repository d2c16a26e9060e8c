"""The one error of the language: what is wrong, on which line of the user's, how that line was reached."""

from __future__ import annotations

import linecache

Frame = tuple[str, str, int, int]
"""Function, file, line, column (from 1)."""


class FlightError(ValueError, TypeError):
    """A kernel breaks a rule.

    Attributes:
      message: the rule and the values.
      frames: the user's lines, innermost first.
    """

    def __init__(self, message: str, frames: tuple[Frame, ...] = ()):
        self.message = message
        self.frames = tuple(frames)
        super().__init__(message)

    def __str__(self) -> str:
        return "\n".join([self.message, *map(frame_text, self.frames)])

    def __reduce__(self):
        return type(self), (self.message, self.frames)


def frame_text(frame: Frame) -> str:
    """As Python shows it, with the line and a caret under the column."""
    function, file, line, column = frame
    text = linecache.getline(file, line).rstrip()
    lines = [f'  File "{file}", line {line}, in {function}']
    if text:
        indent = len(text) - len(text.lstrip())
        lines += ["    " + text.lstrip(), "    " + " " * max(0, column - 1 - indent) + "^"]
    return "\n".join(lines)
