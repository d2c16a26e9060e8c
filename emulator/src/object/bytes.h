/// @file
/// Reading of outside data: every access is checked, and what does not fit is an Error that says where.
#pragma once

#include <cstring>
#include <span>
#include <string_view>

#include "emulator/src/common.h"

namespace jaxator::emulator {

/// A range of bytes with a name for messages. All numbers are little-endian, as on every host of the emulator.
class Bytes {
 public:
  Bytes(std::span<const u8> data, const char* what) : data_(data), what_(what) {}

  u64 size() const { return data_.size(); }
  const u8* data() const { return data_.data(); }

  template <class T> T at(u64 offset) const {
    require(offset, sizeof(T));
    T value;
    memcpy(&value, data_.data() + offset, sizeof value);
    return value;
  }
  Bytes part(u64 offset, u64 size, const char* what) const {
    require(offset, size);
    return {data_.subspan(offset, size), what};
  }
  std::string_view view(u64 offset, u64 size) const {
    require(offset, size);
    return {reinterpret_cast<const char*>(data_.data()) + offset, size};
  }
  /// Text up to a zero byte, which must be there.
  std::string_view text(u64 offset) const {
    require(offset, 1);
    const void* end = memchr(data_.data() + offset, 0, data_.size() - offset);
    if (end == nullptr) fail(what_, ": the text at offset ", offset, " has no end");
    return view(offset, static_cast<const u8*>(end) - (data_.data() + offset));
  }

 private:
  void require(u64 offset, u64 size) const {
    if (offset > data_.size() || size > data_.size() - offset)
      fail(what_, ": ", size, " bytes at offset ", offset, " are not within its ", data_.size());
  }

  std::span<const u8> data_;
  const char* what_;
};

/// Reads one value after another.
class Cursor {
 public:
  explicit Cursor(const Bytes& bytes, u64 offset = 0) : bytes_(bytes), offset_(offset) {}

  u64 offset() const { return offset_; }
  void move_to(u64 offset) { offset_ = offset; }
  bool at_end() const { return offset_ >= bytes_.size(); }
  u64 left() const { return at_end() ? 0 : bytes_.size() - offset_; }

  template <class T> T take() {
    const T value = bytes_.at<T>(offset_);
    offset_ += sizeof(T);
    return value;
  }
  std::string_view take_text() {
    const std::string_view text = bytes_.text(offset_);
    offset_ += text.size() + 1;
    return text;
  }
  std::string_view take_view(u64 size) {
    const std::string_view view = bytes_.view(offset_, size);
    offset_ += size;
    return view;
  }
  u64 take_uleb128() {
    u64 value = 0;
    for (int shift = 0;; shift += 7) {
      const u8 byte = take<u8>();
      if (shift < 64) value |= u64{byte & 127u} << shift;
      if ((byte & 128) == 0) return value;
    }
  }
  i64 take_sleb128() {
    u64 value = 0;
    for (int shift = 0;;) {
      const u8 byte = take<u8>();
      if (shift < 64) value |= u64{byte & 127u} << shift;
      shift += 7;
      if ((byte & 128) != 0) continue;
      if (shift < 64 && (byte & 64) != 0) value |= ~u64{0} << shift;
      return static_cast<i64>(value);
    }
  }

 private:
  Bytes bytes_;
  u64 offset_;
};

}  // namespace jaxator::emulator
