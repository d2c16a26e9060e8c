#include "emulator/src/machine/launch.h"

#include <condition_variable>
#include <deque>
#include <thread>

#include "emulator/src/checks/order.h"
#include "emulator/src/isa/scalars.h"
#include "emulator/src/machine/group_run.h"
#include "src/numeric/denormals.h"

namespace jaxator::emulator {
namespace {

/// Workgroups that take turns: enough for one to wait for another, as hardware has them resident.
constexpr int kMostLive = 32;
/// Instructions of a turn. Most workgroups of tests end in their first.
constexpr u64 kTurn = 1'000'000;
/// One after the other for a wave that waits for one in another workgroup.
constexpr u64 kLaterTurn = 50'000;

u64 end_of_part(const LaunchOptions& options) {
  const u64 all = options.grid.count(), left = all - options.first_workgroup;
  return options.workgroups == 0 || options.workgroups > left ? all : options.first_workgroup + options.workgroups;
}

class Workers {
 public:
  explicit Workers(LaunchState& launch)
      : launch_(launch), first_(launch.options.first_workgroup), end_(end_of_part(launch.options)), next_(first_) {
    if (launch.options.time_limit_s > 0)
      deadline_ =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(launch.options.time_limit_s));
  }

  Report run() {
    const u64 wanted = launch_.options.threads > 0 ? static_cast<u64>(launch_.options.threads)
                                                   : std::max(1u, std::thread::hardware_concurrency());
    const u64 threads = std::min(wanted, end_ - first_);
    if (threads <= 1) {
      work();
    } else {
      std::vector<std::thread> all;
      for (u64 k = 0; k < threads; k++) all.emplace_back([this] { work(); });
      for (std::thread& thread : all) thread.join();
    }
    Report report;
    report.completed = !ended_;
    report.instructions = executed_;
    return report;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Turn {
    std::unique_ptr<GroupRun> group;
    u64 budget = kTurn;
  };

  void work() {
    const numeric::KeepDenormals keep;
    SpareWaves spare;
    for (;;) {
      Turn turn;
      u64 index = 0;
      if (!take(turn, index)) return;
      try {
        if (turn.group == nullptr) turn.group = std::make_unique<GroupRun>(launch_, index, spare);
        const bool finished = run_turn(turn);
        const u64 executed = finished ? turn.group->executed() : 0;
        if (finished) turn.group->recycle(spare);
        put_back(std::move(turn), finished, executed);
      } catch (const LaunchEnded&) {
        end(turn.group->executed());
        return;
      }
    }
  }

  /// A workgroup to go on with, or the number of a new one. False when there is nothing left.
  bool take(Turn& turn, u64& index) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (ended_) return false;
      if (next_ < end_ && live_ < kMostLive) {
        index = next_++;
        live_++;
        return true;
      }
      if (!waiting_.empty()) {
        turn = std::move(waiting_.front());
        waiting_.pop_front();
        return true;
      }
      if (live_ == 0 && next_ == end_) return false;
      changed_.wait(lock);
    }
  }

  /// In pieces, so that the clock is looked at.
  bool run_turn(Turn& turn) {
    constexpr u64 kPiece = 20'000;
    for (u64 done = 0; done < turn.budget; done += kPiece) {
      const GroupRun::State state = turn.group->run(kPiece);
      if (state == GroupRun::State::finished) return true;
      {
        std::lock_guard lock(mutex_);
        if (ended_) throw LaunchEnded();
      }
      if (deadline_ != Clock::time_point() && Clock::now() > deadline_) out_of_time(*turn.group);
      if (state == GroupRun::State::waiting) return false;
    }
    return false;
  }

  [[noreturn]] void out_of_time(const GroupRun& group) {
    {
      std::lock_guard lock(mutex_);
      if (!ended_)
        launch_.findings.add_at(group.any_wave(), group.any_wave().pc, Kind::no_progress,
                                "no end after " + std::to_string(launch_.options.time_limit_s) + " s, " +
                                    std::to_string(finished_) + " of " + std::to_string(end_ - first_) +
                                    " workgroups are done; " + group.whereabouts());
    }
    throw LaunchEnded();
  }

  void put_back(Turn turn, bool finished, u64 executed) {
    std::lock_guard lock(mutex_);
    executed_ += executed;
    if (finished) {
      live_--, finished_++;
    } else {
      turn.budget = kLaterTurn;
      waiting_.push_back(std::move(turn));
    }
    changed_.notify_all();
  }

  void end(u64 executed) {
    std::lock_guard lock(mutex_);
    executed_ += executed;
    ended_ = true;
    changed_.notify_all();
  }

  LaunchState& launch_;
  const u64 first_, end_;  // workgroups
  Clock::time_point deadline_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Turn> waiting_;
  u64 next_, finished_ = 0, executed_ = 0;
  int live_ = 0;
  bool ended_ = false;
};

