/// @file
/// A wave: 64 lanes that execute together, and a workgroup: waves that share LDS.
#pragma once

#include <memory>
#include <vector>

#include "emulator/src/decode/instruction.h"
#include "emulator/src/machine/memory_map.h"

namespace jaxator::emulator {

struct LaunchState;
class WaveChecks;
class GroupChecks;
class Group;

/// Ends a launch. The wave and instruction are known where it is caught.
struct Fault {
  Kind kind;
  std::string message;
  int lane = -1;
};

/// What one lane touches: `bytes` at `at` of the lane's value.
struct Access {
  u8* data = nullptr;                // null: out of a buffer's range; reads as zeros, is not written
  u64 address = 0;                   // in LDS or scratch: the offset
  Allocation* allocation = nullptr;  // of global memory
  Space space = Space::global;       // global, scratch or lds
  u8 lane = 0, bytes = 0, at = 0;
};

/// The accesses of one instruction: at most four pieces a lane.
class AccessList {
 public:
  void clear() { count_ = 0; }
  void add(const Access& access) { all_[count_++] = access; }
  int size() const { return count_; }
  const Access* begin() const { return all_; }
  const Access* end() const { return all_ + count_; }

 private:
  int count_ = 0;
  Access all_[4 * kLanes];
};

/// Bits of the MODE register that the emulator heeds.
enum Mode : u32 { kDenormalsF32 = 0x30, kDenormalsF64 = 0xC0, kRounding = 0x0F, kDx10Clamp = 0x100, kIeee = 0x200 };

using LaneRegister = u32[kLanes];

class Wave {
 public:
  Wave();
  ~Wave();

  alignas(64) LaneRegister vector[kVectorRegisters];
  u32 scalar[kScalarRegisters];
  u64 pc = 0, next_pc = 0;
  u64 executed = 0;
  u32 mode = 0;
  u8 index_mode = 0;  // register indexing: 1 source 0, 2 source 1, 4 source 2, 8 destination
  bool done = false, at_barrier = false;
  int id = 0;  // in its workgroup
  u32 barriers = 0;
  Group* group = nullptr;

  std::vector<u8> scratch;  // lane after lane
  u32 scratch_bytes = 0;    // of a lane

  AccessList accesses, lds_accesses;  // of the instruction being executed; the second of a fetch to LDS
  std::unique_ptr<WaveChecks> checks;

  u64 exec() const { return scalar64(kExec); }
  void set_exec(u64 mask) { set_scalar64(kExec, mask); }
  bool scc() const { return scalar[kScc] != 0; }
  void set_scc(bool value) { scalar[kScc] = value; }
  u64 scalar64(int index) const { return join(scalar[index], scalar[index + 1]); }
  void set_scalar64(int index, u64 value) {
    scalar[index] = static_cast<u32>(value);
    scalar[index + 1] = static_cast<u32>(value >> 32);
  }
  bool flushes_f32() const { return (mode & kDenormalsF32) != kDenormalsF32; }
  bool f32_omod() const { return (mode & kDenormalsF32) == 0; }
};

class Group {
 public:
  Group();
  ~Group();

  LaunchState* launch = nullptr;
  u32 id[3] = {};
  u64 index = 0;  // of all workgroups
  std::vector<u8> lds;
  std::vector<std::unique_ptr<Wave>> waves;
  std::unique_ptr<GroupChecks> checks;
  u64 random = 0;  // state of the generator that picks waves
};

}  // namespace jaxator::emulator
