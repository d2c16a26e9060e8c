/// @file
/// Matrix multiply-accumulate (MFMA), with and without block scales. Sums run over the depth in order with fused multiply-add;
/// hardware may order and round differently.
#include "emulator/src/isa/matrix_layout.h"
#include "emulator/src/isa/scalars.h"

namespace jaxator::emulator {
namespace {

constexpr int kMostElements = 4096;  // of A or B: 32 * 128

struct Form {
  MatrixShape shape;
  Element a, b;
  bool scaled = false, any_format = false;
};

/// Formats that CBSZ and BLGP choose in the f8f6f4 forms.
Element format_of(u8 selector) {
  static constexpr Element kFormats[] = {Element::fp8, Element::bf8, Element::fp6, Element::bf6, Element::fp4};
  if (selector >= std::size(kFormats)) throw Fault{Kind::unsupported, "matrix format " + std::to_string(selector)};
  return kFormats[selector];
}

void read_words(const Wave& w, const Operand& operand, int lane, u32* words) {
  for (int k = 0; k < operand.registers; k++) words[k] = w.vector[operand.index + k][lane];
}

/// Scale of a row for 32 of the depth: the byte that op_sel picks, in lane row + extent * (depth / 32).
float scale_of(const Wave& w, const Instruction& i, int operand, int source, int lane) {
  const Operand& o = i.operand(operand);
  const int byte = (i.op_sel >> source & 1) + 2 * (i.op_sel_hi >> source & 1);
  const u32 word = o.is_vector() ? w.vector[o.index][lane] : read_scalar(w, o);
  return as_float(numeric::decode_e8m0(static_cast<u8>(word >> 8 * byte)));
}

/// A as [block][row][depth].
template <class T> void read_a(const Wave& w, const Instruction& i, const Form& form, Element type, T* out) {
  const MatrixShape& s = form.shape;
  const OperandLayout layout(s.rows, s.depth, s.blocks);
  T elements[64];
  u32 words[kMaxMatrixWords];
  for (int lane = 0; lane < kLanes; lane++) {
    // CBSZ broadcasts one block to 2^CBSZ of them, ABID says which.
    const int block = layout.block(lane), group = form.any_format ? 0 : i.cbsz;
    const int source_block = (block >> group << group) + (form.any_format ? 0 : i.abid);
    const int source = lane + (group == 0 ? 0 : (source_block - block) * s.rows);
    read_words(w, i.operand(1), source, words);
    decode_elements(type, words, layout.count, elements);
    for (int k = 0; k < layout.count; k++) {
      const int depth = layout.depth_of(lane, k, bits_of(type));
      out[(block * s.rows + layout.row(lane)) * s.depth + depth] = elements[k];
    }
  }
}

/// B as [block][depth][column].
template <class T> void read_b(const Wave& w, const Instruction& i, const Form& form, Element type, T* out) {
  const MatrixShape& s = form.shape;
  const OperandLayout layout(s.columns, s.depth, s.blocks);
  T elements[64];
  u32 words[kMaxMatrixWords];
  for (int lane = 0; lane < kLanes; lane++) {
    read_words(w, i.operand(2), form.any_format ? lane : pattern_lane(i.blgp, lane), words);
    decode_elements(type, words, layout.count, elements);
    for (int k = 0; k < layout.count; k++) {
      const int depth = layout.depth_of(lane, k, bits_of(type));
      out[(layout.block(lane) * s.depth + depth) * s.columns + layout.row(lane)] = elements[k];
    }
  }
}

void scale_a(const Wave& w, const Instruction& i, const MatrixShape& s, float* a) {
  for (int r = 0; r < s.rows; r++)
    for (int k = 0; k < s.depth; k += 32) {
      const float scale = scale_of(w, i, 4, 0, r + s.rows * (k / 32));
      for (int n = 0; n < 32; n++) a[r * s.depth + k + n] *= scale;
    }
}
void scale_b(const Wave& w, const Instruction& i, const MatrixShape& s, float* b) {
  for (int c = 0; c < s.columns; c++)
    for (int k = 0; k < s.depth; k += 32) {
      const float scale = scale_of(w, i, 5, 1, c + s.columns * (k / 32));
      for (int n = 0; n < 32; n++) b[(k + n) * s.columns + c] *= scale;
    }
}

/// Bits of one element of C or D, 32 or 64.
template <class T> T read_c(const Wave& w, const Operand& o, const ResultPlace& place) {
  if constexpr (sizeof(T) == 8) {
    if (!o.is_vector()) return as_double(double_bits(o));
    return as_double(join(w.vector[o.index + 2 * place.reg][place.lane], w.vector[o.index + 2 * place.reg + 1][place.lane]));
  } else {
    return std::bit_cast<T>(o.is_vector() ? w.vector[o.index + place.reg][place.lane] : read_scalar(w, o));
  }
}
template <class T> void write_d(Wave& w, const Operand& o, const ResultPlace& place, T value) {
  if constexpr (sizeof(T) == 8) {
    w.vector[o.index + 2 * place.reg][place.lane] = static_cast<u32>(as_bits(value));
    w.vector[o.index + 2 * place.reg + 1][place.lane] = static_cast<u32>(as_bits(value) >> 32);
  } else {
    w.vector[o.index + place.reg][place.lane] = std::bit_cast<u32>(value);
  }
}

template <class T, class Visit> void for_result(const MatrixShape& s, T* c, const Visit& visit) {
  constexpr int unit = sizeof(T) == 8 ? 1 : 4;
  for (int block = 0; block < s.blocks; block++)
    for (int r = 0; r < s.rows; r++)
      for (int j = 0; j < s.columns; j++) visit(result_place(s, unit, block, r, j), c[(block * s.rows + r) * s.columns + j]);
}

const std::vector<Form>& forms();

/// EXEC is ignored. A negated operand is there for double precision only.
template <class T> void multiply_accumulate(Wave& w, const Instruction& i) {
  const Form& form = forms()[i.detail.index];
  const MatrixShape& s = form.shape;
  const Element type_a = form.any_format ? format_of(i.cbsz) : form.a, type_b = form.any_format ? format_of(i.blgp) : form.b;
  alignas(64) T a[kMostElements], b[kMostElements], c[kMostElements];
  read_a(w, i, form, type_a, a);
  read_b(w, i, form, type_b, b);
  for_result(s, c, [&](const ResultPlace& place, T& element) {
    element = read_c<T>(w, i.operand(3), place);
    if constexpr (sizeof(T) == 8)
      if ((i.neg_lo >> 2 & 1) != 0) element = -element;
  });
  if constexpr (std::is_same_v<T, float>) {
    if (form.scaled) {
      scale_a(w, i, s, a);
      scale_b(w, i, s, b);
    }
  }
  if constexpr (sizeof(T) == 8) {
    const bool negative = (i.neg_lo & 1) != (i.neg_lo >> 1 & 1);
    for (int k = 0; negative && k < s.blocks * s.rows * s.depth; k++) a[k] = -a[k];
  }
  for (int block = 0; block < s.blocks; block++)
    multiply(s, a + block * s.rows * s.depth, b + block * s.depth * s.columns, c + block * s.rows * s.columns);
  for_result(s, c, [&](const ResultPlace& place, T& element) { write_d(w, i.operand(0), place, element); });
}

// ---- names -----------------------------------------------------------------------------------------------------------

struct Named {
  const char* name;
  Form form;
};

const std::vector<Named>& named_forms() {
  using enum Element;
  static const std::vector<Named> all = {
      {"f32_32x32x1_2b_f32", {{32, 32, 1, 2}, f32, f32}},
      {"f32_16x16x1_4b_f32", {{16, 16, 1, 4}, f32, f32}},
      {"f32_4x4x1_16b_f32", {{4, 4, 1, 16}, f32, f32}},
      {"f32_32x32x2_f32", {{32, 32, 2, 1}, f32, f32}},
      {"f32_16x16x4_f32", {{16, 16, 4, 1}, f32, f32}},
      {"f32_16x16x8_xf32", {{16, 16, 8, 1}, xf32, xf32}},
      {"f32_32x32x4_xf32", {{32, 32, 4, 1}, xf32, xf32}},
      {"f32_32x32x4_2b_f16", {{32, 32, 4, 2}, f16, f16}},
      {"f32_16x16x4_4b_f16", {{16, 16, 4, 4}, f16, f16}},
      {"f32_4x4x4_16b_f16", {{4, 4, 4, 16}, f16, f16}},
      {"f32_32x32x8_f16", {{32, 32, 8, 1}, f16, f16}},
      {"f32_16x16x16_f16", {{16, 16, 16, 1}, f16, f16}},
      {"f32_32x32x16_f16", {{32, 32, 16, 1}, f16, f16}},
      {"f32_16x16x32_f16", {{16, 16, 32, 1}, f16, f16}},
      {"f32_32x32x4_2b_bf16", {{32, 32, 4, 2}, bf16, bf16}},
      {"f32_16x16x4_4b_bf16", {{16, 16, 4, 4}, bf16, bf16}},
      {"f32_4x4x4_16b_bf16", {{4, 4, 4, 16}, bf16, bf16}},
      {"f32_32x32x8_bf16", {{32, 32, 8, 1}, bf16, bf16}},
      {"f32_16x16x16_bf16", {{16, 16, 16, 1}, bf16, bf16}},
      {"f32_32x32x16_bf16", {{32, 32, 16, 1}, bf16, bf16}},
      {"f32_16x16x32_bf16", {{16, 16, 32, 1}, bf16, bf16}},
      {"i32_32x32x4_2b_i8", {{32, 32, 4, 2}, i8, i8}},
      {"i32_16x16x4_4b_i8", {{16, 16, 4, 4}, i8, i8}},
      {"i32_4x4x4_16b_i8", {{4, 4, 4, 16}, i8, i8}},
      {"i32_32x32x16_i8", {{32, 32, 16, 1}, i8, i8}},
      {"i32_16x16x32_i8", {{16, 16, 32, 1}, i8, i8}},
      {"i32_32x32x32_i8", {{32, 32, 32, 1}, i8, i8}},
      {"i32_16x16x64_i8", {{16, 16, 64, 1}, i8, i8}},
      {"f64_16x16x4_f64", {{16, 16, 4, 1}, f64, f64}},
      {"f64_4x4x4_4b_f64", {{4, 4, 4, 4}, f64, f64}},
      {"f32_16x16x128_f8f6f4", {{16, 16, 128, 1}, fp8, fp8, false, true}},
      {"f32_32x32x64_f8f6f4", {{32, 32, 64, 1}, fp8, fp8, false, true}},
      {"scale_f32_16x16x128_f8f6f4", {{16, 16, 128, 1}, fp8, fp8, true, true}},
      {"scale_f32_32x32x64_f8f6f4", {{32, 32, 64, 1}, fp8, fp8, true, true}},
  };
  return all;
}

/// FP8 and BF8 have two forms each in the table: FNUZ, then OCP.
struct Eight {
  const char* name;
  Element fnuz, ocp;
};
constexpr Eight kEights[] = {{"fp8", Element::fp8fnuz, Element::fp8}, {"bf8", Element::bf8fnuz, Element::bf8}};
constexpr MatrixShape kEightShapes[] = {{16, 16, 32, 1}, {32, 32, 16, 1}};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = [] {
    std::vector<Form> list;
    for (const Named& named : named_forms()) list.push_back(named.form);
    for (const MatrixShape& shape : kEightShapes)
      for (const Eight& a : kEights)
        for (const Eight& b : kEights) {
          list.push_back({shape, a.fnuz, b.fnuz});
          list.push_back({shape, a.ocp, b.ocp});
        }
    return list;
  }();
  return all;
}

void check_broadcast(Instruction& i, Architecture) {
  const Form& form = forms()[i.detail.index];
  if (form.any_format) return;
  if ((1 << i.cbsz) > form.shape.blocks || i.abid >= 1 << i.cbsz)
    throw DecodeError("cbsz:" + std::to_string(i.cbsz) + " abid:" + std::to_string(i.abid) + " of " + i.name + " with " +
                      std::to_string(form.shape.blocks) + " blocks");
}
/// gfx950's form stands behind gfx942's.
void choose_eight(Instruction& i, Architecture architecture) {
  if (architecture == Architecture::gfx950) i.detail.index++;
  check_broadcast(i, architecture);
}

}  // namespace

void add_matrix(Table& t) {
  constexpr u32 traits = kCrossLane | kIgnoresExec;
  u16 index = 0;
  for (const Named& named : named_forms()) {
    Entry entry{.execute = multiply_accumulate<float>,
                .unit = Class::matrix,
                .traits = traits | (named.form.scaled ? u32{kOpSel} : 0),
                .detail = {.index = index++},
                .prepare = check_broadcast};
    if (named.form.a == Element::f64) entry.execute = multiply_accumulate<double>, entry.traits |= kDouble;
    if (named.form.a == Element::i8) entry.execute = multiply_accumulate<i32>;
    t.add(std::string("v_mfma_") + named.name, entry);
  }
  for (const char* shape : {"16x16x32", "32x32x16"})
    for (const Eight& a : kEights)
      for (const Eight& b : kEights) {
        t.add(std::string("v_mfma_f32_") + shape + "_" + a.name + "_" + b.name, {.execute = multiply_accumulate<float>,
                                                                                 .unit = Class::matrix,
                                                                                 .traits = traits,
                                                                                 .detail = {.index = index},
                                                                                 .prepare = choose_eight});
        index += 2;
      }
}

}  // namespace jaxator::emulator
