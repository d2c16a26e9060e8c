/// @file
/// A functional emulator of AMD's CDNA3 (gfx942) and CDNA4 (gfx950) that runs compiled kernels on the CPU and reports what
/// hardware would not: races, missing waits, reads of what nobody wrote. It shows nothing about speed. See docs/emulator.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace jaxator::emulator {

/// A request that cannot be met: a code object that is malformed or for another device, arguments that do not fit.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Architecture : uint8_t { gfx942, gfx950 };
const char* name(Architecture architecture);
/// Throws Error for a name that is neither.
Architecture architecture_of(std::string_view name);

/// What a launch looks for, besides the faults that end it.
enum Check : unsigned {
  kWaits = 1,      // a register that is used before the wait for its load; s_nop and M0 hazards
  kRaces = 2,      // accesses to LDS and to global memory that nothing orders
  kBanks = 4,      // cycles that LDS takes
  kPoison = 8,     // values that nobody wrote and that decide something
  kTrace = 16,     // every instruction of one workgroup
  kCoverage = 32,  // which instructions any wave executed
  kAllChecks = kWaits | kRaces | kBanks | kPoison
};

enum class Kind : uint8_t {
  out_of_bounds,  // ends the launch, as do the next four
  unknown_instruction,
  trap,
  no_progress,
  unsupported,  // state that the emulator does not model, such as another rounding mode
  missing_wait,
  hazard,
  lds_race,
  global_race,
  uninitialised,
  mismatched_barrier,
};
const char* name(Kind kind);

/// Something wrong at an instruction. The first occurrence is described, the others are counted.
struct Finding {
  Kind kind;
  std::string message;
  std::string kernel;
  std::string instruction;  // as LLVM prints it
  std::string source;       // "file:line", or "" without line tables
  uint64_t address = 0;     // in the code object
  uint32_t workgroup[3] = {};
  int wave = 0;
  int lane = -1;  // -1: of no lane in particular
  uint64_t count = 1;

  std::string text() const;
};

/// Cycles in which LDS moved data for one instruction of the kernel.
struct BankUse {
  uint64_t address;
  std::string instruction, source;
  uint64_t executions, cycles, conflict_free_cycles;
};

/// The bytes from the first to behind the last one that an instruction touched; empty if it touched none.
struct Span {
  uint64_t begin = 0, end = 0;
};

/// One instruction of one wave, in the order of execution.
struct TraceStep {
  uint32_t address, wave;
  uint32_t lds_cycles = 0;
  uint32_t global_bytes = 0;  // within the range of a buffer
  Span lds, global;
};

/// What the traced workgroup moved by vector memory instructions. Distinct: each byte, or block of 64 bytes, once, however often
/// it was touched.
struct Traffic {
  uint64_t loaded = 0, loaded_distinct = 0, loaded_blocks = 0;
  uint64_t stored = 0, stored_distinct = 0, stored_blocks = 0;
};

struct Report {
  bool completed = false;     // false: a finding ended the launch, memory holds what was written until then
  uint64_t instructions = 0;  // executed, one a wave
  std::vector<Finding> findings;
  std::vector<BankUse> banks;      // kBanks
  std::vector<TraceStep> trace;    // kTrace
  Traffic traffic;                 // kTrace
  std::vector<uint64_t> executed;  // kCoverage: addresses in the code object, in order
  bool clean() const { return completed && findings.empty(); }
  std::string text() const;
};

/// One explicit argument of a kernel, from its metadata.
struct Parameter {
  std::string name, type;  // the metadata's .value_kind
  uint32_t offset = 0, bytes = 0;
};

struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t argument_bytes = 0, lds_bytes = 0, scratch_bytes = 0;  // LDS: static
  uint32_t vector_registers = 0, accumulation_registers = 0, scalar_registers = 0;
  uint32_t vector_spills = 0, scalar_spills = 0;
  uint32_t max_threads = 1024;
  bool dynamic_lds = false;
};

