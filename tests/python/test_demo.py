"""The demo in examples/train_llama: the whole command on a tiny model, its interrupt and resume, its data."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "train_llama"
STEPS = 200
TINY = {
    "--steps": STEPS,
    "--seq-len": 64,
    "--batch": 2,
    "--layers": 2,
    "--width": 64,
    "--hidden": 96,
    "--heads": 4,
    "--kv-heads": 2,
    "--head-size": 16,
    "--validation-sequences": 4,
    "--sample-bytes": 20,
    "--learning-rate": 3e-3,
}
LIMIT_SECONDS = 300

# One worker of a parallel run takes them all: the demo that they share is then run once.
pytestmark = pytest.mark.xdist_group("demo")


def command(out: Path, *options: str) -> list[str]:
    tiny = [str(word) for pair in TINY.items() for word in pair]
    return [sys.executable, str(DEMO / "compare.py"), *tiny, "--out", str(out), *options]


def environment() -> dict[str, str]:
    paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(out, *options), env=environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )


def losses(folder: Path) -> dict[int, float]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert len(records) == len({record["step"] for record in records})
    return {record["step"]: record["loss"] for record in records}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The output folder and the --json object of an uninterrupted demo."""
    out = tmp_path_factory.mktemp("demo")
    done = run(out, "--json")
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_json_has_the_table(complete: tuple[Path, dict]) -> None:
    out, summary = complete
    assert json.loads((out / "comparison.json").read_text()) == summary
    assert summary["steps"] == STEPS
    assert list(summary["runs"]) == ["plain", "jaxator"]
    for name, result in summary["runs"].items():
        assert result["implementation"] == name
        assert result["tokens_per_second"] == pytest.approx(2 * 64 / result["step_seconds"])
        assert 50 * 2**20 < result["peak_memory_bytes"] < 2**36
        assert 0 < result["attention_share"]
        assert result["attention"] in result["attention_choice_seconds"]
    assert set(summary["runs"]["plain"]["attention_choice_seconds"]) == {"jax.nn.dot_product_attention", "fp32 einsum"}
    plain, jaxator = summary["runs"]["plain"], summary["runs"]["jaxator"]
    assert summary["speedup"] == pytest.approx(jaxator["tokens_per_second"] / plain["tokens_per_second"])


def test_both_runs_learn_the_same(complete: tuple[Path, dict]) -> None:
    out, summary = complete
    plain, jaxator = losses(out / "plain"), losses(out / "jaxator")
    assert list(plain) == list(jaxator) == list(range(1, STEPS + 1))
    # Same weights and bytes: the first loss differs by bf16 rounding only (2^-9 of logits of size 1, averaged).
    assert jaxator[1] == pytest.approx(plain[1], abs=2e-3)
    for name, run_losses in (("plain", plain), ("jaxator", jaxator)):
        validation = summary["runs"][name]["final_validation_loss"]
        # A model that knows no more than byte frequencies of source text stays above 3 nats.
        assert validation < 3.0 < run_losses[1]
    assert abs(summary["validation_loss_difference"]) < 0.02


def test_figure_and_sample(complete: tuple[Path, dict]) -> None:
    out, summary = complete
    figure = Path(summary["figure"])
    assert figure == out / "comparison.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert (out / "jaxator" / "sample.txt").read_text().startswith("def read(")
    assert not (out / "plain" / "sample.txt").exists()


def interrupted(out: Path, number: signal.Signals, steps_seen: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the demo and sends it a signal once its Jaxator run has recorded `steps_seen` steps."""
    metrics = out / "jaxator" / "metrics.jsonl"
    with subprocess.Popen(command(out, *options), env=environment(), stderr=subprocess.PIPE, text=True) as child:
        try:
            deadline = time.monotonic() + LIMIT_SECONDS
            while not (metrics.exists() and metrics.read_text().count("\n") >= steps_seen):
                assert child.poll() is None and time.monotonic() < deadline
                time.sleep(0.002)
            child.send_signal(number)
            _, errors = child.communicate(timeout=LIMIT_SECONDS)
        finally:
            child.kill()
    return subprocess.CompletedProcess(child.args, child.returncode, stderr=errors)


def test_interrupt_and_resume_change_nothing(complete: tuple[Path, dict], tmp_path: Path) -> None:
    options = ("--implementation", "jaxator")
    resume: tuple[str, ...] = ()
    stopped_after = 0
    for number in (signal.SIGINT, signal.SIGTERM):
        stopped = interrupted(tmp_path, number, stopped_after + 3, *options, *resume)
        assert stopped.returncode == 128 + number, stopped.stderr
        assert f"{number.name}: stopped after step" in stopped.stderr
        before, stopped_after = stopped_after, len(losses(tmp_path / "jaxator"))
        assert before + 3 <= stopped_after < STEPS
        resume = ("--resume",)

    done = run(tmp_path, *options, *resume)
    assert done.returncode == 0, done.stderr
    assert f"step {stopped_after} of {STEPS}" in done.stderr
    assert losses(tmp_path / "jaxator") == losses(complete[0] / "jaxator")
    result = json.loads((tmp_path / "comparison.json").read_text())["runs"]["jaxator"]
    assert result["final_validation_loss"] == complete[1]["runs"]["jaxator"]["final_validation_loss"]


def test_resume_refuses_other_settings(complete: tuple[Path, dict]) -> None:
    refused = run(complete[0], "--resume", "--seed", "5")
    assert refused.returncode == 2
    assert "seed=5 (0)" in refused.stderr


def test_resume_of_a_complete_demo_trains_nothing(complete: tuple[Path, dict]) -> None:
    again = run(complete[0], "--resume", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == complete[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--kv-heads", "3"), "heads=4 must be a multiple of kv_heads=3"), (("--steps", "0"), "steps=0 must be positive")],
)
def test_bad_options_are_named(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    refused = run(tmp_path, *options)
    assert refused.returncode == 2
    # The message may be wrapped in a box.
    assert message in " ".join(refused.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_corpus_is_split_by_file_and_batches_follow_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEMO))
    from corpus import load_corpus, training_batch, validation_batches

    for i in range(64):
        (tmp_path / f"module_{i}.py").write_bytes(f"<{i}>".encode())
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "other.py").write_bytes(b"<other>")
    corpus = load_corpus(tmp_path)
    train, validation = (
        {piece for piece in part.tobytes().split(b"\0") if piece} for part in (corpus.train, corpus.validation)
    )
    assert train and validation and not train & validation
    assert train | validation == {f"<{i}>".encode() for i in range(64)}

    first = training_batch(corpus.train, seed=1, step=7, batch=3, sequence_length=8)
    assert first.shape == (3, 9) and first.dtype == np.int32
    np.testing.assert_array_equal(first, training_batch(corpus.train, 1, 7, 3, 8))
    assert not np.array_equal(first, training_batch(corpus.train, 1, 8, 3, 8))
    assert not np.array_equal(first, training_batch(corpus.train, 2, 7, 3, 8))
    windows = validation_batches(corpus.validation, sequences=4, batch=2, sequence_length=3)
    assert [window.shape for window in windows] == [(2, 4), (2, 4)]
    assert windows[-1][-1].astype(np.uint8).tobytes() == corpus.validation[-4:].tobytes()
    with pytest.raises(ValueError, match="training text has"):
        training_batch(corpus.train, 0, 0, 1, len(corpus.train))
