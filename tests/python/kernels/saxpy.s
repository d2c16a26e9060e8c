; Written by hand, for gfx942 and gfx950. out = a x + y; arguments: x, y, out, n, a. Blocks of 128 threads.
.text
.globl saxpy
.p2align 8
.type saxpy,@function
saxpy:
  s_load_dwordx4 s[4:7], s[0:1], 0x0        ; x, y
  s_load_dwordx4 s[8:11], s[0:1], 0x10      ; out, n, a
  s_lshl_b32 s3, s2, 7
  v_add_u32_e32 v0, s3, v0
  s_waitcnt lgkmcnt(0)
  v_cmp_gt_i32_e32 vcc, s10, v0
  s_and_saveexec_b64 s[12:13], vcc
  s_cbranch_execz .Ldone
  v_mov_b32_e32 v1, 0
  v_lshlrev_b64 v[2:3], 2, v[0:1]
  v_mov_b32_e32 v4, s5
  v_add_co_u32_e32 v6, vcc, s4, v2
  s_nop 1
  v_addc_co_u32_e32 v7, vcc, v4, v3, vcc
  global_load_dword v8, v[6:7], off
  v_mov_b32_e32 v4, s7
  v_add_co_u32_e32 v6, vcc, s6, v2
  s_nop 1
  v_addc_co_u32_e32 v7, vcc, v4, v3, vcc
  global_load_dword v9, v[6:7], off
  v_mov_b32_e32 v4, s9
  v_add_co_u32_e32 v2, vcc, s8, v2
  s_nop 1
  v_addc_co_u32_e32 v3, vcc, v4, v3, vcc
  s_waitcnt vmcnt(0)
  v_fmac_f32_e32 v9, s11, v8
  global_store_dword v[2:3], v9, off
.Ldone:
  s_endpgm
.Lend:
.size saxpy, .Lend-saxpy

.rodata
.p2align 6
.amdhsa_kernel saxpy
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 32
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr 16
  .amdhsa_accum_offset 16
  .amdhsa_next_free_sgpr 16
  .amdhsa_float_denorm_mode_32 3
.end_amdhsa_kernel

.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: saxpy
    .symbol: saxpy.kd
    .kernarg_segment_size: 32
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 16
    .max_flat_workgroup_size: 1024
    .args:
      - {.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.offset: 16, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.offset: 24, .size: 4, .value_kind: by_value}
      - {.offset: 28, .size: 4, .value_kind: by_value}
.end_amdgpu_metadata
