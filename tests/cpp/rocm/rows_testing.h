/// @file
/// What the tests of the row ops on the emulator share: arrays in device memory at any address, and the bytes that a block moves.
#pragma once

#include <memory>
#include <utility>

#include "tests/cpp/rocm/testing.h"
#include "tests/cpp/testing.h"

namespace jaxator::testing {

inline std::string architecture_of(const ::testing::TestParamInfo<int>& info) { return info.param == 0 ? "gfx942" : "gfx950"; }

/// For each device.
class RocmRows : public Rocm, public ::testing::WithParamInterface<int> {
 protected:
  /// Calls body(stream) to prepare, then to launch.
  template <class Body> static void run_on(int device, Body&& body) {
    body(prepared(device));
    body(launching(device));
  }
};

/// Bytes of an array in device memory; `offset` moves it from a multiple of 16. An absent array is null.
class Bytes {
 public:
  Bytes(int device, size_t bytes, size_t offset = 0) : offset_(offset), bytes_(bytes) {
    if (bytes > 0) array_ = std::make_unique<DeviceArray<char>>(device, bytes + offset);
  }
  Bytes(int device, const TestArray& array, bool present = true, size_t offset = 0)
      : Bytes(device, present ? array.bytes().size() - 2 * guard(array) : 0, offset) {
    if (bytes_ > 0) expect_ok(hipMemcpy(data(), array.data(), bytes_, hipMemcpyHostToDevice));
  }
  void* data() const { return array_ == nullptr ? nullptr : array_->data() + offset_; }
  float* floats() const { return static_cast<float*>(data()); }
  void read(TestArray& out) const {
    if (bytes_ > 0) expect_ok(hipMemcpy(out.data(), data(), bytes_, hipMemcpyDeviceToHost));
  }

 private:
  static size_t guard(const TestArray& array) { return static_cast<const char*>(array.data()) - array.bytes().data(); }
  std::unique_ptr<DeviceArray<char>> array_;
  size_t offset_, bytes_;
};

/// Bytes under way on a compute unit that is full of a kernel's blocks, each thread of which waits for this many: as many blocks
/// as its registers (512 a lane on each of four vector units, at most 8 waves), its LDS (64 KiB) and its 32 waves allow.
inline int64_t bytes_under_way(const emulator::KernelInfo& kernel, const rocm::Geometry& g, int64_t bytes_of_thread) {
  const int64_t threads = int64_t{g.block[0]} * g.block[1] * g.block[2], waves = (threads + 63) / 64;
  const int64_t registers = (kernel.vector_registers + kernel.accumulation_registers + 7) / 8 * 8;
  int64_t blocks = 4 * std::min<int64_t>(8, 512 / std::max<int64_t>(8, registers)) / waves;
  if (const int64_t lds = kernel.lds_bytes + g.shared_bytes; lds > 0) blocks = std::min(blocks, (int64_t{64} << 10) / lds);
  return blocks * threads * bytes_of_thread;
}
/// 5.3 TB/s over 304 compute units, with a latency of 400 ns.
constexpr int64_t kEnoughUnderWay = 7000;

/// Arrays that a launch may touch.
using Arrays = std::vector<std::pair<void*, size_t>>;

struct Traced {
  rocm::Geometry geometry;
  int64_t bytes_of_thread;  // that it waits for at once
  uint32_t block = 0;
  uint32_t fewest = 1024;  // bytes of an access of a wave
};

/// Bytes that one block of a kernel moves by vector instructions, each of which uses all lanes and 16 bytes of each (or what
/// makes `fewest`), or touches nothing. Enough bytes are under way, and LDS has no bank conflicts.
template <class Parameters>
uint64_t bytes_of_block(int device, const rocm::Image& image, const std::string& kernel, const Traced& traced,
                        const Parameters& parameters, const Arrays& arrays) {
  const rocm::Geometry& g = traced.geometry;
  const rocm::Image::Code& code = image.code[device];
  const auto object = emulator::CodeObject::load({reinterpret_cast<const uint8_t*>(code.begin), size_t(code.end - code.begin)});
  emulator::Device machine(object->architecture());
  for (const auto& [address, bytes] : arrays) machine.map(address, bytes);
  emulator::Arguments arguments;
  arguments.add(parameters);
  const emulator::Report report = machine.launch(*object, kernel, arguments,
                                                 {.grid = {unsigned(g.grid[0]), unsigned(g.grid[1]), 1},
                                                  .block = {unsigned(g.block[0]), unsigned(g.block[1]), unsigned(g.block[2])},
                                                  .dynamic_lds_bytes = unsigned(g.shared_bytes),
                                                  .checks = emulator::kTrace | emulator::kBanks,
                                                  .threads = 1,
                                                  .traced_workgroup = traced.block});
  EXPECT_TRUE(report.clean()) << report.text();
  uint64_t bytes = 0;
  for (const emulator::TraceStep& step : report.trace) {
    EXPECT_EQ(step.global_bytes % traced.fewest, 0u) << "not full width";
    bytes += step.global_bytes;
  }
  EXPECT_GT(bytes, 0u);
  EXPECT_GE(bytes_under_way(object->kernel(kernel), g, traced.bytes_of_thread), kEnoughUnderWay);
  for (const emulator::BankUse& use : report.banks)
    EXPECT_EQ(use.cycles, use.conflict_free_cycles) << use.instruction << " " << use.source;
  return bytes;
}

}  // namespace jaxator::testing
