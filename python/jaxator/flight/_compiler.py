"""The compiler's process: started when first needed, shared by all threads, started again if it ever ends.

docs/flight/compiler.md has the protocol. A request that fails is an error of its caller; the process, and the others' requests,
go on.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib.util
import itertools
import json
import os
import pathlib
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from jaxator._errors import UnsupportedError
from jaxator._library import find_library
from jaxator.flight._errors import FlightError

EXECUTABLE = "jaxator-flightc"


@dataclasses.dataclass(frozen=True)
class Options:
    """What a request may say besides its text; part of the key of the cache, except the limits."""

    route: str | None = None
    """On x86: "tiles" or "threads"; None: chosen by the kernel."""
    cpu: str | None = None
    """On x86: "x86-64-v3", "x86-64-v4", ...; None: the one at hand."""
    optimize: int = 3
    dump: bool = False
    time_limit_s: float = 60.0
    memory_limit_mb: int = 2048

    def request(self) -> dict[str, Any]:
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def key(self) -> dict[str, Any]:
        limits = ("time_limit_s", "memory_limit_mb", "dump")
        return {name: value for name, value in self.request().items() if name not in limits}


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the compiler made of one text."""

    code: bytes
    report: Mapping[str, Any]
    """"kernels": for each kernel registers, shared_bytes, spills, scratch_bytes and more; "seconds"."""
    dumps: Sequence[Mapping[str, str]] = ()
    """The IR after each pass, where it was asked for."""


class CompileError(FlightError):
    """A kernel that the compiler refused.

    Attributes:
      kind: "diagnostic", "backend", "time", "memory" or "request".
      notes: what belongs to it, as the place of the other one of two accesses.
    """

    def __init__(self, kind: str, message: str, frames: Sequence[Sequence[Any]], notes: Sequence[str]) -> None:
        super().__init__(message, tuple((str(f), str(path), int(line), int(column)) for f, path, line, column in frames))
        self.kind = kind
        self.notes = tuple(notes)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  note: {note}" for note in self.notes)])

    def __reduce__(self) -> Any:
        return CompileError, (self.kind, self.message, self.frames, self.notes)


def find_executable() -> pathlib.Path | None:
    """In this installation, or in the package that has the compiler alone."""
    if (found := find_library(EXECUTABLE)) is not None:
        return pathlib.Path(found)
    spec = importlib.util.find_spec("jaxator_flightc")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        if (path := pathlib.Path(folder, "lib", EXECUTABLE)).is_file():
            return path
    return None


def require_executable() -> pathlib.Path:
    path = find_executable()
    if path is None:
        raise UnsupportedError(
            "flight", {"compile": [f"{EXECUTABLE} is not in this installation: pip install jaxator-flightc"]}
        )
    return path


@functools.lru_cache(maxsize=8)
def _identity(path: str, size: int, changed_ns: int) -> str:
    """The linker's build id, which follows from the contents: found without reading 100 MB or starting the process."""
    with open(path, "rb") as file:
        head = file.read(1 << 16)
    name = b"\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00"  # a note of 20 bytes, type build id
    at = head.find(name)
    if at < 0:
        return f"{size}-{changed_ns}"
    return head[at + len(name) :][:20].hex()


def toolchain() -> str:
    """What tells one build of the compiler from another."""
    path = require_executable()
    stat = path.stat()
    return _identity(str(path), stat.st_size, stat.st_mtime_ns)


