// RUN: flight-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{alignment 12 must be a power of two}}
func.func private @align(!flight.ptr<f32, global, 12>)

// -----

// expected-error @below {{element 'i1' must be a number of whole bytes}}
func.func private @bits(!flight.ptr<i1, global, 16>)

// -----

// expected-error @below {{layout "(4,2):(1)": layout: shape and stride are nested differently}}
func.func private @nesting(!flight.view<f32, global, "(4,2):(1)", 16>)

// -----

// expected-error @below {{layout "(4,2:": parse: ')' expected at character 4 of "(4,2:"}}
func.func private @text(!flight.view<f32, global, "(4,2:", 16>)

// -----

// expected-error @below {{layout "(8) spread (4,4):(1,4)": the spread reaches index 15 of 8 elements}}
func.func private @tile(!flight.tile<f32, "(8)", "(4,4):(1,4)">)

// -----

// expected-error @below {{flight.block array<i64: 64, 64, 1>: 4096 threads are more than 1024}}
func.func @block() attributes {flight.block = array<i64: 64, 64, 1>} {
  return
}

// -----

// expected-error @below {{attribute flight.blocks is not one of flight.block, flight.ranges, flight.allow_spills, flight.allow_scratch}}
func.func @attribute() attributes {flight.blocks = array<i64: 64, 64, 1>} {
  return
}

// -----

func.func @dims(%x: !flight.ptr<f32, global, 16>, %n: index) {
  // expected-error @below {{layout "(4,?):(?,1)" has 2 dynamic leaves, 1 values are given}}
  %v = flight.view %x[%n] dims(%n) : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "(4,?):(?,1)", 4>
  return
}

// -----

func.func @more_aligned(%x: !flight.ptr<f32, global, 4>, %n: index) {
  // expected-error @below {{alignment 16 of the view is more than the pointer's 4}}
  %v = flight.view %x[%n] : !flight.ptr<f32, global, 4> -> !flight.view<f32, global, "4:1", 16>
  return
}

// -----

func.func @offset(%x: !flight.ptr<f32, global, 16>) {
  %c2 = arith.constant 2 : index
  // expected-error @below {{alignment 16 does not divide 2 elements of 'f32'}}
  %v = flight.view %x[%c2] : !flight.ptr<f32, global, 16> -> !flight.view<f32, global, "4:1", 16>
  return
}

// -----

func.func @size(%v: !flight.view<f32, global, "(4,2):(1,8)", 16>) {
  // expected-error @below {{result 'vector<4xf32>' does not have the 8 elements of "(4,2):(1,8)"}}
  %r = flight.load %v : !flight.view<f32, global, "(4,2):(1,8)", 16> -> vector<4xf32>
  return
}

// -----

func.func @element(%v: !flight.view<f32, global, "4:1", 16>, %x: vector<4xi32>) {
  // expected-error @below {{value 'vector<4xi32>' does not have the view's element 'f32'}}
  flight.store %x, %v : vector<4xi32>, !flight.view<f32, global, "4:1", 16>
  return
}

// -----

func.func @copy(%a: !flight.view<f32, global, "4:1", 16>, %b: !flight.view<f32, shared, "8:1", 16>) {
  // expected-error @below {{copies 4 elements to 8}}
  flight.copy_async %a to %b : !flight.view<f32, global, "4:1", 16> to !flight.view<f32, shared, "8:1", 16>
  return
}

// -----

func.func @print(%n: index) {
  // expected-error @below {{the text has 2 {}, 1 values are given}}
  flight.print "{} {}"(%n : index)
  return
}

// -----

!t = !flight.tile<f32, "(8,8)", "(32,2):(1,32)">

func.func @threads(%x: f32) attributes {flight.block = array<i64: 64, 1, 1>} {
  // expected-error @below {{is for 32 threads, the block has 64}}
  %t = flight.splat %x : f32 -> !t
  return
}

// -----

!t = !flight.tile<f32, "(8,8)", "(32,2):(1,32)">
!r = !flight.tile<f32, "(1,1)", "(32,1):(0,0)">

func.func @reduced(%t: !t) {
  // expected-error @below {{the shape (8,8) along 1 becomes (8,1), not (1,1)}}
  %r = flight.reduce add %t along 1 : !t -> !r
  return
}

// -----

!t = !flight.tile<f32, "(8,8)", "(32,2):(1,32)">

func.func @body(%t: !t) {
  // expected-error @below {{yields 'i32' for an element of '!flight.tile<f32, "(8,8)", "(32,2):(1,32)">'}}
  %r = flight.map (%t) : (!t) -> !t {
  ^bb0(%e: f32):
    %c = arith.constant 1 : i32
    flight.yield %c : i32
  }
  return
}

// -----

!a = !flight.view<bf16, shared, "(64,32):(32,1)", 16>
!b = !flight.view<bf16, shared, "(64,16):(16,1)", 16>
!c = !flight.tile<f32, "(64,64)", "(256,16):(16,1)">

func.func @product(%a: !a, %b: !b, %c: !c) {
  // expected-error @below {{A (64,32), B (64,16) and C (64,64) must be (M,K), (N,K) and (M,N)}}
  %d = flight.tile_mma "mfma_16x16x16_bf16" waves "(2,2):(1,2)" %a, %b, %c : !a, !b, !c
  return
}
