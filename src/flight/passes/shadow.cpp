#include "src/flight/passes/shadow.h"

#include <algorithm>

namespace jaxator::flight {

using namespace mlir;

void Shadow::report(Operation* earlier, int earlier_thread, Operation* later, int later_thread, int64_t element,
                    Conflict::Kind kind) {
  if (!conflict_) conflict_ = Conflict{earlier, later, element, earlier_thread, later_thread, kind};
}

/// nullptr: outside of the array, which is another fault.
Shadow::Element* Shadow::find(Operation* array, int64_t element) {
  work_++;
  std::vector<Element>& elements = arrays_[array];
  return element < 0 || element >= int64_t(elements.size()) ? nullptr : &elements[size_t(element)];
}

void Shadow::access(Operation* array, int64_t element, Operation* op, int thread, bool write) {
  Element* e = find(array, element);
  if (e == nullptr) return;
  const bool written = e->write_epoch == epoch_ && e->writer != thread;
  const bool read = e->read_epoch == epoch_ && e->reader != thread;
  if (e->unfinished > 0) report(e->write, e->writer, op, thread, element, Conflict::unfinished);
  if (written && e->write != nullptr)
    report(e->write, e->writer, op, thread, element, write ? Conflict::write_write : Conflict::write_read);
  if (write && read) report(e->read, e->reader, op, thread, element, Conflict::read_write);
  if (write) {
    e->write_epoch = epoch_, e->writer = thread, e->write = op;
    return;
  }
  e->reader = e->read_epoch == epoch_ && e->reader != thread ? kSeveral : thread;
  e->read_epoch = epoch_, e->read = op;
}

void Shadow::start_copy(Operation* array, int64_t element, Operation* op, int thread) {
  Element* e = find(array, element);
  if (e == nullptr) return;
  access(array, element, op, thread, true);
  e->unfinished++;
  copies_.push_back({array, element, op, thread, group_});
}

void Shadow::wait(int64_t pending) {
  const auto done = [&](const Copy& copy) { return copy.group < group_ - pending; };
  for (const Copy& copy : copies_) {
    if (!done(copy)) continue;
    Element* e = find(copy.array, copy.element);
    e->unfinished--;
    e->write_epoch = epoch_, e->writer = copy.thread, e->write = copy.op;
  }
  copies_.erase(std::remove_if(copies_.begin(), copies_.end(), done), copies_.end());
}

}  // namespace jaxator::flight
