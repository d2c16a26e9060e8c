"""One training run: `python train.py FOLDER [--resume]`, started by compare.py, which writes FOLDER/config.json.

Writes into FOLDER: metrics.jsonl (a line a step), checkpoints/, result.json when done and sample.txt if asked.
Exit code 0 when done, 128 + signal number when interrupted; either way the checkpoint holds all that --resume needs.
"""

import sys
from pathlib import Path

from interrupt import EXIT_CODE_BASE, Interrupt
from settings import Settings


def main(folder: Path, resume: bool) -> int:
    interrupt = Interrupt()
    # Imported only now: JAX takes seconds to load, and an interrupt in that time must not be lost.
    from training import Run

    settings = Settings.load(folder)
    run = Run(folder, settings)
    if resume:
        run.restore()
    choice = run.attention_choice
    measured = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in choice["seconds"].items())
    print(
        f"{settings.implementation}: {run.parameters:,} parameters, "
        f"step {run.step} of {settings.steps}, compiled in {run.compile_seconds:.1f} s\n"
        f"  one layer's attention, forward and backward: {measured}; used: {choice['used']}",
        file=sys.stderr,
    )
    done = run.train(stop=lambda: interrupt.received is not None)
    if not done and interrupt.received is not None:
        print(f"{interrupt.received.name}: stopped after step {run.step} of {settings.steps}, saved.", file=sys.stderr)
        return EXIT_CODE_BASE + interrupt.received
    run.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), "--resume" in sys.argv[2:]))
