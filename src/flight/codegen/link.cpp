#include "src/flight/codegen/link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"
#include "src/flight/codegen/descriptor.h"

LLD_HAS_DRIVER(elf)

namespace jaxator::flight {

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
