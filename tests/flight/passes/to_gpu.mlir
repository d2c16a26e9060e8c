// RUN: flight-opt %s --flight-lower-views=target=gfx942 --flight-to-gpu=target=gfx942 --canonicalize | FileCheck %s --check-prefix=AMD
// RUN: flight-opt %s --flight-lower-views=target=sm_90a --flight-to-gpu=target=sm_90a --canonicalize | FileCheck %s --check-prefix=PTX

// AMD: llvm.func @kernel(%{{.*}}: !llvm.ptr<1> {llvm.align = 16 : i64})
// AMD-SAME: rocdl.flat_work_group_size = "128,128", rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 64, 2, 1>
// AMD: rocdl.workitem.id.x range <i32, 0, 64>
// AMD: rocdl.workgroup.id.y
// AMD: llvm.fence syncscope("workgroup") release
// AMD: rocdl.s.barrier
// AMD: llvm.fence syncscope("workgroup") acquire
// AMD: rocdl.ds_bpermute
// AMD: llvm.amdgcn.implicitarg.ptr
// AMD: llvm.return
// PTX: llvm.func @kernel
// PTX-SAME: nvvm.kernel, nvvm.reqntid = array<i32: 64, 2, 1>
// PTX: nvvm.read.ptx.sreg.tid.x range <i32, 0, 64>
// PTX: nvvm.barrier
// PTX: nvvm.shfl.sync  idx
// PTX: nvvm.read.ptx.sreg.nctaid.x
func.func @kernel(%x: !flight.ptr<i64, global, 16>) attributes {flight.block = array<i64: 64, 2, 1>} {
  %t = flight.thread_id x
  %b = flight.block_id y
  flight.barrier
  %one = arith.constant 1 : i32
  %v = arith.index_cast %t : index to i32
  %w = flight.shuffle up %v, %one : i32
  %g = flight.grid_dim x
  %at = arith.addi %t, %b : index
  %i = arith.index_cast %w : i32 to index
  %sum = arith.addi %i, %g : index
  %n = arith.index_cast %sum : index to i64
  %r = vector.broadcast %n : i64 to vector<1xi64>
  %xs = flight.view %x[%at] : !flight.ptr<i64, global, 16> -> !flight.view<i64, global, "1:1", 8>
  flight.store %r, %xs : vector<1xi64>, !flight.view<i64, global, "1:1", 8>
  return
}