/// A code object (HSACO). It is immutable and may be used by several devices and threads at once.
class CodeObject {
 public:
  /// Throws Error if the image is not a code object for gfx942 or gfx950. The image is copied.
  static std::shared_ptr<const CodeObject> load(std::span<const uint8_t> image);
  static std::shared_ptr<const CodeObject> open(const std::string& path);
  ~CodeObject();
  CodeObject(const CodeObject&) = delete;

  Architecture architecture() const;
  std::vector<KernelInfo> kernels() const;
  /// Throws Error if there is no such kernel.
  const KernelInfo& kernel(std::string_view name) const;
  /// Mnemonics of the kernel that the emulator has not implemented, in order of appearance.
  std::vector<std::string> unknown_instructions(std::string_view kernel) const;
  /// "address text" of each instruction, one a line.
  std::string disassembly(std::string_view kernel) const;

  struct Implementation;
  const Implementation& implementation() const { return *implementation_; }

 private:
  explicit CodeObject(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t& operator[](int axis) { return axis == 0 ? x : axis == 1 ? y : z; }
  uint32_t operator[](int axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
  uint64_t count() const { return uint64_t{x} * y * z; }
};

struct LaunchOptions {
  Extent grid{};   // in workgroups
  Extent block{};  // in threads
  uint32_t dynamic_lds_bytes = 0;
  unsigned checks = 0;
  uint64_t seed = 0;        // of the order of waves. One thread and one seed: one order.
  int threads = 0;          // that run workgroups; 0: as many as the machine has
  double time_limit_s = 0;  // 0: none
  uint32_t traced_workgroup = 0;
  /// A part of the grid, in the order of its axes (x first), for one whose whole would take too long. 0 workgroups: to its end.
  uint64_t first_workgroup = 0, workgroups = 0;
};

/// A device and its memory. Device addresses are host addresses: what a kernel may touch is what was allocated or mapped here.
/// All members may be called from several threads.
class Device {
 public:
  explicit Device(Architecture architecture);
  ~Device();
  Device(const Device&) = delete;

  Architecture architecture() const;

  /// Memory that takes room only where it was touched, so sizes beyond the machine's are fine. Uninitialised for kPoison until
  /// written by a kernel or declared by `initialise`.
  void* allocate(size_t bytes, std::string name = "");
  /// Throws Error for an address that `allocate` did not give.
  void free(void* address);

  /// Lets kernels use host memory. `initialised` false: reads before writes are reported.
  void map(void* address, size_t bytes, std::string name = "", bool initialised = true);
  void unmap(void* address);
  /// The host wrote these bytes. Throws Error if they are not within one allocation.
  void initialise(const void* address, size_t bytes);
  /// How many of these bytes hold something undefined after launches with kPoison.
  size_t uninitialised_bytes(const void* address, size_t bytes) const;

  struct Range {
    uint64_t begin, end;
    std::string name;
  };
  /// What kernels may touch, by address.
  std::vector<Range> memory() const;
  /// The parts of these bytes that hold something defined, as the checks know.
  std::vector<Span> initialised(const void* address, size_t bytes) const;

  /// Runs a kernel to its end. `arguments` is the block of explicit arguments as the kernel's metadata lays them out. Throws
  /// Error for what cannot be launched; what goes wrong in the kernel is in the report.
  Report launch(const CodeObject& code, std::string_view kernel, std::span<const uint8_t> arguments,
                const LaunchOptions& options);

  struct Implementation;

 private:
  std::unique_ptr<Implementation> implementation_;
};

/// Lays arguments out one after another, each at its natural alignment.
class Arguments {
 public:
  template <class T> Arguments& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value, alignof(T));
    return *this;
  }
  void append(const void* value, size_t bytes, size_t alignment);
  operator std::span<const uint8_t>() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace jaxator::emulator
