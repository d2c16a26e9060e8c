"""What the finished runs are shown as: a JSON object, a table, a figure."""

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from settings import METRICS_FILE, RESULT_FILE, Settings

COLOURS = {"plain": "tab:blue", "jaxator": "tab:orange"}
Summary = dict[str, Any]


def summarise(folders: list[Path]) -> Summary:
    """Results of all runs (by implementation), their common settings and, with both, the two figures that matter."""
    runs = {result["implementation"]: result for result in (json.loads((f / RESULT_FILE).read_text()) for f in folders)}
    settings = Settings.load(folders[0])
    summary: Summary = {
        "steps": settings.steps,
        "sequence_length": settings.sequence_length,
        "batch": settings.batch,
        "seed": settings.seed,
        "runs": runs,
    }
    if len(runs) == 2:
        plain, jaxator = runs["plain"], runs["jaxator"]
        summary["speedup"] = jaxator["tokens_per_second"] / plain["tokens_per_second"]
        summary["validation_loss_difference"] = jaxator["final_validation_loss"] / plain["final_validation_loss"] - 1
    return summary


def table(summary: Summary) -> Table:
    """One column a run; with both, a third with Jaxator's value divided by plain JAX's."""
    rows = [
        ("tokens/s", "tokens_per_second", 1.0, ",.0f"),
        ("step time, ms (median)", "step_seconds", 1e3, ",.1f"),
        ("peak memory, MiB", "peak_memory_bytes", 2.0**-20, ",.0f"),
        ("final validation loss, nats/byte", "final_validation_loss", 1.0, ".4f"),
        ("attention of one layer, ms", "attention_seconds", 1e3, ",.1f"),
        ("attention's share of the step, %", "attention_share", 1e2, ".0f"),
        ("compile time, s", "compile_seconds", 1.0, ".1f"),
    ]
    runs = summary["runs"]
    result = Table("")
    for name in runs:
        result.add_column({"plain": "plain JAX", "jaxator": "Jaxator"}[name], justify="right")
    if len(runs) == 2:
        result.add_column("Jaxator / plain", justify="right")
    for label, key, factor, form in rows:
        values = [run[key] for run in runs.values()]
        cells = [format(value * factor, form) for value in values]
        if len(runs) == 2:
            digits = 4 if key == "final_validation_loss" else 2
            cells.append(f"{values[1] / values[0]:.{digits}f}")
        result.add_row(label, *cells)
    return result


def sentences(summary: Summary) -> list[str]:
    """What was trained, the choice of the baseline, and the comparison, in words."""
    tokens = summary["steps"] * summary["batch"] * summary["sequence_length"]
    parameters = next(iter(summary["runs"].values()))["parameters"]
    lines = [f"{parameters / 1e6:.2f} M parameters, {summary['steps']} steps, {tokens:,} bytes of text."]
    if plain := summary["runs"].get("plain"):
        times = plain["attention_choice_seconds"].items()
        measured = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in times)
        lines.append(
            f"Plain JAX uses {plain['attention']}, the faster on this shape "
            f"({measured} a layer, forward and backward). "
            f"Attention is {plain['attention_share']:.0%} of the plain step."
        )
    if "speedup" in summary:
        lines.append(
            f"Jaxator trains at {summary['speedup']:.2f} times the tokens/s of plain JAX; "
            f"its final validation loss differs by {summary['validation_loss_difference']:+.2%}."
        )
    return lines


def draw(folders: list[Path], path: Path) -> None:
    """Writes a PNG: training loss by step, and the distribution of step times, of every run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for folder in folders:
        name = Settings.load(folder).implementation
        records = [json.loads(line) for line in (folder / METRICS_FILE).read_text().splitlines()]
        result = json.loads((folder / RESULT_FILE).read_text())
        steps = [record["step"] for record in records]
        # The runs' losses nearly coincide: dashes let the one below show.
        style = {"color": COLOURS[name], "linestyle": "--" if name == "jaxator" else "-"}
        left.plot(steps, [record["loss"] for record in records], label=name, linewidth=1.2, **style)
        left.plot(steps[-1], result["final_validation_loss"], "o" if name == "plain" else "x", color=COLOURS[name])
        label = f"{name}: median {result['step_seconds'] * 1e3:,.0f} ms"
        milliseconds = [record["seconds"] * 1e3 for record in records]
        right.plot(steps, milliseconds, ".", color=COLOURS[name], label=label, markersize=4)
    left.set(xlabel="step", ylabel="loss, nats/byte", title="training loss (marks: final validation loss)")
    right.set(xlabel="step", ylabel="ms", title="step time")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
