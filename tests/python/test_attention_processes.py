"""Attention programs in other processes, for other platforms, on several threads; the same bits whatever the number of threads."""

import concurrent.futures
import functools
import pathlib
import threading

import attention_child
import attention_problems as problems
import child
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_problems import Case, Shape
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxator as jxt

CASE = Case(
    Shape(8, 6, 10, 4, 2, 8, 4),
    bias="NTS",
    mask="BTS",
    query_lengths=True,
    key_lengths=True,
    segments=True,
    causal=True,
    bottom_right=True,
)
PROBLEM = problems.make(CASE)
ARGUMENTS = (PROBLEM.arrays, PROBLEM.cotangents)
function = functools.partial(problems.value_and_vjp, CASE)


# ---- export and other platforms --------------------------------------------------------------------------------------


def flat_specs(arrays):
    """Batch over "p", for arrays that have one."""
    return jax.tree.map(lambda a: P("p") if a.shape[0] == CASE.shape.b else P(), arrays)


@pytest.mark.parametrize("route", ["one", "Auto", "Explicit"])
def test_export_round_trip_in_another_process(tmp_path: pathlib.Path, route: str) -> None:
    """One device; inside shard_map; on an explicit mesh."""
    flat, tree = jax.tree.flatten(ARGUMENTS)

    def run(*leaves):
        return function(*jax.tree.unflatten(tree, leaves))

    given = flat
    if route != "one":
        mesh = jax.make_mesh((8,), ("p",), axis_types=(getattr(AxisType, route),), devices=jax.devices("cpu"))
        specs = tuple(flat_specs(flat))
        given = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(flat, specs, strict=True)]
        if route == "Auto":
            run = jax.shard_map(
                run,
                mesh=mesh,
                in_specs=specs,
                out_specs={n: P() if n == "dbias" else P("p") for n in ("out", "lse", "dq", "dk", "dv", "dbias")},
            )
    program = export.export(jax.jit(run), disabled_checks=jxt.export_checks())(*given)
    (tmp_path / "attention.bin").write_bytes(program.serialize())
    np.savez(tmp_path / "attention.npz", *(np.asarray(a) for a in flat))
    child.run("run_exported", devices=1 if route == "one" else 8, folder=str(tmp_path), names=["attention"], sharding=route)
    outputs = np.load(tmp_path / "attention.out.npz")
    names = sorted(("out", "lse", "dq", "dk", "dv", "dbias"))  # as jax.tree flattens a dict
    PROBLEM.check({n: outputs[f"arr_{i}"] for i, n in enumerate(names)}, what=route, slack=1.05)


def test_one_custom_call_for_three_platforms() -> None:
    """jax-ml/jax#38196: one program; a GPU that is not here gets the same call, and no XLA formulation beside it."""
    half = problems.make(CASE, "bfloat16")  # float32 has no kernels on GPUs
    traced = jax.jit(function).trace(half.arrays, half.cotangents)
    for platforms in (("cpu", "cuda", "rocm"), ("cuda",), ("rocm",), ("cpu",)):
        text = traced.lower(lowering_platforms=platforms).as_text()
        for name in ("attention_forward", "attention_backward"):
            assert text.count(f"stablehlo.custom_call @jaxator.{name}(") == len(platforms), platforms
        assert "dot_general" not in text
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "jaxator.attention" not in text and "dot_general" in text


def test_default_runs_the_kernels_and_xla_does_not() -> None:
    text = jax.jit(function).lower(*ARGUMENTS).as_text()
    assert "stablehlo.custom_call @jaxator.attention_forward" in text and "dot_general" not in text
    text = jax.jit(functools.partial(function, implementation="xla")).lower(*ARGUMENTS).as_text()
    assert "jaxator.attention" not in text


def test_persistent_cache_is_hit_in_another_process(tmp_path: pathlib.Path) -> None:
    """jax-ml/jax#21159"""
    first, second = (attention_child.run("compile_cached", folder=str(tmp_path)) for _ in range(2))
    assert first["hits"] == 0 and first["misses"] > 0
    assert second["misses"] == 0 and second["hits"] == first["misses"]


# ---- threads and determinism -----------------------------------------------------------------------------------------


def at_once(work, count: int = 4) -> list:
    gate = threading.Barrier(count)

    def run(i: int):
        gate.wait()
        return jax.block_until_ready(work(i))

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_program_on_several_threads(dtype: str) -> None:
    """Enough rows for every thread of the pool; different arrays, the bits of one call after the other."""
    case = Case(Shape(2, 300, 400, 4, 2, 32, 32), causal=True, bias="NS")
    many = [problems.make(case, dtype, seed) for seed in range(4)]
    compiled = problems.compiled_for(many[0], "cpu")
    want = [jax.block_until_ready(compiled(p.arrays, p.cotangents)) for p in many]
    for _ in range(5):
        problems.assert_same(at_once(lambda i: compiled(many[i].arrays, many[i].cotangents)), want)


def test_tracing_and_compiling_on_several_threads() -> None:
    many = [problems.make(Case(Shape(1, 11 + i, 13 + 2 * i, 2, 1, 8 + i, 8), causal=bool(i % 2)), seed=i) for i in range(6)]
    for problem, results in zip(many, at_once(lambda i: many[i].run("cpu"), 6), strict=True):
        problem.check(results)


@pytest.mark.parametrize("dtype", problems.DTYPES)
def test_repeated_runs_give_the_same_bits(dtype: str, force_isa) -> None:
    """Also where the rows of one key/value head are dealt to several parts, and for every gradient."""
    for shape in (Shape(1, 700, 600, 3, 1, 24, 24), Shape(3, 70, 90, 4, 2, 16, 8)):
        problem = problems.make(Case(shape, bias="TS", causal=True, segments=True), dtype)
        for implementation, isa, _ in problems.routes(dtype):
            compiled = problems.compiled_for(problem, implementation)
            force_isa(isa)
            first = compiled(problem.arrays, problem.cotangents)
            for _ in range(8):
                problems.assert_same(compiled(problem.arrays, problem.cotangents), first, f"{implementation} {isa}")


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    one = attention_child.run("digests", cpus=1, pool=1)
    two, seven = (attention_child.run("digests", pool=threads) for threads in (2, 7))
    assert one["threads"] < two["threads"] < seven["threads"], "the pool has the sizes asked for"
    assert one["digests"] == two["digests"] == seven["digests"]
    assert len(one["digests"]) >= 4


def test_neighbours_do_not_change_a_sequence() -> None:
    """What a batch entry gives does not depend on the values in the other entries (poison included)."""
    problem = problems.make(Case(Shape(3, 40, 50, 4, 2, 16, 16), causal=True), poison=False)
    want = problem.run("cpu")
    spoiled = {n: problem.arrays[n].copy() for n in "qkv"}
    for array in spoiled.values():
        array[1] = np.nan
    got = problem.with_arrays(**spoiled).run("cpu")
    for name in want:
        np.testing.assert_array_equal(np.asarray(got[name])[[0, 2]], np.asarray(want[name])[[0, 2]], err_msg=name)
        assert jnp.isnan(got[name][1]).any(), f"{name}: NaN was lost"
