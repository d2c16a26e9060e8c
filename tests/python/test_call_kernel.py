"""call_kernel on CPUs: what the kernel gets, and that every transformation passes it on."""

import concurrent.futures
import functools
import pathlib
import re
import shutil
import subprocess
import threading

import call_kernel_cases as cases
import child
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from call_kernel_cases import normal, on_cpu, saxpy, softmax  # noqa: F401

import jaxator as jxt

S = jax.ShapeDtypeStruct


def call(name, *operands, out_shape, grid=1, **options):
    return jxt.call_kernel(cases.shared_object(), name, *operands, out_shape=out_shape, grid=grid, block=1, **options)


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", cases.SIZES)
def test_arrays_and_scalars_arrive(size):
    x, y = normal(size), normal(size, seed=1)
    # One rounding with a fused multiply-add, two without.
    want, bound = 2.5 * np.asarray(x, np.float64) + y, 2.0**-23 * (2.5 * np.abs(x) + np.abs(y))
    for f in (saxpy, jax.jit(saxpy, static_argnums=0)):
        assert np.all(np.abs(f(2.5, x, y) - want) <= bound)


GRIDS = {
    "int": (5, (1, 1, 5)),
    "one": ((4,), (1, 1, 4)),
    "two": ([4, 3], (1, 3, 4)),
    "three": ((4, 3, 2), (2, 3, 4)),
    "numpy": (np.array([2, 3, 700]), (700, 3, 2)),
    "function": (lambda operands, results: results[0][::-1], (2, 5, 3)),
}


@pytest.mark.parametrize("grid, shape", GRIDS.values(), ids=GRIDS)
def test_every_block_of_the_grid_runs(grid, shape):
    got = call("coordinates", out_shape=S(shape, np.int32), grid=grid)
    z, y, x = np.indices(shape)
    np.testing.assert_array_equal(got, 10000 * z + 100 * y + x)


def test_functions_of_shapes_get_two_tuples_in_order():
    seen = {}

    def record(name, value):
        def function(operands, results):
            seen[name] = (operands, results)
            return value

        return function

    out = {"b": S((2, 3), np.int32), "a": (S((), np.float32),)}  # leaves: a, b
    jax.eval_shape(
        lambda x, y: call(
            "coordinates", x, y, out_shape=out, grid=record("grid", 1), cluster=record("cluster", (1,)),
            shared_bytes=record("shared_bytes", 16), scalars=record("scalars", (1, 2.0)),
        ),
        S((4, 5), np.float32), S((7,), np.int8),
    )  # fmt: skip
    assert seen == dict.fromkeys(("grid", "cluster", "shared_bytes", "scalars"), (((4, 5), (7,)), ((), (2, 3))))


def test_scalars_keep_their_type():
    values = (True, -7, 2**40, 1.5, np.float64(0.1), np.int16(-3), np.uint8(200), ml_dtypes.bfloat16(2.5))
    types = (np.bool_, np.int32, np.int64, np.float32, np.float64, np.int16, np.uint8, ml_dtypes.bfloat16)
    got = np.asarray(call("scalars", out_shape=S((8, 8), np.uint8), scalars=values))
    for row, value, kind in zip(got, values, types, strict=True):
        want = np.asarray(value, kind).tobytes()
        assert row[: len(want)].tobytes() == want, (value, kind)


def test_scalars_that_compare_equal_are_different():
    """1, 1.0 and True are one key of a dict; as arguments of a kernel they are not."""
    rest = (0, 0, 0, 0, 0, 0, 0)
    rows = [
        np.asarray(call("scalars", out_shape=S((8, 8), np.uint8), scalars=(2, one, *rest[:6])))[1]
        for one in (1, 1.0, -0.0, 0)
    ]
    assert [row[:4].tobytes().hex() for row in rows] == ["01000000", "0000803f", "00000080", "00000000"]


def test_results_are_a_tree():
    x, y = normal(6), normal(6, seed=1)
    out = {"sum": S((6,), np.float32)}
    got = call("saxpy", x, y, out_shape=out, scalars=(6, 1.0))
    assert list(got) == ["sum"]
    np.testing.assert_array_equal(got["sum"], x + y)


def test_empty_results_call_nothing():
    got = call("no such kernel", normal(0, 3), out_shape=(S((0, 3), np.float32), S((2, 0), np.int8)), grid=0)
    assert [(a.shape, a.dtype) for a in got] == [((0, 3), np.float32), ((2, 0), np.int8)]


# ---- memory ----------------------------------------------------------------------------------------------------------


def increment(x, count):
    out = (S(x.shape, x.dtype), S((), np.int32))
    return call("increment", x, count, out_shape=out, input_output_aliases={0: 0, 1: 1})


