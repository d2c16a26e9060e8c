"""What the other numeric tests rest on (the modes are real), the same source as GPU code, and all float32 values."""

import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from numeric_library import FORMATS, Library, every_library
from numeric_model import MODELS

ROOT = pathlib.Path(__file__).parents[2]
COMMON = [
    "-std=c++20",
    "-O3",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-Wall",
    "-Wextra",
    "-Werror",
    f"-I{ROOT}",
    "-S",
]
CUDA = ["-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", "--cuda-gpu-arch=sm_90a",
        "-Xclang", "-target-feature", "-Xclang", "+ptx80"]  # fmt: skip
HIP = ["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib"]
FREESTANDING = ["-x", "c++", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-ffreestanding"]
TARGETS = {
    "sm_90a": CUDA,
    "gfx942": [*HIP, "--offload-arch=gfx942"],
    "gfx950": [*HIP, "--offload-arch=gfx950"],
    "gfx942-freestanding": [*FREESTANDING, "-mcpu=gfx942"],
}


@every_library
def test_the_mode_is_what_its_name_says(library: Library) -> None:
    """2^-100 2^-40 is a denormal; so is 2^-140, as an operand."""
    assert library.multiply(2.0**-100, 2.0**-40) == (0 if library.flushed else 2.0**-140)
    assert library.multiply(2.0**-140, 2.0**100) == (0 if library.flushed else 2.0**-40)


def compiled(target: str, path: pathlib.Path) -> str:
    command = ["clang++-22", *TARGETS[target], *COMMON, str(ROOT / "tests/cpp/numeric_device.cpp"), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path.read_text()


@pytest.mark.parametrize("target", TARGETS)
def test_gpu_code_keeps_denormals_and_fuses_nothing(target: str, tmp_path: pathlib.Path) -> None:
    text = compiled(target, tmp_path / "device.s")
    kernels = set(re.findall(r"\bnumeric_\w+(?=[:(])", text))
    assert len(kernels) == 6, kernels
    assert not re.search(r"\.ftz|\bfma\.rn\.f32|v_fma|v_mad_f32|v_pk_fma|v_fmac", text)
    if target != "sm_90a":
        assert set(re.findall(r"amdhsa_float_denorm_mode_32 (\d)", text)) == {"3"}, "denormals must be kept"


def test_ptxas_takes_the_ptx(tmp_path: pathlib.Path) -> None:
    ptxas = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    if ptxas is None:
        pytest.skip("no ptxas here")
    compiled("sm_90a", tmp_path / "device.ptx")
    done = subprocess.run(
        [ptxas, "-arch=sm_90a", "device.ptx", "-o", "device.cubin"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("target", FORMATS[1:])
def test_every_float32(target: str) -> None:
    """All 2^32 codes against ml_dtypes (NumPy for float16), but for the differences that docs/numerics.md lists."""
    library, model, chunk = Library("clang_v3", True), MODELS[target], 1 << 23
    for first in range(0, 1 << 32, chunk):
        codes = np.arange(first, first + chunk, dtype=np.uint32)
        x = codes.view(np.float32)
        with np.errstate(all="ignore"):
            want = x.astype(model.dtype).view(model.code_type)
        nan = codes & 0x7FFFFFFF > 0x7F800000
        if nan.any():
            want[nan] = model.nan | (model.sign_bit if first >> 31 and model.signed else 0)
        if target == "e2m1":
            want[want == 8] = 0
        assert np.array_equal(library.convert("f32", target, codes), want), f"{target}: codes from {first:#x}"
