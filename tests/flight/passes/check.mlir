// RUN: flight-opt %s --flight-check=target=gfx942 --split-input-file --verify-diagnostics

!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "1:1", 4>

// Each thread reads what it has written itself.
func.func @own_element(%x: vector<1xf32>) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %s = flight.shared 64 : !s
  %to = flight.view %s[%t] : !s -> !v
  flight.store %x, %to : vector<1xf32>, !v
  %r = flight.load %to : !v -> vector<1xf32>
  return
}

// -----

!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "1:1", 4>

func.func @neighbour(%x: vector<1xf32>) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c63 = arith.constant 63 : index
  %other = arith.subi %c63, %t : index
  %s = flight.shared 64 : !s
  %to = flight.view %s[%t] : !s -> !v
  // expected-note @below {{the earlier access}}
  flight.store %x, %to : vector<1xf32>, !v
  %from = flight.view %s[%other] : !s -> !v
  // expected-error @below {{thread 0 reads element 63 of shared memory, which thread 63 has written: a barrier must come between}}
  %r = flight.load %from : !v -> vector<1xf32>
  return
}

// -----

!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "1:1", 4>

// The barrier is there, but not around the back edge of the loop.
func.func @back_edge(%x: vector<1xf32>, %n: i64) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.index_cast %n : i64 to index
  %c63 = arith.constant 63 : index
  %other = arith.subi %c63, %t : index
  %s = flight.shared 64 : !s
  %to = flight.view %s[%t] : !s -> !v
  %from = flight.view %s[%other] : !s -> !v
  scf.for %i = %c0 to %end step %c1 {
    // expected-error @below {{thread 0 writes element 0 of shared memory, which thread 63 has read: a barrier must come between}}
    flight.store %x, %to : vector<1xf32>, !v
    flight.barrier
    // expected-note @below {{the earlier access}}
    %r = flight.load %from : !v -> vector<1xf32>
  }
  return
}

// -----

!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "1:1", 4>

// Two buffers in turn: one barrier an iteration is enough.
func.func @double_buffer(%x: vector<1xf32>, %n: i64) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %end = arith.index_cast %n : i64 to index
  %c63 = arith.constant 63 : index
  %other = arith.subi %c63, %t : index
  %s = flight.shared 128 : !s
  scf.for %i = %c0 to %end step %c1 {
    %stage = arith.remui %i, %c2 : index
    %base = arith.muli %stage, %c64 : index
    %mine = arith.addi %base, %t : index
    %theirs = arith.addi %base, %other : index
    %to = flight.view %s[%mine] : !s -> !v
    flight.store %x, %to : vector<1xf32>, !v
    flight.barrier
    %from = flight.view %s[%theirs] : !s -> !v
    %r = flight.load %from : !v -> vector<1xf32>
  }
  return
}

// -----

func.func @divergent_barrier() attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c3 = arith.constant 3 : index
  %low = arith.cmpi slt, %t, %c3 : index
  // expected-note @below {{the condition}}
  scf.if %low {
    // expected-error @below {{flight.barrier under a condition that differs between the threads of a block}}
    flight.barrier
  }
  return
}

// -----

func.func @divergent_loop() attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-note @below {{the loop}}
  scf.for %i = %c0 to %t step %c1 {
    // expected-error @below {{flight.barrier in a loop that differs between the threads of a block}}
    flight.barrier
  }
  return
}

// -----

// Whole waves may exchange values while others do not; parts of one may not.
func.func @one_wave(%x: f32) attributes {flight.block = array<i64: 128, 1, 1>} {
  %t = flight.thread_id x
  %c64 = arith.constant 64 : index
  %one = arith.constant 1 : i32
  %first = arith.cmpi slt, %t, %c64 : index
  scf.if %first {
    %y = flight.shuffle xor %x, %one : f32
  }
  %c32 = arith.constant 32 : index
  %half = arith.cmpi slt, %t, %c32 : index
  // expected-note @below {{the condition}}
  scf.if %half {
    // expected-error @below {{flight.shuffle under a condition that differs between the threads of a wave}}
    %y = flight.shuffle xor %x, %one : f32
  }
  return
}

// -----

func.func @part_of_a_wave(%x: f32) attributes {flight.block = array<i64: 96, 1, 1>} {
  %one = arith.constant 1 : i32
  // expected-error @below {{flight.shuffle needs whole waves: the block's 96 threads must be a multiple of 64 on gfx942}}
  %y = flight.shuffle xor %x, %one : f32
  return
}

// -----

!g = !flight.ptr<f32, global, 16>
!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "1:1", 4>

// A barrier does not wait for a copy.
func.func @copy_without_wait(%x: !g) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %s = flight.shared 64 : !s
  %from = flight.view %x[%t] : !g -> !flight.view<f32, global, "1:1", 4>
  %to = flight.view %s[%t] : !s -> !v
  // expected-note @below {{the earlier access}}
  flight.copy_async %from to %to : !flight.view<f32, global, "1:1", 4> to !v
  flight.commit
  flight.barrier
  // expected-error @below {{is used by thread 0 while an asynchronous copy may still write it: `wait` for the copy, then a barrier, must come between}}
  %r = flight.load %to : !v -> vector<1xf32>
  return
}

