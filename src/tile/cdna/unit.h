/// @file
/// What a thread takes at once from an array that is treated element by element: sixteen bytes where sizes and addresses are
/// multiples of that, else one element. The same code then serves both.
#pragma once

#include "src/tile/cdna/memory.h"

namespace jaxator::cdna {

template <class T, bool vectors> struct Unit;

template <class T> struct Unit<T, true> {
  static constexpr int kElements = kVectorElements<T>;
  Vector raw;

  JAXATOR_DEVICE void load(const Span& from, u32 offset) { raw = from.load_once(offset); }
  JAXATOR_DEVICE void store(const Span& to, u32 offset) const { to.store_streamed(offset, raw); }
  JAXATOR_DEVICE void values(float (&out)[kElements]) const { unpack<T>(raw, out); }
  JAXATOR_DEVICE void set(const float (&values)[kElements]) { raw = pack<T>(values); }
};

template <class T> struct Unit<T, false> {
  static constexpr int kElements = 1;
  T raw;

  JAXATOR_DEVICE void load(const Span& from, u32 offset) { raw = from.load_element<T>(offset); }
  JAXATOR_DEVICE void store(const Span& to, u32 offset) const { to.store_element(offset, raw); }
  JAXATOR_DEVICE void values(float (&out)[1]) const { out[0] = to_float(raw); }
  JAXATOR_DEVICE void set(const float (&values)[1]) { raw = from_float<T>(values[0]); }
};

/// A block's part of an array: lanes with an element use offsets below Span::kNowhere, the others that one.
template <class T> JAXATOR_DEVICE Span part_of(const void JAXATOR_GLOBAL* array, i64 start) {
  return {static_cast<const T JAXATOR_GLOBAL*>(array) + start, Span::kNowhere};
}

}  // namespace jaxator::cdna