def _environment() -> dict[str, str]:
    """In which the compiler finds ptxas: after those of PATH the one that JAX's CUDA packages bring."""
    found = importlib.util.find_spec("nvidia")
    folders = [pathlib.Path(f) for f in (found.submodule_search_locations or () if found is not None else ())]
    ptxas = [str(path.parent) for folder in folders for path in sorted(folder.glob("*/bin/ptxas"))]
    return {**os.environ, "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), *ptxas])}


class _Process:
    """One running compiler. Answers are matched to requests by a thread that reads."""

    def __init__(self, path: pathlib.Path) -> None:
        self._child = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env=_environment(),
        )  # fmt: skip
        self.version = self._greeting(path)
        self._writing = threading.Lock()
        self._pending: dict[int, concurrent.futures.Future[Compiled]] = {}
        self._numbers = itertools.count(1)
        self._ended = False
        threading.Thread(target=self._read, name="jaxator-flightc", daemon=True).start()

    def _greeting(self, path: pathlib.Path) -> Mapping[str, Any]:
        said = _line(self._child.stdout)
        try:
            version = json.loads(said)
            if "flightc" in version:
                return version
        except (ValueError, TypeError):
            pass
        self._child.kill()
        self._child.wait()
        raise RuntimeError(f"{path} did not start as Flight's compiler: it said {said!r}")

    @property
    def alive(self) -> bool:
        return not self._ended and self._child.poll() is None

    def send(self, target: str, text: bytes, options: Options) -> concurrent.futures.Future[Compiled]:
        answer: concurrent.futures.Future[Compiled] = concurrent.futures.Future()
        head = {"target": target, "size": len(text), "options": options.request()}
        with self._writing:
            if self._ended:
                raise BrokenPipeError
            number = next(self._numbers)
            self._pending[number] = answer
            try:
                self._child.stdin.write(json.dumps({"id": number, **head}).encode() + b"\n" + text)
                self._child.stdin.flush()
            except OSError:
                self._pending.pop(number, None)
                with contextlib.suppress(OSError):  # what was not written is given up
                    self._child.stdin.close()
                raise
        return answer

    def let_go(self) -> None:
        """In a forked child, whose copies of the pipes would keep the parent's compiler alive. The file objects may be in the
        middle of something, so only what their numbers stand for is replaced."""
        with open(os.devnull, "r+b") as nothing:
            for pipe in (self._child.stdin, self._child.stdout):
                os.dup2(nothing.fileno(), pipe.fileno())

    def stop(self) -> None:
        with self._writing:
            self._ended = True
            try:
                self._child.stdin.close()  # it ends when there is nothing more to read
            except OSError:
                pass
        try:
            self._child.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _read(self) -> None:
        out = self._child.stdout
        try:
            while head := _line(out):
                answer = json.loads(head)
                code = _exactly(out, answer["size"])
                if (future := self._pending.pop(answer["id"], None)) is not None:
                    _settle(future, answer, code)
        except (OSError, ValueError, KeyError, EOFError):
            pass
        with self._writing:
            self._ended = True
            pending, self._pending = self._pending, {}
        for future in pending.values():
            future.set_exception(CompileError("backend", "the compiler's process ended before it answered", (), ()))


def _line(stream: BinaryIO) -> bytes:
    return stream.readline()


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


def _settle(future: concurrent.futures.Future[Compiled], answer: Mapping[str, Any], code: bytes) -> None:
    if (error := answer.get("error")) is not None:
        future.set_exception(CompileError(error["kind"], error["message"], error.get("frames", ()), error.get("notes", ())))
    else:
        future.set_result(Compiled(code, answer.get("report", {}), tuple(answer.get("dumps", ()))))


class _Pool:
    """The process of this Python process. A forked child starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._parents: list[_Process] = []  # kept, so that nothing of theirs is closed by the child

    def get(self) -> _Process:
        with self._lock:
            if self._process is None or not self._process.alive:
                self._process = _Process(require_executable())
            return self._process

    def stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.stop()

    def forget(self) -> None:
        process, self._lock, self._process = self._process, threading.Lock(), None
        if process is not None:
            process.let_go()
            self._parents.append(process)


_pool = _Pool()
atexit.register(_pool.stop)
os.register_at_fork(after_in_child=_pool.forget)


def compile_text(target: str, text: str, options: Options | None = None) -> Compiled:
    """Compiles a module.

    Args:
      target: "x86-64", "gfx942", "gfx950" or "sm_90a".
      text: the module in text form.

    Raises:
      CompileError: the compiler refused it, crashed on it, or met a limit.
      UnsupportedError: the compiler is not installed.
    """
    data = text.encode()
    for attempt in (1, 2):
        try:
            return _pool.get().send(target, data, options or Options()).result()
        except BrokenPipeError:
            # It ended between two requests; a new one gets the request once.
            if attempt == 2:
                raise CompileError("backend", "the compiler's process ends as soon as it is started", (), ()) from None
    raise AssertionError("not reached")


def start() -> Mapping[str, Any]:
    """Starts the process if it does not run; returns what it says of itself."""
    return _pool.get().version
