/// @file
/// What a thread takes at once from an array that is treated element by element: sixteen bytes where sizes and addresses are
/// multiples of that, else one element. The same code then serves both.
#pragma once

#include "src/tile/hopper/memory.h"

namespace jaxator::hopper {

template <class T, bool vectors> struct Unit;

template <class T> struct Unit<T, true> {
  static constexpr int kElements = kVectorElements<T>;
  Vector raw;

  JAXATOR_DEVICE void load(const T* from) { raw = load_once(from); }
  JAXATOR_DEVICE void store(T* to) const { store_streamed(to, raw); }
  JAXATOR_DEVICE void values(float (&out)[kElements]) const { unpack<T>(raw, out); }
  JAXATOR_DEVICE void set(const float (&values)[kElements]) { raw = pack<T>(values); }
};

template <class T> struct Unit<T, false> {
  static constexpr int kElements = 1;
  T raw;

  JAXATOR_DEVICE void load(const T* from) { raw = *from; }
  JAXATOR_DEVICE void store(T* to) const { *to = raw; }
  JAXATOR_DEVICE void values(float (&out)[1]) const { out[0] = to_float(raw); }
  JAXATOR_DEVICE void set(const float (&values)[1]) { raw = from_float<T>(values[0]); }
};

}  // namespace jaxator::hopper
