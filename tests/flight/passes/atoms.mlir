// RUN: flight-opt %s --flight-lower-mma=target=gfx950 --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @cdna
// CHECK: llvm.call_intrinsic "llvm.amdgcn.mfma.f32.16x16x16bf16.1k"(%{{.*}}) : (vector<4xi16>, vector<4xi16>, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
// CHECK: llvm.call_intrinsic "llvm.amdgcn.mfma.f32.16x16x32.bf16"(%{{.*}}) : (vector<8xbf16>
// CHECK: llvm.call_intrinsic "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8"(%{{.*}}) : (i64, i64
// CHECK: llvm.call_intrinsic "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4"(%{{.*}}) : (vector<4xi32>, vector<4xi32>, vector<4xf32>
func.func @cdna(%a: vector<4xbf16>, %b: vector<8xbf16>, %c: vector<8xf8E4M3FN>, %d: vector<32xf4E2M1FN>, %s: vector<4xf32>, %scale: i32)
    -> vector<4xf32> attributes {flight.block = array<i64: 64, 1, 1>} {
  %0 = flight.mma "mfma_16x16x16_bf16" %a, %a, %s : vector<4xbf16>, vector<4xbf16>, vector<4xf32>
  %1 = flight.mma "mfma_16x16x32_bf16" %b, %b, %0 : vector<8xbf16>, vector<8xbf16>, vector<4xf32>
  %2 = flight.mma "mfma_16x16x32_fp8" %c, %c, %1 : vector<8xf8E4M3FN>, vector<8xf8E4M3FN>, vector<4xf32>
  %3 = flight.mma "mfma_scale_16x16x128_fp4" %d, %d, %2 scale_a(%scale) scale_b(%scale) : vector<32xf4E2M1FN>, vector<32xf4E2M1FN>, vector<4xf32>
  return %3 : vector<4xf32>
}

// -----

func.func @short(%a: vector<8xbf16>, %s: vector<4xf32>) -> vector<4xf32> attributes {flight.block = array<i64: 64, 1, 1>} {
  // expected-error @below {{mfma_16x16x16_bf16: a has 8 values of a lane, not 4}}
  %0 = flight.mma "mfma_16x16x16_bf16" %a, %a, %s : vector<8xbf16>, vector<8xbf16>, vector<4xf32>
  return %0 : vector<4xf32>
}

// -----

func.func @unknown(%a: vector<8xbf16>, %s: vector<4xf32>) -> vector<4xf32> attributes {flight.block = array<i64: 64, 1, 1>} {
  // expected-error @below {{gfx950 has no atom mma_16x8x16_bf16}}
  %0 = flight.mma "mma_16x8x16_bf16" %a, %a, %s : vector<8xbf16>, vector<8xbf16>, vector<4xf32>
  return %0 : vector<4xf32>
}
