#include "src/flight/codegen/link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace jaxator::flight {
namespace {

struct Descriptor {
  int number = -1;
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number); }
};

bool write_all(int descriptor, llvm::ArrayRef<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.drop_front(size_t(written));
  }
  return true;
}

}  // namespace

bool link_shared(llvm::SmallVectorImpl<char>& bytes, bool undefined_allowed, std::string& error) {
  Descriptor object{memfd_create("flight", MFD_CLOEXEC)}, from, to;
  int ends[2] = {-1, -1};
  if (object.number < 0 || !write_all(object.number, bytes) || pipe2(ends, O_CLOEXEC) != 0) {
    error = std::string("a file in memory: ") + std::strerror(errno);
    return false;
  }
  from.number = ends[0], to.number = ends[1];
  // Into a regular file lld would write by way of a temporary one beside it. What goes into a pipe it keeps in memory.
  llvm::SmallVector<char, 0> linked;
  std::thread reader([&] {
    char part[65536];
    for (ssize_t n; (n = read(from.number, part, sizeof part)) != 0;) {
      if (n > 0) linked.append(part, part + n);
      if (n < 0 && errno != EINTR) break;
    }
  });
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const std::string input = object.path(), output = to.path();
  llvm::SmallVector<const char*> arguments = {"ld.lld", "-shared",     "--threads=1", "--build-id=none",
                                              "-O0",    input.c_str(), "-o",          output.c_str()};
  if (!undefined_allowed) arguments.push_back("--no-undefined");
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  const bool done = lld::lldMain(arguments, stream, stream, drivers).retCode == 0;
  to.close();
  reader.join();
  if (!done) {
    error = "the linker: " + messages;
    return false;
  }
  bytes.assign(linked.begin(), linked.end());
  return true;
}

}  // namespace jaxator::flight
