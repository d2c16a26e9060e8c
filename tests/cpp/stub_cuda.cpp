#include "tests/cpp/stub_cuda.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "src/runtime/cuda/driver.h"

using jaxator::cuda::LaunchConfig;
using jaxator::cuda::TensorMap;
using namespace jaxator::testing;

namespace {

struct Function {
  std::string entry;
  std::vector<size_t> parameter_bytes;
  int max_threads = 1024, shared_bytes = 0;
  std::array<int, 3> cluster{};
};

using Module = std::map<std::string, Function>;

struct Failure {
  int result, times;
  std::string log;
};

struct State {
  std::mutex mutex;
  std::deque<Module> modules;  // never move
  StubRecord record;
  std::map<std::string, Failure> failures;
};

State& state() {
  static auto* state = new State;
  return *state;
}

/// What a call shall return without doing anything; 0: nothing was ordered. The state is locked.
int ordered(const char* function, std::string* log = nullptr) {
  const auto it = state().failures.find(function);
  if (it == state().failures.end() || it->second.times == 0) return 0;
  it->second.times--;
  if (log != nullptr) *log = it->second.log;
  return it->second.result;
}

// ---- PTX -------------------------------------------------------------------------------------------------------------------

std::string without_comments(const std::string& ptx) {
  std::string text;
  for (size_t i = 0; i < ptx.size(); i++) {
    if (ptx.compare(i, 2, "//") == 0)
      while (i + 1 < ptx.size() && ptx[i] != '\n') i++;
    text += ptx[i];
  }
  return text;
}

/// Bytes of one ".param .u64 name" or ".param .align 8 .b8 name[56]".
size_t bytes_of(const std::string& parameter) {
  std::istringstream words(parameter);
  size_t bytes = 0;
  for (std::string word; words >> word;) {
    if (word.size() > 2 && word[0] == '.' && std::string("busf").find(word[1]) != std::string::npos)
      if (const size_t bits = std::strtoul(word.c_str() + 2, nullptr, 10)) bytes = bits / 8;
    if (const size_t at = word.find('['); at != std::string::npos) bytes *= std::strtoul(word.c_str() + at + 1, nullptr, 10);
  }
  return bytes;
}

/// Up to three numbers after a directive.
std::array<int, 3> numbers_after(const std::string& text, const std::string& directive, int missing) {
  std::array<int, 3> numbers{missing, missing, missing};
  const size_t at = text.find(directive);
  if (at == std::string::npos) return numbers;
  std::istringstream words(text.substr(at + directive.size()));
  char comma = 0;
  for (int& number : numbers)
    if (!(words >> number) || !(words >> comma) || comma != ',') break;
  return numbers;
}

Module kernels_of(const std::string& ptx) {
  const std::string text = without_comments(ptx);
  Module module;
  for (size_t at = text.find(".entry"); at != std::string::npos; at = text.find(".entry", at + 1)) {
    const size_t name = text.find_first_not_of(" \t\n", at + 6), after = text.find_first_of(" \t\n({", name);
    const size_t body = text.find('{', after), open = text.find('(', after);
    size_t directives = after;
    Function function;
    function.entry = text.substr(name, after - name);
    if (open < body) {
      const size_t close = directives = text.find(')', open);
      std::istringstream parameters(text.substr(open + 1, close - open - 1));
      for (std::string one; std::getline(parameters, one, ',');)
        if (const size_t bytes = bytes_of(one)) function.parameter_bytes.push_back(bytes);
    }
    const std::string header = text.substr(directives, body - directives);
    for (const char* directive : {".maxntid", ".reqntid"})
      if (header.find(directive) != std::string::npos) {
        const std::array<int, 3> threads = numbers_after(header, directive, 1);
        function.max_threads = threads[0] * threads[1] * threads[2];
      }
    function.cluster = numbers_after(header, ".reqnctapercluster", 0);
    if (function.cluster[0] > 0)
      for (int& extent : function.cluster) extent = std::max(extent, 1);
    module[function.entry] = function;
  }
  return module;
}

}  // namespace

namespace jaxator::testing {

StubRecord stub_record() {
  std::lock_guard lock(state().mutex);
  return state().record;
}

void stub_reset() {
  std::lock_guard lock(state().mutex);
  state().record = {};
  state().failures.clear();
}

void stub_fail(const std::string& function, int result, int times, const std::string& log) {
  std::lock_guard lock(state().mutex);
  state().failures[function] = {result, times, log};
}

}  // namespace jaxator::testing

// ---- the driver's functions ------------------------------------------------------------------------------------------------

