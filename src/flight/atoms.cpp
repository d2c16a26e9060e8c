#include "src/flight/atoms.h"

#include <algorithm>
#include <stdexcept>

#include "src/layout/algebra.h"

namespace jaxator::flight {
namespace {

using layout::Int;
using layout::IntTuple;
using layout::Layout;
using layout::make_layout;
using layout::tuple;

/// MFMA, A or B: lane % size is the row, and each group of lanes has neighbouring k.
Layout mfma_operand(int size, int k) {
  const int groups = 64 / size, values = k / groups;
  return make_layout(tuple(tuple(size, groups), values), tuple(tuple(1, size * values), size));
}

/// Scaled MFMA of bytes: a lane has 16 neighbours of the first half of k and 16 of the second. Its scale is that of the
/// (lane / size)-th 32 neighbours nevertheless.
Layout mfma_bytes(int size) {
  const int groups = 64 / size;
  return make_layout(tuple(tuple(size, groups), tuple(16, 2)), tuple(tuple(1, 16 * size), tuple(size, 16 * groups * size)));
}

/// MFMA, C: lane % n is the column, values go down the rows in fours, and the groups of lanes take turns.
Layout mfma_result(int size) {
  const int groups = 64 / size;
  return make_layout(tuple(tuple(size, groups), tuple(4, size / (4 * groups))), tuple(tuple(size, 4), tuple(1, 4 * groups)));
}

void add_mfma(std::vector<Atom>& all, const char* target, int size, int k, const char* suffix, const char* operand,
              const char* intrinsic, AtomKind kind = AtomKind::mfma) {
  const std::string shape = std::to_string(size) + "x" + std::to_string(size) + "x" + std::to_string(k);
  const bool integer = std::string_view(operand) == "i8";
  const std::string scale = kind == AtomKind::mfma_scale ? "scale_" : "", dotted = kind == AtomKind::mfma_scale ? "scale." : "";
  const bool halves = kind == AtomKind::mfma_scale && std::string_view(suffix) != "fp4";
  const Layout operands = halves ? mfma_bytes(size) : mfma_operand(size, k);
  all.push_back({"mfma_" + scale + shape + "_" + suffix, kind, target, 64, size, size, k, operand, integer ? "i32" : "f32",
                 operands, operands, mfma_result(size),
                 "llvm.amdgcn.mfma." + dotted + (integer ? "i32." : "f32.") + shape + intrinsic});
}

void add_amd(std::vector<Atom>& all, const char* target, bool gfx950) {
  // FNUZ formats on gfx942, OCP's on gfx950.
  const char *fp8 = gfx950 ? "f8E4M3FN" : "f8E4M3FNUZ", *bf8 = gfx950 ? "f8E5M2" : "f8E5M2FNUZ";
  for (const int size : {16, 32}) {
    const int k = size == 16 ? 16 : 8;
    add_mfma(all, target, size, k / 4, "f32", "f32", "f32");
    add_mfma(all, target, size, k, "bf16", "bf16", "bf16.1k");
    add_mfma(all, target, size, k, "f16", "f16", "f16");
    add_mfma(all, target, size, 2 * k, "fp8", fp8, ".fp8.fp8");
    add_mfma(all, target, size, 2 * k, "bf8", bf8, ".bf8.bf8");
    add_mfma(all, target, size, 2 * k, "i8", "i8", ".i8");
    if (!gfx950) continue;
    add_mfma(all, target, size, 2 * k, "bf16", "bf16", ".bf16");
    add_mfma(all, target, size, 2 * k, "f16", "f16", ".f16");
    add_mfma(all, target, size, 4 * k, "i8", "i8", ".i8");
    for (const auto& [suffix, type] : {std::pair{"fp8", fp8}, {"bf8", bf8}, {"fp4", "f4E2M1FN"}})
      add_mfma(all, target, size, 8 * k, suffix, type, ".f8f6f4", AtomKind::mfma_scale);
  }
}

/// Rows of eight, four lanes a row with `run` neighbours each; then eight rows on, then four runs on: A of a warp, and with
/// `warps` of 16 rows each, A of a warpgroup.
Layout register_rows(int rows, int run, int warps) {
  return make_layout(tuple(tuple(4, 8, warps), tuple(run, 2, 2)),
                     tuple(tuple(run * rows, 1, 16), tuple(rows, 8, 4 * run * rows)));
}

void add_warp(std::vector<Atom>& all, const char* type) {
  const Layout a = register_rows(16, 2, 1);
  const Layout b = make_layout(tuple(tuple(4, 8), tuple(2, 2)), tuple(tuple(16, 1), tuple(8, 64)));
  const Layout c = make_layout(tuple(tuple(4, 8), tuple(2, 2)), tuple(tuple(32, 1), tuple(16, 8)));
  const bool bf16 = std::string_view(type) == "bf16";
  all.push_back({std::string("mma_16x8x16_") + type, AtomKind::mma_sync, "sm_90a", 32, 16, 8, 16, type, "f32", a, b, c,
                 std::string("llvm.nvvm.mma.m16n8k16.row.col.") + (bf16 ? "bf16" : "f32.f32")});
}

void add_warpgroup(std::vector<Atom>& all, const char* suffix, const char* type, int k) {
  for (int n = 8; n <= 256; n += 8) {
    const Layout a = register_rows(64, k / 8, 4);
    // B is never in registers: its spread gives all of it to every lane, so that shapes can be told from it.
    const Layout b = make_layout(tuple(128, tuple(n, k)), tuple(0, tuple(1, n)));
    const Layout c = make_layout(tuple(tuple(4, 8, 4), tuple(2, 2, n / 8)), tuple(tuple(128, 1, 16), tuple(64, 8, 512)));
    all.push_back({"wgmma_64x" + std::to_string(n) + "x" + std::to_string(k) + "_" + suffix, AtomKind::wgmma, "sm_90a", 128, 64,
                   n, k, type, "f32", a, b, c, ""});
  }
}

void add_plain(std::vector<Atom>& all, const char* name, int k, const char* operand, const char* result) {
  const Layout one = make_layout(tuple(1, 1), tuple(0, 0)), row = make_layout(tuple(1, k), tuple(0, 1));
  all.push_back({name, AtomKind::plain, "*", 1, 1, 1, k, operand, result, row, row, one, ""});
}

std::vector<Atom> make_atoms() {
  std::vector<Atom> all;
  add_plain(all, "fma_f32", 1, "float", "f32");
  add_plain(all, "dot_bf16", 2, "bf16", "f32");
  add_plain(all, "dot_i8", 4, "i8", "i32");
  add_amd(all, "gfx942", false);
  add_amd(all, "gfx950", true);
  for (const char* type : {"bf16", "f16"}) {
    add_warp(all, type);
    add_warpgroup(all, type, type, 16);
  }
  add_warpgroup(all, "fp8", "f8E4M3FN", 32);
  add_warpgroup(all, "bf8", "f8E5M2", 32);
  return all;
}

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument("mma: " + text); }

int64_t atoms_along(const char* what, int64_t size, int64_t waves, int64_t atom, const std::string& name) {
  if (size % (waves * atom) != 0)
    refuse(std::string(what) + " = " + std::to_string(size) + " must be a multiple of " + std::to_string(waves * atom) + ": " +
           std::to_string(waves) + " waves with " + std::to_string(atom) + " of " + name + " each");
  return size / (waves * atom);
}

}  // namespace

