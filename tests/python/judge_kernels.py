"""Small assembly kernels for the tests of the judge: assembled by LLVM, launched with one input and one output array."""

from __future__ import annotations

import functools
import pathlib
import subprocess
import tempfile

from jaxator.judge import Geometry, Launch, from_words

_FRAME = """.text
.globl k
.p2align 8
.type k,@function
k:
{body}
 s_endpgm
.Lkernel_end:
.size k, .Lkernel_end-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 16
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_enable_private_segment {has_scratch}
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr 64
  .amdhsa_accum_offset 64
  .amdhsa_next_free_sgpr 96
  .amdhsa_float_denorm_mode_32 3
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{architecture}
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: 96
    .vgpr_count: 64
    .agpr_count: 0
    .max_flat_workgroup_size: 1024
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""

# v1 = 4 * thread, v2 = 16 * thread; s[4:5] is the input, s[6:7] the output.
START = """ s_load_dwordx4 s[4:7], s[0:1], 0x0
 v_lshlrev_b32_e32 v1, 2, v0
 v_lshlrev_b32_e32 v2, 4, v0
 s_waitcnt lgkmcnt(0)
"""
LOAD = " global_load_dwordx4 v[4:7], v2, s[4:5]\n"
STORE = " global_store_dwordx4 v2, v[4:7], s[6:7]\n"
LOADED, LDS_DONE, BARRIER = " s_waitcnt vmcnt(0)\n", " s_waitcnt lgkmcnt(0)\n", " s_barrier\n"
COPY = START + LOAD + LOADED + STORE


@functools.cache
def image(body: str, architecture: str = "gfx942", lds: int = 0, scratch: int = 0) -> bytes:
    text = _FRAME.format(body=body, architecture=architecture, lds=lds, scratch=scratch, has_scratch=int(scratch > 0))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "k.s").write_text(text)
        target = ["--target=amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-nogpulib", "-fuse-ld=lld-22"]
        result = subprocess.run(["clang-22", *target, "k.s", "-o", "k"], cwd=folder, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return (folder / "k").read_bytes()


def launch(body: str, architecture: str = "gfx942", *, threads: int = 256, lds: int = 0, scratch: int = 0) -> Launch:
    """16 bytes of input and of output for each thread; the output begins uninitialised."""
    words = [f"buffer:{16 * threads}:f32", f"buffer:{16 * threads}"]
    return from_words(image(body, architecture, lds, scratch), "k", Geometry((1, 1, 1), (threads, 1, 1)), words)
