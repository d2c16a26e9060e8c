/// @file
/// Matrix multiply-accumulate with a sparse A (SMFMAC): of each four elements along the depth A holds two, and two bits of an
/// index register say for each which one it is. The forms of gfx942; where the larger ones of gfx950 hold B is not documented.
#include "emulator/src/isa/matrix_layout.h"
#include "emulator/src/isa/table.h"

namespace jaxator::emulator {
namespace {

struct Form {
  MatrixShape shape;  // the depth is B's
  Element a, b;
};

const std::vector<Form>& forms();

constexpr int kMostElements = 2048;

void read_words(const Wave& w, const Operand& operand, int lane, u32* words) {
  for (int k = 0; k < operand.registers; k++) words[k] = w.vector[operand.index + k][lane];
}

/// Without CBSZ, ABID picks the part of the index register that holds this instruction's indices.
int first_index_bit(const Instruction& i, int elements) { return i.cbsz == 0 ? i.abid * 2 * elements : 0; }

template <class T> void read_sparse_a(const Wave& w, const Instruction& i, const Form& form, T* out) {
  const MatrixShape& s = form.shape;
  const OperandLayout layout(s.rows, s.depth / 2, 1);
  T elements[32];
  u32 words[kMaxMatrixWords];
  for (int lane = 0; lane < kLanes; lane++) {
    read_words(w, i.operand(1), lane, words);
    decode_elements(form.a, words, layout.count, elements);
    const u32 indices = w.vector[i.operand(3).index][lane] >> (first_index_bit(i, layout.count) & 31);
    const int first = 2 * layout.group(lane) * layout.count;
    for (int k = 0; k < layout.count; k++) {
      const int depth = first + k / 2 * 4 + static_cast<int>(indices >> 2 * k & 3);
      out[layout.row(lane) * s.depth + depth] = elements[k];
    }
  }
}

template <class T> void read_b(const Wave& w, const Instruction& i, const Form& form, T* out) {
  const MatrixShape& s = form.shape;
  const OperandLayout layout(s.columns, s.depth, 1);
  T elements[32];
  u32 words[kMaxMatrixWords];
  for (int lane = 0; lane < kLanes; lane++) {
    read_words(w, i.operand(2), lane, words);
    decode_elements(form.b, words, layout.count, elements);
    for (int k = 0; k < layout.count; k++)
      out[layout.depth_of(lane, k, bits_of(form.b)) * s.columns + layout.row(lane)] = elements[k];
  }
}

template <class T> void multiply_accumulate(Wave& w, const Instruction& i) {
  const Form& form = forms()[i.detail.index];
  const MatrixShape& s = form.shape;
  T a[kMostElements] = {}, b[kMostElements], c[1024];
  read_sparse_a(w, i, form, a);
  read_b(w, i, form, b);
  const int to = i.operand(0).index;
  const auto for_result = [&](const auto& visit) {
    for (int r = 0; r < s.rows; r++)
      for (int j = 0; j < s.columns; j++) {
        const ResultPlace place = result_place(s, 4, 0, r, j);
        visit(w.vector[to + place.reg][place.lane], c[r * s.columns + j]);
      }
  };
  for_result([](u32& bits, T& element) { element = std::bit_cast<T>(bits); });
  multiply(s, a, b, c);
  for_result([](u32& bits, T& element) { bits = std::bit_cast<u32>(element); });
}

struct Named {
  const char* name;
  MatrixShape shape;
  Element type;
};
constexpr Named kNamed[] = {
    {"f32_16x16x32_f16", {16, 16, 32, 1}, Element::f16},   {"f32_32x32x16_f16", {32, 32, 16, 1}, Element::f16},
    {"f32_16x16x32_bf16", {16, 16, 32, 1}, Element::bf16}, {"f32_32x32x16_bf16", {32, 32, 16, 1}, Element::bf16},
    {"i32_16x16x64_i8", {16, 16, 64, 1}, Element::i8},     {"i32_32x32x32_i8", {32, 32, 32, 1}, Element::i8},
};
struct Eight {
  const char* name;
  Element fnuz, ocp;
};
constexpr Eight kEights[] = {{"fp8", Element::fp8fnuz, Element::fp8}, {"bf8", Element::bf8fnuz, Element::bf8}};
constexpr Named kEightShapes[] = {{"f32_16x16x64_", {16, 16, 64, 1}, Element::fp8},
                                  {"f32_32x32x32_", {32, 32, 32, 1}, Element::fp8}};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = [] {
    std::vector<Form> list;
    for (const Named& named : kNamed) list.push_back({named.shape, named.type, named.type});
    for (const Named& named : kEightShapes)
      for (const Eight& a : kEights)
        for (const Eight& b : kEights) {
          list.push_back({named.shape, a.fnuz, b.fnuz});
          list.push_back({named.shape, a.ocp, b.ocp});
        }
    return list;
  }();
  return all;
}

void choose_eight(Instruction& i, Architecture architecture) {
  if (architecture == Architecture::gfx950) i.detail.index++;
}

}  // namespace

void add_sparse_matrix(Table& t) {
  constexpr u32 traits = kCrossLane | kIgnoresExec | kKeepsRest;
  u16 index = 0;
  for (const Named& named : kNamed)
    t.add(std::string("v_smfmac_") + named.name,
          {named.type == Element::i8 ? multiply_accumulate<i32> : multiply_accumulate<float>,
           Class::matrix,
           traits,
           {.index = index++}});
  for (const Named& named : kEightShapes)
    for (const Eight& a : kEights)
      for (const Eight& b : kEights) {
        t.add(std::string("v_smfmac_") + named.name + a.name + "_" + b.name, {.execute = multiply_accumulate<float>,
                                                                              .unit = Class::matrix,
                                                                              .traits = traits,
                                                                              .detail = {.index = index},
                                                                              .prepare = choose_eight});
        index += 2;
      }
}

}  // namespace jaxator::emulator
