// RUN: flight-opt %s --flight-lower-views=target=gfx942 --canonicalize --cse --flight-narrow-index --cse | FileCheck %s

!p = !flight.ptr<f32, global, 16>
!v = !flight.view<f32, global, "1:1", 4>

// The condition bounds the offset by an argument whose range is known.
// CHECK-LABEL: @guarded
// CHECK: scf.if
// CHECK: %[[OFFSET:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK: llvm.getelementptr %{{.*}}[%[[OFFSET]]]
func.func @guarded(%x: !p, %n: i64) attributes {flight.block = array<i64: 256, 1, 1>, flight.ranges = [unit, array<i64: 0, 1000000>]} {
  %c256 = arith.constant 256 : index
  %end = arith.index_cast %n : i64 to index
  %b = flight.block_id x
  %t = flight.thread_id x
  %first = arith.muli %b, %c256 : index
  %i = arith.addi %first, %t : index
  %inside = arith.cmpi slt, %i, %end : index
  scf.if %inside {
    %xs = flight.view %x[%i] : !p -> !v
    %r = flight.load %xs : !v -> vector<1xf32>
    flight.store %r, %xs : vector<1xf32>, !v
  }
  return
}

// Nothing bounds it here: 2^31 blocks of 256 threads.
// CHECK-LABEL: @unbounded
// CHECK-NOT: arith.extui
func.func @unbounded(%x: !p, %n: i64) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c256 = arith.constant 256 : index
  %b = flight.block_id x
  %t = flight.thread_id x
  %first = arith.muli %b, %c256 : index
  %i = arith.addi %first, %t : index
  %xs = flight.view %x[%i] : !p -> !v
  %r = flight.load %xs : !v -> vector<1xf32>
  flight.store %r, %xs : vector<1xf32>, !v
  return
}

// A negative offset is not taken for a large one.
// CHECK-LABEL: @negative
// CHECK-NOT: arith.extui
func.func @negative(%x: !p) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c100 = arith.constant 100 : index
  %t = flight.thread_id x
  %i = arith.subi %t, %c100 : index
  %xs = flight.view %x[%i] : !p -> !v
  %r = flight.load %xs : !v -> vector<1xf32>
  flight.store %r, %xs : vector<1xf32>, !v
  return
}

// Loops and divisions.
// CHECK-LABEL: @loop
// CHECK: scf.for
// CHECK: arith.remui %{{.*}} : i32
// CHECK: arith.extui %{{.*}} : i32 to i64
func.func @loop(%x: !p) attributes {flight.block = array<i64: 256, 1, 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c64 = arith.constant 64 : index
  %t = flight.thread_id x
  scf.for %k = %c0 to %c64 step %c1 {
    %row = arith.muli %k, %c64 : index
    %column = arith.remui %t, %c7 : index
    %i = arith.addi %row, %column : index
    %xs = flight.view %x[%i] : !p -> !v
    %r = flight.load %xs : !v -> vector<1xf32>
    flight.store %r, %xs : vector<1xf32>, !v
  }
  return
}
