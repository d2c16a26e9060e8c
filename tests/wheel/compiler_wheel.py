"""The wheel of Flight's compiler: its contents, and a try in an environment that has the main wheel."""

import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

LIMIT_BYTES = 60 * 10**6
EXECUTABLE = "jaxator_flightc/lib/jaxator-flightc"
PROGRAM = Path(__file__).with_name("flight_program.py")
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
"""The C library's. LLVM, MLIR, lld, the C++ library and what they compress with are inside."""


def needed_libraries(path: Path) -> set[str]:
    with path.open("rb") as file:
        sections = [section for section in ELFFile(file).iter_sections() if isinstance(section, DynamicSection)]
        return {tag.needed for section in sections for tag in section.iter_tags("DT_NEEDED")}


def check_contents(wheel: Path, platform_of: Callable[[Path], str]) -> None:
    """One executable that needs nothing, and little else."""
    size = wheel.stat().st_size
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        entry = archive.getinfo(EXECUTABLE)
        print(f"{wheel.name}: {size / 1e6:.3f} MB (limit {LIMIT_BYTES / 1e6:.0f}), {len(names)} files")
        print(f"  {EXECUTABLE:40} {entry.file_size / 1e3:9.1f} kB  packed {entry.compress_size / 1e3:8.1f} kB")
        assert entry.external_attr >> 16 & 0o111 == 0o111, f"{EXECUTABLE} is not executable"
        misplaced = [name for name in names if not re.match(r"jaxator_flightc-[\w.]+\.dist-info/", name)]
        assert sorted(misplaced) == ["jaxator_flightc/__init__.py", EXECUTABLE], f"unexpected files: {misplaced}"
        needed = needed_libraries(Path(archive.extract(EXECUTABLE, folder)))
        print(f"  needs {', '.join(sorted(needed))}")
        assert needed <= SYSTEM_LIBRARIES, f"needs {needed - SYSTEM_LIBRARIES}, which a machine without LLVM may not have"
        platform = platform_of(wheel)
        print(f"  auditwheel: {platform}")
        assert platform.startswith("manylinux"), f"{platform}: is not what any Linux of some age can run"
    assert size <= LIMIT_BYTES, f"the wheel has {size} bytes, more than {LIMIT_BYTES}"


def try_with(wheel: Path, run: Callable[..., str], pip: Callable[..., None]) -> list[str]:
    """In a prepared environment, which is left as it was: without the wheel, then with it."""
    lines = [run(PROGRAM, "missing")]
    pip("install", "--no-deps", "--force-reinstall", wheel)
    try:
        return [*lines, run(PROGRAM)]
    finally:
        pip("uninstall", "--yes", "jaxator-flightc")
