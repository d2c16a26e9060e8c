"""Programs with one planted fault each: the report names it, its line and its kernel, and docs/emulator.md shows it.

    .venv/bin/python emulator/tests/test_fault_reports.py

writes the reports into the document.
"""

from __future__ import annotations

import functools
import pathlib
import re
import subprocess
import tempfile

import pytest
from emulator import LIBRARY, TESTS, compile_image

COMMAND = pathlib.Path(LIBRARY).parent / "jaxator-emulate"
SOURCE = TESTS / "kernels/faults.cpp"
DOCUMENT = TESTS.parents[1] / "docs/emulator.md"
BEGIN, END = "<!-- faults -->\n", "<!-- end of faults -->"

# Kernel -> what the report calls the fault, the exit status, and more words for the command.
FAULTS = {
    "race": ("LDS race", 1, ["--check", "races"]),
    "global_race": ("global memory race", 1, ["--check", "races"]),
    "missing_wait": ("missing wait", 1, []),
    "hazard": ("hazard", 1, []),
    "out_of_bounds": ("out of bounds", 1, []),
    "uninitialised": ("uninitialised value", 1, []),
    "bank_conflict": ("bank conflict", 0, []),
    "too_much_lds": ("LDS bytes=66560: gfx942 has 65536", 2, ["--lds", "1024"]),
    "unknown_instruction": ("unknown instruction", 1, []),
    "mismatched_barrier": ("mismatched barrier", 1, []),
    "no_end": ("no progress", 1, ["--time-limit", "0.3", "--check", "none"]),
}


@functools.cache
def image() -> bytes:
    return compile_image(SOURCE, "gfx942", "-O3", "-g1")


def emulate(kernel: str) -> tuple[int, str]:
    _, _, words = FAULTS[kernel]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "faults.hsaco").write_bytes(image())
        command = [COMMAND, "faults.hsaco", "--kernel", kernel, "--block", "256", "--threads", "1"]
        arguments = ["--arg", "buffer:1K:random", "--arg", "buffer:1K"]
        result = subprocess.run([*command, *arguments, *words], cwd=folder, capture_output=True, text=True, timeout=20)
    return result.returncode, result.stdout + result.stderr


def line_of_fault(kernel: str) -> str:
    """The line of the source that has a comment: the fault is there."""
    _, _, body = SOURCE.read_text().partition(f" void {kernel}(")
    return next(line for line in body.partition("\n}")[0].splitlines() if "//" in line).strip()


def shown(kernel: str) -> str:
    """The report as the document has it: no folder before a file's name."""
    return re.sub(r"^(\s+)\S*/(faults\.cpp)", r"\1\2", emulate(kernel)[1], flags=re.MULTILINE)


def comparable(text: str) -> str:
    """Without what another compiler or run may change: addresses, counts, registers, where an endless loop was."""
    text = re.sub(r"(workgroups are done); .*\n  at .*\n", r"\1\n", text)
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"\b[vs](\d+|\[\d+:\d+\])", "REGISTER", text)
    text = re.sub(
        r"wave \d+ at ADDRESS \([^)]*\)|\d+ wave instructions|\d+ times in all|bytes? \d+|wave \d+|lane \d+", "NUMBER", text
    )
    return " ".join(text.split())


def section() -> str:
    parts = [f"`{kernel}`:\n```cpp\n{line_of_fault(kernel)}\n```\n```\n{shown(kernel)}```\n" for kernel in FAULTS]
    return BEGIN + "\n".join(parts) + END


@pytest.mark.parametrize("kernel", FAULTS)
def test_the_report_names_the_fault(kernel: str) -> None:
    name, expected, _ = FAULTS[kernel]
    status, text = emulate(kernel)
    assert (
        status == expected
        and name in text
        and (expected == 2 or kernel == "bank_conflict" or f"{name} in {kernel}: " in text)
    )
    if expected != 2:
        numbers = [number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if line_of_fault(kernel) in line]
        assert f"faults.cpp:{numbers[0]}" in text, text


@pytest.mark.parametrize("kernel", FAULTS)
def test_the_document_shows_the_report(kernel: str) -> None:
    _, _, rest = DOCUMENT.read_text().partition(BEGIN)
    blocks = re.findall(r"^`(\w+)`:\n```cpp\n(.*?)\n```\n```\n(.*?)```$", rest.partition(END)[0], re.MULTILINE | re.DOTALL)
    documented = {name: (line, report) for name, line, report in blocks}
    assert documented.keys() == FAULTS.keys()
    line, report = documented[kernel]
    assert line == line_of_fault(kernel) and comparable(report) == comparable(shown(kernel))


if __name__ == "__main__":
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + section() + rest.partition(END)[2])
