"""`jaxator emulate`: the emulator's own command, with its options."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import typer

from jaxator._library import find_library

COMMAND = "jaxator-emulate"

CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Every word goes to the emulator, --help too."""


def emulate(context: typer.Context) -> None:
    """One launch of a CDNA kernel on the emulator, with a report of what is wrong in it (--help for its options)."""
    raise typer.Exit(run(context.args))


def run(words: Sequence[str]) -> int:
    """The exit status: 0 if nothing was found, 1 if something was, 2 if the request cannot be met."""
    path = find_library(COMMAND)
    if path is None:
        raise typer.BadParameter(
            f"the emulator ({COMMAND}) is not in this installation: build it from source, see docs/emulator.md"
        )
    return subprocess.run([path, *words], check=False).returncode
