#include "src/flight/codegen/ptxas.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Program.h"
#include "src/flight/codegen/descriptor.h"

namespace jaxator::flight {

using namespace llvm;

namespace {

/// The number before `unit` in a line.
std::optional<int64_t> number_before(StringRef line, StringRef unit) {
  const size_t end = line.find(unit);
  if (end == StringRef::npos) return std::nullopt;
  const StringRef words = line.take_front(end).rtrim();
  int64_t value;
  if (words.substr(words.find_last_of(" ,\t") + 1).getAsInteger(10, value)) return std::nullopt;
  return value;
}

std::string read_all(int descriptor) {
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(descriptor, part, sizeof part)) != 0;) {
    if (n > 0) text.append(part, size_t(n));
    if (n < 0 && errno != EINTR) break;
  }
  return text;
}

/// Becomes ptxas, which ends with the process that asks.
[[noreturn]] void become(const std::string& program, ArrayRef<const char*> arguments, pid_t asker, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == asker && dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0)
    execv(program.c_str(), const_cast<char* const*>(arguments.data()));
  _exit(127);
}

}  // namespace

StringMap<Needs> read_ptxas(StringRef text) {
  StringMap<Needs> kernels;
  Needs* kernel = nullptr;
  while (!text.empty()) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    // "Compiling entry function 'softmax_rows' for 'sm_90a'"
    if (const size_t at = line.find("entry function '"); at != StringRef::npos)
      kernel = &kernels[line.substr(at).split('\'').second.split('\'').first];
    if (kernel == nullptr) continue;
    // "8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads"
    if (const auto bytes = number_before(line, " bytes stack frame")) kernel->scratch_bytes = *bytes;
    if (const auto bytes = number_before(line, " bytes spill stores")) kernel->spills = *bytes / 4;
    if (const auto count = number_before(line, " registers")) kernel->registers = *count;
  }
  return kernels;
}

Expected<StringMap<Needs>> ask_ptxas(StringRef ptx, StringRef architecture) {
  auto program = sys::findProgramByName("ptxas");
  if (!program) program = sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  if (!program) return StringMap<Needs>();
  const Descriptor input{memfd_create("ptx", 0)};
  int ends[2] = {-1, -1};
  if (input.number < 0 || !write_all(input.number, {ptx.data(), ptx.size()}) || pipe2(ends, O_CLOEXEC) != 0)
    return createStringError("a file in memory: " + Twine(std::strerror(errno)));
  const Descriptor from{ends[0]};
  Descriptor to{ends[1]};
  const std::string of = ("-arch=" + architecture).str(), path = input.path();
  const char* arguments[] = {"ptxas", "-v", of.c_str(), "-o", "/dev/null", path.c_str(), nullptr};
  const pid_t asker = getpid(), child = fork();
  if (child == 0) become(*program, arguments, asker, to.number);
  to.close();
  if (child < 0) return createStringError("ptxas cannot be started: " + Twine(std::strerror(errno)));
  const std::string said = read_all(from.number);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return createStringError("ptxas: " + StringRef(said).trim());
  return read_ptxas(said);
}

}  // namespace jaxator::flight
