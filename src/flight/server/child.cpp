#include "src/flight/server/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "mlir/IR/MLIRContext.h"

// MLIR makes operations with malloc, and does not look at what it gives. The linker sends every call here (--wrap=malloc).
extern "C" void* __real_malloc(size_t size);
extern "C" void* __wrap_malloc(size_t size);

namespace jaxator::flight {

struct Child::Place {
  static constexpr size_t kMostText = 16384;
  char stage[128];
  char frames[kMostText];  // as JSON
};

namespace {

/// Everything or nothing: the other end is gone then.
void write_all(int descriptor, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes = bytes.drop_front(size_t(written));
  }
}

void copy_text(char* to, size_t size, const std::string& text) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

/// Makes the stack as large as it may become, at the price of one page: one that may not grow any more looks like a crash.
int64_t grow_stack() {
  rlimit most{};
  getrlimit(RLIMIT_STACK, &most);
  const int64_t bytes = int64_t(std::min<rlim_t>(most.rlim_cur, 8 << 20)) - (512 << 10);
  if (bytes <= 0) return 0;
  volatile char* end = static_cast<char*>(__builtin_alloca(size_t(bytes)));
  end[0] = 0;
  return bytes;
}

/// An answer takes memory, too.
void lift_memory_limit() {
  rlimit bytes{};
  getrlimit(RLIMIT_AS, &bytes);
  bytes.rlim_cur = bytes.rlim_max;
  setrlimit(RLIMIT_AS, &bytes);
}

/// Of the request that this process is for.
std::function<void()>& out_of_memory() {
  static std::function<void()> handler;
  return handler;
}

void give_up_for_memory() {
  if (!out_of_memory()) return;
  lift_memory_limit();
  out_of_memory()();
}

}  // namespace

Child::Child(Header header, mlir::MLIRContext& context, int64_t base_bytes) : header_(std::move(header)), start_(Clock::now()) {
  deadline_ =
      start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(header_.request.options.time_limit_s));
  void* shared = mmap(nullptr, sizeof(Place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2];
  if (shared == MAP_FAILED) return;
  place_ = static_cast<Place*>(shared);
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    work(context, base_bytes, ends[1]);
  }
  close(ends[1]);
  descriptor_ = ends[0];
}

Child::~Child() {
  if (descriptor_ >= 0) close(descriptor_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (place_ != nullptr) munmap(place_, sizeof(Place));
}

void Child::limit(int64_t base_bytes) const {
  base_bytes += grow_stack();
  rlimit bytes{}, seconds{}, core{};
  getrlimit(RLIMIT_AS, &bytes);
  bytes.rlim_cur = std::min<rlim_t>(bytes.rlim_max, rlim_t(base_bytes + (header_.request.options.memory_limit_mb << 20)));
  setrlimit(RLIMIT_AS, &bytes);
  // The supervisor watches the clock; this is for one that has gone.
  getrlimit(RLIMIT_CPU, &seconds);
  seconds.rlim_cur = std::min<rlim_t>(seconds.rlim_max, rlim_t(std::ceil(header_.request.options.time_limit_s)) + 1);
  setrlimit(RLIMIT_CPU, &seconds);
  setrlimit(RLIMIT_CORE, &core);
}

void Child::work(mlir::MLIRContext& context, int64_t base_bytes, int out) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int descriptor = 0; descriptor < 3; descriptor++) dup2(null, descriptor);
  const auto fail = [this, out](const Failure& failure) {
    write_all(out, answer(header_.id, failure));
    _exit(0);
  };
  set_fatal_handler([this, fail](Failure failure) {
    if (failure.kind == std::string("memory")) {
      lift_memory_limit();
      failure = this->failure("memory", "");
    }
    fail(failure);
  });
  out_of_memory() = [this, fail] { fail(failure("memory", "")); };
  std::set_new_handler(give_up_for_memory);
  limit(base_bytes);
  const Progress progress = [this](const std::string& stage, const std::vector<Frame>& frames) {
    copy_text(place_->stage, sizeof place_->stage, stage);
    const std::string text = llvm::formatv("{0}", flight::to_json(frames)).str();
    if (text.size() < Place::kMostText) copy_text(place_->frames, Place::kMostText, text);
  };
  Code code;
  if (const auto failure = compile(header_.request, context, progress, code)) fail(*failure);
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  write_all(out, answer(header_.id, code, seconds));
  _exit(0);
}

bool Child::read() {
  char part[65536];
  const ssize_t n = ::read(descriptor_, part, sizeof part);
  if (n > 0) written_.append(part, size_t(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

void Child::stop() {
  stopped_ = true;
  kill(pid_, SIGKILL);
}

/// With the kernel that was compiled and the stage that it was in.
Failure Child::failure(const char* kind, const std::string& message) const {
  Failure failure{kind, message, {}, {}};
  const Options& options = header_.request.options;
  if (kind == std::string("memory"))
    failure.message = "compiling needs more than " + std::to_string(options.memory_limit_mb) + " MB";
  if (place_->stage[0] != 0) failure.message += std::string(" (in ") + place_->stage + ")";
  auto frames = llvm::json::parse(place_->frames[0] != 0 ? place_->frames : "[]");
  if (!frames) {
    llvm::consumeError(frames.takeError());
    return failure;
  }
  for (const llvm::json::Value& value : *frames->getAsArray()) {
    const llvm::json::Array& frame = *value.getAsArray();
    failure.frames.push_back(
        {frame[0].getAsString()->str(), frame[1].getAsString()->str(), *frame[2].getAsInteger(), *frame[3].getAsInteger()});
  }
  return failure;
}

std::string Child::cause_of_death(int status, const char*& kind) const {
  kind = "backend";
  const bool signalled = WIFSIGNALED(status);
  if (stopped_ || (signalled && WTERMSIG(status) == SIGXCPU)) {
    kind = "time";
    char text[64];
    std::snprintf(text, sizeof text, "compiling takes more than %g s", header_.request.options.time_limit_s);
    return text;
  }
  if (signalled) {
    const int number = WTERMSIG(status);
    return "the compiler crashed: signal " + std::to_string(number) + ", " + strsignal(number);
  }
  return "the compiler ended with status " + std::to_string(WEXITSTATUS(status));
}

std::string Child::finish() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!stopped_ && WIFEXITED(status) && WEXITSTATUS(status) == 0 && !written_.empty()) return std::move(written_);
  const char* kind = nullptr;
  const std::string cause = cause_of_death(status, kind);
  return answer(header_.id, failure(kind, cause));
}

}  // namespace jaxator::flight

extern "C" void* __wrap_malloc(size_t size) {
  void* memory = __real_malloc(size);
  if (memory == nullptr && size > 0) jaxator::flight::give_up_for_memory();
  return memory;
}
