// RUN: flight-opt %s --flight-unit-vectors --cse --canonicalize | FileCheck %s --implicit-check-not='vector<1x'

// Through element by element arithmetic, from memory to memory.
// CHECK-LABEL: @arithmetic
// CHECK: %[[A:.*]] = llvm.load %{{.*}} {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK: %[[W:.*]] = arith.extui %[[A]] : i8 to i32
// CHECK: %[[F:.*]] = arith.uitofp %[[W]] : i32 to f32
// CHECK: %[[M:.*]] = arith.mulf %[[F]], %[[F]] : f32
// CHECK: %[[C:.*]] = arith.cmpf olt, %[[M]], %{{.*}} : f32
// CHECK: %[[S:.*]] = arith.select %[[C]], %[[M]], %{{.*}} : f32
// CHECK: llvm.store %[[S]], %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr
func.func @arithmetic(%x: !llvm.ptr, %y: !llvm.ptr) {
  %two = arith.constant dense<2.0> : vector<1xf32>
  %a = llvm.load %x {alignment = 1 : i64} : !llvm.ptr -> vector<1xi8>
  %w = arith.extui %a : vector<1xi8> to vector<1xi32>
  %f = arith.uitofp %w : vector<1xi32> to vector<1xf32>
  %m = arith.mulf %f, %f : vector<1xf32>
  %c = arith.cmpf olt, %m, %two : vector<1xf32>
  %s = arith.select %c, %m, %two : vector<1xi1>, vector<1xf32>
  llvm.store %s, %y {alignment = 4 : i64} : vector<1xf32>, !llvm.ptr
  return
}

// What loops and branches carry.
// CHECK-LABEL: @control_flow
// CHECK: %[[L:.*]] = scf.for {{.*}} iter_args(%[[V:.*]] = %{{.*}}) -> (f32)
// CHECK: scf.if {{.*}} -> (f32)
// CHECK: arith.addf %[[V]], %[[V]] : f32
// CHECK: scf.while (%{{.*}} = %[[L]]) : (f32) -> f32
func.func @control_flow(%x: f32, %n: index, %b: i1) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = vector.broadcast %x : f32 to vector<1xf32>
  %loop = scf.for %i = %c0 to %n step %c1 iter_args(%u = %v) -> (vector<1xf32>) {
    %r = scf.if %b -> (vector<1xf32>) {
      %t = arith.addf %u, %u : vector<1xf32>
      scf.yield %t : vector<1xf32>
    } else {
      scf.yield %u : vector<1xf32>
    }
    scf.yield %r : vector<1xf32>
  }
  %while = scf.while (%u = %loop) : (vector<1xf32>) -> vector<1xf32> {
    %e = vector.extract %u[0] : f32 from vector<1xf32>
    %go = arith.cmpf olt, %e, %x : f32
    scf.condition(%go) %u : vector<1xf32>
  } do {
  ^bb0(%u: vector<1xf32>):
    %t = arith.mulf %u, %u : vector<1xf32>
    scf.yield %t : vector<1xf32>
  }
  %r = vector.extract %while[0] : f32 from vector<1xf32>
  return %r : f32
}

// CHECK-LABEL: @blocks
// CHECK: cf.br ^bb{{.*}}(%{{.*}} : f32)
func.func @blocks(%x: f32, %b: i1) -> f32 {
  %v = vector.broadcast %x : f32 to vector<1xf32>
  %r = scf.execute_region -> vector<1xf32> {
    cf.cond_br %b, ^bb1(%v : vector<1xf32>), ^bb2(%v : vector<1xf32>)
  ^bb1(%p: vector<1xf32>):
    %n = arith.negf %p : vector<1xf32>
    cf.br ^bb2(%n : vector<1xf32>)
  ^bb2(%q: vector<1xf32>):
    scf.yield %q : vector<1xf32>
  }
  %s = vector.extract %r[0] : f32 from vector<1xf32>
  return %s : f32
}

// A part of a vector, put into another; a vector of which one element is replaced.
// CHECK-LABEL: @parts
// CHECK-SAME: %[[V:[a-z0-9]*]]: vector<4xf32>
// CHECK: %[[E:.*]] = vector.extract %[[V]][2]
// CHECK: %[[I:.*]] = vector.insert %[[E]], %[[V]] [1]
// CHECK: vector.insert %[[E]], %[[I]] [0]
// CHECK: llvm.bitcast %{{.*}} : i32 to vector<4xi8>
func.func @parts(%v: vector<4xf32>) -> (vector<4xf32>, vector<4xi8>) {
  %part = vector.shuffle %v, %v [6] : vector<4xf32>, vector<4xf32>
  %slice = vector.extract_strided_slice %v {offsets = [2], sizes = [1], strides = [1]} : vector<4xf32> to vector<1xf32>
  %with = vector.insert_strided_slice %slice, %v {offsets = [1], strides = [1]} : vector<1xf32> into vector<4xf32>
  %r = vector.shuffle %part, %with [0, 2, 3, 4] : vector<1xf32>, vector<4xf32>
  %word = vector.bitcast %slice : vector<1xf32> to vector<1xi32>
  %bytes = vector.bitcast %word : vector<1xi32> to vector<4xi8>
  return %r, %bytes : vector<4xf32>, vector<4xi8>
}

// CHECK-LABEL: @masked
// CHECK: %[[B:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i1
// CHECK: %[[C:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i1
// CHECK: %[[L:.*]] = scf.if %[[B]] -> (f32)
// CHECK: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK: scf.if %[[C]]
// CHECK: llvm.store %[[L]], %{{.*}} {alignment = 4 : i64} : f32
func.func @masked(%x: !llvm.ptr, %y: !llvm.ptr) {
  %zero = arith.constant dense<0.0> : vector<1xf32>
  %mask = llvm.load %x : !llvm.ptr -> vector<1xi1>
  %other = llvm.load %y : !llvm.ptr -> vector<1xi1>
  %v = llvm.intr.masked.load %x, %mask, %zero {alignment = 4 : i32} : (!llvm.ptr, vector<1xi1>, vector<1xf32>) -> vector<1xf32>
  llvm.intr.masked.store %v, %y, %other {alignment = 4 : i32} : vector<1xf32>, vector<1xi1> into !llvm.ptr
  return
}
