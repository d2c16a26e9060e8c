/// @file
/// Which instructions of a code object a launch executed.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "emulator/src/object/code_object.h"

namespace jaxator::emulator {

class Coverage {
 public:
  explicit Coverage(const CodeObject::Implementation& code) : code_(code), executed_(new std::atomic<bool>[code.words()]()) {}

  /// The program counter of an instruction that was decoded. From any thread.
  void mark(u64 pc) { executed_[code_.word_of(pc)].store(true, std::memory_order_relaxed); }

  /// In order.
  std::vector<u64> addresses() const {
    std::vector<u64> all;
    for (u64 word = 0; word < code_.words(); word++)
      if (executed_[word].load(std::memory_order_relaxed)) all.push_back(code_.address_of_word(word));
    return all;
  }

 private:
  const CodeObject::Implementation& code_;
  std::unique_ptr<std::atomic<bool>[]> executed_;  // by word of the code
};

}  // namespace jaxator::emulator
