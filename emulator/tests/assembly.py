"""Single instructions in assembly kernels: registers are loaded, the instruction is executed once, registers are stored.

A kernel knows nothing of the emulator: the instruction is assembled by LLVM and goes through loader, disassembler,
decoder and execution like any other.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
from collections.abc import Mapping, Sequence

import numpy as np
from emulator import ALL, ARCHITECTURES, Array, Code, Report, compile_image, launch, output

LANES = 64
FIRST_SCALAR = 16  # s0 to s15 belong to the frame
_ADDRESS, _TEMPORARY = "v250", "v249"
_WAIT_STATES = "s_nop 7\n s_nop 7\n s_nop 7\n s_nop 7\n"

KERNEL_END = """
.rodata
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size {argument_bytes}
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_enable_private_segment {has_scratch}
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr {registers}
  .amdhsa_accum_offset {accumulators_at}
  .amdhsa_next_free_sgpr 96
  .amdhsa_float_denorm_mode_32 3
{directives}.end_amdhsa_kernel
.text
"""


def kernel_text(
    name: str,
    body: str,
    *,
    lds: int = 0,
    argument_bytes: int = 64,
    scratch: int = 0,
    registers: int = 256,
    accumulators_at: int = 256,
    directives: str = "",
) -> str:
    """An assembly kernel. s[0:1] is the address of its arguments, s2 the number of the workgroup, v0 the thread."""
    head = f".text\n.globl {name}\n.p2align 8\n.type {name},@function\n{name}:\n"
    end = KERNEL_END.format(
        name=name,
        lds=lds,
        argument_bytes=argument_bytes,
        scratch=scratch,
        has_scratch=int(scratch > 0),
        registers=registers,
        accumulators_at=accumulators_at,
        directives=directives,
    )
    return f"{head}{body}\n s_endpgm\n.L{name}_end:\n.size {name}, .L{name}_end-{name}\n{end}"


@functools.cache
def assemble(architecture: str, text: str, *flags: str) -> Code:
    return Code(compile_image(text, architecture, *flags))


@dataclasses.dataclass
class Case:
    """An instruction and the state that it meets. Keys are registers ("v3", "a0", "s20", "vcc", "exec", "scc", "m0");
    vector registers have 64 values, pairs of scalars one of 64 bits. `memory` is at s[10:11], `lds` fills LDS from its
    beginning."""

    text: str
    inputs: Mapping[str, object] = dataclasses.field(default_factory=dict)
    outputs: Sequence[str] = ("v0",)
    memory: Array | None = None
    lds: Array | None = None
    architectures: Sequence[str] = ARCHITECTURES

    def vectors(self) -> list[str]:
        named = [r for r in self.inputs if re.fullmatch(r"[va]\d+", r)]
        return named + [r for r in self.outputs if re.fullmatch(r"[va]\d+", r) and r not in named]

    def scalars(self) -> list[str]:
        named = [r for r in self.inputs if re.fullmatch(r"s\d+", r)]
        return named + [r for r in self.outputs if re.fullmatch(r"s\d+", r) and r not in named]

    def kernel(self, name: str) -> str:
        step_in = " s_add_u32 s4, s4, 256\n s_addc_u32 s5, s5, 0\n"
        step_out = " s_add_u32 s6, s6, 256\n s_addc_u32 s7, s7, 0\n"
        body = f" v_lshlrev_b32_e32 {_ADDRESS}, 2, v0\n s_load_dwordx8 s[4:11], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n"
        body += " s_load_dwordx4 s[12:15], s[8:9], 0x0\n s_load_dwordx2 vcc, s[8:9], 0x10\n"
        for position, register in enumerate(self.scalars()):
            body += f" s_load_dword {register}, s[8:9], {0x20 + 4 * position:#x}\n"
        for register in self.vectors():
            body += f" global_load_dword {register}, {_ADDRESS}, s[4:5]\n{step_in}"
        for row in range(0 if self.lds is None else self.lds.nbytes // 256):
            body += f" global_load_dword {_TEMPORARY}, {_ADDRESS}, s[4:5]\n{step_in} s_waitcnt vmcnt(0)\n"
            body += f" ds_write_b32 {_ADDRESS}, {_TEMPORARY} offset:{256 * row}\n"
        body += " s_waitcnt vmcnt(0) lgkmcnt(0)\n s_cmp_eq_u32 s12, 1\n s_mov_b32 m0, s13\n s_mov_b64 exec, s[14:15]\n"
        body += f" {_WAIT_STATES} {self.text}\n s_waitcnt vmcnt(0) lgkmcnt(0)\n"
        body += f" s_cselect_b32 s12, 1, 0\n s_mov_b64 s[14:15], exec\n s_mov_b64 exec, -1\n {_WAIT_STATES}"
        special = {"scc": ["s12"], "exec": ["s14", "s15"], "vcc": ["vcc_lo", "vcc_hi"], "m0": ["m0"]}
        for register in self.outputs:
            for part in special.get(register, [register]):
                source = part
                if not re.fullmatch(r"[va]\d+", part):
                    body += f" v_mov_b32_e32 {_TEMPORARY}, {part}\n s_nop 1\n"
                    source = _TEMPORARY
                body += f" global_store_dword {_ADDRESS}, {source}, s[6:7]\n{step_out} s_nop 1\n"
        has_accumulators = any(r.startswith("a") for r in self.vectors())
        return kernel_text(name, body, lds=65536 if self.lds is not None else 0, registers=512 if has_accumulators else 256)

    def run(self, code: Code, kernel: str, checks: int = ALL) -> tuple[dict[str, Array], Report]:
        def lanes(value: object) -> Array:
            return (
                np.broadcast_to(np.asarray(value), (LANES,)).astype(np.int64).astype(np.uint32)
                if np.isscalar(value)
                else as_words(value)
            )

        vectors = [lanes(self.inputs.get(r, 0)) for r in self.vectors()]
        lds = [] if self.lds is None else [self.lds.view(np.uint32).reshape(-1, LANES)]
        data = np.concatenate(
            [np.stack(vectors) if vectors else np.zeros((0, LANES), np.uint32), *lds, np.zeros((1, LANES), np.uint32)]
        )
        exec_mask = int(self.inputs.get("exec", -1)) & (1 << 64) - 1
        vcc = int(self.inputs.get("vcc", 0))
        scalars = [
            int(self.inputs.get("scc", 0)),
            int(self.inputs.get("m0", 0)),
            exec_mask,
            exec_mask >> 32,
            vcc,
            vcc >> 32,
            0,
            0,
        ]
        scalars += [int(self.inputs.get(r, 0)) for r in self.scalars()]
        results = output((sum(2 if r in ("exec", "vcc") else 1 for r in self.outputs) + 1, LANES), np.uint32)
        memory = self.memory if self.memory is not None else np.zeros(16, np.uint32)
        arguments = [
            np.ascontiguousarray(data),
            results,
            np.array([s & 0xFFFFFFFF for s in scalars] + [0] * 16, np.uint32),
            memory,
        ]
        report = launch(code, kernel, arguments, checks=checks)
        got: dict[str, Array] = {}
        row = 0
        for register in self.outputs:
            if register in ("exec", "vcc"):
                got[register] = np.uint64(results[row, 0]) | np.uint64(results[row + 1, 0]) << np.uint64(32)
                row += 2
            else:
                got[register] = np.array(results[row])
                row += 1
        return got, report


def as_words(values: object) -> Array:
    """64 values of 32 bits, whatever they mean."""
    array = np.asarray(values)
    if array.dtype.itemsize == 4 and array.dtype.kind in "fui":
        return array.view(np.uint32)
    if array.dtype.itemsize == 2:
        return array.view(np.uint16).astype(np.uint32)
    return (array.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


def split_pairs(values: Array) -> tuple[Array, Array]:
    """Low and high words of 64-bit values."""
    words = np.ascontiguousarray(values).view(np.uint64)
    return (words & np.uint64(0xFFFFFFFF)).astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)


def join_pairs(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


class Batch:
    """Many cases in one code object: assembling one takes longer than running it."""

    def __init__(self, cases: Mapping[str, Case], architecture: str) -> None:
        self.cases = {name: case for name, case in cases.items() if architecture in case.architectures}
        text = "".join(case.kernel(f"k{number}") for number, case in enumerate(self.cases.values()))
        self.code = assemble(architecture, text)
        self.kernels = {name: f"k{number}" for number, name in enumerate(self.cases)}

    def run(self, name: str) -> tuple[dict[str, Array], Report]:
        case, kernel = self.cases[name], self.kernels[name]
        assert self.code.unknown(kernel) == [], case.text
        got, report = case.run(self.code, kernel)
        assert report.clean, report.text
        return got, report


def on_each_architecture(cases: Mapping[str, Case]) -> list[tuple[str, str]]:
    """The parameters (name, architecture) of a test of all cases."""
    return [(name, architecture) for name, case in cases.items() for architecture in case.architectures]


@functools.cache
def _batch(module: str, architecture: str) -> Batch | Exception:
    try:
        return Batch(importlib.import_module(module).CASES, architecture)
    except Exception as error:  # kept, so that each test fails at once instead of assembling again
        return error


def run_case(module: str, name: str, architecture: str) -> dict[str, Array]:
    """A case of a test module's CASES."""
    batch = _batch(module, architecture)
    if isinstance(batch, Exception):
        raise batch
    return batch.run(name)[0]


# Words that integer instructions treat specially, and others.
_SPECIAL = """0 1 2 3 7 8 f 10 18 1f 20 21 3f 40 7f 80 ff 100 7fff 8000 ffff 10000 7fffff 800000 ffffff 1000000
  7fffffff 80000000 80000001 fffffffe ffffffff 12345678"""
WORDS = np.array([int(word, 16) for word in _SPECIAL.split()], np.uint32)


def words(seed: int) -> Array:
    """64 words: every second one special, in another order for each seed."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, 1 << 32, LANES, np.uint64).astype(np.uint32)
    chosen[::2] = random.permutation(WORDS)
    return random.permutation(chosen)
