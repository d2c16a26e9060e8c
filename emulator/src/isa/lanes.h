/// @file
/// How vector instructions read and write their lanes: registers, constants, DPP, SDWA, source and output modifiers. An
/// instruction that computes each lane for itself is one function of its sources, and the types of that function say how the
/// sources are read and the result is written.
#pragma once

#include <tuple>

#include "emulator/src/isa/floats.h"
#include "emulator/src/isa/scalars.h"
#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {

template <class T> using Lanes = std::array<T, kLanes>;

/// Half precision: computed in double, rounded once.
struct f16 {
  double value = 0;
  constexpr f16() = default;
  constexpr f16(double v) : value(v) {}
  constexpr operator double() const { return value; }
};

/// An integer result before it is cut to its type, or saturated with `clamp`.
template <class T> struct Exact {
  i64 value = 0;
};

/// 32 bits of a register, or a constant, in every lane; the register `part` of a wider operand.
void read_raw(Wave& w, const Operand& operand, int part, Lanes<u32>& out);
/// The same for a source of an instruction: with DPP (source 0) and SDWA. Lanes that DPP disables are taken out of `written`.
void read_lanes(Wave& w, const Instruction& i, int operand, int source, Lanes<u32>& out, u64& written);
/// Writes the lanes of EXEC that are in `written`, with SDWA's selection for the first register.
void write_lanes(Wave& w, const Instruction& i, int operand, int part, const Lanes<u32>& values, u64 written);

/// 16 bits of a source by op_sel or SDWA.
void read_half_lanes(Wave& w, const Instruction& i, int operand, int source, Lanes<u32>& out, u64& written);
/// The same with the source modifiers of half precision.
void read_half_float_lanes(Wave& w, const Instruction& i, int operand, int source, Lanes<u32>& out, u64& written);
/// 16 bits of the destination. The others become 0, or stay with op_sel, SDWA and kKeepsRest.
void write_half_lanes(Wave& w, const Instruction& i, int operand, const Lanes<u32>& values, u64 written);

float apply_output_modifier(const Wave& w, const Instruction& i, float value);
double clamp_double(const Wave& w, const Instruction& i, double value);

// ---- reading, by type ------------------------------------------------------------------------------------------------

inline void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<u32>& out, u64& written) {
  read_lanes(w, i, operand, source, out, written);
}
inline void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<i32>& out, u64& written) {
  Lanes<u32> raw;
  read_lanes(w, i, operand, source, raw, written);
  for (int l = 0; l < kLanes; l++) out[l] = static_cast<i32>(raw[l]);
}
inline void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<u16>& out, u64& written) {
  Lanes<u32> raw;
  read_half_lanes(w, i, operand, source, raw, written);
  for (int l = 0; l < kLanes; l++) out[l] = static_cast<u16>(raw[l]);
}
inline void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<i16>& out, u64& written) {
  Lanes<u32> raw;
  read_half_lanes(w, i, operand, source, raw, written);
  for (int l = 0; l < kLanes; l++) out[l] = static_cast<i16>(raw[l]);
}
void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<float>& out, u64& written);
void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<f16>& out, u64& written);
void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<u64>& out, u64& written);
void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<i64>& out, u64& written);
void read_source(Wave& w, const Instruction& i, int operand, int source, Lanes<double>& out, u64& written);

// ---- writing, by type ------------------------------------------------------------------------------------------------

inline void write_result(Wave& w, const Instruction& i, const Lanes<u32>& values, u64 written) {
  write_lanes(w, i, 0, 0, values, written);
}
inline void write_result(Wave& w, const Instruction& i, const Lanes<i32>& values, u64 written) {
  Lanes<u32> raw;
  for (int l = 0; l < kLanes; l++) raw[l] = static_cast<u32>(values[l]);
  write_lanes(w, i, 0, 0, raw, written);
}
inline void write_result(Wave& w, const Instruction& i, const Lanes<u16>& values, u64 written) {
  Lanes<u32> raw;
  for (int l = 0; l < kLanes; l++) raw[l] = values[l];
  write_half_lanes(w, i, 0, raw, written);
}
inline void write_result(Wave& w, const Instruction& i, const Lanes<i16>& values, u64 written) {
  Lanes<u32> raw;
  for (int l = 0; l < kLanes; l++) raw[l] = static_cast<u16>(values[l]);
  write_half_lanes(w, i, 0, raw, written);
}
void write_result(Wave& w, const Instruction& i, const Lanes<float>& values, u64 written);
void write_result(Wave& w, const Instruction& i, const Lanes<f16>& values, u64 written);
void write_result(Wave& w, const Instruction& i, const Lanes<u64>& values, u64 written);
void write_result(Wave& w, const Instruction& i, const Lanes<i64>& values, u64 written);
void write_result(Wave& w, const Instruction& i, const Lanes<double>& values, u64 written);

template <class T> constexpr T saturate(i64 value) {
  const i64 low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  return static_cast<T>(value < low ? low : value > high ? high : value);
}
template <class T> void write_result(Wave& w, const Instruction& i, const Lanes<Exact<T>>& values, u64 written) {
  Lanes<T> cut;
  for (int l = 0; l < kLanes; l++) cut[l] = i.clamp ? saturate<T>(values[l].value) : static_cast<T>(values[l].value);
  write_result(w, i, cut, written);
}

// ---- one function of each lane ---------------------------------------------------------------------------------------

template <class F> struct Signature : Signature<decltype(&F::operator())> {};
template <class C, class R, class... A> struct Signature<R (C::*)(A...) const> {
  using Result = R;
  using All = std::tuple<Lanes<std::decay_t<A>>...>;
  static constexpr int count = sizeof...(A);
  static constexpr bool is_float = (std::is_same_v<A, float> || ... || false) || (std::is_same_v<A, double> || ... || false) ||
                                   (std::is_same_v<A, f16> || ... || false);
};

template <class T> struct IsExact : std::false_type {};
template <class T> struct IsExact<Exact<T>> : std::true_type {};

/// Traits that follow from the types of a function of lanes.
template <auto function> constexpr u32 traits_of() {
  using S = Signature<decltype(function)>;
  using R = typename S::Result;
  u32 traits = S::is_float ? u32{kSourceModifiers} : 0;
  if constexpr (std::is_same_v<R, float>) traits |= kClamp | kOutputModifier;
  if constexpr (std::is_same_v<R, double>) traits |= kClamp | kDouble;
  if constexpr (std::is_same_v<R, f16>) traits |= kClamp | kOutputModifier;
  if constexpr (IsExact<R>::value) traits |= kClamp;
  return traits | kOpSel;
}

/// Executes an instruction that is `function` in each lane.
template <auto function> void each_lane(Wave& w, const Instruction& i) {
  using S = Signature<decltype(function)>;
  typename S::All in;
  u64 written = kAllLanes;
  const int first = i.has(kTwoResults) ? 2 : 1;
  [&]<size_t... s>(std::index_sequence<s...>) {
    (read_source(w, i, first + static_cast<int>(s), static_cast<int>(s), std::get<s>(in), written), ...);
    Lanes<typename S::Result> out;
    for (int l = 0; l < kLanes; l++) out[l] = function(std::get<s>(in)[l]...);
    write_result(w, i, out, written);
  }(std::make_index_sequence<S::count>());
}

/// A >> in a lambda that is written here has to stand in parentheses: g++ 12 ends the template arguments with it.
template <auto function> Entry lanes(u32 traits = 0, Detail detail = {}) {
  return {each_lane<function>, Class::vector_alu, traits | traits_of<function>(), detail};
}

}  // namespace jaxator::emulator
