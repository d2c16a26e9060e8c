"""`jaxator layout`: pictures of layouts, bank conflicts of an access, and the swizzle that removes them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, help="Layouts as (shape):(stride): pictures, bank conflicts, swizzles. See docs/layouts.md."
)

LayoutText = Annotated[
    str, typer.Argument(metavar="LAYOUT", help='As "((4,2),8):((2,1),8)" or "S<3,4,3> o 0 o (8,8):(8,1)".')
]
SwizzleText = Annotated[str | None, typer.Option("--swizzle", help='Outside the layout: "S<3,4,3>" or 3,4,3.')]
TargetName = Annotated[str, typer.Option("--target", help="gfx942, gfx950, sm_90 or x86-64.")]
ElementBytes = Annotated[int, typer.Option("--element", help="Bytes of what the layout counts.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error


def _read(text: str, swizzle: str | None):
    """The layout, with the swizzle outside it."""
    from jaxator.flight import layout as lib

    layout = lib.parse(text)
    if isinstance(layout, lib.Swizzle):
        raise ValueError(f"{text} is a swizzle, not a layout")
    if swizzle is None:
        return layout
    outside = lib.parse(swizzle if swizzle.lstrip().startswith("S") else f"S<{swizzle}>")
    if not isinstance(outside, lib.Swizzle) or not isinstance(layout, lib.Layout):
        raise ValueError(f"--swizzle {swizzle} needs a swizzle, and a layout that has none: {text}")
    return lib.composition(outside, layout)


def _tile(text: str):
    """ "(16,8):(8,1)" or a shape alone, "16,8", whose first mode is the fastest."""
    from jaxator.flight import layout as lib
    from jaxator.flight.layout._call import call

    return lib.Layout.parse(text if ":" in text else call("compact", text if text.lstrip().startswith("(") else f"({text})"))


@app.command()
def draw(
    layout: LayoutText,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="An SVG file; else text to the terminal.")] = None,
    tile: Annotated[
        str | None,
        typer.Option(
            "--tv", metavar="TILE", help='The layout is (thread, value) in this tile: a layout, or a shape as "16,8".'
        ),
    ] = None,
    swizzle: SwizzleText = None,
    banks: Annotated[
        str | None, typer.Option("--banks", metavar="TARGET", help="A colour for each bank of this target's memory.")
    ] = None,
    element: ElementBytes = 4,
) -> None:
    """Draws a layout: each cell shows its index, or with --tv the thread and value that hold it."""
    from jaxator.flight import layout as lib

    with _usage():
        if output is not None and output.suffix != ".svg":
            raise ValueError(f"--output {output} must end in .svg")
        picture = lib.draw(
            _read(layout, swizzle),
            tile=None if tile is None else _tile(tile),
            banks=banks,
            element=element,
            format="text" if output is None else "svg",
        )
    if output is None:
        print(picture, end="")
    else:
        output.write_text(picture)


@app.command()
def conflicts(
    layout: LayoutText,
    target: TargetName,
    width: Annotated[int, typer.Option("--width", help="Bytes that a lane moves with one instruction.")] = 16,
    element: ElementBytes = 1,
    write: Annotated[bool, typer.Option("--write", help="A write; else a read.")] = False,
    swizzle: SwizzleText = None,
    as_json: AsJson = False,
) -> None:
    """Counts the passes that a (thread, value) layout needs in a target's memory: beyond one a phase they are conflicts."""
    from jaxator.flight import layout as lib

    direction = "write" if write else "read"
    with _usage():
        read = _read(layout, swizzle)
        phases = lib.phases(target, width, direction)
        cost = lib.cost(read, target, width, element=element, direction=direction)
    if as_json:
        print(
            json.dumps(
                {"layout": str(read), **dataclasses.asdict(cost), "conflicts": cost.conflicts, "evidence": phases.evidence}
            )
        )
        return
    print(read)
    print(
        f"{target}, {direction} of {width} bytes a lane: {phases.banks} {'bank' if phases.banks == 1 else 'banks'} of "
        f"{phases.bank_bytes} bytes, {len(phases.lanes)} {'phase' if len(phases.lanes) == 1 else 'phases'} a wave "
        f"({phases.evidence})"
    )
    print(f"instructions: {cost.instructions}, phases: {cost.phases}, passes: {cost.passes}, conflicts: {cost.conflicts}")


@app.command()
def swizzle(
    write: Annotated[
        str, typer.Argument(metavar="WRITE", help="(thread, value) layout of the access that writes the tile.")
    ],
    read: Annotated[str, typer.Argument(metavar="READ", help="The same of the access that reads it.")],
    target: TargetName,
    element: ElementBytes = 1,
    write_width: Annotated[int, typer.Option("--write-width", help="Bytes a lane.")] = 16,
    read_width: Annotated[int, typer.Option("--read-width", help="Bytes a lane.")] = 16,
) -> None:
    """Finds the swizzle with which neither access has a conflict."""
    from jaxator.flight import layout as lib

    with _usage():
        found = lib.propose_swizzle(
            lib.Layout.parse(write),
            lib.Layout.parse(read),
            target,
            element=element,
            write_width=write_width,
            read_width=read_width,
        )
    if found is None:
        print("no swizzle serves both accesses")
        raise typer.Exit(1)
    print(found if found.bits else f"{found}: none is needed")


@app.command()
def phases(
    target: TargetName,
    width: Annotated[int, typer.Option("--width", help="Bytes that a lane moves with one instruction.")] = 16,
    write: Annotated[bool, typer.Option("--write", help="A write; else a read.")] = False,
) -> None:
    """Lists the lanes that a target's memory serves together."""
    from jaxator.flight import layout as lib

    with _usage():
        p = lib.phases(target, width, "write" if write else "read")
    print(f"{p.banks} banks of {p.bank_bytes} bytes, {p.evidence}")
    for number, lanes in enumerate(p.lanes):
        print(f"phase {number}: lanes {' '.join(_runs(lanes))}")


def _runs(numbers: tuple[int, ...]) -> list[str]:
    """(0, 1, 2, 5) -> ["0-2", "5"]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
