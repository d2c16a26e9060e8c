#include "emulator/src/checks/coverage.h"
#include "emulator/src/checks/order.h"
#include "emulator/src/machine/launch.h"

namespace jaxator::emulator {

struct Device::Implementation {
  Architecture architecture;
  mutable std::mutex mutex;
  MemoryMap memory;

  void add(std::shared_ptr<Allocation> allocation, u64 address, size_t bytes, std::string name, bool initialised) {
    if (bytes == 0) fail("memory ", name, " of 0 bytes");
    allocation->begin = address, allocation->end = address + bytes;
    allocation->name = name.empty() ? "memory at " + hex(address) : std::move(name);
    allocation->poison = SparseMemory(bytes);
    allocation->background = initialised ? 0 : 0xFF;
    allocation->may_hold_poison = !initialised;
    std::lock_guard lock(mutex);
    memory.add(std::move(allocation));
  }
  Allocation& find(const void* address, size_t bytes) const {
    Allocation* allocation = memory.find(reinterpret_cast<u64>(address), bytes);
    if (allocation == nullptr)
      fail(bytes, " bytes at ", hex(reinterpret_cast<u64>(address)), " are not within one allocation of the device");
    return *allocation;
  }
};

Device::Device(Architecture architecture) : implementation_(std::make_unique<Implementation>()) {
  implementation_->architecture = architecture;
}
Device::~Device() = default;

Architecture Device::architecture() const { return implementation_->architecture; }

void* Device::allocate(size_t bytes, std::string name) {
  auto allocation = std::make_shared<Allocation>();
  allocation->owned = SparseMemory(bytes);
  void* address = allocation->owned.data();
  implementation_->add(std::move(allocation), reinterpret_cast<u64>(address), bytes, std::move(name), false);
  return address;
}

void Device::free(void* address) {
  std::lock_guard lock(implementation_->mutex);
  if (implementation_->find(address, 1).owned.data() != address)
    fail("address ", hex(reinterpret_cast<u64>(address)), " to free was not given by allocate");
  implementation_->memory.remove(reinterpret_cast<u64>(address));
}

void Device::map(void* address, size_t bytes, std::string name, bool initialised) {
  implementation_->add(std::make_shared<Allocation>(), reinterpret_cast<u64>(address), bytes, std::move(name), initialised);
}

void Device::unmap(void* address) {
  std::lock_guard lock(implementation_->mutex);
  implementation_->memory.remove(reinterpret_cast<u64>(address));
}

void Device::initialise(const void* address, size_t bytes) {
  std::lock_guard lock(implementation_->mutex);
  Allocation& allocation = implementation_->find(address, bytes);
  if (!allocation.may_hold_poison) return;
  const u64 begin = reinterpret_cast<u64>(address);
  if (begin == allocation.begin && bytes == allocation.size()) {
    allocation.poison = SparseMemory(bytes);
    allocation.background = 0;
    allocation.may_hold_poison = false;
    return;
  }
  static constexpr u8 kNone[4096] = {};
  for (size_t done = 0; done < bytes; done += sizeof kNone)
    write_poison(allocation, begin + done, std::min(sizeof kNone, bytes - done), kNone);
}

size_t Device::uninitialised_bytes(const void* address, size_t bytes) const {
  std::lock_guard lock(implementation_->mutex);
  const Allocation& allocation = implementation_->find(address, bytes);
  size_t count = 0;
  u8 marks[4096];
  for (size_t done = 0; done < bytes; done += sizeof marks) {
    const size_t size = std::min(sizeof marks, bytes - done);
    read_poison(allocation, reinterpret_cast<u64>(address) + done, size, marks);
    for (size_t k = 0; k < size; k++) count += marks[k] != 0;
  }
  return count;
}

std::vector<Device::Range> Device::memory() const {
  std::lock_guard lock(implementation_->mutex);
  std::vector<Range> ranges;
  for (const auto& allocation : implementation_->memory.all())
    ranges.push_back({allocation->begin, allocation->end, allocation->name});
  return ranges;
}

std::vector<Span> Device::initialised(const void* address, size_t bytes) const {
  std::lock_guard lock(implementation_->mutex);
  const Allocation& allocation = implementation_->find(address, bytes);
  const u64 begin = reinterpret_cast<u64>(address), end = begin + bytes;
  if (!allocation.may_hold_poison) return {{begin, end}};
  std::vector<Span> spans;
  u8 marks[4096];
  for (u64 at = begin; at < end; at += sizeof marks) {
    const u64 size = std::min<u64>(sizeof marks, end - at);
    read_poison(allocation, at, size, marks);
    for (u64 k = 0; k < size; k++) {
      if (marks[k] != 0) continue;
      if (spans.empty() || spans.back().end != at + k) spans.push_back({at + k, at + k});
      spans.back().end++;
    }
  }
  return spans;
}

namespace {

/// The packet by which a queue is asked for the launch; kernels read sizes from it.
struct alignas(64) DispatchPacket {
  u16 header, setup, block[3], reserved0;
  u32 threads[3], scratch_bytes, lds_bytes;
  u64 kernel, arguments, reserved2, signal;
};
static_assert(sizeof(DispatchPacket) == 64);

std::shared_ptr<Allocation> readable(u64 address, u64 bytes, const char* name) {
  auto allocation = std::make_shared<Allocation>();
  allocation->begin = address, allocation->end = address + bytes, allocation->name = name;
  allocation->poison = SparseMemory(bytes);
  return allocation;
}

}  // namespace

Report Device::launch(const CodeObject& code, std::string_view kernel_name, std::span<const uint8_t> arguments,
                      const LaunchOptions& options) {
  const CodeObject::Implementation& object = code.implementation();
  if (object.architecture != implementation_->architecture)
    fail("a code object for ", name(object.architecture), " on a device that is ", name(implementation_->architecture));
  const KernelDescriptor& kernel = object.kernel(kernel_name);
  check_launch(kernel, object.architecture, arguments.size(), options);

  std::vector<u64> block = lay_out_arguments(kernel, arguments, options);
  const u32 lds_bytes = kernel.info.lds_bytes + options.dynamic_lds_bytes;
  DispatchPacket packet{0, 3, {}, 0, {}, kernel.info.scratch_bytes, lds_bytes, 0, reinterpret_cast<u64>(block.data()), 0, 0};
  for (int k = 0; k < 3; k++)
    packet.block[k] = static_cast<u16>(options.block[k]), packet.threads[k] = options.grid[k] * options.block[k];

  Findings findings;
  LaunchState state{object,
                    kernel,
                    options,
                    object.architecture,
                    {},
                    packet.arguments,
                    reinterpret_cast<u64>(&packet),
                    lds_bytes,
                    static_cast<int>((options.block.count() + kLanes - 1) / kLanes),
                    findings};
  {
    std::lock_guard lock(implementation_->mutex);
    state.memory = implementation_->memory;
  }
  state.memory.add(readable(state.arguments, block.size() * 8, "the kernel's arguments"));
  state.memory.add(readable(state.packet, sizeof packet, "the dispatch packet"));
  state.memory.add(readable(reinterpret_cast<u64>(object.base), object.memory_size, "the code object"));
  std::unique_ptr<GlobalOrder> order;
  if (state.checks(kRaces)) order = std::make_unique<GlobalOrder>(state.memory), state.order = order.get();

  std::unique_ptr<Coverage> coverage;
  if (state.checks(kCoverage)) coverage = std::make_unique<Coverage>(object), state.coverage = coverage.get();

  Report report = run_launch(state);
  if (coverage != nullptr) report.executed = coverage->addresses();
  report.findings = findings.take();
  report.banks = findings.take_banks(object);
  report.trace = std::move(findings.trace);
  report.traffic = findings.take_traffic();
  return report;
}

void Arguments::append(const void* value, size_t bytes, size_t alignment) {
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  const u8* from = static_cast<const u8*>(value);
  bytes_.insert(bytes_.end(), from, from + bytes);
}

}  // namespace jaxator::emulator
