"""src/layout as GPU code: layouts as template arguments cost nothing, whatever the target."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CUDA = ["-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", "--cuda-gpu-arch=sm_90a",
        "-Xclang", "-target-feature", "-Xclang", "+ptx80"]  # fmt: skip
HIP = ["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib"]
TARGETS = {
    "sm_90a": CUDA,
    "gfx942": [*HIP, "--offload-arch=gfx942"],
    "gfx950": [*HIP, "--offload-arch=gfx950"],
    "gfx942-freestanding": ["-x", "c++", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-ffreestanding", "-mcpu=gfx942"],
}
COSTS = r"\.local|\bcall\b|scratch_|s_swappc|\bdiv\b|\brem\b|\bbra\b|s_cbranch|trap"  # memory, calls, divisions, branches
FLAGS = ["-std=c++20", "-O3", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", "-S"]


def kernels(target: str, path: pathlib.Path) -> dict[str, str]:
    """The code of each kernel."""
    command = ["clang++-22", *TARGETS[target], *FLAGS, str(ROOT / "tests/cpp/layout_device.cpp"), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    start = r"\.entry (layout_\w+)\((.*?)\n\}" if target == "sm_90a" else r"\n(layout_\w+):(.*?)\n\t\.section"
    return dict(re.findall(start, path.read_text(), re.DOTALL))


@pytest.mark.parametrize("target", TARGETS)
def test_layouts_fold(target: str, tmp_path: pathlib.Path) -> None:
    code = kernels(target, tmp_path / "device.s")
    assert set(code) == {"layout_shared", "layout_fragment", "layout_folded", "layout_checked"}
    for name in ("layout_shared", "layout_fragment", "layout_folded"):
        assert not re.search(COSTS, code[name]), code[name]
        assert len(code[name].splitlines()) < 60, code[name]
    assert re.search(r"trap|s_trap", code["layout_checked"])
