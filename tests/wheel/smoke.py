"""Builds the wheels, states their sizes and platforms, and tries them in clean environments without a compiler on PATH."""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import compiler_wheel
from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "wheel"
CACHE = ROOT / ".cache" / "wheel-env"
PROGRAM = Path(__file__).with_name("program.py")
LIMIT_BYTES = 25 * 10**6
PROGRAMS = ("jaxator-disassemble", "jaxator-emulate")  # of the emulator
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "clang-22", "clang++-22", "ld", "cmake")
ONLY_WHEELS = "--only-binary=:all:"
SHF_ALLOC = 2


@dataclass(frozen=True)
class Environment:
    name: str
    minor: int | None  # of Python 3; None: the newest that is here
    jax: str  # requirement

    def python(self, pythons: list[tuple[tuple[int, ...], str]]) -> tuple[str, str]:
        """Its Python, or the reason why there is none."""
        for version, path in pythons:  # newest first
            if version[1] == self.minor or (self.minor is None and version >= (3, 12)):
                return path, ""
        found = ", ".join(".".join(map(str, version)) for version, _ in pythons)
        return "", f"needs Python {f'3.{self.minor}' if self.minor else '3.12 or later'}; found: {found}"


ENVIRONMENTS = (
    Environment("oldest", 11, "jax==0.10.2"),
    Environment("newest-python", None, "jax==0.11.2"),
    Environment("newest", None, "jax"),
)


def output_of(*command: str | Path, **options) -> str:
    """Standard output; on failure shows all that the command printed."""
    result = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def working_pythons() -> list[tuple[tuple[int, ...], str]]:
    lines = output_of("bash", "-c", "source tools/pythons.sh; working_pythons", cwd=ROOT).splitlines()
    return [(tuple(map(int, version.split("."))), path) for version, path in (line.split(maxsplit=1) for line in lines)]


def op_sizes() -> Counter:
    """Bytes that each op's object files add to memory, over all libraries of the wheel."""
    sizes = Counter()
    for path in BUILD.rglob("*.o"):
        if match := re.search(r"/src/(?:ops/(\w+)/|ffi/(\w+)\.cpp|(\w+)/)", str(path)):
            with path.open("rb") as file:
                sections = [section for section in ELFFile(file).iter_sections() if section["sh_flags"] & SHF_ALLOC]
                allocated = sum(section["sh_size"] for section in sections)
            op = match[1] or match[2]
            sizes[op if op and (ROOT / "src" / "ops" / op).is_dir() else "(run time)"] += allocated
    return sizes


def check_contents(wheel: Path) -> None:
    """Each library is there once, is the one just built, and nothing of the development tree came along."""
    size = wheel.stat().st_size
    with zipfile.ZipFile(wheel) as archive:
        libraries = {entry.filename: entry for entry in archive.infolist() if entry.filename.endswith(".so")}
        assert len(libraries) == len(set(archive.namelist()) & set(libraries)), "a library is packed twice"
        names = sorted(Path(name).name for name in libraries)
        built = sorted(path.name for path in (BUILD / "lib").glob("*.so"))
        assert names == built, f"the wheel holds {names}, the build made {built}"
        modes = {Path(entry.filename).name: entry.external_attr >> 16 for entry in archive.infolist()}
        assert all(modes.get(name, 0) & 0o111 for name in PROGRAMS), f"missing or not executable: {PROGRAMS}"
        misplaced = [name for name in archive.namelist() if not re.match(r"jaxator/|jaxator-[\w.]+\.dist-info/", name)]
        assert not misplaced, f"unexpected files: {misplaced}"
        print(f"{wheel.name}: {size / 1e6:.3f} MB (limit {LIMIT_BYTES / 1e6:.0f}), {len(archive.namelist())} files")
    for name, entry in sorted(libraries.items()):
        print(f"  {name:40} {entry.file_size / 1e3:9.1f} kB  packed {entry.compress_size / 1e3:8.1f} kB")
    for op, size_of_op in op_sizes().most_common():
        print(f"  op {op:37} {size_of_op / 1e3:9.1f} kB  in all libraries")
    assert size <= LIMIT_BYTES, f"the wheel has {size} bytes, more than {LIMIT_BYTES}"
    print(f"  auditwheel: {platform_of(wheel)}")


