"""docs/layouts.md: its Python runs, its commands print what stands below them, its pictures are what its commands draw. The
same for the examples in the docstrings."""

import doctest
import importlib
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jaxator.cli.app import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "layouts.md"


def commands():
    """(command, what it prints) of each line that begins with $."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return [(command, "".join(line + "\n" for line in lines)) for command, lines in found]


COMMANDS = commands()


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_command(command, printed, tmp_path):
    program, *arguments = shlex.split(command)
    assert program == "jaxator"
    figure = None
    if "-o" in arguments:
        at = arguments.index("-o") + 1
        figure, arguments[at] = ROOT / arguments[at], str(tmp_path / "figure.svg")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.output == printed
    if figure:
        assert (tmp_path / "figure.svg").read_text() == figure.read_text(), "run tools/draw_figures.sh"


def test_every_picture_is_drawn_and_shown():
    shown = set(re.findall(r"\]\((figures/layout-[a-z-]+\.svg)\)", PAGE.read_text()))
    drawn = {match for command, _ in COMMANDS for match in re.findall(r"docs/(figures/layout-[a-z-]+\.svg)", command)}
    assert shown == drawn == {f"figures/{path.name}" for path in (ROOT / "docs" / "figures").glob("layout-*.svg")}
    assert len(shown) >= 7


def test_python_of_the_page():
    failures, attempted = doctest.testfile(str(PAGE), module_relative=False)
    assert failures == 0 and attempted > 25


@pytest.mark.parametrize("name", ["", ".values", ".algebra", ".banks", ".picture"])
def test_docstrings(name):
    failures, attempted = doctest.testmod(importlib.import_module("jaxator.flight.layout" + name))
    assert failures == 0 and attempted > 1
