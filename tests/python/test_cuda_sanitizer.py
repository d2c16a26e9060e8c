"""compute-sanitizer on every CUDA kernel: accesses outside of arrays, and races in shared memory."""

import os
import pathlib
import shutil
import subprocess
import sys

import cuda_sanitized
import pytest

import jaxator

pytestmark = pytest.mark.gpu
SANITIZER = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")


@pytest.mark.skipif(SANITIZER is None, reason="no compute-sanitizer on PATH or in /usr/local/cuda/bin")
@pytest.mark.parametrize("group", cuda_sanitized.KERNELS)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_clean(tool: str, group: str) -> None:
    """Arrays are allocations of their own, so that an access past one is seen. racecheck counts hazards of all levels."""
    packages = [str(pathlib.Path(folder).parent) for folder in jaxator.__path__]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(packages), "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    chosen = [f"--kernel-name=kernel_substring={name}" for name in cuda_sanitized.KERNELS[group]]
    # XLA asks the driver for things that some versions lack, and copes with a no: such calls are no errors of kernels.
    command = [
        SANITIZER,
        f"--tool={tool}",
        "--error-exitcode=9",
        "--report-api-errors=no",
        *chosen,
        sys.executable,
        cuda_sanitized.__file__,
        group,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    report = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0 and "done" in done.stdout, report
    summary = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards"}[tool]
    assert summary in done.stdout, report
