"""`jaxator judge`: every kernel of the tree passes its gates and floors, planted defects fail the gate that is meant, and
what is recorded can be run again."""

from __future__ import annotations

import fnmatch
import json
import pathlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import judge_cases
import judge_kernels as kernels
import numpy as np
import pytest
from judge_kernels import BARRIER, COPY, LDS_DONE, LOAD, LOADED, START, STORE
from typer.testing import CliRunner

import jaxator as jxt
from jaxator import _ffi, _targets
from jaxator.cli.app import app
from jaxator.judge import (
    EmulatorError,
    Floors,
    Geometry,
    Launch,
    floors_for,
    from_words,
    gates,
    measure,
    read_rules,
    recording,
)
from jaxator.judge.measure import Measures
from jaxator.judge.ops import record, record_op
from jaxator.judge.report import DISCLAIMER, table, text

pytestmark = pytest.mark.skipif(_targets.emulation_refusal() is not None, reason="the emulator is not built")
every_architecture = pytest.mark.parametrize("architecture", judge_cases.ARCHITECTURES)


def failed(measures: Measures, floors: Floors | None = None) -> list[str]:
    return [gate.name for gate in gates(measures, floors) if not gate.passed]


# ---- the kernels of the tree -----------------------------------------------------------------------------------------


def assert_gates(architecture: str, launches: Mapping[str, Launch]) -> None:
    problems = []
    for kernel, launch in launches.items():
        measures = measure(launch)
        floors = floors_for(judge_cases.RULES, kernel, architecture)
        if measures.bound == "matrix" and floors.share is None:
            problems.append(f"{kernel}: kernel_floors.toml has no share for it")
        problems += [f"{kernel}: {gate}" for gate in gates(measures, floors) if not gate.passed]
        problems += [f"{kernel}: {finding}" for finding in measures.findings]
    assert launches and not problems, f"{architecture}:\n" + "\n".join(problems)


def is_alike(kernel: str) -> bool:
    return any(fnmatch.fnmatchcase(kernel, pattern) for pattern in judge_cases.ALIKE)


@every_architecture
def test_each_kernel_passes_its_gates(architecture: str) -> None:
    launches = judge_cases.judged_launches(architecture, "bfloat16")
    assert_gates(architecture, {kernel: launch for kernel, launch in launches.items() if not is_alike(kernel)})


@pytest.mark.full
@every_architecture
def test_kernels_of_other_element_types_pass_their_gates(architecture: str) -> None:
    done = {k for k in judge_cases.judged_launches(architecture, "bfloat16") if not is_alike(k)}
    every = judge_cases.all_judged_launches(architecture)
    assert_gates(architecture, {kernel: launch for kernel, launch in every.items() if kernel not in done})


@every_architecture
def test_no_kernel_of_the_tree_is_left_out(architecture: str) -> None:
    left_out = judge_cases.kernels_left_out(architecture)
    assert not left_out, f"judge_cases.JUDGED launches none of {left_out}"
    images = {launch.image for launch in judge_cases.all_judged_launches(architecture).values()}
    known = _ffi.rocm_report()["images"]
    assert len(images) == len(known), f"{len(images)} code objects were launched, the library has {known}"


@every_architecture
def test_every_rule_is_of_a_kernel(architecture: str) -> None:
    names = list(judge_cases.all_judged_launches(architecture))
    for rule in judge_cases.RULES:
        if not rule.architectures or architecture in rule.architectures:
            assert any(floors_for([rule], name, architecture) != Floors() for name in names), rule


# ---- planted defects -------------------------------------------------------------------------------------------------


@every_architecture
def test_a_kernel_without_fault(architecture: str) -> None:
    measures = measure(kernels.launch(COPY, architecture))
    assert measures.bound == "memory" and failed(measures, Floors(in_flight=0)) == []
    memory = measures.memory
    assert memory.loaded == memory.loaded_distinct == memory.stored == memory.stored_distinct == 256 * 16
    assert memory.loaded_blocks == memory.stored_blocks == 64 and memory.wide_share == 1
    # 64 registers: 8 waves on each SIMD, so 8 workgroups of 4 waves, of which each wave has a KiB under way.
    assert measures.resident == 8 and memory.in_flight == 8 * 4 * 1024


