// RUN: flight-opt %s --flight-tiles-to-loops --canonicalize --cse --split-input-file | FileCheck %s
// RUN: flight-opt %s --flight-tiles-to-loops=bf16-dot=true --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=DOT
// RUN: flight-opt %s "--flight-tiles-to-loops=bytes=32 registers=16" --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=NARROW

!tile = !flight.tile<f32, "(8,64)", "((16,8),4):((32,1),8)">
!view = !flight.view<f32, global, "(8,64):(64,1)", 16>

// What is used once is computed where it is used: one nest, no array, no thread.
// CHECK-LABEL: func.func @fused
// CHECK-SAME: flight.block = array<i64: 1, 1, 1>
// CHECK-NOT: flight.shared
// CHECK: scf.for %{{.*}} = %c0 to %c8 step %c1
// CHECK: scf.for %{{.*}} = %c0 to %c64 step %c16
// CHECK: flight.load %{{.*}} -> vector<16xf32>
// CHECK-NEXT: arith.addf %{{.*}} : vector<16xf32>
// CHECK: flight.store %{{.*}} : vector<16xf32>
// CHECK-NOT: scf.for
// NARROW-LABEL: func.func @fused
// NARROW: flight.load %{{.*}} -> vector<8xf32>
func.func @fused(%x: !flight.ptr<f32, global, 16>) attributes {flight.block = array<i64: 128, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = flight.view %x[%c0] : !flight.ptr<f32, global, 16> -> !view
  %a = flight.tile_load %v : !view -> !tile
  %b = flight.map (%a) : (!tile) -> !tile {
  ^bb0(%e: f32):
    %one = arith.constant 1.0 : f32
    %s = arith.addf %e, %one : f32
    flight.yield %s : f32
  }
  flight.barrier
  flight.tile_store %b, %v : !tile, !view
  return
}

// -----

!tile = !flight.tile<f32, "(8,64)", "((16,8),4):((32,1),8)">
!view = !flight.view<f32, global, "(8,64):(64,1)", 16>
!turned = !flight.view<f32, global, "(8,64):(1,8)", 16>

// The two places may be the same memory in another order: all is read before the first is written.
// CHECK-LABEL: func.func @elsewhere
// CHECK: flight.shared 512
// CHECK: flight.store
// CHECK: flight.load
// CHECK: flight.store
func.func @elsewhere(%x: !flight.ptr<f32, global, 16>, %y: !flight.ptr<f32, global, 16>) attributes {flight.block = array<i64: 128, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = flight.view %x[%c0] : !flight.ptr<f32, global, 16> -> !view
  %w = flight.view %y[%c0] : !flight.ptr<f32, global, 16> -> !turned
  %a = flight.tile_load %v : !view -> !tile
  flight.tile_store %a, %w : !tile, !turned
  return
}

// -----

!c = !flight.tile<f32, "(28,32)", "(1,(28,32)):(0,(1,28))">
!a = !flight.view<bf16, shared, "(28,32):(32,1)", 16>
!b = !flight.view<bf16, shared, "(32,32):(32,1)", 16>

// Two blocks of 14 x 2 registers; the sums are carried in their array, and the loop over k carries nothing else.
// CHECK-LABEL: func.func @product
// CHECK: scf.for %{{.*}} = %c0 to %c28 step %c14
// CHECK: %{{.*}}:28 = scf.for
// CHECK-COUNT-28: math.fma %{{.*}} : vector<16xf32>
// DOT-LABEL: func.func @product
// DOT-COUNT-28: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// NARROW-LABEL: func.func @product
// NARROW: %{{.*}}:12 = scf.for
// NARROW-COUNT-12: math.fma %{{.*}} : vector<8xf32>
func.func @product(%y: !flight.ptr<f32, global, 16>, %n: index) attributes {flight.block = array<i64: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = flight.shared 2048 : !flight.ptr<bf16, shared, 16>
  %a = flight.view %m[%c0] : !flight.ptr<bf16, shared, 16> -> !a
  %b = flight.view %m[%c0] : !flight.ptr<bf16, shared, 16> -> !b
  %z = flight.splat %zero : f32 -> !c
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%c = %z) -> (!c) {
    %d = flight.tile_mma "dot_bf16" waves "(1,1):(0,0)" %a, %b, %c : !a, !b, !c
    scf.yield %d : !c
  }
  %to = flight.view %y[%c0] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "(28,32):(32,1)", 4>
  flight.tile_store %r, %to : !c, !flight.view<f32, global, "(28,32):(32,1)", 4>
  return
}

// -----

!c = !flight.tile<f32, "(28,32)", "(1,(28,32)):(0,(1,28))">
!from_a = !flight.view<bf16, global, "(28,32):(32,1)", 16>
!from_b = !flight.view<bf16, global, "(32,32):(32,1)", 16>
!a = !flight.view<bf16, shared, "(28,32):(32,1)", 16>
!b = !flight.view<bf16, shared, "(32,32):(32,1)", 16>

// Memory between copies and products holds packed words, and nothing is packed again; the branch that may not multiply lends its
// array to the one that does, so no sums are copied.
// DOT-LABEL: func.func @copied
// DOT-NOT: flight.shared {{.*}}<bf16, shared
// DOT: scf.for
// DOT: flight.load %{{.*}} : <bf16, global
// DOT: scf.if
// DOT-NOT: vector.shuffle
// DOT-COUNT-28: llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"
// DOT-NOT: else
// DOT: return
func.func @copied(%x: !flight.ptr<bf16, global, 16>, %y: !flight.ptr<f32, global, 16>, %n: index, %last: index)
    attributes {flight.block = array<i64: 1, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %ma = flight.shared 896 : !flight.ptr<bf16, shared, 16>
  %mb = flight.shared 1024 : !flight.ptr<bf16, shared, 16>
  %from_a = flight.view %x[%c0] : !flight.ptr<bf16, global, 16> -> !from_a
  %from_b = flight.view %x[%c0] : !flight.ptr<bf16, global, 16> -> !from_b
  %a = flight.view %ma[%c0] : !flight.ptr<bf16, shared, 16> -> !a
  %b = flight.view %mb[%c0] : !flight.ptr<bf16, shared, 16> -> !b
  %z = flight.splat %zero : f32 -> !c
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%c = %z) -> (!c) {
    flight.tile_copy %from_a to %a spread "(1,(28,32)):(0,(1,28))" : !from_a to !a
    flight.tile_copy %from_b to %b spread "(1,(32,32)):(0,(1,32))" : !from_b to !b
    %more = arith.cmpi slt, %k, %last : index
    %d = scf.if %more -> (!c) {
      %e = flight.tile_mma "dot_bf16" waves "(1,1):(0,0)" %a, %b, %c : !a, !b, !c
      scf.yield %e : !c
    } else {
      scf.yield %c : !c
    }
    scf.yield %d : !c
  }
  %to = flight.view %y[%c0] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "(28,32):(32,1)", 4>
  flight.tile_store %r, %to : !c, !flight.view<f32, global, "(28,32):(32,1)", 4>
  return
}
