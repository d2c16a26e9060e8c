"""`jaxator doctor`: what this installation and this machine have."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import jax
import jaxlib
from rich.console import Console
from rich.table import Table

import jaxator
from jaxator import _ffi, _targets
from jaxator.flight import _cache, _compiler

CACHE_FLAG = "jax_remove_custom_partitioning_ptr_from_cache_key"


def examine() -> dict[str, Any]:
    """Everything that `jaxator doctor` prints, ready for JSON."""
    cpu = _ffi.cpu_report()
    return {
        "versions": {
            "jaxator": jaxator.__version__,
            "jax": jax.__version__,
            "jaxlib": jaxlib.__version__,
            "python": platform.python_version(),
        },
        "cpu": cpu | {"bf16_route": "bfloat16 dot" if cpu["fast_bf16_dot"] else "float32 FMA on widened elements"},
        "libraries": {path.name: path.stat().st_size for path in _libraries()},
        "cuda": _ffi.cuda_report(),
        "rocm": _ffi.rocm_report(),
        "flight": _flight(),
        "kernels": _kernels(),
        "devices": _devices(),
        "notes": _notes(cpu),
    }


def _flight() -> dict[str, Any]:
    """The compiler of the kernel language, started to see that it does start; and where compiled kernels are kept."""
    path, problem, version = _compiler.find_executable(), "", {}
    if path is None:
        problem = f"{_compiler.EXECUTABLE} is not in this installation: pip install jaxator-flightc"
    else:
        try:
            version = dict(_compiler.start())
        except (OSError, RuntimeError) as error:
            problem = str(error)
    folder = _cache.current().folder
    return {"compiler": path and str(path), "problem": problem, "version": version, "cache": folder and str(folder)}


def _libraries() -> list[Path]:
    folder = Path(_ffi.library()._name).parent
    return sorted(folder.glob("*.so"))


def _kernels() -> dict[str, dict[str, list[str]]]:
    """Kernel -> target -> the instruction sets (architectures) it is built for; none where the XLA formulation is taken."""
    present = {path.name for path in _libraries()}
    sets = [isa for isa in _ffi.ISAS if f"libjaxator_cpu_{isa.removeprefix('x86-64-').replace('-', '_')}.so" in present]
    return {
        handler: {
            "cpu": sets if hasattr(_ffi.library(), f"jaxator_{handler}") else [],
            "cuda": list(_targets.KERNEL_ARCHITECTURES["cuda"]) if _ffi.has_cuda_kernels(handler) else [],
            "rocm": list(_targets.KERNEL_ARCHITECTURES["rocm"]) if _ffi.has_rocm_kernels(handler) else [],
        }
        for handler in _ffi.HANDLERS
    }


def _devices() -> dict[str, list[str]]:
    found = {}
    for name in ("cpu", *_targets.GPU_PLATFORMS):
        try:
            found[name] = [f"{d.id}: {d.device_kind}" for d in jax.devices(name)]
        except RuntimeError:
            found[name] = []
    return found


def _notes(cpu: dict[str, Any]) -> list[str]:
    notes = []
    if not cpu["supported"]:
        notes.append("This CPU lacks AVX2, FMA or F16C: the kernels cannot run here; use implementation='xla'.")
    is_set = getattr(jax.config, CACHE_FLAG, None)
    state = "does not exist in this jax" if is_set is None else "is set" if is_set else "is not set"
    meaning = (
        "are found in the persistent compilation cache by later processes."
        if is_set
        else "are compiled again in each process; set it to keep them in the persistent compilation cache. Programs for one "
        "device, manual and explicit sharding are not affected."
    )
    notes.append(f"{CACHE_FLAG} {state}: programs sharded automatically over several devices {meaning}")
    notes.append(
        "Automatic sharding over several devices uses custom_partitioning, which jax.export refuses: export such programs "
        "with jax.shard_map, explicit axes or mesh=."
    )
    return notes


def console_for_people() -> Console:
    """As wide as the terminal; wide enough for our tables in a pipe or file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=180)


def show(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report, indent=1))
        return
    console = console_for_people()
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, version in report["versions"].items():
        facts.add_row(name, version)
    cpu = report["cpu"]
    facts.add_row("CPU", f"{cpu['brand'].strip()} ({cpu['vendor']}, family {cpu['family']}, model {cpu['model']})")
    facts.add_row("instruction sets", ", ".join(cpu["supported"]) or "none that the kernels need")
    facts.add_row("in use", str(cpu["selected"]))
    facts.add_row("bfloat16 products by", cpu["bf16_route"])
    facts.add_row("last-level cache", f"{cpu['last_level_cache_bytes'] / 2**20:.0f} MiB")
    facts.add_row(
        "CUDA driver", report["cuda"]["problem"] or ", ".join(d["name"] for d in report["cuda"]["devices"]) or "no device"
    )
    flight = report["flight"]
    built = ", ".join(f"{name} {version}" for name, version in flight["version"].items())
    facts.add_row("Flight's compiler", flight["problem"] or built)
    facts.add_row("Flight's cache", flight["cache"] or "memory only")
    for name, size in report["libraries"].items():
        facts.add_row(name, f"{size / 2**20:.2f} MiB")
    for name, devices in report["devices"].items():
        facts.add_row(f"{name} devices", ", ".join(devices) or "none")
    console.print(facts)
    kernels = Table("kernel", "cpu", *_targets.GPU_PLATFORMS, title="Kernels built in")
    for handler, targets in report["kernels"].items():
        built = (" ".join(isa.removeprefix("x86-64-") for isa in sets) for sets in targets.values())
        kernels.add_row(handler, *(text or "XLA formulation" for text in built))
    console.print(kernels)
    for note in report["notes"]:
        console.print(f"- {note}")