DEFECTS = {
    "findings": (START + LOAD + STORE + LOADED, {}),
    "scratch bytes": (COPY, {"scratch": 16}),
    "LDS cycles": (
        START + LOAD + LOADED + " v_lshlrev_b32_e32 v8, 8, v0\n ds_write_b32 v8, v4\n" + LDS_DONE + STORE,
        {"lds": 65536},
    ),
    "share of 16-byte loads": (
        START + "".join(f" global_load_dword v{4 + k}, v2, s[4:5] offset:{4 * k}\n" for k in range(4)) + LOADED + STORE,
        {},
    ),
    "bytes moved over the least": (START + LOAD + LOADED + LOAD + LOADED + STORE, {}),
    "share of 64-byte blocks used": (
        START + LOAD + LOADED + " v_lshlrev_b32_e32 v2, 2, v2\n s_mov_b64 exec, 0xffff\n" + STORE,
        {"threads": 64},
    ),
}


@pytest.mark.parametrize("gate", DEFECTS)
def test_a_planted_defect_fails_its_gate(gate: str) -> None:
    body, options = DEFECTS[gate]
    assert failed(measure(kernels.launch(body, **options)), Floors(in_flight=0)) == [gate]


def test_too_few_bytes_in_flight() -> None:
    body = START + " global_load_dword v4, v1, s[4:5]\n" + LOADED + " global_store_dword v1, v4, s[6:7]\n"
    assert failed(measure(kernels.launch(body, threads=64)), Floors(wide=0, in_flight=2)) == [
        "bytes in flight over those needed"
    ]


MATRIX_LOOP = (
    START
    + LOAD
    + LOADED
    + "".join(f" v_mov_b32_e32 v{k}, 0\n" for k in range(8, 16))
    + """ s_mov_b32 s8, 0
.Lloop:
 v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[8:11]
{}
 s_add_u32 s8, s8, 1
 s_cmp_lt_u32 s8, 20
 s_cbranch_scc1 .Lloop
 s_nop 15
"""
    + STORE
)


def test_copies_in_the_loop() -> None:
    good, bad = (measure(kernels.launch(MATRIX_LOOP.format(line))) for line in ("", " v_mov_b32_e32 v13, v12\n"))
    assert good.bound == "matrix" and good.loop is not None and (good.loop.matrix, good.loop.copies) == (1, 0)
    assert failed(good) == [] and failed(bad) == ["copies in the loop"] and failed(bad, Floors(copies=1)) == []
    assert good.matrix_instructions == 20 * 4 and len(good.loop.texts) == 4


def test_floors_of_share_and_registers() -> None:
    measures = measure(kernels.launch(MATRIX_LOOP.format("")))
    # One product of 4 passes in a loop whose branch takes 4, and two scalar instructions.
    assert 0.3 < measures.schedule.steady < 0.8
    assert failed(measures, Floors(share=0.3, vector_registers=64)) == []
    assert failed(measures, Floors(share=0.9, vector_registers=63)) == ["vector registers", "matrix-core share"]


def test_a_launch_that_does_not_end_is_no_judgement() -> None:
    with pytest.raises(EmulatorError, match=r"did not come to its end:\n.*\nout of bounds in k"):
        measure(kernels.launch(START + " v_add_u32_e32 v2, 0x1000, v2\n" + LOAD + LOADED + STORE))


# ---- recorded launches -----------------------------------------------------------------------------------------------


@every_architecture
def test_a_recorded_launch_runs_again(architecture: str) -> None:
    random = np.random.default_rng(0)
    x, weight = random.normal(size=(5, 512)).astype(np.float32), random.normal(size=512).astype(np.float32)
    function = jax.jit(lambda x, weight: jxt.rms_norm(x, weight, implementation=architecture))
    expected = np.asarray(function(x, weight))
    (launch,) = record(function, x, weight)
    assert launch.kernel == "rms_norm_forward2_f32" and launch.geometry == Geometry((2, 1, 1), (64, 4, 1))
    whole = {memory.content: memory.initialised for memory in launch.memory}
    assert whole[x.tobytes()] == ((0, x.nbytes),) and whole[weight.tobytes()] == ((0, weight.nbytes),)
    for seed in range(3):
        report, contents = launch.run(seed=seed)
        assert report.clean and expected.tobytes() in contents
    # The output holds nothing defined when the launch begins.
    assert sorted(map(len, whole.values())) == [0, 1, 1]


def test_nothing_is_recorded_outside(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="no kernel was launched on the emulator"):
        record(jnp.sin, 1.0)
    with pytest.raises(EmulatorError, match="folder=.*: there is no such folder"), recording(tmp_path / "none"):
        pass


def test_backward_and_forward_are_recorded() -> None:
    names = [launch.kernel for launch in record_op("rms_norm", (4, 64), "float32", "gfx950")]
    assert names == ["rms_norm_forward2_f32", "rms_norm_backward1_f32", "rms_norm_sum_partials"]


