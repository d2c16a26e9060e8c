"""The compiler's process as its client sees it: requests of many threads, and what happens when something ends."""

import concurrent.futures
import os
import pathlib
import pickle
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

import jaxator as jxt
from jaxator import flight
from jaxator.flight import _compiler

SCALE = """
module {
  func.func @scale(%x: !flight.ptr<f32, global, 16>, %y: !flight.ptr<f32, global, 16>) attributes {flight.block = array<i64: 64, 1, 1>} {
    %i = flight.thread_id x
    %xs = flight.view %x[%i] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "1:1", 4>
    %v = flight.load %xs : !flight.view<f32, global, "1:1", 4> -> vector<1xf32>
    %k = arith.constant dense<FACTOR> : vector<1xf32>
    %w = arith.mulf %v, %k : vector<1xf32>
    %ys = flight.view %y[%i] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "1:1", 4>
    flight.store %w, %ys : vector<1xf32>, !flight.view<f32, global, "1:1", 4>
    return
  }
}
"""


def scale(factor=2.0):
    return SCALE.replace("FACTOR", f"{factor:.1f}")


TARGETS = ("x86-64", "gfx942", "gfx950", "sm_90a")
MAGIC = {"x86-64": b"\x7fELF", "gfx942": b"\x7fELF", "gfx950": b"\x7fELF"}


@pytest.fixture
def own_pool(monkeypatch):
    """A process of this test's own."""
    pool = _compiler._Pool()
    monkeypatch.setattr(_compiler, "_pool", pool)
    yield pool
    pool.stop()


@pytest.fixture
def fake(own_pool, monkeypatch, tmp_path):
    """Makes a program of a few lines of Python the compiler."""

    def use(body):
        path = tmp_path / "flightc"
        path.write_text(f"#!{sys.executable}\nimport json, sys\n{body}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(_compiler, "require_executable", lambda: path)

    return use


HELLO = 'print(json.dumps({"flightc": "fake", "llvm": "0"}), flush=True)\n'


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_gets_code_and_a_report(target):
    made = _compiler.compile_text(target, scale())
    assert made.code.startswith(MAGIC.get(target, b"//")) and b"scale" in made.code
    report = made.report["kernels"]["scale"]
    if target.startswith("gfx"):
        assert report["registers"] > 0 and report["spills"] == report["scratch_bytes"] == 0


def test_equal_requests_give_equal_code():
    for target in TARGETS:
        assert _compiler.compile_text(target, scale()).code == _compiler.compile_text(target, scale()).code


def test_many_requests_at_once():
    factors = [k / 2 for k in range(20)]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        codes = list(pool.map(lambda f: _compiler.compile_text("gfx942", scale(f)).code, factors))
    assert len(set(codes)) == len(factors)
    assert codes[7] == _compiler.compile_text("gfx942", scale(factors[7])).code, "answers are not mixed up"


WRONG = {
    "text": ("garbage", "diagnostic", "garbage"),
    "type": (SCALE.replace("FACTOR", "2.0").replace("vector<1xf32>", "vector<2xf32>", 1), "diagnostic", "vector<2xf32>"),
    "target": (scale(), "request", "gfx1201"),
}


@pytest.mark.parametrize("text, kind, words", WRONG.values(), ids=WRONG)
def test_what_is_refused_says_why_and_the_next_request_works(text, kind, words):
    with pytest.raises(_compiler.CompileError, match=words) as caught:
        _compiler.compile_text("gfx1201" if kind == "request" else "gfx942", text)
    assert caught.value.kind == kind
    assert _compiler.compile_text("gfx942", scale()).code


def test_an_error_shows_the_users_lines(tmp_path):
    source = tmp_path / "user.py"
    source.write_text("first\n  the_second_line(x)\nthird\n")
    error = _compiler.CompileError("diagnostic", "no", [("f", str(source), 2, 3), ("g", "missing.py", 1, 1)], ["a note"])
    assert str(error).splitlines() == [
        "no", f'  File "{source}", line 2, in f', "    the_second_line(x)", "    ^", '  File "missing.py", line 1, in g',
        "  note: a note",
    ]  # fmt: skip
    assert isinstance(error, flight.FlightError) and str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_time_limit_is_an_error_of_its_request():
    with pytest.raises(_compiler.CompileError) as caught:
        _compiler.compile_text("gfx942", scale(), _compiler.Options(time_limit_s=1e-4))
    assert caught.value.kind == "time"
    assert _compiler.compile_text("gfx942", scale()).code


def test_a_killed_process_fails_its_requests_and_is_started_again(own_pool):
    assert _compiler.compile_text("gfx942", scale()).code
    process = own_pool.get()
    os.kill(process._child.pid, signal.SIGKILL)
    process._child.wait()
    assert _compiler.compile_text("gfx942", scale()).code
    assert own_pool.get() is not process


def test_it_ends_when_its_user_ends():
    code = "from jaxator.flight import _compiler; _compiler.start(); print(_compiler._pool.get()._child.pid, flush=True); import os; os._exit(1)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    pid = int(child.stdout)
    for _ in range(100):
        if not pathlib.Path(f"/proc/{pid}").exists():
            return
        subprocess.run(["sleep", "0.05"])
    raise AssertionError(f"process {pid} still runs")


def test_a_forked_child_has_a_process_of_its_own(own_pool):
    """And does not take the parent's: that still ends and still answers."""
    parent = own_pool.get()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = b"0"
        try:
            _compiler._pool.forget()
            same = _compiler._pool.get() is parent
            answer = b"1" if _compiler.compile_text("gfx942", scale(3)).code and not same else b"0"
            _compiler._pool.stop()
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 1) == b"1"
    assert _compiler.compile_text("gfx942", scale(4)).code
    assert own_pool.get() is parent


