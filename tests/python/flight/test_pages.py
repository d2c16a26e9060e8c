"""docs/flight: the Python of each page runs, the commands print what stands below them, the pictures are what the commands
draw."""

import doctest
import re
import shlex

import ladder_programs
import pages
import pytest
from typer.testing import CliRunner

from jaxator import flight
from jaxator.cli.app import app
from jaxator.flight import _compiler

FIGURES = pages.DOCS.parent / "figures"


def commands():
    for page in pages.LADDER:
        for block in re.findall(
            r"^```console\n(.*?)^```$", (pages.DOCS / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL
        ):
            for line in block.splitlines():
                yield line.removeprefix("$ ")


COMMANDS = list(commands())


@pytest.mark.parametrize("command", COMMANDS)
def test_picture(command, tmp_path):
    program, *arguments = shlex.split(command)
    at = arguments.index("-o") + 1
    figure, arguments[at] = pages.DOCS.parents[1] / arguments[at], str(tmp_path / "figure.svg")
    result = CliRunner().invoke(app, arguments)
    assert program == "jaxator" and result.exit_code == 0 and result.output == "", result.output
    assert (tmp_path / "figure.svg").read_text() == figure.read_text(), "run tools/draw_figures.sh"


def test_every_picture_is_drawn_and_shown():
    text = "".join((pages.DOCS / f"{page}.md").read_text() for page in pages.LADDER)
    shown = set(re.findall(r"\]\(\.\./figures/(flight-[a-z-]+\.svg)\)", text))
    drawn = {name for command in COMMANDS for name in re.findall(r"docs/figures/(flight-[a-z-]+\.svg)", command)}
    assert shown == drawn == {path.name for path in FIGURES.glob("flight-*.svg")}
    assert len(shown) >= 5


@pytest.mark.parametrize("page", ["transpose", "gemm", "language"])
def test_examples(page):
    failures, attempted = doctest.testfile(str(pages.DOCS / f"{page}.md"), module_relative=False)
    assert failures == 0 and attempted >= 3


def test_the_language_page_names_everything():
    text = (pages.DOCS / "language.md").read_text()
    elsewhere = {"Array", "Atom", "ComposedLayout", "DType", "Layout", "Swizzle", "Options", "layout"}  # types
    missing = [name for name in flight.__all__ if name not in elsewhere and not re.search(rf"\b{name}\b", text)]
    assert not missing


@pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
@pytest.mark.parametrize("page", pages.LADDER)
def test_from_jax(page):
    module = pages.whole(page)
    assert any("flight.call(" in block for block in pages.blocks(page))
    assert module.flight.call


@pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
@pytest.mark.parametrize("page", pages.LADDER)
def test_what_the_compiler_reports(page):
    """Registers depend on the compiler's mood; the rest is exact."""
    shown = re.search(r"^\| kernel \| target .*?\n\n", (pages.DOCS / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL)[0]
    now = ladder_programs.table(page)
    for mine, theirs in zip(shown.strip().splitlines(), now.strip().splitlines(), strict=True):
        mine, theirs = mine.split(" | "), theirs.split(" | ")
        if len(mine) > 2 and mine[2].isdigit():
            assert abs(int(mine[2]) - int(theirs[2])) <= int(mine[2]) // 2, now
        assert mine[:2] + mine[3:] == theirs[:2] + theirs[3:], now


def test_docstrings():
    from jaxator.flight import _spread

    failures, attempted = doctest.testmod(_spread)
    assert failures == 0 and attempted == 1
