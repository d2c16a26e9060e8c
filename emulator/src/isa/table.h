/// @file
/// The instructions that the emulator knows, by mnemonic without encoding suffix.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/src/decode/instruction.h"

namespace jaxator::emulator {

struct Entry {
  Function execute = nullptr;
  Class unit = Class::nop;
  u32 traits = 0;
  Detail detail = {};
  bool by_encoding = false;  // operands are not parsed from the text
  /// Runs at the end of decoding: takes fields from the encoding, chooses by architecture, refuses what is not implemented.
  void (*prepare)(Instruction&, Architecture) = nullptr;
};

class Table {
 public:
  void add(const std::string& name, const Entry& entry);
  const Entry* find(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  std::unordered_map<std::string, Entry> entries_;
};

const Table& instruction_table();

// One function a source file, in the order of the ISA documents.
void add_scalar_alu(Table& table);
void add_scalar_compare(Table& table);
void add_control(Table& table);
void add_scalar_memory(Table& table);
void add_vector_move(Table& table);
void add_vector_integer(Table& table);
void add_vector_bytes(Table& table);
void add_vector_carry(Table& table);
void add_vector_float(Table& table);
void add_vector_half(Table& table);
void add_vector_double(Table& table);
void add_vector_division(Table& table);
void add_vector_compare(Table& table);
void add_vector_packed(Table& table);
void add_vector_dot(Table& table);
void add_conversions(Table& table);
void add_small_float_conversions(Table& table);
void add_scaled_conversions(Table& table);
void add_matrix(Table& table);
void add_sparse_matrix(Table& table);
void add_lds(Table& table);
void add_lds_atomics(Table& table);
void add_global(Table& table);
void add_buffer(Table& table);
void add_global_atomics(Table& table);

}  // namespace jaxator::emulator
