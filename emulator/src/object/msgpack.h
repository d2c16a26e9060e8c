/// @file
/// MessagePack, in which AMDGPU's metadata is written.
#pragma once

#include <vector>

#include "emulator/src/object/bytes.h"

namespace jaxator::emulator {

/// One value. Texts point into the parsed bytes. Floats and extension types are read over: the metadata has none.
struct Message {
  enum class Type : u8 { nothing, boolean, number, text, list, map };
  Type type = Type::nothing;
  i64 number = 0;
  std::string_view text;
  std::vector<Message> list;  // of a map: the values
  std::vector<Message> keys;

  /// The value of a key of a map, or null.
  const Message* find(std::string_view key) const;
  /// The same, for values of one type: a default where the key is missing or has another type.
  u64 number_at(std::string_view key, u64 otherwise = 0) const;
  std::string_view text_at(std::string_view key) const;
  const std::vector<Message>& list_at(std::string_view key) const;
};

/// Throws Error where the bytes are not one value.
Message parse_message(const Bytes& bytes);

}  // namespace jaxator::emulator
