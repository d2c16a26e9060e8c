"""Kernel binaries that came from outside: what they are, and which of them serves the program at hand."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Mapping

from jaxator import _targets

_X86_64, _CUDA, _AMDGPU = 62, 190, 224  # machines of ELF files
_GFX = {0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950"}
NOT_OFFERED = ["blob has no kernel for it"]
_KINDS = "PTX text, a cubin, a HSACO or a shared object for x86-64"


@dataclasses.dataclass(frozen=True)
class Blob:
    """One binary."""

    contents: bytes
    kind: str
    """"PTX", "cubin", "HSACO" or "shared object"."""
    platform: str
    """"cpu", "cuda" or "rocm"."""
    architecture: str | None
    """As "sm_90a", where the binary or the caller says."""

    @property
    def text(self) -> str:
        """The contents as they travel in a program: compressed (zlib's format), as base64."""
        return _encoded(self.contents)[0]

    @property
    def hash(self) -> str:
        return _encoded(self.contents)[1]

    def runs_on(self, architecture: str) -> bool:
        """By the rules of its kind; a binary that says nothing is left to the driver."""
        if self.architecture in (None, architecture):
            return True
        if self.kind not in ("PTX", "cubin"):
            return False
        (have, suffix), (want, _) = map(_sm, (self.architecture, architecture))
        if suffix == "a":
            return have == want
        # PTX is compiled for any later device; what is compiled already stays with its major version.
        return have <= want if self.kind == "PTX" and not suffix else have <= want < (have // 10 + 1) * 10

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self.contents)} bytes>"


class _Text(str):
    """Base64 that prints short, in jaxprs and errors."""

    def __repr__(self) -> str:
        return f"<{len(self)} characters>"


@functools.lru_cache(maxsize=256)
def _encoded(contents: bytes) -> tuple[str, str]:
    return _Text(base64.b64encode(zlib.compress(contents, 9)).decode()), hashlib.sha256(contents).hexdigest()


def _sm(architecture: str) -> tuple[int, str]:
    """ "sm_90a" -> (90, "a")."""
    found = re.fullmatch(r"sm_(\d+)([a-z]*)", architecture)
    return (int(found[1]), found[2]) if found else (0, "")


def _elf(contents: bytes) -> Blob:
    if len(contents) < 64:
        raise ValueError(f"blob: {len(contents)} bytes of an ELF file: its header has 64")
    (machine,), (flags,) = struct.unpack_from("<H", contents, 18), struct.unpack_from("<I", contents, 48)
    if machine == _X86_64:
        return Blob(contents, "shared object", "cpu", "x86-64")
    if machine == _CUDA:
        # Since CUDA 13 (version 8 of the format) the number is in the second byte.
        number = flags >> 8 & 0xFF if contents[8] >= 8 else flags & 0xFF
        return Blob(contents, "cubin", "cuda", f"sm_{number}" if number else None)
    if machine == _AMDGPU:
        return Blob(contents, "HSACO", "rocm", _GFX.get(flags & 0xFF))
    raise ValueError(f"blob: an ELF file for machine {machine}: must be {_KINDS}")


def identify(contents: bytes) -> Blob:
    """What a binary is, by its first bytes; raises ValueError if it is nothing that can be run."""
    if contents.startswith(b"\x7fELF"):
        return _elf(contents)
    if re.search(rb"^\s*\.version\s", contents, re.MULTILINE):
        found = re.search(rb"^\s*\.target\s+(sm_\w+)", contents, re.MULTILINE)
        return Blob(contents, "PTX", "cuda", found[1].decode() if found else None)
    raise ValueError(f"blob: {len(contents)} bytes that start with {contents[:8]!r}: must be {_KINDS}")


def parse(blob: bytes | Mapping[str, bytes]) -> tuple[tuple[str | None, Blob], ...]:
    """(architecture, binary) pairs of what a caller gave; raises TypeError or ValueError that names the entry."""
    if isinstance(blob, (bytes, bytearray, memoryview)):
        found = identify(bytes(blob))
        return ((found.architecture, found),)
    if not isinstance(blob, Mapping) or not blob:
        raise TypeError(f"blob={type(blob).__name__}: must be bytes, or a mapping from architectures to bytes")

    def entries() -> Iterator[tuple[str | None, Blob]]:
        for name, contents in blob.items():
            if not isinstance(contents, (bytes, bytearray, memoryview)):
                raise TypeError(f"blob[{name!r}]={type(contents).__name__}: must be bytes")
            found = identify(bytes(contents))
            platform = "cpu" if name == "x86-64" else _targets.platform_of(name)
            if platform != found.platform:
                raise ValueError(
                    f"blob[{name!r}] is {_article(found.kind)}: that runs on {found.platform}, not on {platform}"
                )
            yield name, dataclasses.replace(found, architecture=found.architecture or name)

    return tuple(entries())


def _article(kind: str) -> str:
    return kind if kind == "PTX" else f"a {kind}"


def choose(entries: tuple[tuple[str | None, Blob], ...]) -> tuple[dict[str, Blob], dict[str, list[str]]]:
    """For each platform the binary that serves it, or why none does."""
    chosen, refused = {}, {}
    for platform in _targets.PLATFORMS:
        offered = [(name, blob) for name, blob in entries if blob.platform == platform]
        names = ", ".join(str(name) for name, _ in offered)
        wanted = "x86-64" if platform == "cpu" else _targets.known_architecture(platform)
        exact = [blob for name, blob in offered if name == wanted]
        # The newest of those that run there.
        able = [blob for _, blob in offered if wanted is not None and blob.runs_on(wanted)]
        able.sort(key=lambda blob: _sm(blob.architecture or "")[0])
        if exact or able:
            chosen[platform] = (exact or able)[-1]
        elif not offered:
            refused[platform] = NOT_OFFERED
        elif wanted:
            refused[platform] = [f"architecture={wanted}: blob has {names}"]
        elif len(offered) == 1:
            chosen[platform] = offered[0][1]
        else:
            refused[platform] = [f"blob has {names}: say which the program is for with jaxator.target(...)"]
    return chosen, refused


def choose_emulated(
    entries: tuple[tuple[str | None, Blob], ...], architecture: str
) -> tuple[dict[str, Blob], dict[str, list[str]]]:
    """As `choose` for a named AMD architecture: its binary serves ROCm, and programs for CPUs on the emulator."""
    if architecture not in _targets.EMULATED:
        known = ", ".join(map(repr, _targets.EMULATED))
        raise ValueError(f"call_kernel: implementation={architecture!r}: must be None, {known}")
    able = [blob for name, blob in entries if name == architecture or (name is None and blob.platform == "rocm")]
    if not able:
        names = ", ".join(str(name) for name, _ in entries)
        return {}, {"rocm": [f"implementation={architecture!r}: blob has {names}"]}
    refused = {"cuda": [f"implementation={architecture!r} was named"]}
    chosen = {"rocm": able[-1], "cpu": able[-1]}
    if (missing := _targets.emulation_refusal()) is not None:
        refused["cpu"] = [missing]
        del chosen["cpu"]
    wanted = _targets.known_architecture("rocm")
    if wanted not in (None, architecture):
        refused["rocm"] = [f"implementation={architecture!r}: the program is lowered for {wanted}"]
        del chosen["rocm"]
    return chosen, refused
