/// @file
/// jaxator-disassemble ARCHITECTURE OFFSET: writes "offset size text" for each instruction of standard input, the first byte of
/// which has the offset given. Words that are no instruction are passed over. If LLVM crashes, what was found until then is
/// written and the exit status tells; the caller goes on behind the word.
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kCrashed = 3;            // kDisassemblerCrashed of src/object/disassembly.h
constexpr unsigned kTimeLimit_s = 20;  // of a code object; then SIGALRM ends the process

char g_output[1 << 16];
volatile size_t g_used = 0;

void flush() {
  for (size_t done = 0; done < g_used;) {
    const ssize_t count = write(STDOUT_FILENO, g_output + done, g_used - done);
    if (count <= 0) _exit(1);
    done += static_cast<size_t>(count);
  }
  g_used = 0;
}

void crashed(int) {
  flush();
  _exit(kCrashed);
}

void put(uint64_t offset, size_t size, const char* text) {
  if (sizeof g_output - g_used < 1024) flush();
  char line[1024];
  const int length = snprintf(line, sizeof line, "%llu %zu %s\n", static_cast<unsigned long long>(offset), size, text);
  if (length < 0 || static_cast<size_t>(length) >= sizeof line) return;
  memcpy(g_output + g_used, line, static_cast<size_t>(length));
  g_used = g_used + static_cast<size_t>(length);
}

/// Tabs become spaces, and runs of spaces one.
void tidy(char* text) {
  char* out = text;
  for (const char* in = text; *in != 0; in++) {
    const char c = *in == '\t' || *in == '\n' ? ' ' : *in;
    if (c != ' ' || (out != text && out[-1] != ' ')) *out++ = c;
  }
  while (out != text && out[-1] == ' ') out--;
  *out = 0;
}

std::vector<uint8_t> read_input() {
  std::vector<uint8_t> bytes;
  uint8_t buffer[65536];
  for (ssize_t count; (count = read(STDIN_FILENO, buffer, sizeof buffer)) > 0;) bytes.insert(bytes.end(), buffer, buffer + count);
  return bytes;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: jaxator-disassemble ARCHITECTURE OFFSET <code\n");
    return 2;
  }
  for (int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) signal(number, crashed);
  alarm(kTimeLimit_s);
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUDisassembler();
  const LLVMDisasmContextRef context = LLVMCreateDisasmCPU("amdgcn-amd-amdhsa", arguments[1], nullptr, 0, nullptr, nullptr);
  if (context == nullptr) return 1;

  std::vector<uint8_t> code = read_input();
  const uint64_t start = strtoull(arguments[2], nullptr, 10);
  char text[768];
  for (size_t at = 0; at + 4 <= code.size();) {
    size_t size = LLVMDisasmInstruction(context, code.data() + at, code.size() - at, start + at, text, sizeof text);
    if (size != 0) {
      tidy(text);
      put(start + at, size, text);
    } else {
      size = 4;
    }
    at += size;
  }
  flush();
  return 0;
}
