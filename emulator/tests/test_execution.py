"""Order of waves, waves that wait for others, large memory, two devices at once, and what reports say."""

from __future__ import annotations

import concurrent.futures

import numpy as np
import pytest
from emulator import (
    ARCHITECTURES,
    BANKS,
    TESTS,
    Array,
    Code,
    Device,
    EmulatorError,
    compile_image,
    kernel_code,
    launch,
    output,
)

GROUPS = 6


def seen_order(seed: int, threads: int = 1) -> Array:
    seen = output(GROUPS * 16, np.uint32)
    code = kernel_code("order", "gfx942", "-O3")
    report = launch(code, "order", [np.zeros(1, np.uint32), seen], (GROUPS,), (256,), seed=seed, threads=threads)
    assert report.clean, report.text
    return np.array(seen)


def test_the_seed_decides_the_order() -> None:
    orders = [seen_order(seed) for seed in range(4)]
    for order in orders:
        np.testing.assert_array_equal(np.bincount(order), np.full(GROUPS * 4, 4))
    assert all((a != b).any() for a, b in zip(orders, orders[1:], strict=False))
    for seed in range(4):
        np.testing.assert_array_equal(seen_order(seed), orders[seed])


def test_waves_take_turns_within_a_workgroup() -> None:
    order = seen_order(1)
    first = order[order < 4]
    assert len(set(np.flatnonzero(np.diff(first)))) > 4  # more often than once a wave


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("seed", range(6))
def test_spinning_within_a_workgroup(architecture: str, seed: int) -> None:
    out = output(256, np.uint32)
    report = launch(kernel_code("order", architecture, "-O3"), "spin_in_group", [out], (1,), (256,), seed=seed)
    assert report.clean, report.text
    assert (np.asarray(out)[:192] == 42).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_spinning_between_workgroups(architecture: str, threads: int) -> None:
    groups = 24
    out = output(groups, np.uint32)
    code = kernel_code("order", architecture, "-O3")
    arguments = [np.zeros(groups, np.uint32), out, np.uint32(groups)]
    report = launch(code, "spin_between_groups", arguments, (groups,), (64,), threads=threads)
    assert report.clean, report.text
    np.testing.assert_array_equal(out, np.arange(groups, 0, -1))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_arrays_beyond_4_gib(architecture: str) -> None:
    n = (1 << 31) + 1000  # elements of two bytes
    first = n - 700
    code = kernel_code("far", architecture, "-O3")
    with Device(architecture) as device:
        x, y = (device.allocate(2 * n, name) for name in ("x", "y"))
        values = np.arange(700, dtype=np.uint16)
        device.write(x + 2 * first, values)
        arguments = [np.uint64(x), np.uint64(y), np.uint64(n), np.uint64(first)]
        report = device.launch(code, "reverse_far", arguments, (3,), (256,))
        assert report.clean, report.text
        np.testing.assert_array_equal(device.read(y, 700, np.uint16), values[::-1] + 1)
        assert device.uninitialised(y, 1400) == 0 and device.uninitialised(y + 1400, 1 << 20) == 1 << 20

        arguments[3] = np.uint64(10)  # nobody wrote these
        report = device.launch(code, "reverse_far", arguments, (1,), (256,))
        assert report.kinds() == {"uninitialised value"}, report.text
        arguments[2] = np.uint64(n + 20)  # beyond the end
        report = device.launch(code, "reverse_far", arguments, (1,), (256,))
        assert "out of bounds" in report.kinds() and "of y (" in report.text
        device.free(x)
        report = device.launch(code, "reverse_far", arguments, (1,), (256,))
        assert " of y (" in report.text and "out of bounds" in report.kinds()


def test_freeing_what_was_not_allocated() -> None:
    with Device("gfx942") as device:
        address = device.allocate(64, "x")
        with pytest.raises(EmulatorError, match="was not given by allocate"):
            device.free(address + 4)
        with pytest.raises(EmulatorError, match="4 bytes at 0x40 are not within one allocation"):
            device.uninitialised(0x40, 4)
        with pytest.raises(EmulatorError, match="memory y of 4 bytes overlaps x"):
            device.map_address(address, 4, "y")


def test_two_devices_at_once() -> None:
    n = 4096

    def run(architecture: str) -> None:
        code = kernel_code("vector_add", architecture, "-O3")
        for seed in range(8):
            a, b, c = np.arange(n, dtype=np.float32), np.full(n, seed, np.float32), output(n)
            report = launch(code, "vadd", [a, b, c, np.int32(n)], (n // 256,), (256,), seed=seed)
            assert report.clean, report.text
            np.testing.assert_array_equal(c, a + b)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(run, architecture) for architecture in ARCHITECTURES * 2]:
            future.result()


def test_a_code_object_for_the_other_architecture() -> None:
    code = kernel_code("vector_add", "gfx942", "-O3")
    with (
        Device("gfx950") as device,
        pytest.raises(EmulatorError, match="a code object for gfx942 on a device that is gfx950"),
    ):
        device.launch(code, "vadd", [])


@pytest.mark.parametrize("version", ["-gdwarf-5", "-gdwarf-4", "-gline-tables-only"])
def test_findings_name_the_source_line(version: str) -> None:
    n = 256
    a, b, c = (np.zeros(n, np.float32) for _ in range(3))
    code = kernel_code("vector_add", "gfx942", "-O3", version)
    finding = launch(code, "vadd", [a, b, c, np.int32(n)], (1,), (256,), extents={1: 4 * n - 4}).findings[0]
    assert finding["source"].endswith("kernels/vector_add.cpp:5"), finding
    assert "of argument 1 (1020 bytes)" in finding["message"]
    code = kernel_code("vector_add", "gfx942", "-O3")
    assert launch(code, "vadd", [a, b, c, np.int32(n)], (1,), (256,), extents={1: 4 * n - 4}).findings[0]["source"] == ""


def test_bank_report_names_the_line() -> None:
    n = 64
    code = kernel_code("transpose", "gfx942", "-O3", "-g")
    report = launch(
        code, "transpose", [np.zeros((n, n), np.float32), output((n, n)), np.int32(n)], (2, 2), (256,), checks=BANKS
    )
    assert report.banks and all("transpose.cpp:" in use["source"] for use in report.banks)


def test_arguments_preloaded_into_registers() -> None:
    n = 300
    a, b, c = np.arange(n, dtype=np.float32), np.ones(n, np.float32), output(n)
    code = kernel_code("vector_add", "gfx950", "-O3", "-mllvm", "-amdgpu-kernarg-preload-count=8")
    first = code.disassembly("vadd").splitlines()
    report = launch(code, "vadd", [a, b, c, np.int32(n)], (2,), (256,))
    assert report.clean, report.text
    np.testing.assert_array_equal(c, a + b)
    assert not any("s_load_dwordx2" in line for line in first[-20:])


def test_a_launch_has_a_time_limit() -> None:
    code = kernel_code("order", "gfx942", "-O3")
    flags, out = np.zeros(9, np.uint32), output(9, np.uint32)
    report = launch(code, "spin_between_groups", [flags, out, np.uint32(9)], (2,), (64,), time_limit_s=0.2)
    assert not report.completed and report.kinds() == {"no progress"}


def test_images_that_are_no_code_objects() -> None:
    image = compile_image(TESTS / "kernels/vector_add.cpp", "gfx942")
    with pytest.raises(EmulatorError, match="not an ELF file"):
        Code(b"not an ELF file")
    with pytest.raises(EmulatorError):
        Code(image[: len(image) // 2])
