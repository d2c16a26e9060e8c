// RUN: flight-opt %s --flight-expand-math=target=x86-64 | FileCheck %s --check-prefixes=CHECK,X86
// RUN: flight-opt %s --flight-expand-math=target=gfx942 | FileCheck %s --check-prefixes=CHECK,CDNA
// RUN: flight-opt %s --flight-expand-math=target=sm_90a | FileCheck %s --check-prefixes=CHECK,NVIDIA

// CHECK-LABEL: func.func @exponential
// X86-NOT: math.exp2
// X86: math.fma
// CDNA: math.exp2 %{{.*}} : vector<4xf32>
// NVIDIA-COUNT-4: llvm.call_intrinsic "llvm.nvvm.ex2.approx"
func.func @exponential(%x: vector<4xf32>) -> vector<4xf32> {
  %y = math.exp2 %x : vector<4xf32>
  return %y : vector<4xf32>
}

// CHECK-LABEL: func.func @half
// CHECK: arith.extf %{{.*}} : bf16 to f32
// CHECK-NOT: math.tanh
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @half(%x: bf16) -> bf16 {
  %y = math.tanh %x : bf16
  return %y : bf16
}

// CHECK-LABEL: func.func @sine
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK-NOT: math.sin
func.func @sine(%x: f32) -> f32 {
  %y = math.sin %x : f32
  return %y : f32
}
