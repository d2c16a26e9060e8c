"""What another process must be able to do: run an exported program, hit the compilation cache, compute the other half."""

import pathlib
import re
import socket

import child
import hlo
import jax
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxator as jxt
import ops
from ops import CASES, MAIN, OpCase

# ---- export ----------------------------------------------------------------------------------------------------------


def flat(case: OpCase):
    """value_and_vjp as a function of one flat list of arrays."""
    count = len(case.operands)
    return lambda *arrays: case.value_and_vjp(arrays[:count], arrays[count:])


def export_to(folder: pathlib.Path, case: OpCase, fn, arrays) -> str:
    """Writes the program and its inputs; returns their file name."""
    name = case.name.replace(" ", "-")
    program = export.export(jax.jit(fn), disabled_checks=jxt.export_checks())(*arrays)
    (folder / f"{name}.bin").write_bytes(program.serialize())
    np.savez(folder / f"{name}.npz", *(np.asarray(a) for a in arrays))
    return name


def check_outputs(folder: pathlib.Path, case: OpCase, operands, cotangents) -> None:
    outputs = np.load(folder / f"{case.name.replace(' ', '-')}.out.npz")
    results = [outputs[f"arr_{i}"] for i in range(len(outputs.files))]
    case.assert_right(operands, cotangents, results[: case.outputs], results[case.outputs :], "exported")


def problem(case: OpCase, sharded: bool):
    # float32: what NumPy files hold without help
    operands = case.make(case.sharded if sharded else case.small, "float32")
    return operands, case.cotangents(operands)


def test_one_device_program_runs_in_another_process(tmp_path: pathlib.Path) -> None:
    names = [export_to(tmp_path, case, flat(case), sum(problem(case, False), ())) for case in CASES]
    assert child.run("run_exported", folder=str(tmp_path), names=names, sharding="one") == {"devices": 1}
    for case in CASES:
        check_outputs(tmp_path, case, *problem(case, False))


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_sharded_program_runs_in_another_process(tmp_path: pathlib.Path, kind: str) -> None:
    """Auto: inside shard_map. Explicit: by the operands' types."""
    mesh = jax.make_mesh((8,), ("p",), axis_types=(getattr(AxisType, kind),), devices=jax.devices("cpu"))
    names = []
    for case in MAIN:
        operands, cotangents = problem(case, True)
        specs = tuple(P() if k == "parameter" or "shared" in k else P("p") for k in case.operands)
        arrays = [
            jax.device_put(a, NamedSharding(mesh, s))
            for a, s in zip((*operands, *cotangents), (*specs, *[P("p")] * len(cotangents)), strict=True)
        ]
        fn = flat(case)
        if kind == "Auto":
            gradients = tuple(specs[i] for i in case.differentiable)
            in_specs = (*specs, *[P("p")] * len(cotangents))
            fn = jax.shard_map(fn, mesh=mesh, in_specs=in_specs, out_specs=(P("p"), gradients))
        with jax.set_mesh(mesh):
            names.append(export_to(tmp_path, case, fn, arrays))
    assert child.run("run_exported", devices=8, folder=str(tmp_path), names=names, sharding=kind) == {"devices": 8}
    for case in MAIN:
        check_outputs(tmp_path, case, *problem(case, True))


def test_automatic_route_over_several_devices_cannot_be_exported() -> None:
    mesh = jax.make_mesh((8,), ("p",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu"))
    x = jax.device_put(np.ones((8, 64), np.float32), NamedSharding(mesh, P("p")))
    with pytest.raises(NotImplementedError, match="serialization of host_callbacks"):
        export.export(jax.jit(jxt.rms_norm), disabled_checks=jxt.export_checks())(x)


def test_export_without_the_checks_names_the_call() -> None:
    with pytest.raises(ValueError, match=r"jaxator\.rms_norm_forward"):
        export.export(jax.jit(jxt.rms_norm))(np.ones((8, 64), np.float32))


@pytest.mark.parametrize("case", CASES, ids=ops.names(CASES))
def test_one_custom_call_serves_every_platform(case: OpCase) -> None:
    operands = case.make(case.small, "bfloat16")

    def calls(*platforms: str) -> int:
        text = jax.jit(lambda *a: case(*a)).trace(*operands).lower(lowering_platforms=platforms).as_text()
        return len(re.findall(r"custom_call @jaxator\.", text))

    # One name everywhere. The kernels of a GPU that is not here are lowered for.
    assert [calls("cpu"), calls("cuda"), calls("rocm")] == [1, 1, 1]
    assert calls("cpu", "cuda", "rocm") == 3
    assert calls("tpu") == 0, "elsewhere the XLA formulation serves"


# ---- persistent compilation cache ------------------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [1, 8])
def test_second_process_hits_the_compilation_cache(tmp_path: pathlib.Path, devices: int) -> None:
    first = child.run("compile_cached", devices=devices, folder=str(tmp_path), devices_used=devices)
    files = {f.name for f in tmp_path.iterdir() if f.name.endswith("-cache")}
    assert first["hits"] == 0 and first["misses"] >= 1 and files
    second = child.run("compile_cached", devices=devices, folder=str(tmp_path), devices_used=devices)
    assert second["misses"] == 0 and second["hits"] == first["misses"]
    assert {f.name for f in tmp_path.iterdir() if f.name.endswith("-cache")} == files


# ---- two processes ---------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("explicit", [False, True], ids=["automatic", "explicit"])
@pytest.mark.parametrize(("program", "checked"), [("gloo", len(MAIN)), ("gloo_attention", 12)])
def test_two_processes_with_gloo(program: str, checked: int, explicit: bool) -> None:
    port = free_port()
    processes = [child.start(program, devices=2, rank=rank, port=port, explicit=explicit) for rank in range(2)]
    try:
        for process in processes:
            assert child.result(process) == {"checked": checked, "processes": 2, "devices": 4}
    finally:
        for process in processes:
            process.kill()


def test_hlo_parser_reads_every_form_of_groups() -> None:
    """The texts of both jax versions; a parser that finds nothing would make every test of collectives pass."""
    text = """
  %a = f32[64]{0} all-reduce(%x), channel_id=1, replica_groups=mesh['a'=4,'b'=2] {'b'}, to_apply=%r
  %b = (f32[64]{0}, bf16[2,3]{1,0}) all-reduce(%x, %y), replica_groups=[2,4]<=[4,2]T(1,0), to_apply=%r
  ROOT %c = (f32[8]{0}, f32[16]{0}) all-gather-start(%x), replica_groups={{0,1},{2,3}}, dimensions={0}
  %d = f32[16]{0} all-gather-done(%c)
"""
    pairs, columns = frozenset({(0, 1), (2, 3), (4, 5), (6, 7)}), frozenset({(0, 2, 4, 6), (1, 3, 5, 7)})
    assert hlo.collectives(text) == {
        hlo.Collective("all-reduce", 256, pairs): 1,
        hlo.Collective("all-reduce", 256, columns): 1,
        hlo.Collective("all-reduce", 12, columns): 1,
        hlo.Collective("all-gather", 64, frozenset({(0, 1), (2, 3)})): 1,
    }
    assert hlo.groups_of(jax.sharding.AbstractMesh((4, 2), ("a", "b")), ("b",)) == pairs
    assert hlo.groups_of(jax.sharding.AbstractMesh((4, 2), ("a", "b")), ("a",)) == columns
