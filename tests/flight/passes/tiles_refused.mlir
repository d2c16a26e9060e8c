// RUN: flight-opt %s --flight-tiles-to-threads=target=gfx942 --split-input-file --verify-diagnostics

!tile = !flight.tile<f32, "(4,256)", "((64,4),4):((16,1),4)">
!other = !flight.tile<f32, "(4,1)", "(256,4):(0,1)">

func.func @rows_of_other_threads(%s: f32) attributes {flight.block = array<i64: 256, 1, 1>} {
  %v = flight.splat %s : f32 -> !tile
  // expected-error @below {{every thread gets the rows that it holds a part of}}
  %r = flight.reduce add %v along 1 : !tile -> !other
  return
}

// -----

!tile = !flight.tile<f32, "(16,16)", "((16,16),1):((16,1),0)">
!turned = !flight.tile<f32, "(16,16)", "((16,16),1):((16,1),0)">

func.func @values_of_other_threads(%s: f32) attributes {flight.block = array<i64: 256, 1, 1>} {
  %v = flight.splat %s : f32 -> !tile
  // expected-error @below {{a transpose moves no value between threads}}
  %r = flight.transpose %v [1, 0] : !tile -> !turned
  return
}

// -----

!c = !flight.tile<f32, "(32,32)", "((32,8),4):((1,128),32)">
!a = !flight.view<bf16, shared, "(32,32):(32,1)", 16>

func.func @other_spread(%s: !flight.ptr<bf16, shared, 16>) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = flight.view %s[%c0] : !flight.ptr<bf16, shared, 16> -> !a
  %c = flight.splat %zero : f32 -> !c
  // expected-error @below {{C's spread must be}}
  %r = flight.tile_mma "mfma_16x16x16_bf16" waves "(2,2):(1,2)" %a, %a, %c : !a, !a, !c
  return
}

// -----

!c = !flight.tile<f32, "(32,32)", "((32,8),4):((1,128),32)">
!a = !flight.view<bf16, shared, "(32,32):(32,1)", 16>

func.func @other_target(%s: !flight.ptr<bf16, shared, 16>) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = flight.view %s[%c0] : !flight.ptr<bf16, shared, 16> -> !a
  %c = flight.splat %zero : f32 -> !c
  // expected-error @below {{gfx942 has no atom mfma_16x16x32_bf16; it has fma_f32, dot_bf16, dot_i8, mfma_16x16x4_f32}}
  %r = flight.tile_mma "mfma_16x16x32_bf16" waves "(2,2):(1,2)" %a, %a, %c : !a, !a, !c
  return
}
