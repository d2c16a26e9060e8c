"""The compiler's process: its protocol, and that whatever happens to a request happens to no other."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time

import flightc
import kernels
import pytest


def works(compiler: flightc.Process) -> None:
    assert compiler.code(kernels.SCALE, "gfx942").startswith(b"\x7fELF")


def slow(operations: int = 30000) -> str:
    """Text that takes seconds: a long chain that nothing shortens."""
    lines = ["    %v0 = vector.extract %a_vector[0] : f32 from vector<1xf32>"]
    for i in range(operations):
        lines.append(f"    %w{i} = math.sqrt %v{i} : f32\n    %v{i + 1} = arith.subf %w{i}, %a : f32")
    body = kernels.load("a", "%x", "%t") + "\n".join(lines) + "\n" + kernels.store(f"%v{operations}", "%x", "%t", "end")
    return kernels.module("    %t = flight.thread_id x\n" + body, f"%x: {kernels.PTR}")


def children(process: subprocess.Popen) -> list[int]:
    return [int(pid) for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def wait_for_child(process: subprocess.Popen) -> int:
    for _ in range(2000):
        if found := children(process):
            return found[0]
        time.sleep(0.005)
    raise AssertionError("no request is being compiled")


def test_greeting(compiler):
    assert compiler.greeting["llvm"].startswith("22.1") and compiler.greeting["flightc"]


@pytest.mark.parametrize("target", flightc.TARGETS)
def test_report(compiler, target):
    answer, code = compiler.compile(kernels.block_sum(), target)
    assert (
        answer["id"] == 1 and answer["size"] == len(code) > 0 and answer["report"]["seconds"] > 0 and answer["dumps"] == []
    )
    needs = answer["report"]["kernels"]["kernel"]
    assert needs["shared_bytes"] == 512 and needs["dynamic_shared_bytes"] == 0
    if target == "sm_90a" and not flightc.PTXAS.is_file():
        assert needs["registers"] is None and needs["spills"] is None and needs["scratch_bytes"] is None
    else:
        assert 0 < needs["registers"] <= 32 and needs["spills"] == needs["scratch_bytes"] == 0
    assert (needs["accumulators"] == 0) == target.startswith("gfx")
    assert (needs["scalars"] is None) == (target == "sm_90a")


def test_the_same_text_gives_the_same_bytes(compiler):
    for target in flightc.TARGETS:
        first = compiler.code(kernels.transpose(), target)
        assert all(compiler.code(kernels.transpose(), target) == first for _ in range(3))


BAD = {
    "no JSON": (b"{nonsense", "the line is not JSON"),
    "no object": (b"[1, 2]", "not a JSON object"),
    "no size": ({"id": 3, "target": "gfx942", "size": None}, "size must be 0 to"),
    "negative size": ({"id": 3, "target": "gfx942", "size": -1}, "size must be 0 to"),
    "no target": ({"id": 3, "size": 0}, "target that is missing is not one of x86-64, gfx942, gfx950, sm_90a"),
    "unknown target": ({"id": 3, "target": "gfx90a", "size": 0}, 'target "gfx90a" is not one of'),
    "unknown option": ({"id": 3, "target": "gfx942", "size": 0, "options": {"fast": 1}}, "option fast is not one of"),
    "optimize": (
        {"id": 3, "target": "gfx942", "size": 0, "options": {"optimize": 4}},
        "option optimize = 4: must be 0 to 3",
    ),
    "time": (
        {"id": 3, "target": "gfx942", "size": 0, "options": {"time_limit_s": 0}},
        "option time_limit_s = 0: must be seconds",
    ),
    "route": ({"id": 3, "target": "gfx942", "size": 0, "options": {"route": "x"}}, 'must be "tiles" or "threads"'),
    "options": ({"id": 3, "target": "gfx942", "size": 0, "options": []}, "options must be a JSON object"),
    "cpu": ({"id": 3, "target": "x86-64", "options": {"cpu": "z80"}}, "cpu z80 is not one"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests(compiler, case):
    line, expected = BAD[case]
    compiler.send(line, kernels.SCALE if case == "cpu" else "")
    answer, _ = compiler.receive()
    assert answer["error"]["kind"] == "request" and expected in answer["error"]["message"], answer
    assert answer["id"] == (3 if isinstance(line, dict) else None)
    works(compiler)


def test_a_bad_request_is_skipped_with_its_text(compiler):
    compiler.send({"id": 8, "target": "nothing"}, kernels.SCALE)
    assert compiler.receive()[0]["id"] == 8
    works(compiler)


def test_text_that_is_no_module(compiler):
    error = flightc.error_of(compiler, "module {\n  func.func @f() {\n    %x = nonsense.op\n    return\n  }\n}")
    assert error["kind"] == "diagnostic" and error["frames"][0][1:] == ["<request>", 3, 10]
    assert "nonsense" in error["message"]
    works(compiler)


def test_a_module_without_kernels(compiler):
    assert "the module has no kernel" in flightc.error_of(compiler, "module {}")["message"]
    text = "module {\n  func.func @f() {\n    return\n  }\n}"
    assert "kernel f must have flight.block" in flightc.error_of(compiler, text)["message"]


def test_the_users_lines(compiler):
    """Innermost first, whatever finds the fault."""
    location = (
        'loc(callsite("helper"("kernels.py":12:9) at callsite("softmax"("kernels.py":40:1) at "<module>"("train.py":7:3))))'
    )
    frames = [["helper", "kernels.py", 12, 9], ["softmax", "kernels.py", 40, 1], ["<module>", "train.py", 7, 3]]
    verifier = kernels.SCALE.replace('global, "4:1", 16>\n      %v', f'global, "4:1", 64> {location}\n      %v')
    error = flightc.error_of(
        compiler, verifier.replace('!flight.view<f32, global, "4:1", 16> ->', '!flight.view<f32, global, "4:1", 64> ->')
    )
    assert error["frames"] == frames and "alignment 64 of the view is more than the pointer's 16" in error["message"]
    checked = kernels.transpose(barrier=False).replace(
        "-> vector<16xf32>\n    %ys", f"-> vector<16xf32> {location}\n    %ys"
    )
    error = flightc.error_of(compiler, checked, "sm_90a")
    assert error["frames"] == frames and error["kind"] == "diagnostic" and "a barrier must come between" in error["message"]


SWAP = kernels.module(
    "    %c0 = arith.constant 0 : index\n    %no = arith.constant false\n"
    + kernels.load("a", "%x", "%c0")
    + """    %i = arith.bitcast %a : f32 to i32
    %pair = llvm.call_intrinsic "llvm.amdgcn.permlane32.swap"(%i, %i, %no, %no)
      : (i32, i32, i1, i1) -> !llvm.struct<(i32, i32)> loc("scaled.py":5:2)
    %first = llvm.extractvalue %pair[0] : !llvm.struct<(i32, i32)>
    %r = arith.bitcast %first : i32 to f32
