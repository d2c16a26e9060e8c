"""`jaxator bench --report`: the newest measurements of each target as a picture and as a Markdown table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def newest_rows(folder: Path, target: str) -> list[tuple[Row, dict[str, Any]]]:
    """The newest row of each case of a target, with the record it is from, in the order of measurement.

    Raises:
      ValueError: the folder holds no measurement of the target.
    """
    found: dict[tuple[str, str, str], tuple[Row, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        for row in record["rows"]:
            if row["target"] == target:
                found[row["op"], row["case"], row["dtype"]] = (row, record)
    if not found:
        raise ValueError(f"report={folder}: holds no measurement for target={target!r}")
    return list(found.values())


def markdown(rows: Iterable[tuple[Row, dict[str, Any]]]) -> str:
    """A table with one line for each case; on a GPU burst and sustained share a line."""
    lines = ["| op | case | Jaxator | peer | ratio | share of the limit |", "|---|---|---|---|---|---|"]
    for (op, case), regimes in _grouped(rows).items():
        parts = list(regimes.values())
        cells = [
            " / ".join(f"{r['value']:.4g}" for r in parts) + f" {parts[0]['unit']}",
            " / ".join(f"{r['peer_value']:.4g}" for r in parts) + f" {parts[0]['unit']} ({parts[0]['peer']})",
            " / ".join(f"{r['ratio']:.2f}x" for r in parts),
            " / ".join("" if r["limit_share"] is None else f"{r['limit_share']:.0%}" for r in parts),
        ]
        lines.append(f"| {op} | {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _grouped(rows: Iterable[tuple[Row, dict[str, Any]]]) -> dict[tuple[str, str], dict[str, Row]]:
    grouped: dict[tuple[str, str], dict[str, Row]] = {}
    for row, _ in rows:
        case, regime = re.fullmatch(r"(.*?)(?: (burst|sustained))?", row["case"]).groups()
        grouped.setdefault((row["op"], case), {})[regime or ""] = row
    return grouped


def draw(rows: Iterable[tuple[Row, dict[str, Any]]], path: Path) -> None:
    """Bars of the ratio to the fastest peer, one for each case and regime; the line at 1 is the peer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grouped = {key: regimes for key, regimes in _grouped(rows).items() if key[0] not in ("dispatch", "loading", "flight")}
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.24 * sum(map(len, grouped.values()))))
    labels, position = [], 0
    for (op, case), regimes in grouped.items():
        for regime, row in regimes.items():
            colour = "tab:orange" if regime == "sustained" else "tab:blue"
            axes.barh(position, row["ratio"], color=colour)
            labels.append(f"{op} {case} {regime}")
            position += 1
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(position), labels, fontsize=7)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("time of the fastest peer / time of Jaxator")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def sources(rows: Iterable[tuple[Row, dict[str, Any]]]) -> str:
    """Devices, dates and commits of the rows, as one line."""
    seen: dict[str, None] = {}
    for _, record in rows:
        device = record["device"].get("gpu") or record["device"].get("cpu")
        driver = f", driver {record['device']['driver']}" if record["device"].get("driver") else ""
        seen[f"{device}{driver}, jax {record['jax']}, {record['date'][:10]}, commit {record['commit']}"] = None
    return "; ".join(seen)


def write(folder: Path, target: str, figure: Path | None, document: Path | None) -> str:
    """Draws and returns the table; where `document` has the lines ``<!-- bench:TARGET -->`` and ``<!-- /bench -->``, puts it
    between them.

    Raises:
      ValueError: no measurement, or the document lacks the two lines.
    """
    rows = newest_rows(folder, target)
    text = f"{markdown(rows)}\n\n{sources(rows)}."
    if figure is not None:
        draw(rows, figure)
    if document is not None:
        begin, end = f"<!-- bench:{target} -->", "<!-- /bench -->"
        old = document.read_text()
        start = old.find(begin)
        stop = old.find(end, start)
        if start < 0 or stop < 0:
            raise ValueError(f"document={document}: has no lines {begin!r} and {end!r}")
        document.write_text(f"{old[: start + len(begin)]}\n{text}\n{old[stop:]}")
    return text
