"""`jaxator layout`: what it prints and writes, and its refusals. Those of docs/layouts.md run in test_layout_docs.py."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from typer.testing import CliRunner

from jaxator.cli.app import app
from jaxator.flight import layout as lib

READ = "((16,4),(8,2)):((64,8),(1,32))"
SVG = "{http://www.w3.org/2000/svg}"


def invoke(*arguments):
    return CliRunner().invoke(
        app, ["layout", *arguments], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "200"}
    )


def printed(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_draw_to_the_terminal():
    assert printed("draw", "(2,4):(4,1)") == "(2,4):(4,1)\n    0 1 2 3\n  +--------\n0 | 0 1 2 3\n1 | 4 5 6 7\n"
    assert "0 | T0V0 T0V1 T1V0 T1V1" in printed("draw", "(4,2):(2,1)", "--tv", "(2,4):(4,1)")


def test_draw_to_a_file(tmp_path):
    file = tmp_path / "l.svg"
    assert printed("draw", "((4,2),8):((2,1),8)", "-o", str(file)) == ""
    root = ElementTree.parse(file).getroot()
    assert root.tag == SVG + "svg" and root.find(SVG + "title").text == "((4,2),8):((2,1),8)"
    cells = [text.text for text in root.iter(SVG + "text")][1:65]
    assert cells == [str(lib.parse("((4,2),8):((2,1),8)")(row, column)) for row in range(8) for column in range(8)]
    assert file.read_text() == lib.draw(lib.parse("((4,2),8):((2,1),8)"))


@pytest.mark.parametrize("tile", ["16,8", "(16,8)", "(16,8):(1,16)"])
def test_draw_threads_and_values(tile, tmp_path):
    file = tmp_path / "tv.svg"
    printed("draw", "((4,8),(2,2)):((32,1),(16,8))", "--tv", tile, "-o", str(file))
    texts = [text.text for text in ElementTree.parse(file).getroot().iter(SVG + "text")]
    assert texts.count("T31") == 4 and texts.count("V3") == 32


@pytest.mark.parametrize("swizzle", ["S<3,0,3>", "3,0,3"])
def test_draw_swizzled(swizzle):
    text = printed("draw", "(8,8):(8,1)", "--swizzle", swizzle)
    assert text == printed("draw", "S<3,0,3> o 0 o (8,8):(8,1)")
    assert "1 |  9  8 11 10 13 12 15 14" in text


def test_colours_of_banks(tmp_path):
    plain, banks = tmp_path / "plain.svg", tmp_path / "banks.svg"
    printed("draw", "(8,8):(8,1)", "-o", str(plain))
    printed("draw", "(8,8):(8,1)", "--banks", "gfx942", "--element", "16", "-o", str(banks))
    fills = {r.get("fill") for r in ElementTree.parse(banks).getroot().iter(SVG + "rect")}
    assert len(fills - {"#fff", None}) == 8 and plain.read_text() != banks.read_text()


def test_conflicts():
    text = printed("conflicts", READ, "--target", "gfx950", "--width", "16", "--element", "2")
    assert text.splitlines()[1:] == [
        "gfx950, read of 16 bytes a lane: 64 banks of 4 bytes, 4 phases a wave (measured)",
        "instructions: 2, phases: 8, passes: 32, conflicts: 24",
    ]
    free = printed("conflicts", READ, "--target", "gfx950", "--element", "2", "--swizzle", "S<3,3,4>")
    assert free.splitlines()[-1] == "instructions: 2, phases: 8, passes: 8, conflicts: 0"
    assert "write of 16 bytes a lane: 32 banks" in printed(
        "conflicts", READ, "--target", "gfx950", "--element", "2", "--write"
    )


def test_conflicts_json():
    report = json.loads(printed("conflicts", READ, "--target", "gfx942", "--element", "2", "--json"))
    cost = lib.cost(lib.parse(READ), "gfx942", element=2)
    assert report == {
        "layout": READ,
        "instructions": 2,
        "phases": 16,
        "passes": cost.passes,
        "conflicts": cost.conflicts,
        "evidence": "measured",
    }


def test_swizzle():
    write = "((8,8),8):((8,64),1)"
    assert printed("swizzle", write, READ, "--target", "gfx950", "--element", "2") == "S<2,4,3>\n"
    assert printed("swizzle", write, write, "--target", "sm_90", "--element", "2") == "S<0,0,0>: none is needed\n"
    column = "((64)):((128))"
    result = invoke(
        "swizzle", column, column, "--target", "x86-64", "--write-width", "4", "--read-width", "4", "--element", "4"
    )
    assert (result.exit_code, result.output) == (1, "no swizzle serves both accesses\n")


def test_phases():
    text = printed("phases", "--target", "gfx950", "--width", "12")
    assert text.splitlines()[:2] == ["32 banks of 4 bytes, measured", "phase 0: lanes 0-3 20-23"]
    assert printed("phases", "--target", "sm_90", "--width", "8", "--write").splitlines()[-1] == "phase 1: lanes 16-31"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("draw", "(4,8):(1"), "parse: ')' expected at character 8 of \"(4,8):(1\""),
        (("draw", "(4,0):(1,4)"), "layout: leaf 1: shape 0 must be a positive number"),
        (("draw", "S<3,4,3>"), "S<3,4,3> is a swizzle, not a layout"),
        (("draw", "(99,99):(1,99)"), "draw: 9801 cells are more than 4096"),
        (("draw", "(4,8):(1,4)", "-o", "l.png"), "--output l.png must end in .svg"),
        (("draw", "(4,8):(1,4)", "--tv", "2,2"), "draw: index 4 of thread 0 and value 1 is not in the tile"),
        (("draw", "(4,8):(1,4)", "--swizzle", "3"), "parse: ',' expected"),
        (
            ("draw", "S<1,0,1> o 0 o 4:1", "--swizzle", "1,0,1"),
            "--swizzle 1,0,1 needs a swizzle, and a layout that has none",
        ),
        (("draw", "4:1", "--banks", "sm_90", "--element", "0"), "draw: the element's 0 bytes must be positive"),
        (("conflicts", READ, "--target", "sm_80"), "target sm_80 must be one of gfx942, gfx950, sm_90, x86-64"),
        (("conflicts", READ, "--target", "sm_90", "--width", "3"), "the width of 3 bytes must be 1, 2, 4, 8 or 16"),
        (("conflicts", "(4,8):(9,1)", "--target", "sm_90", "--element", "2"), "is not aligned to 16 bytes"),
        (("conflicts", READ), "--target"),
        (("swizzle", READ, "(4,8)", "--target", "sm_90"), "parse: ':' expected"),
        (("phases", "--target", "gfx950", "--width", "32"), "the width of 32 bytes must be 1, 2, 4, 8, 12 or 16"),
    ],
)
def test_refusals_name_what_was_wrong(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split()), result.output
