#include "emulator/src/object/disassembly.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace jaxator::emulator {
namespace {

/// Enough for data between functions; more crashes mean that this is no code.
constexpr int kMaxCrashes = 64;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() { close(); }
  File(const File&) = delete;
  int get() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

[[noreturn]] void fail_with_errno(const std::string& what, int error) {
  fail("the disassembler process: ", what, ": ", std::string(strerror(error)));
}

/// Beside the library that this code is in.
std::string helper_path() {
  Dl_info info;
  std::string path = "jaxator-disassemble";
  if (dladdr(reinterpret_cast<const void*>(&helper_path), &info) == 0 || info.dli_fname == nullptr) return path;
  const std::string_view library = info.dli_fname;
  const size_t slash = library.rfind('/');
  return slash == library.npos ? "./" + path : std::string(library.substr(0, slash + 1)) + path;
}

void write_all(int descriptor, std::span<const u8> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno("writing the code", errno);
    done += static_cast<size_t>(count);
  }
  lseek(descriptor, 0, SEEK_SET);
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with_errno("reading its output", errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

struct Result {
  std::string output;
  int exit_status;  // or -1
};

/// Runs the helper on the file from `offset` on.
Result run(const std::string& helper, Architecture architecture, const File& code, u32 offset) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail_with_errno("pipe", errno);
  File output(ends[0]), input(ends[1]);
  lseek(code.get(), offset, SEEK_SET);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, code.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
  std::string start = std::to_string(offset), architecture_name = name(architecture), path = helper;
  char* arguments[] = {path.data(), architecture_name.data(), start.data(), nullptr};
  char* environment[] = {nullptr};
  pid_t process = 0;
  const int error = posix_spawn(&process, helper.c_str(), &actions, nullptr, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail_with_errno("starting " + helper, error);

  input.close();
  Result result{read_all(output.get()), -1};
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return result;  // the host collects all children itself
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  return result;
}

/// Lines "offset size text". Returns where the next instruction would begin.
u32 parse(std::string_view output, u32 next, std::vector<DisassembledLine>& lines) {
  while (!output.empty()) {
    const size_t end = output.find('\n');
    if (end == output.npos) fail("the disassembler process: its output ends within a line");
    const std::string_view line = output.substr(0, end);
    u32 offset = 0, size = 0;
    const char* last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, offset);
    const auto second = first.ptr < last ? std::from_chars(first.ptr + 1, last, size) : first;
    if (first.ec != std::errc() || second.ec != std::errc() || second.ptr == last || offset < next || size == 0)
      fail("the disassembler process: its output has the line \"", line, "\"");
    lines.push_back({offset, size, std::string(second.ptr + 1, last)});
    next = offset + size;
    output.remove_prefix(end + 1);
  }
  return next;
}

}  // namespace

std::vector<DisassembledLine> disassemble(Architecture architecture, std::span<const u8> code) {
  const std::string helper = helper_path();
  File file(memfd_create("code", MFD_CLOEXEC));
  if (file.get() < 0) fail_with_errno("memfd_create", errno);
  write_all(file.get(), code);

  std::vector<DisassembledLine> lines;
  u32 next = 0;
  for (int crashes = 0; next < code.size(); crashes++) {
    const Result result = run(helper, architecture, file, next);
    next = parse(result.output, next, lines);
    if (result.exit_status == 0) return lines;
    if (result.exit_status != kDisassemblerCrashed) fail("the disassembler process ended with status ", result.exit_status);
    if (crashes == kMaxCrashes) fail("LLVM's disassembler crashed at ", kMaxCrashes, " words: this is no code");
    next += 4;  // past the word it crashed at
  }
  return lines;
}

}  // namespace jaxator::emulator
