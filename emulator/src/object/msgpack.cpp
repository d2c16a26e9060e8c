#include "emulator/src/object/msgpack.h"

namespace jaxator::emulator {
namespace {

constexpr int kMaxDepth = 32;

Message parse(Cursor& in, int depth);

template <class T> T take_big_endian(Cursor& in) {
  u64 value = 0;
  for (size_t i = 0; i < sizeof(T); i++) value = value << 8 | in.take<u8>();
  return static_cast<T>(value);
}

Message number(i64 value, Message::Type type = Message::Type::number) {
  Message message;
  message.type = type, message.number = value;
  return message;
}

Message text(Cursor& in, u64 size) {
  Message message;
  message.type = Message::Type::text, message.text = in.take_view(size);
  return message;
}

Message skip(Cursor& in, u64 size) {
  in.take_view(size);
  return {};
}

/// Each element takes a byte at least, so that a size beyond the data is refused before memory is taken for it.
void check_size(const Cursor& in, u64 elements) {
  if (elements > in.left()) fail("metadata: ", elements, " elements in ", in.left(), " bytes");
}

Message list(Cursor& in, u64 size, int depth) {
  check_size(in, size);
  Message message;
  message.type = Message::Type::list;
  for (u64 i = 0; i < size; i++) message.list.push_back(parse(in, depth + 1));
  return message;
}

Message map(Cursor& in, u64 size, int depth) {
  check_size(in, 2 * size);
  Message message;
  message.type = Message::Type::map;
  for (u64 i = 0; i < size; i++) {
    message.keys.push_back(parse(in, depth + 1));
    message.list.push_back(parse(in, depth + 1));
  }
  return message;
}

/// A size of 1, 2 or 4 bytes: `width` 0, 1 or 2.
u64 take_size(Cursor& in, int width) {
  if (width == 0) return take_big_endian<u8>(in);
  return width == 1 ? u64{take_big_endian<u16>(in)} : u64{take_big_endian<u32>(in)};
}

Message parse_number(Cursor& in, u8 type) {
  switch (type) {
    case 0xCC:
      return number(take_big_endian<u8>(in));
    case 0xCD:
      return number(take_big_endian<u16>(in));
    case 0xCE:
      return number(take_big_endian<u32>(in));
    case 0xD0:
      return number(take_big_endian<i8>(in));
    case 0xD1:
      return number(take_big_endian<i16>(in));
    case 0xD2:
      return number(take_big_endian<i32>(in));
    default:
      return number(take_big_endian<i64>(in));
  }
}

/// The types whose first byte says nothing but the type, 0xC0 to 0xDF.
Message parse_by_type(Cursor& in, u8 type, int depth) {
  const auto within = [type](u8 first, u8 last) { return first <= type && type <= last; };
  if (type == 0xC0) return {};
  if (within(0xC2, 0xC3)) return number(type & 1, Message::Type::boolean);
  if (within(0xC4, 0xC6)) return skip(in, take_size(in, type - 0xC4));      // bytes
  if (within(0xC7, 0xC9)) return skip(in, take_size(in, type - 0xC7) + 1);  // extensions
  if (within(0xCA, 0xCB)) return skip(in, type == 0xCA ? 4 : 8);            // floats
  if (within(0xCC, 0xD3)) return parse_number(in, type);
  if (within(0xD4, 0xD8)) return skip(in, (u64{1} << (type - 0xD4)) + 1);
  if (within(0xD9, 0xDB)) return text(in, take_size(in, type - 0xD9));
  if (within(0xDC, 0xDD)) return list(in, take_size(in, type - 0xDC + 1), depth);
  if (within(0xDE, 0xDF)) return map(in, take_size(in, type - 0xDE + 1), depth);
  fail("metadata: no MessagePack value begins with byte ", hex(type));
}

Message parse(Cursor& in, int depth) {
  if (depth > kMaxDepth) fail("metadata: values nested more than ", kMaxDepth, " deep");
  const u8 first = in.take<u8>();
  if (first < 0x80) return number(first);
  if (first < 0x90) return map(in, first & 15, depth);
  if (first < 0xA0) return list(in, first & 15, depth);
  if (first < 0xC0) return text(in, first & 31);
  if (first >= 0xE0) return number(static_cast<i8>(first));
  return parse_by_type(in, first, depth);
}

}  // namespace

const Message* Message::find(std::string_view key) const {
  for (size_t k = 0; k < keys.size(); k++)
    if (keys[k].type == Type::text && keys[k].text == key) return &list[k];
  return nullptr;
}

u64 Message::number_at(std::string_view key, u64 otherwise) const {
  const Message* value = find(key);
  return value != nullptr && value->type == Type::number ? static_cast<u64>(value->number) : otherwise;
}

std::string_view Message::text_at(std::string_view key) const {
  const Message* value = find(key);
  return value != nullptr && value->type == Type::text ? value->text : std::string_view();
}

const std::vector<Message>& Message::list_at(std::string_view key) const {
  static const std::vector<Message> none;
  const Message* value = find(key);
  return value != nullptr ? value->list : none;
}

Message parse_message(const Bytes& bytes) {
  Cursor in(bytes);
  return parse(in, 0);
}

}  // namespace jaxator::emulator
