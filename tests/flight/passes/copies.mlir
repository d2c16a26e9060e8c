// RUN: flight-opt %s --flight-lower-views=target=sm_90a --cse --canonicalize | FileCheck %s
// RUN: flight-opt %s --flight-lower-views=target=gfx942 --cse --canonicalize | FileCheck %s --check-prefix=AMD

!g = !flight.ptr<f32, global, 16>
!s = !flight.ptr<f32, shared, 16>

// CHECK-LABEL: @copy
// CHECK-COUNT-2: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.cp.async.wait.group 1
// AMD-LABEL: @copy
// AMD-COUNT-2: llvm.load {{.*}} -> vector<4xf32>
// AMD-NOT: cp.async
func.func @copy(%x: !g, %n: index) {
  %c0 = arith.constant 0 : index
  %s = flight.shared 8 : !s
  %from = flight.view %x[%n] : !g -> !flight.view<f32, global, "8:1", 16>
  %to = flight.view %s[%c0] : !s -> !flight.view<f32, shared, "8:1", 16>
  flight.copy_async %from to %to : !flight.view<f32, global, "8:1", 16> to !flight.view<f32, shared, "8:1", 16>
  flight.commit
  flight.wait 1
  return
}

// What is not side by side on both sides goes element by element, and 4 bytes still go without registers.
// CHECK-LABEL: @gather
// CHECK-COUNT-4: nvvm.cp.async.shared.global {{.*}}, 4, cache = ca
func.func @gather(%x: !g, %n: index) {
  %c0 = arith.constant 0 : index
  %s = flight.shared 8 : !s
  %from = flight.view %x[%n] : !g -> !flight.view<f32, global, "4:7", 4>
  %to = flight.view %s[%c0] : !s -> !flight.view<f32, shared, "4:1", 16>
  flight.copy_async %from to %to : !flight.view<f32, global, "4:7", 4> to !flight.view<f32, shared, "4:1", 16>
  return
}

// Where the mask is false zeros are written.
// CHECK-LABEL: @masked
// CHECK: %[[SIZE:.*]] = arith.select %{{.*}}, %c16{{.*}}, %c0{{.*}} : i32
// CHECK: nvvm.cp.async.shared.global {{.*}}, 16, cache = cg, %[[SIZE]]
// AMD-LABEL: @masked
// AMD: scf.if
// AMD: else
// AMD: scf.yield %{{.*}} : vector<4xf32>
// AMD: llvm.store
func.func @masked(%x: !g, %n: index, %m: i1) {
  %c0 = arith.constant 0 : index
  %s = flight.shared 4 : !s
  %from = flight.view %x[%n] : !g -> !flight.view<f32, global, "4:1", 16>
  %to = flight.view %s[%c0] : !s -> !flight.view<f32, shared, "4:1", 16>
  flight.copy_async %from to %to mask(%m) : !flight.view<f32, global, "4:1", 16> to !flight.view<f32, shared, "4:1", 16>
  return
}
