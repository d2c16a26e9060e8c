"""flight.call under everything that JAX does with a function."""

import concurrent.futures
import functools
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import bridge_kernels as kernels
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bridge_kernels import S, call_axpy
from jax.sharding import PartitionSpec as P

import jaxator as jxt
from jaxator import flight
from jaxator.flight import _cache, _compiler

TARGETS = (None, "gfx942", "gfx950")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache, "_current", _cache.Cache(tmp_path / "cache"))
    monkeypatch.setattr(_cache, "_configured", True)


@pytest.fixture
def compiles(monkeypatch):
    """The texts that were compiled."""
    texts, plain = [], _compiler.compile_text

    def counted(target, text, options=None):
        texts.append(text)
        return plain(target, text, options)

    monkeypatch.setattr(_compiler, "compile_text", counted)
    return texts


def normal(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def right(got, x, y, a=2.0):
    want = np.float64(a) * x + y
    return np.all(np.abs(np.asarray(got, np.float64) - want) <= 2.0**-22 * (np.abs(a * x) + np.abs(y)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", (1, 127, 1000))
def test_eager_and_under_jit(target, n):
    x, y = normal(n), normal(n, 1)
    assert right(call_axpy(x, y, target=target), x, y)
    assert right(jax.jit(functools.partial(call_axpy, target=target))(x, y), x, y)


@pytest.mark.parametrize("target", TARGETS)
def test_several_kernels_with_arrays_between_them(target):
    x, y = normal(300), normal(300, 1)
    got = jax.jit(lambda x, y: flight.call(kernels.sum_of_squares, x, y, out_shape=S((300,), np.float32), target=target))(
        x, y
    )
    np.testing.assert_allclose(got, x * x + y * y, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_scalar_that_is_an_array_needs_no_other_program(target, compiles):
    x, y = normal(200), normal(200, 1)

    @jax.jit
    def f(a, x, y):
        return flight.call(kernels.axpy, x, y, out_shape=S((200,), np.float32), scalars={"a": a}, target=target)

    for a in (2.0, -1.5, 7.0):
        assert right(f(jnp.float32(a), x, y), x, y, a)
    assert len(compiles) == 1


def test_numbers_of_run_time_are_not_in_the_text(compiles):
    x, y = normal(100), normal(100, 1)
    for a in (2.0, 3.0, 4.0):
        assert right(call_axpy(x, y, a), x, y, a)
    assert len(compiles) == 1, "one kernel, three programs"


def test_python_numbers_of_other_types_are_other_calls():
    x, y = normal(100), normal(100, 1)
    f = functools.partial(flight.call, kernels.axpy, x, y, out_shape=S((100,), np.float32))
    assert right(f(scalars={"a": 1}), x, y, 1)
    assert right(f(scalars={"a": 1.0}), x, y, 1)


@pytest.mark.parametrize("target", TARGETS)
def test_aliases(target):
    x = normal(300)
    f = jax.jit(
        lambda x, first: flight.call(
            kernels.increment_from, x, out_shape=S((300,), np.float32), scalars={"first": first}, input_output_aliases={0: 0},
            target=target,
        ),
        donate_argnums=0,
    )  # fmt: skip
    want = x + (np.arange(300) >= 100)
    np.testing.assert_array_equal(f(jnp.array(x), jnp.int32(100)), want)
    kept = jnp.array(x)
    g = jax.jit(
        lambda x: (
            flight.call(
                kernels.increment_from, x, out_shape=S((300,), np.float32), scalars={"first": 100},
                input_output_aliases={0: 0}, target=target,
            ),
            x * 1,
        )
    )  # fmt: skip
    changed, same = g(kept)
    np.testing.assert_array_equal(changed, want)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(kept, x)


def with_gradient(target, x, y):
    def vjp(operands, result, cotangent):
        x, y = operands
        return call_axpy(cotangent, jnp.zeros_like(y), 2.0, target=target), cotangent

    return call_axpy(x, y, target=target, vjp=vjp, vmap_method="sequential")


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_vmap_and_scan(target):
    x, y = normal(3 * 90).reshape(3, 90), normal(90, 1)
    f = functools.partial(with_gradient, target)
    z, (dx, dy) = jax.jit(jax.value_and_grad(lambda x, y: jax.vmap(f, (0, None))(x, y).sum(), argnums=(0, 1)))(x, y)
    np.testing.assert_allclose(z, (2 * x + y).sum(), rtol=1e-4)
    assert jnp.all(dx == 2) and jnp.all(dy == 3)
    carried, _ = jax.lax.scan(lambda c, x: (f(x, c), None), jnp.asarray(y), jnp.asarray(x))
    np.testing.assert_allclose(carried, 2 * x.sum(0) + y, rtol=1e-4, atol=1e-4)


def test_without_a_vjp_a_derivative_is_refused():
    x = normal(10)
    with pytest.raises(jxt.UnsupportedError, match="kernel axpy: wrap the call in jax.custom_vjp"):
        jax.grad(lambda x: call_axpy(x, x).sum())(jnp.asarray(x))
    with pytest.raises(ValueError, match="vjp returned 3: must return a tuple of 2"):
        jax.grad(lambda x: call_axpy(x, x, vjp=lambda *_: 3).sum())(jnp.asarray(x))


def test_sharding():
    """By a rule under jit, and inside shard_map; the launcher is traced for one device's part."""
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.NamedSharding(mesh, P("d"))
    x, y = normal(8 * 50), normal(8 * 50, 1)
    xs, ys = jax.device_put(x, sharding), jax.device_put(y, sharding)
    f = jax.jit(functools.partial(call_axpy, sharding_rule="n, n -> n"))
    compiled = f.lower(xs, ys).compile()
    assert "all-gather" not in compiled.as_text()
    got = f(xs, ys)
    assert right(got, x, y) and got.sharding.is_equivalent_to(sharding, 1)
    manual = jax.jit(jax.shard_map(call_axpy, mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P("d")))
    assert right(manual(xs, ys), x, y)


def test_sharding_with_a_scalar_of_run_time():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:4])
    xs = jax.device_put(normal(400), jax.NamedSharding(mesh, P("d")))
    f = jax.jit(
        lambda a, x: flight.call(
            kernels.axpy, x, x, out_shape=S((400,), np.float32), scalars={"a": a}, sharding_rule="n, n -> n"
        )
    )
    assert right(f(jnp.float32(3), xs), np.asarray(xs), np.asarray(xs), 3.0)


def run_in_child(code):
    path = os.pathsep.join(str(pathlib.Path(folder).parent) for folder in jxt.__path__)
    environment = os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_exported_programs_need_no_compiler(tmp_path):
    x, y = normal(100), normal(100, 1)
    for target in TARGETS:
        exported = jax.export.export(
            jax.jit(functools.partial(call_axpy, target=target)), disabled_checks=jxt.export_checks(), platforms=["cpu"]
        )(x, y)
        (tmp_path / f"{target}.bin").write_bytes(exported.serialize())
    np.savez(tmp_path / "arrays.npz", x=x, y=y)
    run_in_child(
        f"""
        import pathlib, jax, numpy as np, jaxator
        from jaxator.flight import _compiler
        def refuse(*_): raise AssertionError("compiled again")
        _compiler.compile_text = refuse
        folder = pathlib.Path({str(tmp_path)!r})
        arrays = np.load(folder / "arrays.npz")
        x, y = arrays["x"], arrays["y"]
        for name in {[str(target) for target in TARGETS]!r}:
            f = jax.export.deserialize((folder / (name + ".bin")).read_bytes()).call
            assert np.allclose(jax.jit(f)(x, y), 2 * x + y, rtol=1e-5, atol=1e-5), name
        """
    )


def test_many_calls_of_one_kernel_are_one_artifact_and_a_small_program(compiles):
    def f(x, y):
        for k in range(64):
            y = call_axpy(x, y, float(k))
        return y

    x, y = normal(64), normal(64, 1)
    text = jax.jit(f).lower(x, y).as_text()
    assert text.count("jaxator.call_kernel") == 64 and len(text) < 2 * 2**20
    assert len(compiles) == 1
    np.testing.assert_allclose(jax.jit(f)(x, y), y + x * np.arange(64).sum(), rtol=1e-4, atol=1e-3)


def test_threads_trace_and_compile_at_once(compiles):
    x, y = normal(64), normal(64, 1)
    gate = threading.Barrier(8)

    def one(k):
        gate.wait()
        return right(call_axpy(x[: 8 * (k // 2 + 1)], y[: 8 * (k // 2 + 1)]), x[: 8 * (k // 2 + 1)], y[: 8 * (k // 2 + 1)])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(8)))


def test_an_edited_helper_is_not_stale(monkeypatch):
    x = normal(64)

    def call():
        return flight.call(_edited, x, out_shape=S((64,), np.float32))

    np.testing.assert_array_equal(call(), x + 1)
    monkeypatch.setitem(globals(), "_helper", lambda v: v + 2.0)
    np.testing.assert_array_equal(call(), x + 2)


def _helper(v):
    return v + 1.0


@flight.kernel
def _edited_kernel(x, out):
    i = flight.thread_id()
    out[i] = _helper(x[i])


@flight.jit
def _edited(x, out):
    _edited_kernel(x, out).launch(grid=1, block=64)


class Foreign:
    """An array of another framework."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_arrays_of_other_frameworks_come_and_go_by_dlpack():
    x, y = normal(1024), normal(1024, 1)
    got = flight.call(kernels.axpy, Foreign(x), Foreign(y), out_shape=S((1024,), np.float32), scalars={"a": 2.0})
    assert right(np.from_dlpack(got), x, y)


def many(count):
    x = np.arange(32, dtype=np.float32)

    @flight.kernel
    def kernel(x, out, n: flight.Constexpr):
        i = flight.thread_id()
        out[i] = x[i] * n + (n % 7)

    @flight.jit
    def launch(x, out, n):
        kernel(x, out, n).launch(grid=1, block=32)

    for n in range(count):
        got = flight.call(launch, x, out_shape=S((32,), np.float32), scalars={"n": n})
        np.testing.assert_array_equal(got, x * n + n % 7)


def test_many_kernels_in_one_process(compiles):
    many(40)
    assert len(compiles) == 40


@pytest.mark.full
def test_five_hundred_kernels_in_one_process(compiles):
    many(500)
    assert len(compiles) == 500


def test_empty_results_call_nothing(compiles):
    assert call_axpy(normal(0), normal(0)).shape == (0,) and not compiles


BAD = {
    "target": (dict(target="sm_80"), ValueError, "target='sm_80': must be None, 'x86-64'"),
    "vmap_method": (dict(vmap_method="all"), ValueError, "vmap_method='all': must be one of"),
    "out_shape": (dict(out_shape=3), TypeError, "out_shape=3: must be a jax.ShapeDtypeStruct"),
    "scalar": (dict(scalars={"a": np.zeros(3)}), ValueError, r"scalars\['a'\] has shape \(3,\): must have no dimensions"),
    "alias": (dict(input_output_aliases={0: 1}), ValueError, "1 must be one of 1 results"),
    "alias of another shape": (
        dict(input_output_aliases={0: 0}, out_shape=S((11,), np.float32)),
        ValueError,
        r"operand 0 is float32\[10\], result 0 float32\[11\]: must be equal",
    ),
    "missing scalar": (dict(scalars={}), ValueError, "axpy.*missing.*'a'"),
    "unknown scalar": (dict(scalars={"a": 1.0, "b": 2.0}), ValueError, "axpy.*'b'"),
    "rule": (dict(sharding_rule="n -> n"), ValueError, "has 1 operands: the call has 2"),
}


@pytest.mark.parametrize("change, error, text", BAD.values(), ids=BAD)
def test_bad_arguments_name_the_rule(change, error, text):
    x = normal(10)
    good = dict(out_shape=S((10,), np.float32), scalars={"a": 1.0})
    with pytest.raises(error, match=text):
        flight.call(kernels.axpy, x, x, **{**good, **change})


def test_a_result_that_nothing_is_written_to_is_an_error():
    with pytest.raises(ValueError, match="writes_nothing writes nothing to result 0"):
        flight.call(kernels.writes_nothing, normal(5), out_shape=S((5,), np.float32))


def test_a_platform_without_a_named_architecture_is_refused():
    """The architecture is the device's or was named; never guessed."""
    x = S((64,), np.float32)
    traced = jax.jit(call_axpy).trace(x, x)
    with pytest.raises(jxt.UnsupportedError, match="cuda: no device tells its architecture: name one with jaxator.target"):
        traced.lower(lowering_platforms=("cuda",))
    with jxt.target("sm_90a"):
        text = jax.jit(call_axpy).trace(x, x).lower(lowering_platforms=("cuda",)).as_text()
    assert "jaxator.call_kernel" in text
    with jxt.target("gfx950"):
        text = jax.jit(call_axpy).trace(x, x).lower(lowering_platforms=("rocm",)).as_text()
    assert "jaxator.call_kernel" in text
    with jxt.target("sm_100a"), pytest.raises(jxt.UnsupportedError, match="architecture=sm_100a: Flight compiles for"):
        jax.jit(call_axpy).trace(x, x).lower(lowering_platforms=("cuda",))


def test_without_the_compiler_the_package_works_and_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(_compiler, "find_executable", lambda: None)
    with pytest.raises(jxt.UnsupportedError, match="pip install jaxator-flightc"):
        call_axpy(normal(77), normal(77))
