#include "emulator/src/isa/table.h"

#include <algorithm>
#include <cassert>

namespace jaxator::emulator {

void Table::add(const std::string& name, const Entry& entry) {
  [[maybe_unused]] const bool added = entries_.emplace(name, entry).second;
  assert(added && "an instruction has two entries");
}

const Entry* Table::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found != entries_.end() ? &found->second : nullptr;
}

std::vector<std::string> Table::names() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) all.push_back(name);
  std::sort(all.begin(), all.end());
  return all;
}

const Table& instruction_table() {
  static const Table table = [] {
    Table t;
    for (auto* add : {add_scalar_alu,
                      add_scalar_compare,
                      add_control,
                      add_scalar_memory,
                      add_vector_move,
                      add_vector_integer,
                      add_vector_bytes,
                      add_vector_carry,
                      add_vector_float,
                      add_vector_half,
                      add_vector_double,
                      add_vector_division,
                      add_vector_compare,
                      add_vector_packed,
                      add_vector_dot,
                      add_conversions,
                      add_small_float_conversions,
                      add_scaled_conversions,
                      add_matrix,
                      add_sparse_matrix,
                      add_lds,
                      add_lds_atomics,
                      add_global,
                      add_buffer,
                      add_global_atomics})
      add(t);
    return t;
  }();
  return table;
}

}  // namespace jaxator::emulator