// -----

!g = !flight.ptr<f32, global, 16>
!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "1:1", 4>

// Two stages ahead, of which the older one is waited for.
func.func @pipeline(%x: !g) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c3 = arith.constant 3 : index
  %c2 = arith.constant 2 : index
  %c63 = arith.constant 63 : index
  %c64 = arith.constant 64 : index
  %s = flight.shared 192 : !s
  %from = flight.view %x[%t] : !g -> !flight.view<f32, global, "1:1", 4>
  scf.for %i = %c0 to %c2 step %c1 {
    %base = arith.muli %i, %c64 : index
    %at = arith.addi %base, %t : index
    %to = flight.view %s[%at] : !s -> !v
    flight.copy_async %from to %to : !flight.view<f32, global, "1:1", 4> to !v
    flight.commit
  }
  scf.for %i = %c0 to %c8 step %c1 {
    flight.wait 1
    flight.barrier
    %stage = arith.remui %i, %c3 : index
    %base = arith.muli %stage, %c64 : index
    %other = arith.subi %c63, %t : index
    %at = arith.addi %base, %other : index
    %view = flight.view %s[%at] : !s -> !v
    %r = flight.load %view : !v -> vector<1xf32>
    %next = arith.addi %i, %c2 : index
    %next_stage = arith.remui %next, %c3 : index
    %next_base = arith.muli %next_stage, %c64 : index
    %next_at = arith.addi %next_base, %t : index
    %to = flight.view %s[%next_at] : !s -> !v
    flight.copy_async %from to %to : !flight.view<f32, global, "1:1", 4> to !v
    flight.commit
  }
  return
}

// -----

!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "1:1", 4>

// Which side runs is not known, but it is the same for all threads: what one writes the other does not read.
func.func @either(%x: vector<1xf32>, %p: !flight.ptr<i32, global, 4>) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %c63 = arith.constant 63 : index
  %other = arith.subi %c63, %t : index
  %s = flight.shared 64 : !s
  %to = flight.view %s[%t] : !s -> !v
  %from = flight.view %s[%other] : !s -> !v
  %ps = flight.view %p[%c0] : !flight.ptr<i32, global, 4> -> !flight.view<i32, global, "1:1", 4>
  %loaded = flight.load %ps : !flight.view<i32, global, "1:1", 4> -> vector<1xi32>
  %flag = vector.extract %loaded[0] : i32 from vector<1xi32>
  %condition = arith.cmpi ne, %flag, %zero : i32
  scf.if %condition {
    flight.store %x, %to : vector<1xf32>, !v
  } else {
    %r = flight.load %from : !v -> vector<1xf32>
  }
  return
}

// -----

!s = !flight.ptr<f32, shared, 16>
!v = !flight.view<f32, shared, "2:1", 4>

// Elements that the mask leaves out are not touched: thread t has element t alone.
func.func @masked(%x: vector<2xf32>) attributes {flight.block = array<i64: 64, 1, 1>} {
  %t = flight.thread_id x
  %s = flight.shared 65 : !s
  %to = flight.view %s[%t] : !s -> !v
  %mask = arith.constant dense<[true, false]> : vector<2xi1>
  flight.store %x, %to mask(%mask : vector<2xi1>) : vector<2xf32>, !v
  %r = flight.load %to mask(%mask : vector<2xi1>) : !v -> vector<2xf32>
  // expected-note @below {{the earlier access}}
  flight.store %x, %to mask(%mask : vector<2xi1>) : vector<2xf32>, !v
  // expected-error @below {{thread 0 reads element 1 of shared memory, which thread 1 has written: a barrier must come between}}
  %q = flight.load %to : !v -> vector<2xf32>
  return
}

// -----

!g = !flight.view<f32, global, "(64,8):(1,64)", 16>
!v = !flight.view<f32, shared, "(64,8):(1,64)", 16>
!rows = !flight.tile<f32, "(64,8)", "(64,8):(1,64)">
!columns = !flight.tile<f32, "(64,8)", "((8,8),(8,1)):((64,8),(1,0))">

// Tiles: threads that read what they have copied themselves need no barrier, others do.
func.func @tiles(%x: !flight.ptr<f32, global, 16>) attributes {flight.block = array<i64: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %s = flight.shared 512 : !flight.ptr<f32, shared, 16>
  %from = flight.view %x[%c0] : !flight.ptr<f32, global, 16> -> !g
  %to = flight.view %s[%c0] : !flight.ptr<f32, shared, 16> -> !v
  // expected-note @below {{the earlier access}}
  flight.tile_copy %from to %to spread "(64,8):(1,64)" : !g to !v
  %mine = flight.tile_load %to : !v -> !rows
  // expected-error @below {{thread 0 reads element 1 of shared memory, which thread 1 has written: a barrier must come between}}
  %theirs = flight.tile_load %to : !v -> !columns
  return
}
