"""The demo: trains the same small LLaMA on the same text with plain JAX and with Jaxator, and compares the two.

Each run is a process of its own, one after the other. Results are in --out: comparison.json, comparison.png, and for
each run a folder with its settings, metrics, checkpoint and sample.
"""

import json
import shutil
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from interrupt import EXIT_CODE_BASE, Interrupt
from report import draw, sentences, summarise, table
from settings import (
    ATTENTION_FILE,
    CHECKPOINT_FOLDER,
    CONFIG_FILE,
    METRICS_FILE,
    RESULT_FILE,
    SAMPLE_FILE,
    Implementation,
    Settings,
)

TRAIN_SCRIPT = Path(__file__).with_name("train.py")
POLL_SECONDS = 0.1
LEARNING_RATE = 1e-3
"""At this rate the runs' different roundings do not grow: between two formulations of plain JAX the final validation loss
differs by up to 0.02 % (three seeds); by 0.1 % at twice the rate, 0.5 % at four times, 2.6 % at eight times."""


class Choice(StrEnum):
    plain = "plain"
    jaxator = "jaxator"
    both = "both"


def prepare(folder: Path, settings: Settings, resume: bool) -> None:
    """Leaves in `folder` the settings and, only if resuming, what an earlier run with the same settings left there."""
    if resume and (folder / CONFIG_FILE).exists():
        if differences := settings.differences(Settings.load(folder)):
            raise typer.BadParameter(
                f"the run in {folder} had other settings: {', '.join(differences)}. "
                "Give the same options (in brackets), or another --out."
            )
        return
    for name in (ATTENTION_FILE, METRICS_FILE, RESULT_FILE, SAMPLE_FILE):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / CHECKPOINT_FOLDER, ignore_errors=True)
    settings.save(folder)


def run_process(folder: Path, resume: bool, interrupt: Interrupt) -> int:
    """Trains in a child process and returns its exit code; an interrupt is passed on and the child is waited for."""
    if interrupt.received is not None:
        return EXIT_CODE_BASE + interrupt.received
    child = subprocess.Popen([sys.executable, TRAIN_SCRIPT, folder, *(["--resume"] if resume else [])])
    passed_on = False
    while True:
        try:
            code = child.wait(POLL_SECONDS)
            return code if code >= 0 else EXIT_CODE_BASE - code
        except subprocess.TimeoutExpired:
            # A terminal's Ctrl-C has reached the child already: a second one does no harm.
            if interrupt.received is not None and not passed_on:
                child.send_signal(interrupt.received)
                passed_on = True


def main(
    steps: Annotated[int, typer.Option(help="Training steps of each run.")] = 160,
    seq_len: Annotated[int, typer.Option(help="Context in bytes.")] = 2048,
    batch: Annotated[int, typer.Option(help="Sequences a step.")] = 1,
    implementation: Annotated[Choice, typer.Option(help="Which of the two to run.")] = Choice.both,
    seed: Annotated[int, typer.Option(help="Of the start weights, the batches and the sample.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("demo-output"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue what an interrupted demo left in --out.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the table as one JSON object to stdout.")] = False,
    layers: Annotated[int, typer.Option(help="Transformer blocks.")] = 4,
    width: Annotated[int, typer.Option(help="Width of the model.")] = 256,
    hidden: Annotated[int, typer.Option(help="Width of the feed-forward part.")] = 688,
    heads: Annotated[int, typer.Option(help="Query heads.")] = 4,
    kv_heads: Annotated[int, typer.Option(help="Key/value heads.")] = 2,
    head_size: Annotated[int, typer.Option(help="Size of a head.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Peak rate of AdamW.")] = LEARNING_RATE,
    weight_decay: Annotated[float, typer.Option(help="Of AdamW; not on norm weights.")] = 0.1,
    warmup_steps: Annotated[int, typer.Option(help="Steps to the peak rate.")] = 20,
    validation_sequences: Annotated[int, typer.Option(help="Sequences of the fixed validation set.")] = 16,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 50,
    sample_bytes: Annotated[int, typer.Option(help="Length of the generated sample; 0 for none.")] = 400,
) -> None:
    """Train a byte-level LLaMA on Python's standard library with plain JAX and with Jaxator, and compare them."""
    interrupt = Interrupt()
    # With --json, stdout holds the JSON object and nothing else.
    console = Console(stderr=json_output)
    names: list[Implementation] = ["plain", "jaxator"] if implementation is Choice.both else [implementation.value]
    folders = [out / name for name in names]
    for name, folder in zip(names, folders, strict=True):
        settings = Settings(
            implementation=name,
            steps=steps,
            sequence_length=seq_len,
            batch=batch,
            seed=seed,
            layers=layers,
            width=width,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_size=head_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            warmup_steps=warmup_steps,
            validation_sequences=validation_sequences,
            checkpoint_every=checkpoint_every,
            # One sample is shown: that of the last run.
            sample_bytes=sample_bytes if name == names[-1] else 0,
        )
        try:
            settings.validate()
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        prepare(folder, settings, resume)

    for name, folder in zip(names, folders, strict=True):
        if (folder / RESULT_FILE).exists():
            console.print(f"{name}: complete in {folder}")
            continue
        code = run_process(folder, resume, interrupt)
        if code:
            if interrupt.received is not None:
                console.print(f"Interrupted. Continue with the same options and --resume; results are in {out}.")
            else:
                console.print(f"[red]The {name} run failed with exit code {code}.[/red]")
            raise typer.Exit(code)

    figure = out / "comparison.png"
    draw(folders, figure)
    summary = summarise(folders) | {"figure": str(figure)}
    text = json.dumps(summary, indent=2)
    (out / "comparison.json").write_text(text + "\n")
    if sample_bytes:
        sample = (folders[-1] / SAMPLE_FILE).read_text()
        console.rule(f"sample of the {names[-1]} run")
        console.print(sample, markup=False, highlight=False)
        console.rule()
    console.print(table(summary))
    for sentence in sentences(summary):
        console.print(sentence, highlight=False)
    console.print(f"Figure: {figure}. Table as JSON: {out / 'comparison.json'}.")
    if json_output:
        print(text)


if __name__ == "__main__":
    typer.run(main)
