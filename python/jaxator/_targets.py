"""What a program is lowered for: platforms, GPU architectures, and which of them this build has kernels for."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import jax

from jaxator._library import find_library

GPU_PLATFORMS = ("cuda", "rocm")
PLATFORMS = ("cpu", *GPU_PLATFORMS)

ARCHITECTURES = {"sm_90a": "cuda", "gfx942": "rocm", "gfx950": "rocm"}
"""GPU architectures that can be named -> their platform."""

KERNEL_ARCHITECTURES = {"cuda": ("sm_90a",), "rocm": ("gfx942", "gfx950")}
"""Platform -> architectures that this build has kernels for."""

EMULATED = KERNEL_ARCHITECTURES["rocm"]
"""Architectures whose kernels also run in programs for CPUs, on the emulator, where they were named."""

EMULATOR = "libjaxator_hip_emulator.so"

# Part of the key of JAX's caches: a function traced for one architecture is traced again for another.
_named = jax.make_user_context(default_value=())


@contextlib.contextmanager
def target(name: str) -> Iterator[None]:
    """Lowers for a GPU architecture that is not in this machine: ``with jxt.target("sm_90a"): jax.jit(f).trace(x).lower(...)``.

    Use it around tracing, together with ``lowering_platforms=("cuda",)`` (or "rocm"). An architecture without kernels in this
    build gets the XLA formulation of each op, or UnsupportedError where an implementation was named. Without it the
    architecture is that of the local devices of the platform; if there are none, the one this build has kernels for.

    Args:
      name: "sm_90a", "gfx942", "gfx950", or another name of NVIDIA's or AMD's ("sm_100a", "gfx1201").

    Raises:
      ValueError: the name is neither "sm_..." nor "gfx...".
    """
    platform = platform_of(name)
    with _named((*(pair for pair in _named.value if pair[0] != platform), (platform, name))):
        yield


def platform_of(architecture: str) -> str:
    for prefix, platform in (("sm_", "cuda"), ("gfx", "rocm")):
        if architecture.startswith(prefix) and len(architecture) > len(prefix):
            return platform
    raise ValueError(f"target={architecture!r}: must be a GPU architecture such as {', '.join(map(repr, ARCHITECTURES))}")


@functools.cache
def local_architecture(platform: str) -> str | None:
    """Architecture of the local devices of a platform, None if there are none."""
    try:
        device = jax.local_devices(backend=platform)[0]
    except RuntimeError:
        return None
    if platform == "rocm":
        return str(device.compute_capability).split(":")[0]
    major, minor = str(device.compute_capability).split(".")
    # The features of 9.0 that kernels use are in its "a" variant, which every device of that capability has.
    return f"sm_{major}{minor}a" if int(major) >= 9 else f"sm_{major}{minor}"


def known_architecture(platform: str) -> str | None:
    """The architecture that `target` named, or that of the local devices; None if neither tells."""
    return dict(_named.value).get(platform) or local_architecture(platform)


def architecture(platform: str) -> str | None:
    """The architecture that programs for this platform are lowered for; None if nothing tells and the build has no kernels."""
    return known_architecture(platform) or next(iter(KERNEL_ARCHITECTURES[platform]), None)


def lowered_for(target: str) -> str:
    """The platform of a program that has kernels of this target: that of a GPU, or "cpu" for an emulated architecture."""
    return "cpu" if target in EMULATED else target


def emulation_refusal() -> str | None:
    """Why programs for CPUs cannot run kernels on the emulator, None if they can."""
    return None if find_library(EMULATOR) is not None else f"the emulator ({EMULATOR}) is not in this installation"


def refusal(platform: str) -> str | None:
    """Why this build's kernels cannot serve programs for the platform, None if they can."""
    if platform == "cpu":
        return None
    kernels = KERNEL_ARCHITECTURES[platform]
    if not kernels:
        return "this build has no kernels for it"
    found = architecture(platform)
    return None if found in kernels else f"architecture={found}: this build has kernels for {', '.join(kernels)}"
