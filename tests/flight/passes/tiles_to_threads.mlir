// RUN: flight-opt %s --flight-tiles-to-threads=target=gfx942 --canonicalize --cse --split-input-file | FileCheck %s

!tile = !flight.tile<f32, "(4,256)", "((64,4),4):((16,1),4)">
!view = !flight.view<f32, global, "(4,256):(256,1)", 16>

// A thread's part of the view is where the spread says; a full tile takes the branch without a mask.
// CHECK-LABEL: func.func @load_store
// CHECK: %[[T:.*]] = flight.thread_id x
// CHECK: flight.view %{{.*}} : <f32, global, 16> -> <f32, global, "4:1", 16>
// CHECK: %[[FULL:.*]] = arith.cmpi sge, %{{.*}}, %c4
// CHECK: scf.if %[[FULL]] -> (vector<4xf32>)
// CHECK-NEXT: flight.load %{{[0-9]+}} : <f32, global, "4:1", 16> -> vector<4xf32>
// CHECK: else
// CHECK: flight.load %{{.*}} mask(%{{.*}} : vector<4xi1>) other(
// CHECK: flight.store %{{.*}} : vector<4xf32>, <f32, global, "4:1", 16>
func.func @load_store(%x: !flight.ptr<f32, global, 16>, %y: !flight.ptr<f32, global, 16>, %rows: index) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c256 = arith.constant 256 : index
  %from = flight.view %x[%c0] : !flight.ptr<f32, global, 16> -> !view
  %v = flight.tile_load %from bounds(%rows, %c256) : !view -> !tile
  %to = flight.view %y[%c0] : !flight.ptr<f32, global, 16> -> !view
  flight.tile_store %v, %to : !tile, !view
  return
}

// -----

!tile = !flight.tile<f32, "(4,256)", "((64,4),4):((16,1),4)">
!row = !flight.tile<f32, "(4,1)", "((64,4),4):((0,1),0)">

// One row a wave: the four equal values of a thread (two additions), then six exchanges; no shared memory.
// CHECK-LABEL: func.func @reduce_in_wave
// CHECK-NOT: flight.shared
// CHECK-COUNT-2: arith.addf
// CHECK-COUNT-6: flight.shuffle xor
// CHECK-NOT: flight.shuffle
// CHECK-NOT: flight.barrier
func.func @reduce_in_wave(%s: f32, %y: !flight.ptr<f32, global, 16>) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = flight.splat %s : f32 -> !tile
  %r = flight.reduce add %v along 1 : !tile -> !row
  %to = flight.view %y[%c0] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "(4,1):(1,0)", 4>
  flight.tile_store %r, %to : !row, !flight.view<f32, global, "(4,1):(1,0)", 4>
  return
}

// -----

!tile = !flight.tile<f32, "(1,1024)", "(256,4):(4,1)">
!row = !flight.tile<f32, "(1,1)", "(256,4):(0,0)">

// One row for four waves: exchanges within each, then all read the four sums in the same order, between two barriers. One of the
// threads that hold the result writes it.
// CHECK-LABEL: func.func @reduce_in_block
// CHECK: flight.shared 256
// CHECK-COUNT-6: flight.shuffle xor
// CHECK: flight.store
// CHECK: flight.barrier
// CHECK-COUNT-4: flight.load
// CHECK: flight.barrier
// CHECK: %[[FIRST:.*]] = arith.cmpi eq
// CHECK: scf.if %[[FIRST]]
func.func @reduce_in_block(%s: f32, %y: !flight.ptr<f32, global, 16>) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = flight.splat %s : f32 -> !tile
  %r = flight.reduce max %v along 1 : !tile -> !row
  %to = flight.view %y[%c0] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "(1,1):(0,0)", 4>
  flight.tile_store %r, %to : !row, !flight.view<f32, global, "(1,1):(0,0)", 4>
  return
}

// -----

!tile = !flight.tile<bf16, "(64,64)", "((8,32),(8,2)):((512,1),(64,32))">
!from = !flight.view<bf16, global, "(64,64):(64,1)", 16>
!to = !flight.view<bf16, shared, "S<3,3,3> o 0 o (64,64):(64,1)", 128>

// The thread's place goes into the swizzle, where it is a dynamic offset with its divisor.
// CHECK-LABEL: func.func @copy
// CHECK: flight.view %{{.*}} dims(%{{.*}}) : <bf16, shared, 128> -> <bf16, shared, "S<3,3,3> o ?{div=8} o (8,2):(1,2048)", 128>
// CHECK: flight.copy_async %{{.*}} to %{{.*}} : <bf16, global, "(8,2):(1,2048)", 16> to
func.func @copy(%x: !flight.ptr<bf16, global, 16>) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %s = flight.shared 4096 : !flight.ptr<bf16, shared, 128>
  %from = flight.view %x[%c0] : !flight.ptr<bf16, global, 16> -> !from
  %to = flight.view %s[%c0] : !flight.ptr<bf16, shared, 128> -> !to
  flight.tile_copy %from to %to spread "((8,32),(8,2)):((512,1),(64,32))" async : !from to !to
  return
}

// -----

!c = !flight.tile<f32, "(32,32)", "(((16,4),(2,2)),(4,1,1)):(((32,4),(16,512)),(1,16,512))">
!a = !flight.view<bf16, shared, "(32,32):(32,1)", 16>

// Four waves with one atom each, two of them along k.
// CHECK-LABEL: func.func @product
// CHECK-COUNT-2: flight.mma "mfma_16x16x16_bf16" %{{.*}} : vector<4xbf16>, vector<4xbf16>, vector<4xf32>
// CHECK-NOT: flight.mma
func.func @product(%y: !flight.ptr<f32, global, 16>) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %s = flight.shared 1024 : !flight.ptr<bf16, shared, 16>
  %a = flight.view %s[%c0] : !flight.ptr<bf16, shared, 16> -> !a
  %c = flight.splat %zero : f32 -> !c
  %r = flight.tile_mma "mfma_16x16x16_bf16" waves "(2,2):(1,2)" %a, %a, %c : !a, !a, !c
  %to = flight.view %y[%c0] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "(32,32):(32,1)", 4>
  flight.tile_store %r, %to : !c, !flight.view<f32, global, "(32,32):(32,1)", 4>
  return
}
