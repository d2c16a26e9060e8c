/// @file
/// Launches kept as files, so that they can be run again elsewhere: with a trace, in another order, with another code object.
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "emulator/hip/state.h"

namespace jaxator::hip_emulator {
namespace {

using emulator::Device;
using emulator::Span;

struct Recorder {
  std::mutex mutex;
  std::filesystem::path folder;  // empty: nothing is recorded
  int launches = 0;
};

Recorder& recorder() {
  static auto* recorder = new Recorder;
  return *recorder;
}

void write(const std::filesystem::path& path, const void* data, size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file.flush()) throw Failure(hipErrorUnknown, path.string() + ": cannot be written");
}

/// "[a, b, ...]" of what `text` makes of each item.
template <class List, class Text> std::string json_list(const List& items, const Text& text) {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : ", ") + text(item);
  return "[" + all + "]";
}

std::string json_extent(const emulator::Extent& extent) {
  return "[" + std::to_string(extent.x) + ", " + std::to_string(extent.y) + ", " + std::to_string(extent.z) + "]";
}

/// Memory that an aligned word of the arguments points to. A number that looks like such an address adds memory that is not used.
std::vector<Device::Range> memory_of(const Device& device, std::span<const uint8_t> arguments) {
  std::vector<Device::Range> used;
  for (const Device::Range& range : device.memory()) {
    bool named = false;
    for (size_t at = 0; at + sizeof(uint64_t) <= arguments.size(); at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, arguments.data() + at, sizeof word);
      named |= word >= range.begin && word < range.end;
    }
    if (named) used.push_back(range);
  }
  return used;
}

}  // namespace

void record(const Launch& launch) {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  if (r.folder.empty()) return;
  const std::string number = std::to_string(r.launches++);
  const auto path = [&](const std::string& end) { return r.folder / (number + end); };
  int count = 0;
  const std::string memory = json_list(memory_of(launch.device, launch.arguments), [&](const Device::Range& range) {
    const auto* bytes = reinterpret_cast<const void*>(range.begin);
    const std::string file = number + ".memory" + std::to_string(count++);
    write(r.folder / file, bytes, range.end - range.begin);
    const auto spans = json_list(launch.device.initialised(bytes, range.end - range.begin), [&](const Span& span) {
      return "[" + std::to_string(span.begin - range.begin) + ", " + std::to_string(span.end - range.begin) + "]";
    });
    return "{\"file\": \"" + file + "\", \"address\": " + std::to_string(range.begin) +
           ", \"bytes\": " + std::to_string(range.end - range.begin) + ", \"initialised\": " + spans + "}";
  });
  write(path(".hsaco"), launch.image.data(), launch.image.size());
  write(path(".arguments"), launch.arguments.data(), launch.arguments.size());
  const std::string text =
      "{\"kernel\": \"" + launch.kernel + "\", \"architecture\": \"" + emulator::name(launch.device.architecture()) +
      "\", \"grid\": " + json_extent(launch.options.grid) + ", \"block\": " + json_extent(launch.options.block) +
      ", \"dynamic_lds\": " + std::to_string(launch.options.dynamic_lds_bytes) + ", \"memory\": " + memory + "}\n";
  write(path(".json"), text.data(), text.size());
}

}  // namespace jaxator::hip_emulator

namespace hip = jaxator::hip_emulator;

hipError_t jaxator_emulator_record(const char* folder) {
  return hip::guarded([&] {
    const std::filesystem::path path = folder == nullptr ? "" : folder;
    hip::require(path.empty() || std::filesystem::is_directory(path), hipErrorInvalidValue,
                 "folder=" + path.string() + ": there is no such folder");
    hip::Recorder& r = hip::recorder();
    std::lock_guard lock(r.mutex);
    r.folder = path;
    r.launches = 0;
  });
}
