"""The cache of compiled kernels: nothing stale, nothing damaged is ever run; threads and processes share the work."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from jaxator.flight import _cache, _compiler
from jaxator.flight._cache import Artifact, Cache

KEY, OTHER = "ab" * 32, "cd" * 32
ARTIFACT = Artifact("gfx942", KEY, b"\x7fELF" + bytes(range(256)) * 50, '{"kernels": {"k": {"spills": 0}}}')


def path_in(folder, key=KEY):
    return folder / key[:2] / (key + ".flight")


def refuse():
    raise AssertionError("compiled again")


class Counted:
    def __init__(self, artifact=ARTIFACT, seconds=0.0):
        self.artifact, self.seconds, self.calls = artifact, seconds, 0

    def __call__(self):
        self.calls += 1
        time.sleep(self.seconds)
        return self.artifact


def test_an_artifact_survives_bytes():
    assert Artifact.from_bytes(ARTIFACT.to_bytes(), KEY) == ARTIFACT
    assert ARTIFACT.kernels == {"k": {"spills": 0}}
    assert len(ARTIFACT.to_bytes()) < len(ARTIFACT.code) // 4, "compressed"


def test_another_process_finds_what_was_compiled(tmp_path):
    make = Counted()
    assert Cache(tmp_path).get(KEY, make) is ARTIFACT
    cache = Cache(tmp_path)
    assert cache.get(KEY, refuse) == ARTIFACT
    assert cache.get(KEY, refuse) is cache.get(KEY, refuse), "in memory from now on"
    assert make.calls == 1


DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "cut in the head": lambda data: data[:60],
    "another version": lambda data: data.replace(b"artifact 1", b"artifact 2", 1),
    "a bit of the code": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "a bit of the hash": lambda data: data.replace(b" 1\n", b" 1\n0", 1),
    "no JSON": lambda data: data.replace(b"{", b"[", 1),
    "another key": lambda data: data.replace(KEY.encode(), OTHER.encode()),
    "a list": lambda data: data.split(b"\n")[0] + b"\n[]\n",
    "something else": lambda data: os.urandom(1000),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_or_foreign_entry_is_compiled_again_and_replaced(tmp_path, damage):
    Cache(tmp_path).get(KEY, Counted())
    path = path_in(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    make = Counted()
    assert Cache(tmp_path).get(KEY, make) == ARTIFACT
    assert make.calls == 1
    assert Cache(tmp_path).get(KEY, refuse) == ARTIFACT


def test_every_byte_is_guarded():
    data = ARTIFACT.to_bytes()
    for position in range(len(data)):
        with pytest.raises(ValueError):
            Artifact.from_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :], KEY)
        with pytest.raises(ValueError):
            Artifact.from_bytes(data[:position], KEY)


def test_threads_compile_a_key_once(tmp_path):
    make, cache, gate = Counted(seconds=0.05), Cache(tmp_path), threading.Barrier(8)

    def one():
        gate.wait()
        return cache.get(KEY, make)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = [future.result() for future in [pool.submit(one) for _ in range(8)]]
    assert make.calls == 1 and all(artifact is ARTIFACT for artifact in found)


def test_other_keys_do_not_wait(tmp_path):
    cache, started, finish = Cache(tmp_path), threading.Event(), threading.Event()

    def slow():
        started.set()
        assert finish.wait(20)
        return ARTIFACT

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(cache.get, KEY, slow)
        assert started.wait(20)
        other = Artifact("gfx942", OTHER, b"code", "{}")
        assert cache.get(OTHER, lambda: other) is other
        finish.set()
        assert future.result() is ARTIFACT


def test_a_failure_is_everyones_who_waits_and_is_tried_again(tmp_path):
    cache = Cache(tmp_path)
    error = _compiler.CompileError("diagnostic", "no", (), ())

    def fail():
        raise error

    for _ in range(2):
        with pytest.raises(_compiler.CompileError):
            cache.get(KEY, fail)
    assert cache.get(KEY, Counted()) is ARTIFACT


PROCESS = """
import sys, pathlib, time
from jaxator.flight._cache import Artifact, Cache
folder, key = pathlib.Path(sys.argv[1]), sys.argv[2]
def make():
    with open(folder / "calls", "a") as file:
        file.write("x")
    time.sleep(0.3)
    return Artifact("gfx942", key, b"code" * 1000, "{}")
assert Cache(folder).get(key, make).code == b"code" * 1000
"""


def test_processes_compile_a_key_once(tmp_path):
    children = [subprocess.Popen([sys.executable, "-c", PROCESS, tmp_path, KEY]) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert (tmp_path / "calls").read_text() == "x"


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    size = len(ARTIFACT.to_bytes())
    keys = [f"{i:02x}" * 32 for i in range(5)]
    cache = Cache(tmp_path, limit_bytes=3 * size + size // 2)
    for age, key in enumerate(keys[:3]):
        cache.get(key, Counted(Artifact("gfx942", key, ARTIFACT.code, ARTIFACT.report)))
        os.utime(path_in(tmp_path, key), (1000 + age, 1000 + age))
    assert Cache(tmp_path).get(keys[0], refuse).key == keys[0]  # used now
    cache.get(keys[3], Counted(Artifact("gfx942", keys[3], ARTIFACT.code, ARTIFACT.report)))
    left = [key for key in keys if path_in(tmp_path, key).exists()]
    assert left == [keys[0], keys[2], keys[3]]


def test_a_folder_that_cannot_be_written_costs_nothing_but_speed(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "below", pathlib.Path("/proc/nothing")):
        assert Cache(folder).get(KEY, Counted()) is ARTIFACT


def test_without_a_folder_artifacts_stay_in_memory():
    cache = Cache(None)
    assert cache.get(KEY, Counted()) is ARTIFACT and cache.get(KEY, refuse) is ARTIFACT


def test_a_forked_child_does_not_wait_for_threads_of_its_parent():
    cache, started, finish = Cache(None), threading.Event(), threading.Event()

    def slow():
        started.set()
        finish.wait(20)
        return ARTIFACT

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(cache.get, KEY, slow)
        assert started.wait(20)
        cache.forget_unfinished()  # what the child does after a fork
        assert cache.get(KEY, Counted()) is ARTIFACT
        finish.set()


def test_the_key_covers_everything_that_decides_the_code():
    options = _compiler.Options(cpu="x86-64-v3")
    base = _cache.key_of("x86-64", "text", options, "build 1")
    others = [
        _cache.key_of("gfx942", "text", options, "build 1"),
        _cache.key_of("x86-64", "text ", options, "build 1"),
        _cache.key_of("x86-64", "text", options, "build 2"),
        _cache.key_of("x86-64", "text", _compiler.Options(cpu="x86-64-v4"), "build 1"),
        _cache.key_of("x86-64", "text", _compiler.Options(cpu="x86-64-v3", route="tiles"), "build 1"),
        _cache.key_of("x86-64", "text", _compiler.Options(cpu="x86-64-v3", optimize=0), "build 1"),
    ]
    assert len({base, *others}) == len(others) + 1
    limits = _compiler.Options(cpu="x86-64-v3", time_limit_s=1, memory_limit_mb=500, dump=True)
    assert _cache.key_of("x86-64", "text", limits, "build 1") == base, "limits do not change code"
