"""call_kernel on an NVIDIA GPU: kernels written by hand and by clang, alone and in CUDA graphs; what the driver refuses."""

import concurrent.futures
import functools
import shutil
import subprocess
import threading

import call_kernel_cases as cases
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from call_kernel_cases import KERNELS, SAXPY_PTX, SOFTMAX_PTX, normal, saxpy, softmax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxator as jxt

pytestmark = pytest.mark.gpu
S = jax.ShapeDtypeStruct
PROBES = (KERNELS / "probes.ptx").read_bytes()
# One call alone becomes a CUDA graph.
CAPTURE = {"xla_gpu_graph_min_graph_size": 1}
both_ways = pytest.mark.parametrize("options", [{}, CAPTURE], ids=["plain", "captured"])


def probe(name, out_shape, **options):
    return jxt.call_kernel(PROBES, name, out_shape=out_shape, block=1, **options)


# ---- values ----------------------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("size", cases.SIZES)
def test_ptx_by_hand(size, options):
    f = jax.jit(functools.partial(saxpy, 2.5), compiler_options=options)
    for seed in range(4):  # fresh buffers for each call
        x, y = normal(size, seed=seed), normal(size, seed=100 + seed)
        want = 2.5 * np.asarray(x, np.float64) + np.asarray(y, np.float64)
        bound = 2.0**-24 * np.abs(want)  # one rounding
        assert np.all(np.abs(np.asarray(f(x, y), np.float64) - want) <= bound)


@both_ways
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (4, 256), (5, 1000), (2, 3, 4099)], ids=str)
def test_cpp_with_gradients(shape, options):
    f = jax.jit(functools.partial(cases.value_and_vjp, functools.partial(softmax, scale=1.7)), compiler_options=options)
    first = None
    for seed in (0, 1, 2, 0):
        x, dy = normal(*shape, seed=seed), normal(*shape, seed=100 + seed)
        y, dx = f(x, dy)
        cases.check_softmax(x, dy, 1.7, y, dx)
        first = first if first is not None else (np.asarray(y), np.asarray(dx))
    np.testing.assert_array_equal(first, (y, dx))  # the same inputs again: the same bits


def test_gradients_through_transformations():
    x, dy = normal(4, 6, 37), normal(4, 6, 37, seed=1)

    def scanned(x):
        return jax.lax.scan(lambda carry, row: (carry, softmax(row)), 0, x)[1]

    for f in (jax.vmap(softmax), jax.vmap(softmax, in_axes=1, out_axes=1), scanned, jax.checkpoint(softmax)):
        cases.check_softmax(x, dy, 1.0, *jax.jit(functools.partial(cases.value_and_vjp, f))(x, dy))


@pytest.mark.parametrize("method", ["sequential", "broadcast_all"])
def test_vmap_methods(method):
    x, y = normal(3, 4, 5), normal(3, 4, 5, seed=1)
    f = functools.partial(saxpy, 2.0, vmap_method=method)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.vmap(f)))(x, y), 2 * x + y, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(f, in_axes=(0, None)))(x, y[0]), 2 * x + y[0], rtol=1e-6, atol=1e-6)


def test_scalars_arrive_by_value():
    values = (True, -7, 2**40, 1.5, np.float64(0.1), np.int16(-3), np.uint8(200), ml_dtypes.bfloat16(2.5))
    types = (np.bool_, np.int32, np.int64, np.float32, np.float64, np.int16, np.uint8, ml_dtypes.bfloat16)
    got = np.asarray(probe("scalars", S((8, 8), np.uint8), grid=1, scalars=values))
    for row, value, kind in zip(got, values, types, strict=True):
        want = np.asarray(value, kind).tobytes()
        assert row[: len(want)].tobytes() == want, (value, kind)


@both_ways
def test_clusters(options):
    f = lambda **k: jax.jit(functools.partial(probe, **k), compiler_options=options)()  # noqa: E731
    got = np.asarray(f(name="clusters", out_shape=S((4, 6, 2), np.int32), grid=(6, 4), cluster=(2, 2)))
    y, x = np.indices((4, 6))
    np.testing.assert_array_equal(got, np.stack([y % 2 * 2 + x % 2, np.full_like(x, 4)], axis=-1))
    for cluster in (None, 2):  # compiled for two: asked or not
        got = np.asarray(f(name="pairs", out_shape=S((8, 2), np.int32), grid=8, cluster=cluster))
        np.testing.assert_array_equal(got, np.stack([np.arange(8) % 2, np.full(8, 2)], axis=-1))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas")
def test_cubins(tmp_path):
    out = tmp_path / "saxpy.cubin"
    (tmp_path / "saxpy.ptx").write_bytes(SAXPY_PTX)
    subprocess.run(["ptxas", "-arch=sm_90a", str(tmp_path / "saxpy.ptx"), "-o", str(out)], check=True)
    x = normal(1000)
    np.testing.assert_array_equal(saxpy(1.0, x, x, blob={"sm_90a": out.read_bytes()}), 2 * x)


# ---- memory and programs ---------------------------------------------------------------------------------------------