@pytest.mark.parametrize(
    ("words", "message"),
    {
        ("buffer:4K",): "k takes 2 arguments, 1 were given",
        ("buffer:4K", "i32:1"): "argument 'i32:1' has 4 bytes, the parameter has 8",
        ("buffer:4K", "i128:1"): "the type must be buffer or one of i32, ",
        ("buffer:4K", "5"): "must be TYPE:VALUE",
        ("buffer:x", "buffer:4"): "a size is a number",
        ("buffer:4:ones", "buffer:4"): "after the size may follow zeros, random, f32, f16 or bf16",
        ("buffer:@/nonexistent", "buffer:4"): "No such file",
        ("u64:-1", "buffer:4"): "argument 'u64:-1'",
    }.items(),
)
def test_arguments_that_are_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(EmulatorError, match=message):
        from_words(kernels.image(COPY), None, Geometry((1, 1, 1), (64, 1, 1)), words)


def test_rules_that_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "floors.toml"
    for content, message in (
        ("[[kernels]]\nname='k'\nspeed=1", "k: speed: must be one of"),
        ("[[kernels]]\nwide=0", "name"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            read_rules(path)


def test_later_rules_win(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "floors.toml"
    path.write_text(
        "[[kernels]]\nname='a*'\nwide=0.5\nmoved=2\n[[kernels]]\nname='ab'\narchitectures=['gfx942']\nwide=0.25\n"
    )
    rules = read_rules(path)
    assert floors_for(rules, "ab", "gfx942") == Floors(wide=0.25, moved=2)
    assert floors_for(rules, "ab", "gfx950") == Floors(wide=0.5, moved=2) and floors_for(rules, "b", "gfx942") == Floors()


# ---- reports and the command line ------------------------------------------------------------------------------------


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["judge", *arguments], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    return result.exit_code, result.output


def test_reports_say_what_they_are() -> None:
    measures = measure(kernels.launch(MATRIX_LOOP.format(" v_mov_b32_e32 v13, v12\n")))
    report = text(measures, gates(measures))
    assert (
        DISCLAIMER in report and "1 MFMA, 1 copies" in report and "FAILED      copies in the loop 1 (must be <= 0)" in report
    )
    assert "| `k` | gfx942 | 64 + 0 | 0, 0 | 0 / 0 | 1 |" in table([(measures, gates(measures))])


def test_command_with_an_op() -> None:
    status, output = invoke("rms_norm", "--shape", "64,4096", "--target", "gfx942")
    assert status == 1 and DISCLAIMER in output  # the sum of partials loads a word a lane
    assert "rms_norm_forward4_bf16 on gfx942, grid 64x1x1, block 128x1x1" in output
    floors = str(pathlib.Path(__file__).with_name("kernel_floors.toml"))
    status, output = invoke("rms_norm", "--shape", "64,4096", "--target", "gfx950", "--floors", floors, "--json")
    judged = json.loads(output)
    assert status == 0 and [one["kernel"] for one in judged][0] == "rms_norm_forward4_bf16"
    assert all(gate["passed"] for one in judged for gate in one["gates"])


def test_command_with_a_code_object(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "k.hsaco"
    path.write_bytes(kernels.image(MATRIX_LOOP.format("")))
    words = [str(path), "--block", "256", "--arg", "buffer:4K:f16", "--arg", "buffer:4K"]
    status, output = invoke(*words, "--assume", "vmem_latency=1500")
    assert status == 0 and "of matrix-core time in the steady part" in output
    assert "llvm-mca" in invoke(*words, "--mca")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    {
        "rms_norm": "an op needs --shape",
        "rms_norm --shape 4,64 --target sm_90a": "target='sm_90a': must be one of gfx942, gfx950",
        "rms_norm --shape 4,64 --kernel other": "kernel='other': the op launches rms_norm_forward2_bf16, ",
        "nothing --shape 4,64": "op='nothing': must be one of",
        "missing.hsaco": "missing.hsaco: No such file",
        "missing.hsaco --grid 0": "grid='0': must be up to three positive numbers",
        "rms_norm --shape 4,64 --assume speed=1": "assume='speed=1': must be NAME=NUMBER with one of",
    }.items(),
)
def test_commands_that_are_refused(words: str, message: str) -> None:
    status, output = invoke(*words.split())
    assert status == 2 and message in " ".join(output.replace("│", " ").split()), output


def test_barriers_are_part_of_the_model() -> None:
    body = (
        START
        + LOAD
        + LOADED
        + " ds_write_b128 v2, v[4:7]\n"
        + LDS_DONE
        + BARRIER
        + " ds_read_b128 v[4:7], v2\n"
        + LDS_DONE
        + STORE
    )
    measures = measure(kernels.launch(body, lds=4096))
    assert failed(measures, Floors(in_flight=0)) == [] and measures.lds_cycles == measures.lds_conflict_free_cycles > 0
