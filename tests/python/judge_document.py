"""Writes the tables of docs/cdna-kernels.md: what the judge measures of each kernel, and what became of every mutation.

PYTHONPATH=python JAX_PLATFORMS=cpu .venv/bin/python tests/python/judge_document.py [bfloat16]
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import judge_cases

from jaxator.judge import Launch, floors_for, gates, measure, report
from jaxator.judge.mutations import Outcome, try_all
from jaxator.judge.redundancy import COVERED, PACING

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/cdna-kernels.md"
FATES = ("noticed", "covered", "pacing", "not reached", "survived")


def fate(outcome: Outcome) -> str:
    if outcome.noticed or outcome.wrong_result:
        return "noticed"
    if not outcome.reached:
        return "not reached"
    return {COVERED: "covered", PACING: "pacing"}.get(outcome.redundant, "survived")


def gate_table(dtype: str) -> str:
    judged = []
    for architecture in judge_cases.ARCHITECTURES:
        for kernel, launch in judge_cases.judged_launches(architecture, dtype).items():
            measures = dataclasses.replace(measure(launch), kernel=kernel)
            judged.append((measures, gates(measures, floors_for(judge_cases.RULES, kernel, architecture))))
    return report.table(judged)


def mutation_rows(architecture: str, mutated: Mapping[str, Sequence[Launch]]) -> tuple[list[str], list[str], Counter[str]]:
    """Lines of the table, survivors, and sums."""
    rows, survivors, sums = [], [], Counter()
    for kernel, launches in mutated.items():
        outcomes = try_all(launches)
        counts = Counter(map(fate, outcomes))
        sums += counts
        rows.append(f"| `{kernel}` | {architecture} | {len(outcomes)} | " + " | ".join(str(counts[f]) for f in FATES) + " |")
        survivors += [f"- `{kernel}`, {architecture}: `{o.mutation}`" for o in outcomes if fate(o) == "survived"]
        print(rows[-1], file=sys.stderr, flush=True)
    return rows, survivors, sums


def mutation_table(dtype: str) -> str:
    lines = ["| kernel | target | mutations | " + " | ".join(FATES) + " |", "| --- | --- |" + " --- |" * (1 + len(FATES))]
    survivors, sums = [], Counter()
    for architecture in judge_cases.ARCHITECTURES:
        rows, some, counts = mutation_rows(architecture, judge_cases.launches_to_mutate(architecture, dtype, quick=False))
        lines += rows
        survivors += some
        sums += counts
    lines.append(f"| all | | {sums.total()} | " + " | ".join(str(sums[f]) for f in FATES) + " |")
    needed = sums["noticed"] + sums["survived"]
    share = f"{sums['noticed'] / needed:.1%}"
    lines.append(f"\nNoticed: {sums['noticed']} of the {needed} that are reached and not proved redundant, {share}.")
    lines += ["", "Survivors:", *survivors] if survivors else ["", "No mutation survived."]
    return "\n".join(lines)


def replace(text: str, name: str, content: str) -> str:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    replaced, count = pattern.subn(lambda match: match[1] + content + "\n" + match[2], text)
    if count != 1:
        raise ValueError(f"{DOCUMENT}: has {count} places for {name}, must have one")
    return replaced


def main() -> None:
    dtype = sys.argv[1] if len(sys.argv) > 1 else "bfloat16"
    for name, make in (("gates", gate_table), ("mutations", mutation_table)):
        content = make(dtype)
        DOCUMENT.write_text(replace(DOCUMENT.read_text(), name, content))


if __name__ == "__main__":
    main()