[[noreturn]] void refuse(const KernelDescriptor& kernel, const std::string& what, u64 value, const std::string& rule) {
  fail("kernel ", kernel.info.name, ": ", what, "=", value, ": ", rule);
}

/// A compute unit has four vector units; each holds 512 registers a lane for the waves it is given.
void check_registers_fit(const KernelDescriptor& kernel, u64 waves) {
  const u64 registers = kernel.info.vector_registers + kernel.info.accumulation_registers, of_unit = (waves + 3) / 4 * registers;
  if (of_unit > 512)
    refuse(kernel, "vector registers", registers,
           "with " + std::to_string(waves) + " waves in a workgroup a vector unit needs " + std::to_string(of_unit) +
               ", it has 512");
}

void check_mode(const KernelDescriptor& kernel) {
  const u32 mode = kernel.rsrc1 >> 12 & 0xFF;
  if ((mode & kRounding) != 0) refuse(kernel, "float mode", mode, "only rounding to nearest even is modelled");
  if ((mode & kDenormalsF64) != kDenormalsF64)
    refuse(kernel, "float mode", mode, "only kept denormals of half and double precision are modelled");
  if ((kernel.rsrc1 >> 26 & 1) != 0) refuse(kernel, "FP16_OVFL", 1, "saturation of half precision is not modelled");
}

}  // namespace

void check_launch(const KernelDescriptor& kernel, Architecture architecture, size_t argument_bytes,
                  const LaunchOptions& options) {
  static constexpr const char* kAxes[] = {"x", "y", "z"};
  for (int k = 0; k < 3; k++) {
    if (options.grid[k] == 0) refuse(kernel, std::string("grid.") + kAxes[k], 0, "must be positive");
    if (options.block[k] == 0 || options.block[k] > 1024)
      refuse(kernel, std::string("block.") + kAxes[k], options.block[k], "must be from 1 to 1024");
  }
  if (options.first_workgroup >= options.grid.count())
    refuse(kernel, "first_workgroup", options.first_workgroup,
           "must be below " + std::to_string(options.grid.count()) + ", the workgroups of the grid");
  const u64 threads = options.block.count();
  if (threads > kernel.info.max_threads)
    refuse(kernel, "threads in a block", threads,
           "the kernel was compiled for at most " + std::to_string(kernel.info.max_threads));
  const u64 lds = u64{kernel.info.lds_bytes} + options.dynamic_lds_bytes,
            most = architecture == Architecture::gfx950 ? 160 * 1024 : 64 * 1024;
  if (lds > most) refuse(kernel, "LDS bytes", lds, std::string(name(architecture)) + " has " + std::to_string(most));
  u64 least = 0;
  for (const Parameter& parameter : kernel.info.parameters) least = std::max<u64>(least, u64{parameter.offset} + parameter.bytes);
  if (argument_bytes < least) refuse(kernel, "argument bytes", argument_bytes, "the kernel takes " + std::to_string(least));
  check_registers_fit(kernel, (threads + kLanes - 1) / kLanes);
  check_mode(kernel);
}

std::vector<u64> lay_out_arguments(const KernelDescriptor& kernel, std::span<const u8> arguments, const LaunchOptions& options) {
  const size_t bytes = std::max<size_t>(kernel.info.argument_bytes, arguments.size());
  std::vector<u64> block(bytes / 8 + 2, 0);
  u8* to = reinterpret_cast<u8*>(block.data());
  if (!arguments.empty()) memcpy(to, arguments.data(), arguments.size());
  for (const Parameter& hidden : kernel.hidden) {
    static constexpr const char* kAxes[] = {"_x", "_y", "_z"};
    u64 value = 0;
    for (int k = 0; k < 3; k++) {
      if (hidden.type == std::string("hidden_block_count") + kAxes[k]) value = options.grid[k];
      if (hidden.type == std::string("hidden_group_size") + kAxes[k]) value = options.block[k];
    }
    if (hidden.type == "hidden_grid_dims") value = options.grid.z > 1 ? 3 : options.grid.y > 1 ? 2 : 1;
    if (hidden.type == "hidden_dynamic_lds_size") value = options.dynamic_lds_bytes;
    if (hidden.type == "hidden_private_base") value = kPrivateAperture;
    if (hidden.type == "hidden_shared_base") value = kSharedAperture;
    if (hidden.bytes <= 8 && hidden.offset <= bytes && hidden.bytes <= bytes - hidden.offset)
      memcpy(to + hidden.offset, &value, hidden.bytes);
  }
  return block;
}

Report run_launch(LaunchState& launch) { return Workers(launch).run(); }

}  // namespace jaxator::emulator
