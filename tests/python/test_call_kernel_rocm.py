"""call_kernel with HSACO: lowered for ROCm, and run by the emulator in programs for CPUs."""

import functools
import pathlib
import shutil
import subprocess
import tempfile

import call_kernel_cases as cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from call_kernel_cases import normal, on_cpu  # noqa: F401

import jaxator as jxt

ARCHITECTURES = ("gfx942", "gfx950")


@functools.cache
def hsaco(architecture, change=("", "")):
    """kernels/saxpy.s, with `change` made in its text."""
    if shutil.which("clang-22") is None:
        pytest.skip("no clang-22, which assembles for AMD GPUs")
    text = (cases.KERNELS / "saxpy.s").read_text()
    assert change[0] in text
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "saxpy.hsaco")
        command = ["clang-22", "-x", "assembler", "--target=amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-fuse-ld=lld-22"]
        subprocess.run([*command, "-", "-o", out], input=text.replace(*change).encode(), check=True)
        return out.read_bytes()


@functools.cache
def blobs():
    return {name: hsaco(name) for name in ARCHITECTURES}


def saxpy(architecture, a, x, y, **options):
    return cases.saxpy(a, x, y, blob=options.pop("blob", None) or blobs(), implementation=architecture, **options)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", cases.SIZES)
def test_runs_on_the_emulator(architecture, size):
    x, y = normal(size), normal(size, seed=1)
    want, bound = 2.5 * np.asarray(x, np.float64) + y, 2.0**-23 * (2.5 * np.abs(x) + np.abs(y))
    for f in (saxpy, jax.jit(saxpy, static_argnums=(0, 1))):
        assert np.all(np.abs(f(architecture, 2.5, x, y) - want) <= bound)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gradients_and_vmap(architecture):
    @jax.custom_vjp
    def f(x, y):
        return saxpy(architecture, 3.0, x, y, vmap_method="broadcast_all")

    f.defvjp(lambda x, y: (f(x, y), None), lambda _, dz: (3.0 * dz, dz))
    x, y = normal(3 * 70).reshape(3, 70), normal(70, seed=1)
    z, (dx, dy) = jax.value_and_grad(lambda x, y: jax.vmap(f, (0, None))(x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(z, (3 * x + y).sum(), rtol=1e-5)
    assert jnp.all(dx == 3) and jnp.all(dy == 3)


def test_one_program_for_rocm_and_for_cpus():
    x = jax.ShapeDtypeStruct((100,), np.float32)
    traced = jax.jit(lambda x, y: saxpy("gfx950", 2.0, x, y)).trace(x, x)
    text = traced.lower(lowering_platforms=("rocm",)).as_text()
    assert "@jaxator.call_kernel(" in text and "architecture" not in text
    text = traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "jaxator.call_kernel_emulated" in text and 'architecture = "gfx950"' in text


FAULTS = {
    "missing wait": (("s_waitcnt vmcnt(0)", ""), "missing wait in saxpy"),
    "out of bounds": (("v_cmp_gt_i32_e32 vcc, s10, v0", "v_cmp_le_i32_e32 vcc, 0, v0"), "out of bounds in saxpy"),
    "uninitialised value": (("v_fmac_f32_e32 v9, s11, v8", "v_fmac_f32_e32 v9, s11, v10"), "uninitialised value in saxpy"),
}


@pytest.mark.parametrize("change, text", FAULTS.values(), ids=FAULTS)
def test_what_the_emulator_finds_is_the_error(change, text):
    x = normal(100)
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        jax.block_until_ready(saxpy("gfx942", 1.0, x, x, blob={"gfx942": hsaco("gfx942", change)}))


def test_errors_name_the_rule():
    x = normal(10)
    with pytest.raises(ValueError, match="implementation='cpu': must be None, 'gfx942', 'gfx950'"):
        saxpy("cpu", 1.0, x, x)
    with pytest.raises(jxt.UnsupportedError, match="rocm: implementation='gfx950': blob has gfx942"):
        saxpy("gfx950", 1.0, x, x, blob={"gfx942": hsaco("gfx942")})
    with pytest.raises(jxt.UnsupportedError, match="cuda: implementation='gfx950' was named"):
        jax.jit(lambda x: saxpy("gfx950", 1.0, x, x)).trace(x).lower(lowering_platforms=("cuda",))
    saxpy_of = functools.partial(
        jxt.call_kernel, blobs(), out_shape=jax.ShapeDtypeStruct((10,), np.float32), grid=1, block=128, scalars=(10, 1.0),
        implementation="gfx942",
    )  # fmt: skip
    with pytest.raises(jax.errors.JaxRuntimeError, match="cluster=2: this GPU has no clusters"):
        jax.block_until_ready(saxpy_of("saxpy", x, x, grid=2, cluster=2))
    with pytest.raises(jax.errors.JaxRuntimeError, match="looking for kernel missing in the blob"):
        jax.block_until_ready(saxpy_of("missing", x, x))
