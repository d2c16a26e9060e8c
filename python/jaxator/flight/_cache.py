"""Compiled kernels, kept in memory and on disk by what they were made from.

The key is a hash of everything that decides the code: the text that was traced (helpers, constants, shapes and layouts are in it),
the target, the compiler's build and its options. So an edited helper is another key, and nothing else can be stale. On disk an
entry is one file that says its own key and the hash of its contents; what does not fit is compiled again, never run. Several
processes may use one folder: entries appear whole (a rename), and one process compiles a kernel while the others wait for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from jaxator.flight import _compiler

_MAGIC = b"jaxator-flight-artifact 1\n"
_ENDING = ".flight"

DEFAULT_LIMIT_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class Artifact:
    """Compiled code. It needs nothing else to run."""

    target: str
    key: str
    code: bytes
    report: str
    """JSON; see `_compiler.Compiled.report`."""

    @property
    def kernels(self) -> dict[str, dict[str, Any]]:
        """For each kernel what the compiler reports."""
        return json.loads(self.report).get("kernels", {})

    def to_bytes(self) -> bytes:
        """A line that says what this is, a hash of all that follows, a line of JSON, the compressed code."""
        head = json.dumps({"target": self.target, "key": self.key, "report": self.report})
        body = b"".join([head.encode(), b"\n", zlib.compress(self.code, 6)])
        return b"".join([_MAGIC, _digest(body).encode(), body])

    @staticmethod
    def from_bytes(data: bytes, key: str) -> Artifact:
        """Raises ValueError if this is not the artifact of the key, whole and unchanged."""
        if not data.startswith(_MAGIC):
            raise ValueError("not an artifact of this version")
        digest, body = data[len(_MAGIC) :][:64], data[len(_MAGIC) + 64 :]
        if _digest(body).encode() != digest:
            raise ValueError("damaged: other contents than its hash says")
        head_text, _, packed = body.partition(b"\n")
        head = json.loads(head_text)
        if head["key"] != key:
            raise ValueError("of another key")
        return Artifact(head["target"], key, zlib.decompress(packed), head["report"])


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def key_of(target: str, text: str, options: _compiler.Options, toolchain: str) -> str:
    parts = {"target": target, "text": text, "options": options.key(), "toolchain": toolchain}
    return _digest(json.dumps(parts, sort_keys=True).encode())


class Cache:
    """One folder of artifacts, and those that this process has used. Safe for threads and processes.

    Args:
      folder: where artifacts are kept; None keeps them in memory only.
      limit_bytes: when the folder grows beyond it, what was not used for longest is removed.
    """

    def __init__(self, folder: pathlib.Path | None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._entries: dict[str, Future[Artifact]] = {}

    def get(self, key: str, make: Callable[[], Artifact]) -> Artifact:
        """The artifact of a key; `make` is called at most once at a time for a key, and again after it failed."""
        with self._lock:
            future = self._entries.get(key)
            mine = future is None
            if future is None:
                future = self._entries[key] = Future()
        if not mine:
            return future.result()
        try:
            artifact = self._read_or_make(key, make)
        except BaseException as error:
            with self._lock:
                del self._entries[key]
            future.set_exception(error)
            raise
        future.set_result(artifact)
        return artifact

    def forget_unfinished(self) -> None:
        """In a forked child: the threads that were at work are in the parent only."""
        self._lock = threading.Lock()
        self._entries = {key: future for key, future in self._entries.items() if future.done()}

    def _read_or_make(self, key: str, make: Callable[[], Artifact]) -> Artifact:
        if self.folder is None:
            return make()
        if (found := self._read(key)) is not None:
            return found
        with self._alone(key):
            if (found := self._read(key)) is not None:  # another process was faster
                return found
            artifact = make()
            self._write(artifact)
        return artifact

    def _path(self, key: str) -> pathlib.Path:
        return self.folder / key[:2] / (key + _ENDING)

    def _read(self, key: str) -> Artifact | None:
        path = self._path(key)
        try:
            artifact = Artifact.from_bytes(path.read_bytes(), key)
        except (OSError, ValueError):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # its last use
        return artifact

    def _write(self, artifact: Artifact) -> None:
        """A folder that cannot be written to costs speed, not the result."""
        path = self._path(artifact.key)
        with contextlib.suppress(OSError):
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(artifact.to_bytes())
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
            self._trim()

    @contextlib.contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Only one process compiles a key at a time; the lock goes with the process if that ends."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = open(path.with_suffix(".lock"), "ab")  # noqa: SIM115
        except OSError:
            yield
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _trim(self) -> None:
        files = []
        for path in self.folder.glob(f"*/*{_ENDING}"):
            with contextlib.suppress(OSError):
                stat = path.stat()
                files.append((stat.st_mtime_ns, stat.st_size, path))
        size = sum(bytes_ for _, bytes_, _ in files)
        for _, bytes_, path in sorted(files, key=lambda entry: entry[0]):
            if size <= self.limit_bytes:
                break
            for old in (path, path.with_suffix(".lock")):
                with contextlib.suppress(OSError):
                    old.unlink()
            size -= bytes_


def default_folder() -> pathlib.Path:
    """The user's cache folder, by the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".cache") / "jaxator" / "flight"


_current = Cache(None)
_current_lock = threading.Lock()
_configured = False


def set_folder(folder: str | os.PathLike[str] | None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
    """Where compiled kernels are kept from now on; None keeps them in memory only."""
    global _current, _configured
    with _current_lock:
        _current = Cache(None if folder is None else pathlib.Path(folder), limit_bytes)
        _configured = True


def current() -> Cache:
    global _current, _configured
    with _current_lock:
        if not _configured:
            _current, _configured = Cache(default_folder()), True
        return _current


def _after_fork() -> None:
    global _current_lock
    _current_lock = threading.Lock()
    _current.forget_unfinished()


os.register_at_fork(after_in_child=_after_fork)


def compiled(target: str, text: str, options: _compiler.Options | None = None) -> Artifact:
    """The code of a module: from memory, from disk, or compiled now.

    Raises:
      CompileError, UnsupportedError: as `_compiler.compile_text`.
    """
    options = options or _compiler.Options()
    if target == "x86-64" and options.cpu is None:
        options = dataclasses.replace(options, cpu=host_cpu())
    key = key_of(target, text, options, _compiler.toolchain())

    def make() -> Artifact:
        made = _compiler.compile_text(target, text, options)
        return Artifact(target, key, made.code, json.dumps(made.report))

    return current().get(key, make)


def host_cpu() -> str:
    """The instruction set that kernels for this machine use. It is part of the key: a cache may be shared by machines."""
    from jaxator import _ffi

    selected: Any = _ffi.cpu_report()["selected"]
    return str(selected)