def platform_of(wheel: Path) -> str:
    report = " ".join(output_of(sys.executable, "-m", "auditwheel", "show", wheel).split())
    match = re.search(r'following platform tag: "([^"]+)"', report)
    assert match, f"auditwheel names no platform: {report}"
    return match[1]


def prepared(environment: Environment, python: str, wheel: Path) -> Path:
    """The Python of a virtual environment with this wheel in it, kept between runs and made anew if its parts changed."""
    folder, wheel_hash = CACHE / environment.name, hashlib.sha256(wheel.read_bytes()).hexdigest()
    stamp, executable = folder / "contents.json", folder / "bin" / "python"
    # The newest jax is looked for again whenever the project's own environment got another one.
    newest = output_of(sys.executable, "-c", "import jax; print(jax.__version__)").strip()
    parts = {"python": python, "jax": environment.jax, "newest": newest, "metadata": metadata_hash(wheel)}
    was = json.loads(stamp.read_text()) if stamp.exists() else {}
    if {**was, "wheel": None} != {**parts, "wheel": None}:
        shutil.rmtree(folder, ignore_errors=True)
        output_of(python, "-m", "venv", folder)
        pip(executable, "install", ONLY_WHEELS, wheel, environment.jax)
    elif was["wheel"] != wheel_hash:
        pip(executable, "install", ONLY_WHEELS, "--no-deps", "--force-reinstall", wheel)
    stamp.write_text(json.dumps({**parts, "wheel": wheel_hash}))
    return executable


def pip(executable: Path, command: str, *arguments: str | Path) -> None:
    options = "--quiet --disable-pip-version-check --no-input".split()
    path = os.environ | {"PATH": str(executable.parent)}
    output_of(executable, "-m", "pip", command, *options, *arguments, env=path)


def metadata_hash(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return hashlib.sha256(archive.read(name)).hexdigest()


def try_in(executable: Path, program: Path, *arguments: str) -> str:
    path = str(executable.parent)
    compilers = [name for name in COMPILERS if shutil.which(name, path=path)]
    assert not compilers, f"not a clean environment: {compilers}"
    variables = os.environ | {"PATH": path, "JAX_PLATFORMS": "cpu"}
    # -I: neither PYTHONPATH nor the current folder, so that only the wheels can be imported.
    return output_of(executable, "-I", program, *arguments, env=variables, cwd=CACHE).strip()


def main() -> int:
    wheel, compiler = (Path(ROOT, line) for line in output_of(ROOT / "tools" / "wheel.sh").split())
    counts = Counter()
    for check in (lambda: check_contents(wheel), lambda: compiler_wheel.check_contents(compiler, platform_of)):
        try:
            check()
            counts["passed"] += 1
        except AssertionError as error:
            print(f"  FAILED: {error}")
            counts["failed"] += 1
    pythons = working_pythons()
    CACHE.mkdir(parents=True, exist_ok=True)
    for environment in ENVIRONMENTS:
        python, reason = environment.python(pythons)
        if not python:
            result, text = "skipped", f"not run: {reason}"
        else:
            try:
                executable = prepared(environment, python, wheel)
                run, with_pip = functools.partial(try_in, executable), functools.partial(pip, executable)
                result, text = "passed", "; ".join([run(PROGRAM), *compiler_wheel.try_with(compiler, run, with_pip)])
            except (RuntimeError, AssertionError) as error:
                result, text = "failed", f"FAILED: {error}"
        counts[result] += 1
        print(f"  {environment.name:14} {text}", flush=True)
    print(f"wheel: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
