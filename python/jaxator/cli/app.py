"""The commands and their options; each one's work is in the module of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jaxator.cli import emulate, judge, layout

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Expert kernels in JAX: what is here, what is used, how fast it is."
)

app.add_typer(layout.app, name="layout")
app.command()(judge.judge)
app.command(context_settings=emulate.CONTEXT)(emulate.emulate)

AsJson = Annotated[bool, typer.Option("--json", help="For machines.")]


def _usage(error: Exception) -> typer.BadParameter:
    return typer.BadParameter(str(error))


@app.command()
def doctor(json: AsJson = False) -> None:
    """Versions, CPU features, kernel libraries, kernels built in, devices."""
    from jaxator.cli import doctor as work

    work.show(work.examine(), as_json=json)


@app.command()
def explain(
    op: Annotated[str, typer.Argument(help="An op, as rms_norm or dot_product_attention.")],
    shape: Annotated[str, typer.Option(help="Sizes of the first operand; attention: B,T,N,H.")],
    dtype: Annotated[str, typer.Option(help="Element type.")] = "bfloat16",
    kv_heads: Annotated[int | None, typer.Option(help="Attention: key and value heads.")] = None,
    keys: Annotated[int | None, typer.Option(help="Attention: key length.")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Attention: causal.")] = False,
    window: Annotated[int | None, typer.Option(help="Attention: local window.")] = None,
    implementation: Annotated[str | None, typer.Option(help='Name one, as "cpu" or "xla".')] = None,
    json: AsJson = False,
) -> None:
    """Kernel and config that an op gets for a shape, forward and backward, and why the others were refused."""
    from jaxator.cli import explain as work

    try:
        options: dict[str, Any] = dict(
            kv_heads=kv_heads, keys=keys, causal=causal, window=window, implementation=implementation
        )
        explanation = work.explain_op(op, work.parse_shape(shape), dtype, options)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise _usage(error) from error
    work.show(explanation, as_json=json)


@app.command()
def bench(
    op: Annotated[str, typer.Argument(help='An op, "dispatch", "flight", or "all".')] = "all",
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    dtype: Annotated[str | None, typer.Option(help="Element type instead of the cases' own.")] = None,
    case: Annotated[str | None, typer.Option(help="Only cases whose text contains this.")] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Interleaved runs, fewer where a case would take over half a minute.")
    ] = 15,
    target: Annotated[str, typer.Option(help='"cpu", or "cuda" for an NVIDIA GPU of this machine.')] = "cpu",
    save: Annotated[
        Path | None, typer.Option(help="Also write the rows, device, date and commit to a file in this folder.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Do not measure: show the newest rows of the target in this folder as a Markdown table."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="With --report: also draw the ratios into this PNG.")] = None,
    document: Annotated[Path | None, typer.Option(help="With --report: also put the table into this Markdown file.")] = None,
) -> None:
    """Time of each op beside XLA's for the same formula and beside the machine's limit, in one process, interleaved."""
    if report is not None:
        from jaxator.cli import report as reporting

        try:
            print(reporting.write(report, target, figure, document))
        except ValueError as error:
            raise _usage(error) from error
        return
    from jaxator.cli import bench as work

    try:
        chosen = work.choose(op, dtype, case, target)
    except (ValueError, TypeError) as error:
        raise _usage(error) from error
    work.run(chosen, repeats=repeats, as_json=json, save=save, target=target)