extern "C" {

int cuGetErrorName(int result, const char** name) {
  static const std::map<int, const char*> names{{kStubInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                {kStubInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
                                                {kStubNoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                {kStubInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
                                                {kStubNotFound, "CUDA_ERROR_NOT_FOUND"}};
  const auto it = names.find(result);
  *name = it == names.end() ? "CUDA_ERROR_OF_A_TEST" : it->second;
  return 0;
}

int cuGetErrorString(int, const char** text) {
  *text = "the stub's text";
  return 0;
}

int cuInit(unsigned) {
  std::lock_guard lock(state().mutex);
  return ordered("cuInit");
}

int cuDeviceGetCount(int* count) {
  *count = kStubDevices;
  return 0;
}

int cuDeviceGet(int* handle, int ordinal) {
  *handle = ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int capacity, int) {
  std::snprintf(name, static_cast<size_t>(capacity), "stub of an H200");
  return 0;
}

/// Takes its time, so that threads which ask together overtake each other.
int cuDeviceGetAttribute(int* value, int attribute, int) {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
  using namespace jaxator::cuda;
  const std::map<int, int> values{{kMultiprocessorCount, kStubMultiprocessors},
                                  {kComputeCapabilityMajor, 9},
                                  {kComputeCapabilityMinor, 0},
                                  {kMaxSharedBytesPerBlockOptin, kStubMostSharedBytes}};
  const auto it = values.find(attribute);
  if (it == values.end()) return kStubInvalidValue;
  *value = it->second;
  return 0;
}

int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  std::lock_guard lock(state().mutex);
  const auto* text = static_cast<const char*>(image);
  const bool binary = std::memcmp(text,
                                  "\x7f"
                                  "ELF",
                                  4) == 0;
  std::string log;
  int result = ordered("cuModuleLoadDataEx", &log);
  if (result == 0) result = binary ? kStubNoBinary : std::strstr(text, ".version") == nullptr ? kStubInvalidImage : 0;
  state().record.loads.push_back({binary ? "cubin" : text, result});
  for (unsigned i = 0; i < count; i++)
    if (options[i] == jaxator::cuda::kErrorLogBuffer) std::strcpy(static_cast<char*>(values[i]), log.c_str());
  if (result == 0) *module = &state().modules.emplace_back(kernels_of(text));
  return result;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  std::lock_guard lock(state().mutex);
  state().record.lookups.push_back(name);
  if (const int result = ordered("cuModuleGetFunction")) return result;
  auto& functions = *static_cast<Module*>(module);
  const auto it = functions.find(name);
  if (it == functions.end()) return kStubNotFound;
  *function = &it->second;
  return 0;
}

int cuFuncGetAttribute(int* value, int attribute, void* function) {
  std::lock_guard lock(state().mutex);
  if (const int result = ordered("cuFuncGetAttribute")) return result;
  const auto& f = *static_cast<Function*>(function);
  using namespace jaxator::cuda;
  if (attribute == kMaxThreadsPerBlock)
    *value = f.max_threads;
  else if (attribute >= kRequiredClusterWidth && attribute < kRequiredClusterWidth + 3)
    *value = f.cluster[static_cast<size_t>(attribute - kRequiredClusterWidth)];
  else
    return kStubInvalidValue;
  return 0;
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
  std::lock_guard lock(state().mutex);
  auto& f = *static_cast<Function*>(function);
  state().record.attributes.push_back({f.entry, attribute, value});
  if (const int result = ordered("cuFuncSetAttribute")) return result;
  if (attribute != jaxator::cuda::kMaxDynamicSharedBytes || value > kStubMostSharedBytes) return kStubInvalidValue;
  f.shared_bytes = value;
  return 0;
}

int cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
  const auto& f = *static_cast<Function*>(function);
  if (index >= f.parameter_bytes.size()) return kStubInvalidValue;
  *offset = 0;
  *bytes = f.parameter_bytes[index];
  return 0;
}

/// Refuses what a device would: more threads or shared memory than the function was loaded for, another cluster.
int cuMemsetD32Async(unsigned long long address, unsigned value, size_t words, void*) {
  std::lock_guard lock(state().mutex);
  if (const int result = ordered("cuMemsetD32Async")) return result;
  state().record.fills.push_back({address, value, words});
  return 0;
}

int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** arguments, void** extra) {
  std::lock_guard lock(state().mutex);
  if (const int result = ordered("cuLaunchKernelEx")) return result;
  const auto& f = *static_cast<Function*>(function);
  StubLaunch launch{.entry = f.entry,
                    .grid = {config->grid[0], config->grid[1], config->grid[2]},
                    .block = {config->block[0], config->block[1], config->block[2]},
                    .cluster = {1, 1, 1},
                    .shared_bytes = config->shared_bytes,
                    .stream = config->stream,
                    .arguments = {}};
  for (unsigned i = 0; i < config->attribute_count; i++)
    if (config->attributes[i].id == jaxator::cuda::kClusterDimension)
      std::copy_n(config->attributes[i].value, 3, launch.cluster.begin());
  unsigned threads = 1;
  for (size_t i = 0; i < 3; i++) {
    threads *= launch.block[i];
    if (launch.grid[i] == 0 || launch.cluster[i] == 0 || launch.grid[i] % launch.cluster[i] != 0) return kStubInvalidValue;
  }
  if (threads == 0 || threads > unsigned(f.max_threads) || int(launch.shared_bytes) > f.shared_bytes || extra != nullptr)
    return kStubInvalidValue;
  for (size_t i = 0; i < f.parameter_bytes.size(); i++)
    launch.arguments.emplace_back(static_cast<const char*>(arguments[i]), f.parameter_bytes[i]);
  state().record.launches.push_back(launch);
  return 0;
}

/// The map's bytes are the number of the record's entry, so that a launch's argument tells which map it got.
int cuTensorMapEncodeTiled(TensorMap* map, int type, unsigned rank, void* address, const uint64_t* sizes, const uint64_t* strides,
                           const unsigned* box, const unsigned* steps, int interleave, int swizzle, int promotion, int fill) {
  std::lock_guard lock(state().mutex);
  if (const int result = ordered("cuTensorMapEncodeTiled")) return result;
  if (rank < 1 || rank > 5) return kStubInvalidValue;
  for (unsigned i = 0; i < rank; i++)
    if (sizes[i] == 0 || sizes[i] > uint64_t{1} << 32 || box[i] == 0 || box[i] > 256) return kStubInvalidValue;
  *map = TensorMap{.words = {state().record.maps.size()}};
  state().record.maps.push_back({.type = type,
                                 .address = address,
                                 .sizes = {sizes, sizes + rank},
                                 .strides = {strides, strides + rank - 1},
                                 .box = {box, box + rank},
                                 .steps = {steps, steps + rank},
                                 .interleave = interleave,
                                 .swizzle = swizzle,
                                 .promotion = promotion,
                                 .fill = fill});
  return 0;
}

}  // extern "C"