const std::vector<Atom>& atoms() {
  static const std::vector<Atom> all = make_atoms();
  return all;
}

const Atom* find_atom(std::string_view name, std::string_view target) {
  const auto fits = [&](const Atom& atom) { return atom.name == name && (atom.target == "*" || atom.target == target); };
  const auto found = std::ranges::find_if(atoms(), fits);
  return found == atoms().end() ? nullptr : &*found;
}

std::string atom_names(std::string_view target) {
  std::string names;
  for (const Atom& atom : atoms())
    if (atom.target == "*" || atom.target == target) names += (names.empty() ? "" : ", ") + atom.name;
  return names;
}

Layout mma_spread(const Atom& atom, const Layout& waves, Operand operand, int64_t rows, int64_t columns) {
  if (waves.rank() != 2) refuse("waves have the two modes (M, N), not " + std::to_string(waves.rank()));
  const Layout number = layout::right_inverse(waves);
  const int64_t waves_m = layout::size(waves.mode(0)).value, waves_n = layout::size(waves.mode(1)).value;
  if (layout::size(number).value != waves_m * waves_n) refuse("waves must number all places from 0 on, each with its own number");

  const bool is_b = operand == Operand::b, is_c = operand == Operand::c;
  const Layout& lanes = is_b ? atom.b : is_c ? atom.c : atom.a;
  const int first = is_b ? atom.n : atom.m, second = is_c ? atom.n : atom.k;
  const int64_t along_first = is_b ? waves_n : waves_m, along_second = is_c ? waves_n : 1;
  const int64_t count = atoms_along(is_b ? "N" : "M", rows, along_first, first, atom.name);
  const int64_t repeat = atoms_along(is_c ? "N" : "K", columns, along_second, second, atom.name);

  const Layout atom_in_shape = make_layout(tuple(first, second), tuple(1, rows));
  const Layout one = layout::composition(atom_in_shape, lanes);
  const int64_t run = count * first;
  const Layout places = make_layout(tuple(waves_m, waves_n), tuple(is_b ? 0 : run, is_b   ? run
                                                                                   : is_c ? repeat * second * rows
                                                                                          : 0));
  const Layout thread = make_layout(one.mode(0), layout::composition(places, number));
  const Layout value = make_layout(one.mode(1), Layout(Int(count), Int(first)), Layout(Int(repeat), Int(second * rows)));
  return make_layout(thread, value);
}

}  // namespace jaxator::flight
