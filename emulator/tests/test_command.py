"""jaxator-emulate: what it prints and its exit status."""

from __future__ import annotations

import functools
import pathlib
import subprocess

import numpy as np
import pytest
from emulator import LIBRARY, TESTS, compile_image

COMMAND = pathlib.Path(LIBRARY).parent / "jaxator-emulate"
ADD = ["--grid", "4", "--block", "256"]


@functools.cache
def image(name: str) -> bytes:
    return compile_image(TESTS / f"kernels/{name}.cpp", "gfx942", "-O3", "-g1")


def emulate(folder: pathlib.Path, name: str, *words: str) -> tuple[int, str]:
    path = folder / f"{name}.hsaco"
    path.write_bytes(image(name))
    result = subprocess.run([COMMAND, path, *words], capture_output=True, text=True, timeout=20)
    assert (result.returncode == 2) == bool(result.stderr)
    return result.returncode, result.stdout + result.stderr


def arguments(*values: str) -> list[str]:
    return [word for value in values for word in ("--arg", value)]


def test_clean_launch(tmp_path: pathlib.Path) -> None:
    a, b = np.arange(1000, dtype=np.float32), np.full(1000, 3, np.float32)
    a.tofile(tmp_path / "a"), b.tofile(tmp_path / "b")
    buffers = arguments(f"buffer:@{tmp_path}/a", f"buffer:@{tmp_path}/b", "buffer:4000", "i32:1000")
    others = ["--dump", f"2={tmp_path}/c", "--seed", "7", "--threads", "1"]
    status, text = emulate(tmp_path, "vector_add", *ADD, *buffers, *others)
    assert (status, text.splitlines()) == (0, ["completed, 320 wave instructions"])
    np.testing.assert_array_equal(np.fromfile(tmp_path / "c", np.float32), a + b)


def test_a_finding(tmp_path: pathlib.Path) -> None:
    buffers = arguments("buffer:4000:random", "buffer:3996:zeros", "buffer:4K", "i32:1000")
    status, text = emulate(tmp_path, "vector_add", *ADD, *buffers)
    lines = text.splitlines()
    assert status == 1 and lines[0].startswith("ended by a finding, ")
    assert lines[1].startswith("out of bounds in vadd: 4 bytes at address 0x")
    assert "byte 3996 of argument 1 (3996 bytes)" in lines[1]
    assert "global_load_dword" in lines[2] and lines[3].endswith("vector_add.cpp:5")
    assert lines[4] == "  workgroup (3,0,0), wave 3, lane 39"


def test_checks_are_chosen(tmp_path: pathlib.Path) -> None:
    buffers = arguments("buffer:4000", "buffer:4000", "buffer:4000", "i32:1000")
    status, text = emulate(tmp_path, "vector_add", *ADD, *buffers)
    assert status == 1 and "uninitialised value in vadd" in text
    assert emulate(tmp_path, "vector_add", *ADD, *buffers, "--check", "waits,races,banks")[0] == 0
    assert emulate(tmp_path, "vector_add", *ADD, *buffers, "--check", "none")[0] == 0


def test_time_limit(tmp_path: pathlib.Path) -> None:
    words = ["--kernel", "spin_between_groups", "--grid", "2", *arguments("buffer:64:zeros", "buffer:64", "u32:9")]
    status, text = emulate(tmp_path, "order", *words, "--time-limit", "0.2")
    assert status == 1 and "no progress in spin_between_groups" in text


def test_listing(tmp_path: pathlib.Path) -> None:
    status, text = emulate(tmp_path, "order", "--list")
    assert status == 0 and text.startswith("gfx942\n")
    assert "spin_in_group: " in text and "4 bytes of LDS" in text and "up to 256 threads" in text
    status, text = emulate(tmp_path, "vector_add", "--disassemble")
    assert status == 0 and "s_endpgm" in text


REFUSED = {
    "--grid 0 --arg buffer:64 --arg buffer:64": "grid.x=0: must be positive",
    "--kernel nothing": "nothing",
    "--grid 1,2,3,4": "--grid 1,2,3,4: at most three numbers",
    "--grid 1,x": "--grid x: not a number of this kind",
    "--grid 99999999999": "--grid 99999999999: the number is out of range",
    "--arg i32:1": "order takes 2 arguments, 1 were given",
    "--arg i32:1 --arg buffer:64": "argument 0 (i32:1) has 4 bytes, parameter  has 8",
    "--arg i32:1.5": "--arg i32 1.5: not a number of this kind",
    "--arg i128:1": "--arg i128:1: unknown type i128",
    "--arg 5": "--arg 5: must be TYPE:VALUE",
    "--arg buffer:64:ones": "--arg buffer:64:ones: after the size may follow zeros or random",
    "--arg buffer:@/nonexistent": "--arg buffer:@/nonexistent: No such file",
    "--check speed": "--check speed: must be waits, races, banks, poison, all or none",
    "--dump 3=x": "--dump 3: there is no buffer of that number",
    "--fast 1": "unknown option --fast",
    "--seed": "--seed needs a value",
    "other.hsaco": "unexpected other.hsaco",
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words: str, tmp_path: pathlib.Path) -> None:
    kernel = [] if "--kernel" in words else ["--kernel", "order"]
    status, text = emulate(tmp_path, "order", *kernel, *words.split())
    assert status == 2 and text.startswith("jaxator-emulate: ") and REFUSED[words] in text


def test_which_kernel(tmp_path: pathlib.Path) -> None:
    assert "has 3 kernels: choose one with --kernel: order" in emulate(tmp_path, "order")[1]
    (tmp_path / "text.hsaco").write_text("nothing")
    result = subprocess.run([COMMAND, tmp_path / "text.hsaco", "--list"], capture_output=True, text=True)
    assert result.returncode == 2 and "not an ELF file" in result.stderr
    assert "Exit status" in subprocess.run([COMMAND, "--help"], capture_output=True, text=True).stdout
