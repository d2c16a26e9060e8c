"""What the compiler reports of registers, spills and shared memory."""

from __future__ import annotations

import os
import pathlib

import flightc
import kernels
import pytest


def spilling(count: int = 560) -> str:
    """More values alive at once than there are registers."""
    view = '!flight.view<f32, global, "1:1", 4>'
    lines = ["    %t = flight.thread_id x"]
    for i in range(count):
        lines.append(f"    %c{i} = arith.constant {64 * i} : index\n    %o{i} = arith.addi %t, %c{i} : index")
        lines.append(
            f"    %p{i} = flight.view %x[%o{i}] : {kernels.PTR} -> {view}\n"
            f"    %v{i} = flight.load %p{i} : {view} -> vector<1xf32>"
        )
    lines.append("    flight.barrier")
    for i in range(count):
        lines.append(f"    flight.store %v{i}, %p{count - 1 - i} : vector<1xf32>, {view}")
    return kernels.module("\n".join(lines), f"%x: {kernels.PTR}", block=(1024, 1, 1))


def test_spills_are_errors(compiler):
    error = flightc.error_of(compiler, spilling())
    assert error["kind"] == "diagnostic" and "spills" in error["message"] and "kernel kernel" in error["message"], error
    allowed = spilling().replace("flight.block", "flight.allow_spills, flight.allow_scratch, flight.block")
    answer, _ = compiler.compile(allowed, "gfx942")
    assert answer["report"]["kernels"]["kernel"]["spills"] > 0


def wide_row(count: int = 40) -> str:
    """Of vectors that all are needed until their sum is known."""
    view = '!flight.view<f32, global, "16:1", 64>'
    pointer = "!flight.ptr<f32, global, 64>"
    lines = ["    %s0 = arith.constant dense<0.0> : vector<16xf32>"]
    for i in range(count):
        lines.append(
            f"    %c{i} = arith.constant {16 * i} : index\n"
            f"    %p{i} = flight.view %x[%c{i}] : {pointer} -> {view}\n"
            f"    %v{i} = flight.load %p{i} : {view} -> vector<16xf32>\n"
            f"    %s{i + 1} = arith.addf %s{i}, %v{i} : vector<16xf32>"
        )
    for i in range(count):
        lines.append(f"    %r{i} = arith.divf %v{i}, %s{count} : vector<16xf32>")
        lines.append(f"    flight.store %r{i}, %p{i} : vector<16xf32>, {view}")
    return kernels.module("\n".join(lines), f"%x: {pointer}", block=(1, 1, 1))


@pytest.mark.parametrize(("cpu", "registers", "vectors"), [("x86-64-v3", 16, 2), ("x86-64-v4", 32, 1)])
def test_spills_on_x86_are_told(compiler, cpu, registers, vectors):
    report = compiler.compile(wide_row(), "x86-64", cpu=cpu)[0]["report"]
    needs = report["kernels"]["kernel"]
    assert needs["registers"] == registers and 0 < needs["spills"] <= 40 * vectors
    assert needs["scratch_bytes"] % 32 == 0 and 0 < needs["scratch_bytes"] <= 40 * 64
    assert [r["message"] for r in report["remarks"]] == [f"kernel kernel stores {needs['spills']} registers to the stack"]
    report = compiler.compile(wide_row(4), "x86-64", cpu=cpu)[0]["report"]
    assert report["kernels"]["kernel"]["spills"] == report["kernels"]["kernel"]["scratch_bytes"] == 0
    assert report["kernels"]["kernel"]["registers"] < registers and report["remarks"] == []
    allowed = wide_row().replace("flight.block", "flight.allow_spills, flight.block")
    assert compiler.compile(allowed, "x86-64", cpu=cpu)[0]["report"]["remarks"] == []


@pytest.mark.skipif(not flightc.PTXAS.is_file(), reason="no ptxas")
def test_spills_are_errors_on_nvidia(compiler):
    error = flightc.error_of(compiler, spilling(), "sm_90a")
    assert error["kind"] == "diagnostic" and "kernel kernel spills" in error["message"], error
    allowed = spilling().replace("flight.block", "flight.allow_spills, flight.block")
    needs = compiler.compile(allowed, "sm_90a")[0]["report"]["kernels"]["kernel"]
    assert needs["registers"] == 64 and needs["spills"] > 0 and needs["scratch_bytes"] > 0
    needs = compiler.compile(allowed, "sm_90a", optimize=0)[0]["report"]["kernels"]["kernel"]
    assert needs["registers"] is None


def with_ptxas(folder: pathlib.Path, script: str) -> flightc.Process:
    """A compiler that finds this program first."""
    path = folder / "ptxas"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return flightc.Process({**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"})


def test_what_ptxas_says(tmp_path):
    """Its lines are those of CUDA 12 and 13."""
    process = with_ptxas(
        tmp_path,
        """cat << end
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scale' for 'sm_90a'
ptxas info    : Function properties for scale
    128 bytes stack frame, 120 bytes spill stores, 124 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 512 bytes smem, 128 bytes cumulative stack size
end
""",
    )
    error = flightc.error_of(process, kernels.SCALE, "sm_90a")
    assert "kernel scale spills 30 registers" in error["message"]
    allowed = kernels.SCALE.replace("flight.block =", "flight.allow_spills, flight.block =")
    needs = process.compile(allowed, "sm_90a")[0]["report"]["kernels"]["scale"]
    assert (needs["registers"], needs["spills"], needs["scratch_bytes"]) == (255, 30, 128)
    assert process.close() == 0


def test_a_ptxas_that_refuses_the_text(tmp_path):
    """The driver may take it: the code comes without figures."""
    process = with_ptxas(tmp_path, "echo 'ptxas fatal   : Unsupported .version 8.8' >&2; exit 1\n")
    answer, code = process.compile(kernels.SCALE, "sm_90a")
    assert code and answer["report"]["kernels"]["scale"]["registers"] is None
    assert [r["message"] for r in answer["report"]["remarks"]] == ["ptxas: ptxas fatal   : Unsupported .version 8.8"]
    assert process.close() == 0


def test_shared_memory_of_each_target(compiler):
    text = kernels.block_sum().replace("flight.shared 128", "flight.shared 30000")
    assert "gfx942 has 65536" in flightc.error_of(compiler, text, "gfx942")["message"]
    needs = compiler.compile(text, "gfx950")[0]["report"]["kernels"]["kernel"]
    assert needs["shared_bytes"] == 120000 and needs["dynamic_shared_bytes"] == 0
    needs = compiler.compile(text, "sm_90a")[0]["report"]["kernels"]["kernel"]
    assert needs["shared_bytes"] == needs["dynamic_shared_bytes"] == 120000