@both_ways
def test_donated_memory_is_used_again(options):
    f = lambda x, y: saxpy(2.0, x, y, input_output_aliases={0: 0})  # noqa: E731
    x, y = jnp.asarray(normal(4096)), jnp.asarray(normal(4096, seed=1))
    kept = jax.jit(f, compiler_options=options)
    want = np.asarray(kept(x, y))
    np.testing.assert_array_equal(x, normal(4096))  # still ours: it was not donated
    donated = jax.jit(f, donate_argnums=0, compiler_options=options)
    address = x.unsafe_buffer_pointer()
    got = donated(x, y)
    assert got.unsafe_buffer_pointer() == address and x.is_deleted()
    np.testing.assert_array_equal(got, want)
    expected = want
    for _ in range(5):  # in place, again and again: the graph is replayed
        got, expected = donated(got, y), 2 * expected + np.asarray(y)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_exported_programs_carry_their_kernels():
    x, dy = normal(3, 50), normal(3, 50, seed=1)
    f = jax.jit(functools.partial(cases.value_and_vjp, softmax))
    exported = jax.export.export(f, platforms=("cuda",), disabled_checks=jxt.export_checks())(x, dy)
    again = jax.export.deserialize(exported.serialize())
    cases.check_softmax(x, dy, 1.0, *again.call(x, dy))


def test_threads_share_one_load():
    texts = [SAXPY_PTX + b"// %d\n" % i for i in range(3)]  # nobody has loaded these
    gate = threading.Barrier(6)
    x = normal(500)

    def work(i):
        f = jax.jit(functools.partial(saxpy, 1.0, blob=texts[i % 3]))
        gate.wait()
        return [np.asarray(f(x * k, x * k)) for k in range(1, 20)]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for results in pool.map(work, range(6)):
            for k, got in enumerate(results, 1):
                np.testing.assert_array_equal(got, 2 * (x * k))


def test_several_gpus():
    devices = jax.devices("gpu")
    if len(devices) < 2:
        pytest.skip("one GPU")
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((2,), ("p",), axis_types=(kind,), devices=devices[:2])
        with jax.set_mesh(mesh):
            x, dy = (jax.device_put(normal(8, 50, seed=s), NamedSharding(mesh, P("p"))) for s in (0, 1))
            y, dx = jax.jit(functools.partial(cases.value_and_vjp, softmax))(x, dy)
        cases.check_softmax(x, dy, 1.0, y, dx)
        assert y.sharding.is_equivalent_to(x.sharding, 2)


# ---- what is refused -------------------------------------------------------------------------------------------------

WRONG = SAXPY_PTX.replace(b"fma.rn.f32 %left", b"fma.rn.f23 %left")
WRONG_LINE = WRONG[: WRONG.index(b"fma.rn.f23")].count(b"\n") + 1
OUT = S((1000,), np.float32)

REFUSED = {
    "wrong PTX": (dict(blob=WRONG), f"(?s)loading the blob: CUDA_ERROR_INVALID_PTX.*line {WRONG_LINE}; "),
    "missing kernel": (dict(name="daxpy"), "looking for kernel daxpy in the blob: CUDA_ERROR_NOT_FOUND"),
    "shared memory": (dict(shared_bytes=240000), "kernel saxpy: shared_bytes=240000: must be at most 232448"),
    "few arguments": (dict(scalars=(1000,)), "kernel saxpy: arguments=4: the kernel takes 5"),
    "many arguments": (dict(scalars=(1000, 1.0, 1)), "kernel saxpy: arguments=6: the kernel takes 5"),
    "wide argument": (dict(scalars=(np.int64(1000), 1.0)), "kernel saxpy: bytes of argument 3=8: the kernel takes 4"),
    "threads": (
        dict(blob=SOFTMAX_PTX, name="softmax_backward", block=512),
        "kernel softmax_backward: threads in a block=512: must be at most 256",
    ),
    "not a cubin": (
        dict(blob=b"\x7fELF" + b"\2\1\1\x41\x08" + bytes(9) + b"\xbe\0" + bytes(100)),
        "loading the blob: CUDA_ERROR_",
    ),
}


@both_ways
@pytest.mark.parametrize("change, text", REFUSED.values(), ids=REFUSED)
def test_refusals_are_errors_with_the_drivers_text(change, text, options):
    x = normal(1000)
    given = dict(blob=SAXPY_PTX, name="saxpy", block=128, scalars=(1000, 1.0)) | change
    blob, name = given.pop("blob"), given.pop("name")
    f = jax.jit(lambda x: jxt.call_kernel(blob, name, x, x, out_shape=OUT, grid=8, **given), compiler_options=options)
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        jax.block_until_ready(f(x))
    np.testing.assert_array_equal(saxpy(1.0, x, x), 2 * x)  # the process and the GPU live on


def test_a_cluster_that_the_kernel_was_not_compiled_for():
    with pytest.raises(
        jax.errors.JaxRuntimeError, match="kernel pairs: cluster.x=4: the kernel was compiled for a cluster of 2"
    ):
        jax.block_until_ready(probe("pairs", S((8, 2), np.int32), grid=8, cluster=4))
    with pytest.raises(
        jax.errors.JaxRuntimeError, match="kernel pairs: grid.x=3: the kernel was compiled for a cluster of 2"
    ):
        jax.block_until_ready(probe("pairs", S((3, 2), np.int32), grid=3))


def test_another_platform_is_an_error_of_lowering():
    with pytest.raises(jxt.UnsupportedError, match="cpu: blob has no kernel for it"):
        jax.jit(lambda x: saxpy(1.0, x, x, blob=SAXPY_PTX)).trace(jnp.ones(3)).lower(lowering_platforms=("cpu",))
