// RUN: flight-opt %s --flight-lower-views --canonicalize --flight-threads-to-loops --canonicalize --split-input-file --verify-diagnostics | FileCheck %s

!p = !flight.ptr<f32, global, 16>
!s = !flight.ptr<f32, shared, 16>
!g = !flight.view<f32, global, "1:1", 4>
!v = !flight.view<f32, shared, "1:1", 4>

// Two loops over the lanes, one on each side of the barrier. What is loaded before it and used behind it has a slot.
// CHECK-LABEL: llvm.func @barrier(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK-DAG: %[[SHARED:.*]] = llvm.alloca %{{.*}} x !llvm.array<64 x f32>
// CHECK-DAG: %[[SLOT:.*]] = llvm.alloca %{{.*}} x !llvm.array<64 x vector<1xf32>>
// CHECK: scf.for
// CHECK: llvm.store
// CHECK: llvm.store
// CHECK: }
// CHECK: scf.for
// CHECK: llvm.load
// CHECK: arith.addf
// CHECK-NOT: flight.
func.func @barrier(%x: !p) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c63 = arith.constant 63 : index
  %other = arith.subi %c63, %t : index
  %s = flight.shared 64 : !s
  %xs = flight.view %x[%t] : !p -> !g
  %a = flight.load %xs : !g -> vector<1xf32>
  %to = flight.view %s[%t] : !s -> !v
  flight.store %a, %to : vector<1xf32>, !v
  flight.barrier
  %from = flight.view %s[%other] : !s -> !v
  %b = flight.load %from : !v -> vector<1xf32>
  %c = arith.addf %a, %b : vector<1xf32>
  flight.store %c, %xs : vector<1xf32>, !g
  return
}

// -----

!p = !flight.ptr<i64, global, 8>
!g = !flight.view<i64, global, "1:1", 8>

// A number that all threads read at one address is the same for all: the loop around the barrier may end at it.
// CHECK-LABEL: @loaded_bound
// CHECK: %[[END:.*]] = llvm.load
// CHECK: scf.for
// CHECK: scf.for
func.func @loaded_bound(%x: !p, %y: !p) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %xs = flight.view %x[%c0] : !p -> !g
  %a = flight.load %xs : !g -> vector<1xi64>
  %n = vector.extract %a[0] : i64 from vector<1xi64>
  %end = arith.index_cast %n : i64 to index
  scf.for %i = %c0 to %end step %c1 {
    %ys = flight.view %y[%t] : !p -> !g
    flight.store %a, %ys : vector<1xi64>, !g
    flight.barrier
  }
  return
}

// -----

// A block of one thread needs no loop.
// CHECK-LABEL: @alone
// CHECK-NOT: scf.for
!p = !flight.ptr<f32, global, 4>
!g = !flight.view<f32, global, "1:1", 4>
func.func @alone(%x: !p) attributes {flight.block = array<i64: 1, 1, 1>} {
  %t = flight.thread_id x
  %xs = flight.view %x[%t] : !p -> !g
  %a = flight.load %xs : !g -> vector<1xf32>
  flight.barrier
  flight.store %a, %xs : vector<1xf32>, !g
  return
}

// -----

func.func @divergent(%n: i64) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{a barrier, shuffle or matrix instruction in a loop whose bounds differ between threads}}
  scf.for %i = %c0 to %t step %c1 {
    flight.barrier
  }
  return
}
