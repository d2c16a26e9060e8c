#include "src/flight/server/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fstream>
#include <list>
#include <thread>

#include "mlir/IR/MLIRContext.h"
#include "src/flight/server/child.h"

namespace jaxator::flight {
namespace {

// A line is options only; one this long has lost its end.
constexpr size_t kMostLine = 1 << 20;

int64_t address_space() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

class Server {
 public:
  Server() : context_(make_context()), base_bytes_(address_space()) { out_ = greeting(); }

  /// Until all is done, or nobody reads the answers any more.
  void run() {
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    while (open_ || !waiting_.empty() || !children_.empty() || !out_.empty()) {
      start_children();
      if (!wait()) return;
    }
  }

 private:
  /// As many as there are processors; two at least, so that a slow request does not hold up the next.
  static size_t most_children() { return std::max(2u, std::thread::hardware_concurrency()); }

  void start_children() {
    while (!waiting_.empty() && children_.size() < most_children()) {
      Header header = std::move(waiting_.front());
      waiting_.pop_front();
      const llvm::json::Value id = header.id;
      children_.emplace_back(std::move(header), *context_, base_bytes_);
      if (children_.back().started()) continue;
      children_.pop_back();
      out_ += answer(id, Failure{"backend", "no process can be started for the request", {}, {}});
    }
  }

  int timeout() const {
    if (children_.empty()) return -1;
    auto first = Child::Clock::time_point::max();
    for (const Child& child : children_) first = std::min(first, child.deadline());
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(first - Child::Clock::now()).count() + 1;
    return int(std::clamp<int64_t>(left, 0, 60000));
  }

  bool wait() {
    std::vector<pollfd> polled = {{open_ ? STDIN_FILENO : -1, POLLIN, 0}, {out_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}};
    for (const Child& child : children_) polled.push_back({child.descriptor(), POLLIN, 0});
    if (poll(polled.data(), polled.size(), timeout()) < 0) return errno == EINTR;
    if (polled[0].revents != 0) read();
    if (polled[1].revents != 0 && !write()) return false;
    size_t at = 2;
    for (auto child = children_.begin(); child != children_.end(); at++) {
      if (polled[at].revents != 0 && !child->read()) {
        out_ += child->finish();
        child = children_.erase(child);
        continue;
      }
      if (Child::Clock::now() >= child->deadline()) child->stop();
      ++child;
    }
    return true;
  }

  bool write() {
    const ssize_t n = ::write(STDOUT_FILENO, out_.data(), out_.size());
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    out_.erase(0, size_t(n));
    return true;
  }

  void read() {
    char part[65536];
    const ssize_t n = ::read(STDIN_FILENO, part, sizeof part);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) return end();
    in_.append(part, size_t(n));
    while (take_request()) {
    }
  }

  /// The next request out of what has arrived. False: it is not complete.
  bool take_request() {
    if (!header_) {
      const size_t length = in_.find('\n');
      if (length == std::string::npos) {
        if (in_.size() <= kMostLine) return false;
        out_ += answer(nullptr, Failure{"request", "a line of more than " + std::to_string(kMostLine) + " bytes", {}, {}});
        end();
        return false;
      }
      header_.emplace();
      failure_ = read_header(llvm::StringRef(in_).take_front(length), *header_);
      in_.erase(0, length + 1);
    }
    if (int64_t(in_.size()) < header_->size) return false;
    header_->request.text = in_.substr(0, size_t(header_->size));
    in_.erase(0, size_t(header_->size));
    if (failure_)
      out_ += answer(header_->id, *failure_);
    else
      waiting_.push_back(std::move(*header_));
    header_.reset();
    return true;
  }

  void end() {
    open_ = false;
    if (header_) out_ += answer(header_->id, Failure{"request", "the input ends in the middle of a request", {}, {}});
    header_.reset();
  }

  std::unique_ptr<mlir::MLIRContext> context_;
  int64_t base_bytes_;
  bool open_ = true;  // standard input
  std::string in_, out_;
  std::optional<Header> header_;  // its text has not arrived
  std::optional<Failure> failure_;
  std::deque<Header> waiting_;
  std::list<Child> children_;
};

}  // namespace

int serve() {
  signal(SIGPIPE, SIG_IGN);
  initialise_llvm();
  Server().run();
  return 0;
}

}  // namespace jaxator::flight
