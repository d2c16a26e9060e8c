// RUN: flight-opt %s --flight-lower-views=target=sm_90a --split-input-file --verify-diagnostics | FileCheck %s

// More than 48 KiB of an NVIDIA GPU are one array that the launch asks for; the most aligned come first.
// CHECK: llvm.mlir.global external @flight_dynamic_shared() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
// CHECK-LABEL: @large
// CHECK-SAME: flight.dynamic_shared_bytes = 66560
// CHECK: llvm.getelementptr %{{.*}}[65536]
// CHECK: llvm.getelementptr %{{.*}}[0]
func.func @large(%x: vector<1xf32>) {
  %c0 = arith.constant 0 : index
  %a = flight.shared 256 : !flight.ptr<f32, shared, 16>
  %b = flight.shared 16384 : !flight.ptr<f32, shared, 1024>
  %v = flight.view %a[%c0] : !flight.ptr<f32, shared, 16> -> !flight.view<f32, shared, "1:1", 16>
  flight.store %x, %v : vector<1xf32>, !flight.view<f32, shared, "1:1", 16>
  %w = flight.view %b[%c0] : !flight.ptr<f32, shared, 1024> -> !flight.view<f32, shared, "1:1", 16>
  flight.store %x, %w : vector<1xf32>, !flight.view<f32, shared, "1:1", 16>
  return
}

// -----

func.func @too_large() {
  %a = flight.shared 40000 : !flight.ptr<f32, shared, 16>
  // expected-error @below {{with this array of 20000 'f32' the block uses 240000 bytes of shared memory: sm_90a has 232448}}
  %b = flight.shared 20000 : !flight.ptr<f32, shared, 16>
  return
}

// -----

// CHECK-LABEL: @small
// CHECK-SAME: flight.shared_bytes = 1024
// CHECK: llvm.mlir.addressof @flight_shared_0
func.func @small() {
  %a = flight.shared 256 : !flight.ptr<f32, shared, 16>
  return
}