FAKES = {
    "it ends in the middle of an answer": (
        HELLO + 'sys.stdin.readline(); print(json.dumps({"id": 1, "size": 1000}), flush=True); sys.stdout.write("x")',
        "the compiler's process ended before it answered",
    ),
    "it answers nonsense": (HELLO + 'sys.stdin.readline(); print("nonsense", flush=True)', "ended before it answered"),
    "it ends at once": (HELLO, "ends as soon as it is started|ended before it answered"),
}


@pytest.mark.parametrize("body, words", FAKES.values(), ids=FAKES)
def test_a_broken_process_is_an_error(fake, body, words):
    fake(body)
    with pytest.raises(_compiler.CompileError, match=words) as caught:
        _compiler.compile_text("gfx942", scale())
    assert caught.value.kind == "backend"


def test_another_program_is_not_taken_for_the_compiler(fake):
    fake('print("hello")')
    with pytest.raises(RuntimeError, match="did not start as Flight's compiler"):
        _compiler.compile_text("gfx942", scale())


def test_answers_may_come_in_any_order(fake):
    fake(
        HELLO
        + textwrap.dedent("""
            requests = []
            for _ in range(3):
                head = json.loads(sys.stdin.readline())
                requests.append((head["id"], sys.stdin.read(head["size"])))
            for number, text in reversed(requests):
                code = text.upper()
                print(json.dumps({"id": number, "size": len(code), "report": {"n": number}}), flush=True)
                sys.stdout.write(code)
                sys.stdout.flush()
            """)
    )
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        codes = list(pool.map(lambda text: _compiler.compile_text("gfx942", text).code, ["ab", "c", "def"]))
    assert codes == [b"AB", b"C", b"DEF"]


def test_a_missing_compiler_is_named(own_pool, monkeypatch):
    monkeypatch.setattr(_compiler, "find_executable", lambda: None)
    with pytest.raises(jxt.UnsupportedError, match="jaxator-flightc is not in this installation: pip install"):
        _compiler.compile_text("gfx942", scale())


def test_the_toolchain_is_known_without_starting_it():
    assert len(_compiler.toolchain()) == 40 and int(_compiler.toolchain(), 16) > 0
