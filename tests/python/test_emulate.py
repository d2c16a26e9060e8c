"""`jaxator emulate`: the emulator's own command with its options, its output and its exit status."""

from __future__ import annotations

import pathlib

import judge_kernels as kernels
import pytest
from judge_kernels import COPY, LOAD, LOADED, START, STORE
from typer.testing import CliRunner

from jaxator import _targets
from jaxator.cli import emulate
from jaxator.cli.app import app

needs_emulator = pytest.mark.skipif(_targets.emulation_refusal() is not None, reason="the emulator is not built")
ARGUMENTS = ["--block", "256", "--arg", "buffer:4K:random", "--arg", "buffer:4K"]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path):
    """run(assembly or None, words) -> exit status, output."""

    def run(body: str | None, *words: str) -> tuple[int, str]:
        path = tmp_path / "k.hsaco"
        if body is not None:
            path.write_bytes(kernels.image(body))
        result = CliRunner().invoke(
            app, ["emulate", *([str(path)] if body is not None else []), *words], env={"COLUMNS": "200"}
        )
        out, err = capfd.readouterr()
        return result.exit_code, result.output + out + err

    return run


@needs_emulator
def test_exit_status_and_report(run) -> None:
    status, output = run(COPY, *ARGUMENTS)
    assert status == 0 and output.startswith("completed, ")
    status, output = run(START + LOAD + STORE + LOADED, *ARGUMENTS)
    assert status == 1 and "missing wait in k: v[4:7] is used" in output and "global_store_dwordx4" in output
    status, output = run(COPY, *ARGUMENTS, "--speed", "1")
    assert status == 2 and "unknown option --speed" in output


@needs_emulator
def test_options_are_those_of_the_emulator(run, tmp_path: pathlib.Path) -> None:
    result = tmp_path / "out"
    status, _ = run(COPY, *ARGUMENTS, "--seed", "3", "--check", "waits,races", "--dump", f"1={result}")
    assert status == 0 and result.stat().st_size == 4096
    assert "64 vector" in run(COPY, "--list")[1] and "s_endpgm" in run(COPY, "--disassemble")[1]
    assert "--time-limit" in run(None, "--help")[1]
    assert run(None, str(tmp_path / "none.hsaco"))[0] == 2


def test_without_the_emulator(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulate, "find_library", lambda name: None)
    status, output = run(None, "k.hsaco")
    text = " ".join(output.replace("│", " ").split())
    assert status == 2 and "the emulator (jaxator-emulate) is not in this installation: build it from source" in text
