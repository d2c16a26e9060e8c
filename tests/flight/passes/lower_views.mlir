// RUN: flight-opt %s --flight-lower-views=target=gfx942 --cse --canonicalize | FileCheck %s
// RUN: flight-opt %s --flight-lower-views=target=x86-64 --cse --canonicalize | FileCheck %s --check-prefix=CPU

!p = !flight.ptr<f32, global, 16>

// 16 bytes are proved to be aligned: two loads of 16 bytes. On x86 one of 32.
// CHECK-LABEL: @contiguous
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT: llvm.load
// CPU-LABEL: @contiguous
// CPU: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<8xf32>
func.func @contiguous(%x: !p, %n: index) -> vector<8xf32> {
  %v = flight.view %x[%n] : !p -> !flight.view<f32, global, "8:1", 16>
  %r = flight.load %v : !flight.view<f32, global, "8:1", 16> -> vector<8xf32>
  return %r : vector<8xf32>
}

// With 8 bytes only, GPUs load 8.
// CHECK-LABEL: @half_aligned
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK-NOT: llvm.load
func.func @half_aligned(%x: !p, %n: index) -> vector<8xf32> {
  %v = flight.view %x[%n] : !p -> !flight.view<f32, global, "8:1", 8>
  %r = flight.load %v : !flight.view<f32, global, "8:1", 8> -> vector<8xf32>
  return %r : vector<8xf32>
}

// The leftmost mode is not the fastest in memory: the rows of four are, and the values are put in order afterwards.
// CHECK-LABEL: @transposed
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: vector.shuffle {{.*}} [8, 0, 10, 1, 12, 2, 14, 3] : vector<8xf32>, vector<8xf32>
// CHECK-NOT: llvm.load
func.func @transposed(%x: !p, %n: index) -> vector<8xf32> {
  %v = flight.view %x[%n] : !p -> !flight.view<f32, global, "(2,4):(16,1)", 16>
  %r = flight.load %v : !flight.view<f32, global, "(2,4):(16,1)", 16> -> vector<8xf32>
  return %r : vector<8xf32>
}

// A dynamic stride between runs of 4; its divisor keeps them aligned.
// CHECK-LABEL: @dynamic_stride
// CHECK-SAME: %[[X:.*]]: !llvm.ptr<1> {{.*}}, %[[N:.*]]: index, %[[S:.*]]: index
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT: llvm.load
func.func @dynamic_stride(%x: !p, %n: index, %s: index) -> vector<8xf32> {
  %v = flight.view %x[%n] dims(%s) : !p -> !flight.view<f32, global, "(4,2):(1,?{div=4})", 16>
  %r = flight.load %v : !flight.view<f32, global, "(4,2):(1,?{div=4})", 16> -> vector<8xf32>
  return %r : vector<8xf32>
}

// Without the divisor the second run is known to be aligned to an element only.
// CHECK-LABEL: @odd_stride
// CHECK-COUNT-1: llvm.load {{.*}} -> vector<4xf32>
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<1xf32>
func.func @odd_stride(%x: !p, %n: index, %s: index) -> vector<8xf32> {
  %v = flight.view %x[%n] dims(%s) : !p -> !flight.view<f32, global, "(4,2):(1,?)", 16>
  %r = flight.load %v : !flight.view<f32, global, "(4,2):(1,?)", 16> -> vector<8xf32>
  return %r : vector<8xf32>
}

// A swizzle keeps 2^2 elements together: 16 bytes. The dynamic offset is a multiple of its period, so it moves the image as it is.
// CHECK-LABEL: @swizzled
// CHECK-COUNT-2: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK-NOT: arith.xori
func.func @swizzled(%v: vector<8xf32>, %at: index) {
  %c0 = arith.constant 0 : index
  %s = flight.shared 1024 : !flight.ptr<f32, shared, 16>
  %d = flight.view %s[%c0] dims(%at) : !flight.ptr<f32, shared, 16> -> !flight.view<f32, shared, "S<3,2,3> o ?{div=256} o 8:1", 16>
  flight.store %v, %d : vector<8xf32>, !flight.view<f32, shared, "S<3,2,3> o ?{div=256} o 8:1", 16>
  return
}

// Otherwise the bits are exchanged at run time, and what it keeps together is still one access.
// CHECK-LABEL: @swizzled_at_run_time
// CHECK: arith.xori
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
func.func @swizzled_at_run_time(%v: vector<4xf32>, %at: index) {
  %c0 = arith.constant 0 : index
  %s = flight.shared 1024 : !flight.ptr<f32, shared, 16>
  %d = flight.view %s[%c0] dims(%at) : !flight.ptr<f32, shared, 16> -> !flight.view<f32, shared, "S<3,2,3> o ?{div=4} o 4:1", 16>
  flight.store %v, %d : vector<4xf32>, !flight.view<f32, shared, "S<3,2,3> o ?{div=4} o 4:1", 16>
  return
}

// Nothing is read where the mask is false. GPUs have no masked load: a wide one if all is there, else element by element.
// CHECK-LABEL: @masked
// CHECK-COUNT-3: arith.andi
// CHECK: scf.if
// CHECK-NEXT: llvm.load {{.*}} -> vector<4xf32>
// CHECK: else
// CHECK-COUNT-4: llvm.load {{.*}} -> f32
// CPU-LABEL: @masked
// CPU-NOT: scf.if
// CPU: llvm.intr.masked.load
func.func @masked(%x: !p, %n: index, %m: vector<4xi1>, %o: f32) -> vector<4xf32> {
  %v = flight.view %x[%n] : !p -> !flight.view<f32, global, "4:1", 16>
  %r = flight.load %v mask(%m : vector<4xi1>) other(%o : f32) : !flight.view<f32, global, "4:1", 16> -> vector<4xf32>
  return %r : vector<4xf32>
}

// CHECK-LABEL: @float8
// CHECK: llvm.load {{.*}} -> vector<16xi8>
// CHECK: arith.bitcast {{.*}} : vector<16xi8> to vector<16xf8E4M3FN>
func.func @float8(%x: !flight.ptr<f8E4M3FN, global, 16>, %n: index) -> vector<16xf8E4M3FN> {
  %v = flight.view %x[%n] : !flight.ptr<f8E4M3FN, global, 16> -> !flight.view<f8E4M3FN, global, "16:1", 16>
  %r = flight.load %v : !flight.view<f8E4M3FN, global, "16:1", 16> -> vector<16xf8E4M3FN>
  return %r : vector<16xf8E4M3FN>
}
