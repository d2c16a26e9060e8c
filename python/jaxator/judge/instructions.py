"""What the model and the gates need to know of an instruction, read from its text as LLVM prints it."""

from __future__ import annotations

import dataclasses
import functools
import re

Register = tuple[str, int]
"""("v" | "a" | "s", number) or ("vcc", 0)."""

_REGISTER = re.compile(r"-?\|?([vas])(?:(\d+)|\[(\d+):(\d+)\])\|?")
_SHAPE = re.compile(r"_(\d+)x\d+x\d+_(?:(\d+)b_)?(\w+)")
_TRANSCENDENTAL = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_QUARTER_RATE = re.compile(r"_f64|v_mul_lo_u32|v_mul_hi|v_mad_[ui]64")
_ALSO_READ = ("v_permlane", "v_swap", "v_accvgpr_swap", "v_fmac", "v_dot2c", "v_pk_fmac")
_LANE_BYTES = {"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2, "dword": 4, "dwordx2": 8,
               "dwordx3": 12, "dwordx4": 16}  # fmt: skip

MAX_VMCNT, MAX_LGKMCNT = 63, 15
"""Counts that wait for nothing."""


def registers(operand: str) -> tuple[Register, ...]:
    if operand == "vcc":
        return (("vcc", 0),)
    match = _REGISTER.fullmatch(operand)
    if match is None:
        return ()
    first, last = int(match[2] or match[3]), int(match[2] or match[4])
    return tuple((match[1], number) for number in range(first, last + 1))


def matrix_passes(text: str) -> int:
    """Passes (of 4 clocks) for which an MFMA has the matrix core, from public tables."""
    match = _SHAPE.search(text)
    if match is None:
        raise ValueError(f"{text}: not a matrix instruction of a known shape")
    rows, blocks, element = int(match[1]), match[2], match[3].split()[0]
    if rows == 4:
        return 4 if element == "f64" else 2
    slow = blocks is not None or element in ("f32", "f64")
    passes = {32: 8, 16: 4}[rows] * (2 if slow else 1)
    if element == "f8f6f4":
        formats = [re.search(rf"\b{name}:(\d)", text) for name in ("cbsz", "blgp")]
        # An operand of 8 bits halves the rate. Formats 0 and 1 are those; 0 is not printed.
        if any(found is None or int(found[1]) < 2 for found in formats):
            passes *= 2
    return passes


@dataclasses.dataclass(frozen=True)
class Instruction:
    text: str
    name: str
    kind: str
    """matrix, vector, lds, vmem, smem, scalar, branch, nop, wait, barrier or priority."""
    results: tuple[Register, ...] = ()
    sources: tuple[Register, ...] = ()
    accumulator: tuple[Register, ...] = ()
    """What a matrix instruction adds to."""
    passes: int = 1
    """For which its unit is taken. A transcendental's are the model's to say."""
    vmcnt: int | None = None
    lgkmcnt: int | None = None
    priority: int = 0
    to_lds: bool = False
    lane_bytes: int = 0
    """Bytes of a lane, of an access to global memory."""

    @property
    def transcendental(self) -> bool:
        return _TRANSCENDENTAL.match(self.name) is not None

    @property
    def is_store(self) -> bool:
        return self.kind == "vmem" and "store" in self.name

    @property
    def is_atomic(self) -> bool:
        return "atomic" in self.name

    @property
    def writes_lds(self) -> bool:
        return self.to_lds or (self.kind == "lds" and not re.match(r"ds_(read|bpermute|permute|swizzle)", self.name))

    @property
    def copies(self) -> bool:
        """Moves a register to another: what a loop should not need."""
        if self.name.startswith("v_accvgpr_"):
            return True
        plain = re.match(r"v_(pk_)?mov_b(32|64)", self.name) is not None
        return plain and any(kind in "va" for kind, _ in self.sources) and "dpp" not in self.name

    @property
    def touched(self) -> frozenset[Register]:
        """Every vector or scalar register that it names."""
        named = set(self.results) | set(self.sources) | set(self.accumulator)
        if "vcc" in self.name:
            named.add(("vcc", 0))
        return frozenset(named)


def _wait(text: str, name: str) -> Instruction:
    counts = {key: int(value) for key, value in re.findall(r"(vmcnt|lgkmcnt)\((\d+)\)", text)}
    return Instruction(text, name, "wait", vmcnt=counts.get("vmcnt"), lgkmcnt=counts.get("lgkmcnt"))


def _lane_bytes(name: str) -> int:
    width = re.search(r"_(?:load|store)(?:_lds)?(?:_format_d16)?_([us]?(?:byte|short|dword)(?:x\d)?)", name)
    return _LANE_BYTES.get(width[1], 0) if width else 0


def _memory(text: str, name: str, operands: list[tuple[Register, ...]]) -> Instruction:
    every = tuple(register for operand in operands for register in operand)
    to_lds = "load_lds" in name or "lds" in text.split()
    loads = not to_lds and ("load" in name or ("atomic" in name and " sc0" in text))
    results = operands[0] if loads else ()
    return Instruction(
        text, name, "vmem", results, every[len(results) :], to_lds=to_lds, lane_bytes=_lane_bytes(name)
    )  # fmt: skip


@functools.cache
def parse(text: str) -> Instruction:
    name = text.split()[0]
    words = [part.split()[0] if part.split() else "" for part in text[len(name) :].split(",")]
    operands = [registers(word) for word in words]
    results, sources = operands[0], tuple(register for operand in operands[1:] for register in operand)
    if name.startswith(("v_mfma", "v_smfmac")):
        factors = tuple(register for operand in operands[1:3] + operands[4:] for register in operand)
        return Instruction(text, name, "matrix", results, factors, operands[3], matrix_passes(text))
    if name == "s_waitcnt":
        return _wait(text, name)
    if name == "s_nop":
        return Instruction(text, name, "nop", passes=int(words[0], 0) + 1)
    if name == "s_setprio":
        return Instruction(text, name, "priority", priority=int(words[0], 0))
    if name == "s_barrier":
        return Instruction(text, name, "barrier")
    if name.startswith(("buffer_", "global_", "scratch_", "flat_")):
        return _memory(text, name, operands)
    if name.startswith("ds_"):
        returns = name.startswith(("ds_read", "ds_bpermute", "ds_permute", "ds_swizzle")) or "_rtn" in name
        return Instruction(text, name, "lds", results if returns else (), sources if returns else results + sources)
    if name.startswith(("s_load", "s_buffer_load", "s_mem", "s_dcache")):
        return Instruction(text, name, "smem", results, sources)
    if name.startswith(("s_branch", "s_cbranch", "s_endpgm", "s_sleep")):
        return Instruction(text, name, "branch")
    if name.startswith("s_"):
        return Instruction(text, name, "scalar", results, sources)
    passes = 4 if _QUARTER_RATE.search(name) else 1
    return Instruction(
        text, name, "vector", results, sources + (results if name.startswith(_ALSO_READ) else ()), passes=passes
    )


def branch_target(address: int, instruction: Instruction) -> int | None:
    """Where a branch with a constant distance goes."""
    match = re.match(r"s_c?branch\w*\s+(\d+)$", instruction.text)
    if match is None:
        return None
    words = int(match[1])
    return address + 4 + 4 * (words - 65536 if words > 32767 else words)