"""
    + kernels.store("%r", "%x", "%c0", "end"),
    f"%x: {kernels.PTR}",
)


def test_an_intrinsic_that_the_target_lacks(compiler):
    """LLVM ends its process over it."""
    compiler.code(SWAP, "gfx950")
    error = flightc.error_of(compiler, SWAP, "gfx942")
    assert error["kind"] == "backend" and "llvm.amdgcn.permlane32.swap" in error["message"], error
    assert error["frames"] == [["", "scaled.py", 5, 2]]
    works(compiler)


def test_a_crash(compiler):
    compiler.send({"id": 5, "target": "gfx942"}, slow())
    child = wait_for_child(compiler.process)
    time.sleep(0.1)
    os.kill(child, signal.SIGSEGV)
    error = compiler.receive()[0]["error"]
    assert error["kind"] == "backend" and "the compiler crashed: signal 11, Segmentation fault" in error["message"]
    assert error["message"].endswith("(in parse)") or error["frames"][0][1] == "<request>"
    works(compiler)


def test_a_crash_of_its_own(compiler):
    """So many nested regions that the parser's recursion meets the end of the stack."""
    depth = 20000
    text = kernels.module("scf.if %b {\n" * depth + "}\n" * depth, "%b: i1")
    error = flightc.error_of(compiler, text)
    assert error["kind"] == "backend" and "crashed" in error["message"], error
    works(compiler)


def test_time_limit(compiler):
    start = time.monotonic()
    error = flightc.error_of(compiler, slow(), time_limit_s=0.3)
    assert error["kind"] == "time" and "takes more than 0.3 s" in error["message"]
    assert time.monotonic() - start < 10
    works(compiler)


def test_memory_limit(compiler):
    error = flightc.error_of(compiler, slow(), memory_limit_mb=20)
    assert error["kind"] == "memory" and "needs more than 20 MB" in error["message"]
    works(compiler)


