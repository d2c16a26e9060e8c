"""Writes the tables of docs/cdna-kernels.md: what the judge measures of each kernel, and what became of every mutation.

PYTHONPATH=python JAX_PLATFORMS=cpu .venv/bin/python tests/python/judge_document.py gates
PYTHONPATH=python JAX_PLATFORMS=cpu .venv/bin/python tests/python/judge_document.py mutations [--dtype float16] ...
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import itertools
import multiprocessing
import os
import pathlib
import re
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

import judge_cases
import judge_mutated

from jaxator.judge import floors_for, gates, measure, report
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


# ---- mutations -------------------------------------------------------------------------------------------------------

_Kernel = tuple[str, str]
"""Architecture and name."""
_ROW = re.compile(r"\| `(?P<kernel>[^`]+)` \| (?P<target>gfx\w+) \| \d+ \| (?P<counts>[\d |]+) \|")
_SURVIVOR = re.compile(r"- `(?P<kernel>[^`]+)`, (?P<target>gfx\w+): ")


@dataclasses.dataclass
class MutationTable:
    """What became of the mutations of each kernel."""

    counts: dict[_Kernel, Counter[str]]
    survivors: dict[_Kernel, list[str]]

    @classmethod
    def read(cls, text: str) -> MutationTable:
        table = cls({}, {})
        for line in text.splitlines():
            if row := _ROW.fullmatch(line):
                counts = map(int, row["counts"].split(" | "))
                table.counts[row["target"], row["kernel"]] = Counter(dict(zip(FATES, counts, strict=True)))
            elif survivor := _SURVIVOR.match(line):
                table.survivors.setdefault((survivor["target"], survivor["kernel"]), []).append(line)
        return table

    def add(self, kernel: _Kernel, outcomes: Sequence[Outcome]) -> None:
        self.counts[kernel] = Counter(map(fate, outcomes))
        self.survivors[kernel] = [f"- `{kernel[1]}`, {kernel[0]}: `{o.mutation}`" for o in outcomes if fate(o) == "survived"]

    def __str__(self) -> str:
        def row(kernel: str, target: str, counts: Counter[str]) -> str:
            return f"| {kernel} | {target} | {counts.total()} | " + " | ".join(str(counts[f]) for f in FATES) + " |"

        lines = [
            "| kernel | target | mutations | " + " | ".join(FATES) + " |",
            "| --- | --- |" + " --- |" * (1 + len(FATES)),
        ]
        lines += [row(f"`{kernel}`", target, counts) for (target, kernel), counts in sorted(self.counts.items())]
        sums = sum(self.counts.values(), Counter[str]())
        needed = sums["noticed"] + sums["survived"]
        share = f"{sums['noticed'] / max(needed, 1):.1%}"
        lines += [
            row("all", "", sums),
            f"\nNoticed: {sums['noticed']} of the {needed} that are reached and not proved redundant, {share}.",
        ]
        survivors = [line for _, some in sorted(self.survivors.items()) for line in some]
        return "\n".join([*lines, "", *(["Survivors:", "", *survivors] if survivors else ["No mutation survived."])])


def write_mutations(
    architectures: Sequence[str], dtypes: Sequence[str], families: Sequence[str], pattern: str, processes: int
) -> None:
    """Each kernel's row is in the document as soon as its mutations have been tried; rows of other kernels stay."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        tried: dict[Future[list[Outcome]], _Kernel] = {}
        for dtype, family, architecture in itertools.product(dtypes, families, architectures):
            every = judge_mutated.launches_to_mutate(architecture, dtype, quick=False, families=(family,))
            for kernel, launches in every.items():
                if fnmatch.fnmatch(kernel, pattern):
                    tried[pool.submit(try_all, launches)] = (architecture, kernel)
        for future in as_completed(tried):
            text = DOCUMENT.read_text()
            table = MutationTable.read(text)
            table.add(tried[future], future.result())
            DOCUMENT.write_text(replace(text, "mutations", str(table)))
            print(*tried[future], dict(table.counts[tried[future]]), file=sys.stderr, flush=True)


def replace(text: str, name: str, content: str) -> str:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    replaced, count = pattern.subn(lambda match: match[1] + content + "\n" + match[2], text)
    if count != 1:
        raise ValueError(f"{DOCUMENT}: has {count} places for {name}, must have one")
    return replaced


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("gates", "mutations"))
    parser.add_argument("--target", choices=judge_cases.ARCHITECTURES, action="append")
    parser.add_argument("--dtype", choices=judge_cases.DTYPES, action="append")
    parser.add_argument("--family", choices=tuple(judge_mutated.FAMILIES), action="append")
    parser.add_argument("--kernel", default="*", help="mutations: of kernels whose names match")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    dtypes = options.dtype or ["bfloat16"]
    if options.what == "gates":
        DOCUMENT.write_text(replace(DOCUMENT.read_text(), "gates", gate_table(dtypes[0])))
    else:
        families = options.family or tuple(judge_mutated.FAMILIES)
        targets = options.target or judge_cases.ARCHITECTURES
        write_mutations(targets, dtypes, families, options.kernel, options.processes)


if __name__ == "__main__":
    main()
