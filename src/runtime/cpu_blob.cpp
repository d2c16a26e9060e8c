#include "src/runtime/cpu_blob.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <tuple>

#include "jaxator/cpu.h"
#include "jaxator/types.h"
#include "src/numeric/denormals.h"
#include "src/tile/cpu/row_tasks.h"

namespace jaxator {
namespace {

/// Both caches, keyed by contents. Reading is shared: every execution looks here, loading happens once.
struct Cache {
  std::shared_mutex mutex;
  std::map<std::string, void*, std::less<>> objects;
  std::map<std::tuple<std::string, std::string>, CpuKernel, std::less<>> kernels;  // by hash and name
};

Cache& cache() {
  static auto* cache = new Cache;  // outlives every thread that may still run a kernel when the process ends
  return *cache;
}

[[noreturn]] void fail(const std::string& what) { throw Error("blob: " + what); }

/// A file in memory that closes itself.
struct MemoryFile {
  const int descriptor = memfd_create("jaxator-kernel", MFD_CLOEXEC);

  explicit MemoryFile(std::string_view bytes) {
    if (descriptor < 0) fail(std::string("memfd_create: ") + std::strerror(errno));
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        const int reason = errno;
        close(descriptor);
        fail(std::string("writing to memory: ") + std::strerror(reason));
      }
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  ~MemoryFile() { close(descriptor); }
};

/// A path of the file that no file had before. The loader takes two files of one path for the same, and numbers of descriptors
/// come again; so the count of files is spelled in binary, by the number of slashes between parts that mean nothing.
std::string unique_path(int descriptor, uint64_t count) {
  std::string path = "/proc/self/fd/";
  for (; count > 0; count /= 2) path += count % 2 ? ".//" : "./";
  return path + std::to_string(descriptor);
}

void* open_object(const std::string& hash, std::string_view bytes) {
  void*& object = cache().objects[hash];
  if (object != nullptr) return object;
  try {
    check_shared_object(bytes);
    const MemoryFile file(bytes);
    static uint64_t count = 0;
    object = dlopen(unique_path(file.descriptor, ++count).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) fail(std::string("the loader refuses the shared object: ") + dlerror());
    return object;
  } catch (...) {
    cache().objects.erase(hash);
    throw;
  }
}

}  // namespace

void check_shared_object(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    fail("the " + std::to_string(bytes.size()) + " bytes are no ELF file: must be a shared object for x86-64");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    fail("an ELF file for machine " + std::to_string(header.e_machine) + ": must be for x86-64 (62)");
  if (header.e_type != ET_DYN) fail("an ELF file of type " + std::to_string(header.e_type) + ": must be a shared object (3)");
  const auto inside = [&](uint64_t offset, uint64_t size) { return offset <= bytes.size() && size <= bytes.size() - offset; };
  if (header.e_phentsize != sizeof(Elf64_Phdr) || !inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))
    fail("a damaged ELF file: its program headers lie outside of its " + std::to_string(bytes.size()) + " bytes");
  for (int i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!inside(segment.p_offset, segment.p_filesz))
      fail("a damaged ELF file: segment " + std::to_string(i) + " lies outside of its " + std::to_string(bytes.size()) +
           " bytes");
  }
}

CpuKernel find_cpu_kernel(std::string_view hash, std::string_view name) {
  Cache& c = cache();
  std::shared_lock lock(c.mutex);
  const auto it = c.kernels.find(std::tuple(hash, name));
  return it == c.kernels.end() ? nullptr : it->second;
}

/// A shared object that says in `const char jaxator_isa[]` what it was compiled for is refused where this machine cannot run it;
/// a program may have been exported on another one.
void check_instruction_set(void* object) {
  const auto* needed = static_cast<const char*>(dlsym(object, "jaxator_isa"));
  if (needed == nullptr) return;
  std::string supported;
  for (const CpuIsa isa : cpu_supported()) {
    if (std::strcmp(needed, name_of(isa)) == 0) return;
    supported += std::string(supported.empty() ? "" : ", ") + name_of(isa);
  }
  throw UnsupportedError("blob: compiled for " + std::string(needed) + ": this machine runs " + supported);
}

CpuKernel load_cpu_kernel(std::string_view hash, std::string_view bytes, const std::string& name) {
  Cache& c = cache();
  std::unique_lock lock(c.mutex);
  void* object = open_object(std::string(hash), bytes);
  check_instruction_set(object);
  const auto kernel = reinterpret_cast<CpuKernel>(dlsym(object, name.c_str()));
  if (kernel == nullptr) fail("the shared object has no function " + name + " (it must be extern \"C\" and visible)");
  c.kernels.emplace(std::tuple(hash, name), kernel);
  return kernel;
}

void run_cpu_kernel(CpuKernel kernel, const char* name, void* const* arguments, const int64_t (&grid)[3], Executor& executor,
                    const CpuResult& largest) {
  const int64_t blocks = grid[0] * grid[1] * grid[2];
  // Handing out a task costs about 0.1 us: many small blocks share one. Enough tasks are left to keep threads evenly busy.
  constexpr int64_t kMostTasks = 512;
  // Results of this size come in fresh memory (src/ffi/call.cpp), of which a task should have pages of its own.
  constexpr int64_t kFreshBytes = 16 << 20;
  constexpr int64_t kPagesPerThread = 4;  // less would leave threads idle at the end
  static const int64_t threads = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const bool by_pages = largest.bytes >= std::max(kFreshBytes, kPagesPerThread * threads * kHugePage);
  const RowTasks tasks(largest.data, largest.bytes / blocks, blocks, (blocks + kMostTasks - 1) / kMostTasks, by_pages);
  std::mutex mutex;
  std::string thrown;
  auto body = [&](int64_t task, int64_t) {
    const numeric::KeepDenormals keep;
    try {
      const RowRange mine = tasks.rows_of(task);
      for (int64_t i = mine.begin; i < mine.end; i++) {
        const int64_t block[3] = {i % grid[0], i / grid[0] % grid[1], i / grid[0] / grid[1]};
        kernel(arguments, grid, block);
      }
    } catch (const std::exception& error) {
      std::lock_guard lock(mutex);
      thrown = error.what();
    } catch (...) {
      std::lock_guard lock(mutex);
      thrown = "an exception";
    }
  };
  executor.parallel_for(tasks.count(), tasks.count(), body);
  if (!thrown.empty()) throw Error("kernel " + std::string(name) + " threw: " + thrown);
}

}  // namespace jaxator