def test_many_at_once(compiler):
    """Answers in any order, to their requests."""
    for i in range(20):
        compiler.send({"id": i, "target": flightc.TARGETS[i % 4]}, kernels.SCALE if i % 5 else "module {")
    answers = [compiler.receive() for _ in range(20)]
    assert sorted(answer["id"] for answer, _ in answers) == list(range(20))
    for answer, code in answers:
        assert ("error" in answer) == (answer["id"] % 5 == 0) and (len(code) > 0) == (answer["id"] % 5 != 0)


def test_a_slow_request_does_not_hold_up_the_next(compiler):
    compiler.send({"id": 1, "target": "gfx942", "options": {"time_limit_s": 3}}, slow())
    compiler.send({"id": 2, "target": "gfx942"}, kernels.SCALE)
    assert compiler.receive()[0]["id"] == 2
    assert compiler.receive()[0]["id"] == 1


def test_what_arrives_in_parts(compiler):
    text = kernels.SCALE.encode()
    data = json.dumps({"id": 1, "target": "sm_90a", "size": len(text)}).encode() + b"\n" + text
    for start in range(0, len(data), 97):
        compiler.process.stdin.write(data[start : start + 97])
        compiler.process.stdin.flush()
    assert "scale" in compiler.receive()[0]["report"]["kernels"]


def test_it_ends_with_its_input():
    process = flightc.Process()
    process.send({"id": 1, "target": "x86-64"}, kernels.SCALE)
    process.process.stdin.close()
    assert process.receive()[0]["id"] == 1  # what was asked is still answered
    assert process.process.wait(timeout=10) == 0


def test_an_input_that_ends_in_a_request():
    process = flightc.Process()
    process.send({"id": 4, "target": "x86-64", "size": 100})
    process.process.stdin.close()
    assert "ends in the middle" in process.receive()[0]["error"]["message"]
    assert process.process.wait(timeout=10) == 0


def test_children_end_with_it():
    process = flightc.Process()
    process.send({"id": 1, "target": "gfx942"}, slow())
    child = wait_for_child(process.process)
    process.process.kill()
    process.process.wait()
    for _ in range(500):
        status = pathlib.Path(f"/proc/{child}/stat")
        if not status.exists() or status.read_text().split(") ")[1][0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("the child goes on")


def test_dump(compiler):
    answer, _ = compiler.compile(kernels.SCALE, "gfx942", dump=True)
    names = [dump["name"] for dump in answer["dumps"]]
    assert names[0] == "01-flight-check" and names == sorted(names) and names[-2:] == ["90-llvm", "91-assembly"]
    texts = {dump["name"].split("-", 1)[1]: dump["text"] for dump in answer["dumps"]}
    assert "flight.view" in texts["flight-check"] and "flight.view" not in texts["flight-lower-views"]
    assert "define amdgpu_kernel void @scale" in texts["llvm"] and "global_load_dwordx4" in texts["assembly"]


@pytest.mark.parametrize(("threads", "rolled"), [(128, True), (16, False)])
def test_loops_over_lanes_stay_loops(compiler, threads, rolled):
    """LLVM hears of it: unrolled, a kernel with many shuffles takes 10 s to compile."""
    text = kernels.module(
        "    %t = flight.thread_id x\n" + kernels.load("a", "%x", "%t") + "    flight.barrier\n"
        + kernels.store("%a", "%x", "%t", "end"),
        f"%x: {kernels.PTR}", block=(threads, 1, 1),
    )  # fmt: skip
    dumps = {dump["name"]: dump["text"] for dump in compiler.compile(text, "x86-64", dump=True)[0]["dumps"]}
    assert ('!{!"llvm.loop.unroll.disable"}' in dumps["90-llvm"]) == rolled


def test_functions_that_no_library_has(compiler):
    call = "    %r = llvm.call @elsewhere(%a) : (f32) -> f32\n"
    body = (
        "    %c0 = arith.constant 0 : index\n"
        + kernels.load("a", "%x", "%c0")
        + call
        + kernels.store("%r", "%x", "%c0", "end")
    )
    text = kernels.module(body, f"%x: {kernels.PTR}").replace("module {\n", "module {\n  llvm.func @elsewhere(f32) -> f32\n")
    error = flightc.error_of(compiler, text, "x86-64")
    assert error["kind"] == "backend" and "calls elsewhere" in error["message"]
    error = flightc.error_of(compiler, text, "gfx942")
    assert error["kind"] == "backend" and "elsewhere" in error["message"]
    works(compiler)