def test_aliased_operands_are_the_results():
    x = jnp.arange(8, dtype=np.int32)
    got, count = jax.jit(increment)(x, np.int32(5))
    np.testing.assert_array_equal(got, [1, 2, 3, 4, 5, 5, 6, 7])
    assert count == 5
    np.testing.assert_array_equal(x, np.arange(8))  # still ours: it was not donated


def test_donated_memory_is_used_again():
    x = jnp.arange(1024, dtype=np.int32)
    address = x.unsafe_buffer_pointer()
    got, _ = jax.jit(increment, donate_argnums=0)(x, np.int32(1024))
    assert got.unsafe_buffer_pointer() == address and x.is_deleted()
    np.testing.assert_array_equal(got, np.arange(1, 1025))


def test_a_cache_carried_through_a_loop():
    def step(x, _):
        return increment(x, jnp.int32(3))[0], None

    got, _ = jax.jit(lambda x: jax.lax.scan(step, x, None, length=7), donate_argnums=0)(jnp.zeros(5, np.int32))
    np.testing.assert_array_equal(got, [7, 7, 7, 0, 0])


# ---- transformations -------------------------------------------------------------------------------------------------

X, DY, SCALE = normal(4, 6, 37), normal(4, 6, 37, seed=1), 1.7


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.checkpoint], ids=["eager", "jit", "checkpoint"])
def test_gradients_by_custom_vjp(transform):
    f = transform(functools.partial(softmax, scale=SCALE))
    cases.check_softmax(X, DY, SCALE, *cases.value_and_vjp(f, X, DY))


def test_gradients_through_scan():
    def f(x):
        return jax.lax.scan(lambda carry, row: (carry, softmax(row, SCALE)), 0, x)[1]

    cases.check_softmax(X, DY, SCALE, *jax.jit(functools.partial(cases.value_and_vjp, f))(X, DY))


def test_gradients_through_vmap():
    for f in (jax.vmap(softmax), jax.vmap(jax.vmap(softmax)), jax.vmap(softmax, in_axes=1, out_axes=1)):
        cases.check_softmax(X, DY, 1.0, *cases.value_and_vjp(f, X, DY))


def test_without_custom_vjp_a_derivative_is_refused():
    x = normal(5)
    for derivative in (
        jax.grad(lambda x: saxpy(1.0, x, x).sum()),
        lambda x: jax.jvp(lambda x: saxpy(1.0, x, x), (x,), (x,)),
    ):
        with pytest.raises(jxt.UnsupportedError, match="derivative: kernel saxpy: wrap the call in jax.custom_vjp"):
            derivative(x)
    # Nothing is asked of a call that does not depend on what is differentiated.
    np.testing.assert_array_equal(jax.grad(lambda w: (w * saxpy(1.0, x, x)).sum())(x), 2 * x)


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "broadcast_all"])
def test_vmap_methods(method):
    f = functools.partial(saxpy, 2.0, vmap_method=method)
    x, y = normal(3, 4, 5), normal(3, 4, 5, seed=1)
    want = 2 * x + y
    np.testing.assert_allclose(jax.vmap(f)(x, y), want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(f, in_axes=(1, 1), out_axes=1))(x, y), want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.vmap(f))(x, y), want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(f, in_axes=(0, None))(x, y[0]), 2 * x + y[0], rtol=1e-6, atol=1e-6)
    inner = jax.vmap(f, in_axes=(None, 0))  # of y alone
    np.testing.assert_allclose(jax.vmap(inner, in_axes=(0, None))(x[:, 0], y[0]), 2 * x[:, :1] + y[0], rtol=1e-6, atol=1e-6)


def test_vmap_by_sequential_sees_one_element():
    shapes = set()

    def grid(operands, results):
        shapes.add((operands, results))
        return 1

    def f(x, y):
        out = S((5,), np.float32)
        return call("saxpy", x, y, out_shape=out, grid=grid, scalars=(5, 1.0), vmap_method="sequential")

    jax.vmap(f, in_axes=(0, None))(normal(3, 5), normal(5))
    assert shapes == {(((5,), (5,)), ((5,),))}


def test_vmap_by_expand_dims_keeps_shared_operands_small():
    shapes = set()

    def grid(operands, results):
        shapes.add((operands, results))
        return 1

    def f(x, y, z):
        out = (S((2,), np.float32), S((2,), np.float32))
        return call(
            "coordinates", x, y, z, out_shape=out, grid=grid, vmap_method="expand_dims", input_output_aliases={2: 0},
        )  # fmt: skip

    jax.eval_shape(jax.vmap(f, in_axes=(0, None, None)), S((3, 4), np.float32), S((7,), np.float32), S((2,), np.float32))
    # The aliased operand has a result's shape whether it was mapped or not.
    assert {s for s in shapes if len(s[1][0]) == 2} == {(((3, 4), (1, 7), (3, 2)), ((3, 2), (3, 2)))}


