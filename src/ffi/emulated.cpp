/// @file
/// Kernels for AMD's GPUs in programs for CPUs: the same code as for platform ROCM, on the emulator, over arrays in the host's
/// memory.
#include <algorithm>
#include <mutex>
#include <string_view>

#include "src/ffi/ffi.h"
#include "src/runtime/rocm/driver.h"

namespace jaxator::ffi {
namespace {

struct Range {
  char *begin, *end;
  bool operand;
};

/// The memory of a call's arrays. XLA may give two of them the same address; what overlaps becomes one range.
std::vector<Range> ranges_of(xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets) {
  std::vector<Range> ranges;
  const auto add = [&](const xla::ffi::AnyBuffer& buffer, bool operand) {
    auto* begin = static_cast<char*>(buffer.untyped_data());
    if (buffer.size_bytes() > 0) ranges.push_back({begin, begin + buffer.size_bytes(), operand});
  };
  for (size_t i = 0; i < args.size(); i++) add(*args.get<xla::ffi::AnyBuffer>(i), true);
  for (size_t i = 0; i < rets.size(); i++) add(**rets.get<xla::ffi::AnyBuffer>(i), false);
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> merged;
  for (const Range& range : ranges) {
    if (merged.empty() || range.begin >= merged.back().end) {
      merged.push_back(range);
    } else {
      merged.back().end = std::max(merged.back().end, range.end);
      merged.back().operand |= range.operand;
    }
  }
  return merged;
}

/// Ranges that a device of the emulator can use while this object lives. Results are uninitialised until a kernel writes them.
class Mapped {
 public:
  Mapped(const rocm::Driver& driver, int device, const std::vector<Range>& ranges) : driver_(driver), device_(device) {
    try {
      for (const Range& range : ranges) {
        rocm::check(driver, driver.Map(device, range.begin, static_cast<size_t>(range.end - range.begin), range.operand),
                    "mapping an array");
        mapped_.push_back(range.begin);
      }
    } catch (...) {
      unmap();
      throw;
    }
  }
  ~Mapped() { unmap(); }
  Mapped(const Mapped&) = delete;

 private:
  void unmap() {
    for (char* address : mapped_) driver_.Unmap(device_, address);
  }

  const rocm::Driver& driver_;
  const int device_;
  std::vector<char*> mapped_;
};

}  // namespace

xla::ffi::Error execute_emulated(RocmExecute execute, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                 xla::ffi::Dictionary attributes) {
  return guarded([&] {
    const Attributes named(attributes);
    const RocmArchitecture architecture = rocm_architecture(std::string(named.get<std::string_view>("architecture")));
    const rocm::Driver& driver = rocm::require_driver(/*emulated=*/true);
    if (driver.Map == nullptr || driver.Unmap == nullptr) throw UnsupportedError("the emulator's library is not one of ours");
    // Calls that run at the same time may share arrays, so only one is on the devices; a launch uses all cores anyway.
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    RocmStream stream{.device = static_cast<int>(architecture), .architecture = architecture, .emulated = true};
    const Mapped mapped(driver, stream.device, ranges_of(args, rets));
    for (bool prepare_only : {true, false}) {
      stream.prepare_only = prepare_only;
      Call call(args, rets, attributes, false);
      execute(call, stream);
    }
  });
}

}  // namespace jaxator::ffi
