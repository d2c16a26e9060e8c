/// @file
/// The execution of one workgroup: its waves in random order, changed at memory operations, waits and barriers.
#pragma once

#include <chrono>

#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {

/// Waves that finished workgroups leave for the next ones of their thread.
using SpareWaves = std::vector<std::unique_ptr<Wave>>;

class GroupRun {
 public:
  GroupRun(LaunchState& launch, u64 index, SpareWaves& spare);

  enum class State { running, waiting, finished };

  /// Runs about `budget` instructions, fewer if its waves seem to wait for another workgroup. Throws a Fault, after it was put
  /// into the findings, as LaunchEnded.
  State run(u64 budget);
  u64 executed() const;
  void recycle(SpareWaves& spare);
  /// Where each wave that has not ended is: for a launch that makes no progress.
  std::string whereabouts() const;
  /// The first wave that has not ended, or the first one.
  Wave& any_wave() const;

 private:
  void set_up(Wave& wave, u32 first_thread, u32 threads);
  int set_up_scalars(Wave& wave);
  void run_slice(Wave& wave);
  bool pass_barrier();
  u32 random(u32 below);

  LaunchState& launch_;
  Group group_;
  u64 budget_left_ = 0;
  int polls_ = 0;
};

/// A finding has ended the launch.
struct LaunchEnded {};

}  // namespace jaxator::emulator