def test_vmap_without_a_method_is_refused():
    with pytest.raises(NotImplementedError, match="kernel saxpy: vmap_method=None, must be one of 'sequential'"):
        jax.vmap(functools.partial(saxpy, 1.0))(normal(2, 3), normal(2, 3))


# ---- programs --------------------------------------------------------------------------------------------------------


def test_exported_programs_run_in_another_process(tmp_path):
    x, y = np.asarray(normal(300)), np.asarray(normal(300, seed=1))
    programs = {
        "saxpy": (jax.jit(functools.partial(saxpy, 3.0)), (x, y)),
        "gradient": (jax.jit(functools.partial(cases.value_and_vjp, softmax)), (np.asarray(X), np.asarray(DY))),
    }
    for name, (f, operands) in programs.items():
        exported = jax.export.export(f, platforms=("cpu", "cuda"), disabled_checks=jxt.export_checks())(*operands)
        (tmp_path / f"{name}.bin").write_bytes(exported.serialize())
        np.savez(tmp_path / f"{name}.npz", *operands)
    child.run("run_exported", folder=str(tmp_path), names=list(programs), sharding="one")
    for name, (f, operands) in programs.items():
        outputs = np.load(tmp_path / f"{name}.out.npz")
        for i, want in enumerate(jax.tree.leaves(f(*operands))):
            np.testing.assert_array_equal(outputs[f"arr_{i}"], want)


def test_the_example_of_the_documentation(tmp_path, monkeypatch):
    text = (pathlib.Path(__file__).parents[2] / "docs" / "call-kernel.md").read_text()
    for name, source in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(source)
    monkeypatch.chdir(tmp_path)
    if cases.compiler() is None:
        pytest.skip("no C compiler")
    commands = re.findall(r"^`((?:cc|clang\+\+-22) .*)`$", text, re.MULTILINE)
    for command in commands:
        words = command.split()
        words[0] = cases.compiler() if words[0] == "cc" else words[0]
        if shutil.which(words[0]):
            subprocess.run(words, check=True)
        else:
            (tmp_path / "axpy.ptx").write_bytes(cases.SAXPY_PTX)
    assert len(commands) == 2
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(example, {})


@pytest.mark.parametrize("needed, runs", {"x86-64-v3": True, "x86-64-v99": False}.items())
def test_an_object_for_another_cpu_is_refused(tmp_path, needed, runs):
    source = tmp_path / "one.c"
    source.write_text(
        f'const char jaxator_isa[] = "{needed}";\nvoid one(void *const *a, const long *g, const long *b) {{ *(float *)a[0] = 1; }}'
    )
    cc = cases.compiler() or pytest.skip("no C compiler")
    subprocess.run([cc, "-O1", "-fPIC", "-shared", source, "-o", tmp_path / "one.so"], check=True)
    blob = (tmp_path / "one.so").read_bytes()
    run = functools.partial(jxt.call_kernel, blob, "one", out_shape=S((1,), np.float32), grid=1, block=1)
    if runs:
        assert run() == 1
    else:
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"compiled for {needed}: this machine runs x86-64-v3"):
            jax.block_until_ready(run())


def test_threads_share_one_load():
    """Objects nobody has loaded, called for the first time by several threads together."""
    objects = [cases.shared_object() + b"\0" * (i + 1) for i in range(3)]
    gate = threading.Barrier(6)
    x = normal(500)

    def work(i):
        gate.wait()
        return np.asarray(saxpy(1.0, x, x, blob=objects[i % 3]))

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for got in pool.map(work, range(6)):
            np.testing.assert_array_equal(got, 2 * x)


def test_explain_names_kernel_and_geometry():
    found = jxt.explain(jax.grad(lambda x: softmax(x).sum()), X)
    assert [(c.op, c.implementation, c.config["kernel"], c.config["grid"], c.config["block"]) for c in found.calls] == [
        ("call_kernel", "cpu", "softmax_forward", (24, 1, 1), (256, 1, 1)),
        ("call_kernel", "cpu", "softmax_backward", (24, 1, 1), (256, 1, 1)),
    ]
    assert "softmax_backward" in str(found)


def test_the_jaxpr_does_not_spell_the_binary():
    assert len(str(jax.make_jaxpr(functools.partial(saxpy, 1.0))(normal(3), normal(3)))) < 6000
