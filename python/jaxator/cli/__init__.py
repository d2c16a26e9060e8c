"""The command line: `jaxator doctor`, `jaxator explain`, `jaxator bench`. Only this needs the extra `jaxator[cli]`."""

from __future__ import annotations

import importlib.util
import sys


def main() -> None:
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f'jaxator: the command line needs {" and ".join(missing)}: pip install "jaxator[cli]"')
    from jaxator.cli.app import app

    app(prog_name="jaxator")
