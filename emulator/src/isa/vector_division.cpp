/// @file
/// The steps of a division that are not plain arithmetic: scaling of operands near the limits, the last multiply-add, and the
/// special cases.
#include "emulator/src/isa/float_functions.h"
#include "emulator/src/isa/lanes.h"

namespace jaxator::emulator {
namespace {

template <class T> struct Limits;
template <> struct Limits<float> {
  static constexpr int bias = 127, scale = 64, far = 96, tiny = 23, underflow = -150, overflow = 128;
  static int exponent(float a) { return static_cast<int>(as_bits(a) >> 23 & 255); }
};
template <> struct Limits<double> {
  static constexpr int bias = 1023, scale = 128, far = 768, tiny = 53, underflow = -1075, overflow = 1024;
  static int exponent(double a) { return static_cast<int>(as_bits(a) >> 52 & 2047); }
};

template <class T> bool is_denormal(T a) { return a != 0 && Limits<T>::exponent(a) == 0; }

template <class T> struct Scaled {
  T value;
  bool flag;  // v_div_fmas has to undo a scaling
};

/// One operand (the denominator or the numerator), scaled so that neither the reciprocal nor the quotient leaves the normal
/// range.
template <class T> Scaled<T> scale(T operand, T denominator, T numerator) {
  using L = Limits<T>;
  const T up = std::ldexp(operand, L::scale), down = std::ldexp(operand, -L::scale);
  const bool is_denominator = operand == denominator, is_numerator = operand == numerator;
  if (numerator == 0 || denominator == 0) return {std::numeric_limits<T>::quiet_NaN(), false};
  if (L::exponent(numerator) - L::exponent(denominator) >= L::far) return {is_denominator ? up : operand, true};
  if (is_denormal(denominator)) return {up, false};
  const bool reciprocal_is_denormal = is_denormal(T(1) / denominator),
             quotient_is_denormal = is_denormal(numerator / denominator);
  // The documents scale the denominator up here, which gives infinity: the sequence that compilers use would end in NaN.
  if (reciprocal_is_denormal && quotient_is_denormal) return {is_denominator ? down : operand, true};
  if (reciprocal_is_denormal) return {down, false};
  if (quotient_is_denormal) return {is_numerator ? up : operand, true};
  if (L::exponent(numerator) <= L::tiny) return {up, false};
  return {operand, false};
}

/// Operands: result, flags, what to scale, denominator, numerator.
template <class T> void divide_scale(Wave& w, const Instruction& i) {
  u64 written = kAllLanes, flags = 0;
  Lanes<T> operand, denominator, numerator, out;
  read_source(w, i, 2, 0, operand, written);
  read_source(w, i, 3, 1, denominator, written);
  read_source(w, i, 4, 2, numerator, written);
  for (int l = 0; l < kLanes; l++) {
    const Scaled<T> scaled = scale(operand[l], denominator[l], numerator[l]);
    out[l] = scaled.value;
    flags |= u64{scaled.flag} << l;
  }
  write_result(w, i, out, written);
  write_scalar64(w, i.operand(1), flags & w.exec());
}

/// A flagged lane had its numerator scaled up and gets a quotient that is too large, or its denominator, and gets one too small.
template <class T> void divide_fmas(Wave& w, const Instruction& i) {
  using L = Limits<T>;
  u64 written = kAllLanes;
  Lanes<T> a, b, c, out;
  read_source(w, i, 1, 0, a, written);
  read_source(w, i, 2, 1, b, written);
  read_source(w, i, 3, 2, c, written);
  const u64 flags = w.scalar64(kVcc);
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(flags, l)) {
      out[l] = std::fma(a[l], b[l], c[l]);
      continue;
    }
    // Sum and scaling are rounded once, or quotients that are denormals would not come out right. The product is exact here.
    const T factor = std::ldexp(T(1), L::exponent(c[l]) > L::bias ? L::scale : -L::scale);
    out[l] = static_cast<T>((static_cast<__float128>(a[l]) * b[l] + c[l]) * factor);
  }
  write_result(w, i, out, written);
}

/// Where the exponents say that the quotient is out of range the steps before may have come to NaN. (For overflow the documents
/// have a condition that cannot hold; this is the one that makes divisions come out right, as they do on hardware.)
template <class T> T in_range(T quotient, T denominator, T numerator) {
  using L = Limits<T>;
  const int difference = L::exponent(numerator) - L::exponent(denominator);
  if (difference < L::underflow) return 0;
  return difference > L::overflow ? std::numeric_limits<T>::infinity() : quotient;
}

template <class T> T fix_up(T quotient, T denominator, T numerator) {
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  const T sign = negative ? T(-1) : T(1), infinity = std::numeric_limits<T>::infinity();
  if (std::isnan(numerator)) return quiet(numerator);
  if (std::isnan(denominator)) return quiet(denominator);
  if ((denominator == 0 && numerator == 0) || (std::isinf(denominator) && std::isinf(numerator)))
    return -std::numeric_limits<T>::quiet_NaN();
  if (denominator == 0 || std::isinf(numerator)) return std::copysign(infinity, sign);
  if (std::isinf(denominator) || numerator == 0) return std::copysign(T(0), sign);
  return std::copysign(quotient, sign);
}

}  // namespace

void add_vector_division(Table& t) {
  constexpr u32 traits = kSourceModifiers | kClamp;
  t.add("v_div_scale_f32", {divide_scale<float>, Class::vector_alu, traits | kTwoResults});
  t.add("v_div_scale_f64", {divide_scale<double>, Class::vector_alu, traits | kTwoResults | kDouble});
  t.add("v_div_fmas_f32", {divide_fmas<float>, Class::vector_alu, traits | kReadsVcc});
  t.add("v_div_fmas_f64", {divide_fmas<double>, Class::vector_alu, traits | kReadsVcc | kDouble});
  t.add("v_div_fixup_f32", lanes<[](float a, float b, float c) { return fix_up(in_range(a, b, c), b, c); }>());
  t.add("v_div_fixup_f64", lanes<[](double a, double b, double c) { return fix_up(in_range(a, b, c), b, c); }>());
  constexpr auto half = [](f16 a, f16 b, f16 c) { return f16(fix_up<double>(a, b, c)); };
  t.add("v_div_fixup_f16", lanes<half>(kKeepsRest));
  t.add("v_div_fixup_legacy_f16", lanes<half>());
}

}  // namespace jaxator::emulator
