// RUN: flight-opt %s --flight-banks=target=gfx942 --split-input-file --verify-diagnostics | FileCheck %s

!s = !flight.ptr<f32, shared, 16>

// Lanes side by side: every bank once in each of two phases.
// CHECK-LABEL: @row
// CHECK-SAME: flight.bank_conflicts = 0
func.func @row(%x: vector<1xf32>) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %s = flight.shared 64 : !s
  %to = flight.view %s[%t] : !s -> !flight.view<f32, shared, "1:1", 4>
  flight.store %x, %to : vector<1xf32>, !flight.view<f32, shared, "1:1", 4>
  return
}

// -----

!s = !flight.ptr<f32, shared, 16>

// Lanes 32 words apart: all 32 lanes of a phase ask one bank.
// CHECK-LABEL: @column
// CHECK-SAME: flight.bank_conflicts = 62
func.func @column(%x: vector<1xf32>) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c32 = arith.constant 32 : index
  %at = arith.muli %t, %c32 : index
  %s = flight.shared 2048 : !s
  %to = flight.view %s[%at] : !s -> !flight.view<f32, shared, "1:1", 4>
  // expected-remark @below {{writes of 4 bytes a lane take 64 passes of the banks of gfx942, 2 without conflicts}}
  flight.store %x, %to : vector<1xf32>, !flight.view<f32, shared, "1:1", 4>
  return
}

// -----

!s = !flight.ptr<f32, shared, 16>

// One word for all: it is given to all at once.
// CHECK-LABEL: @same
// CHECK-SAME: flight.bank_conflicts = 0
func.func @same() -> vector<1xf32> attributes {flight.block = array<i64: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %s = flight.shared 64 : !s
  %from = flight.view %s[%c0] : !s -> !flight.view<f32, shared, "1:1", 4>
  %r = flight.load %from : !flight.view<f32, shared, "1:1", 4> -> vector<1xf32>
  return %r : vector<1xf32>
}
