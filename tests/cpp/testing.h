/// @file
/// What every op's test needs: random arrays in an element type, their exact values in float64, bounds, instruction sets.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "jaxator/cpu.h"
#include "jaxator/executor.h"
#include "jaxator/types.h"

namespace jaxator::testing {

using Doubles = std::vector<double>;

inline float decode(DType type, const void* data, int64_t i) {
  if (type == DType::f32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  if (type == DType::bf16) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  return sign * (exponent == 0 ? std::ldexp(float(mantissa), -24) : std::ldexp(float(mantissa + 1024), exponent - 25));
}

/// Nearest-even into the element type; values are assumed finite and in range.
inline void encode(DType type, void* data, int64_t i, float value) {
  if (type == DType::f32) {
    static_cast<float*>(data)[i] = value;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint16_t& out = static_cast<uint16_t*>(data)[i];
  if (type == DType::bf16) {
    out = std::isnan(value) ? 0x7fc0 : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    return;
  }
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value))
    out = 0x7e00;
  else if (std::isinf(value))
    out = static_cast<uint16_t>(sign | 0x7c00);
  else {
    const float magnitude = std::fabs(value);
    int exponent;
    std::frexp(magnitude, &exponent);
    const int step = std::max(exponent - 11, -24);  // 11 significant bits, denormals below 2^-14
    const double scaled = std::nearbyint(std::ldexp(double(magnitude), -step));
    const float rounded = static_cast<float>(std::ldexp(scaled, step));
    int e2;
    std::frexp(rounded, &e2);
    if (rounded == 0)
      out = sign;
    else if (e2 - 1 < -14)
      out = static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(rounded, 24)));
    else
      out = static_cast<uint16_t>(sign | ((e2 - 1 + 15) << 10) | (static_cast<int>(std::ldexp(rounded, 11 - e2)) - 1024));
  }
}

/// Half of the distance between 1 and the next value.
inline double unit_roundoff(DType type) { return type == DType::f32 ? 0x1p-24 : type == DType::bf16 ? 0x1p-8 : 0x1p-11; }

/// Elements in storage order, with canaries of one vector on both sides.
class TestArray {
 public:
  static constexpr int64_t kGuard = 64;

  TestArray(DType type, int64_t size, float fill = std::numeric_limits<float>::quiet_NaN())
      : type_(type), size_(size), bytes_(((size + 2 * kGuard) * size_of(type)), char(0xa5)) {
    for (int64_t i = 0; i < size; i++) encode(type, data(), i, fill);
  }

  /// iid normal, rounded to the element type.
  static TestArray normal(DType type, int64_t size, std::mt19937_64& random, double deviation = 1) {
    TestArray array(type, size, 0);
    std::normal_distribution<double> draw(0, deviation);
    for (int64_t i = 0; i < size; i++) encode(type, array.data(), i, static_cast<float>(draw(random)));
    return array;
  }

  void* data() { return bytes_.data() + kGuard * size_of(type_); }
  const void* data() const { return bytes_.data() + kGuard * size_of(type_); }
  int64_t size() const { return size_; }
  double operator[](int64_t i) const { return decode(type_, data(), i); }
  void set(int64_t i, float value) { encode(type_, data(), i, value); }
  const std::vector<char>& bytes() const { return bytes_; }

  Doubles values() const {
    Doubles out(size_);
    for (int64_t i = 0; i < size_; i++) out[i] = (*this)[i];
    return out;
  }

  bool canaries_intact() const {
    const int64_t guard = kGuard * size_of(type_);
    for (int64_t i = 0; i < guard; i++)
      if (bytes_[i] != char(0xa5) || bytes_[bytes_.size() - 1 - i] != char(0xa5)) return false;
    return true;
  }

 private:
  DType type_;
  int64_t size_;
  std::vector<char> bytes_;
};

/// Fails, naming the worst element, unless |got - want| <= bound[i] everywhere.
template <class Got, class Bound>
void expect_within(const Got& got, const Doubles& want, Bound&& bound, const std::string& what) {
  double worst = 0;
  int64_t at = -1;
  for (size_t i = 0; i < want.size(); i++) {
    const double error = std::fabs(got[i] - want[i]), share = error / bound(i);
    if (!(share <= worst)) {  // also true for NaN
      worst = share;
      at = static_cast<int64_t>(i);
    }
  }
  if (at >= 0 && !(worst <= 1))
    ADD_FAILURE() << what << "[" << at << "] = " << got[at] << ", want " << want[at] << ", error is " << worst
                  << " times the bound";
}

/// Runs body once for each instruction set of this machine.
template <class Body> void for_each_isa(Body&& body) {
  const std::vector<CpuIsa> supported = cpu_supported();
  ASSERT_FALSE(supported.empty());
  for (CpuIsa isa : supported) {
    SCOPED_TRACE(name_of(isa));
    cpu_force_isa(isa);
    body();
  }
  cpu_reset_isa();
}

inline const DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace jaxator::testing
