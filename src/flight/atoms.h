/// @file
/// Matrix instructions, one table for all targets: what the language may name in `mma` and `tile_mma`, and which element each
/// lane holds. No MLIR here: the Python side reads the same table.
///
/// An atom multiplies A [m, k] by B [n, k]^T and adds to C [m, n]. Its spreads are layouts (lane, value) -> index into (m, k),
/// (n, k) and (m, n), the leftmost mode fastest. A block's product is made of atoms by a layout of its waves over (M, N): wave
/// (i, j) has the i-th of equal runs of rows and the j-th of equal runs of columns, and walks them atom by atom.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/layout/layout.h"

namespace jaxator::flight {

/// How an atom becomes code.
enum class AtomKind : uint8_t {
  plain,       // one lane alone, by fused multiply-adds: on every target
  mfma,        // intrinsic(a, b, c, 0, 0, 0)
  mfma_scale,  // the same with a format and an E8M0 scale for each operand
  mma_sync,    // intrinsic of a warp, on 32-bit registers
  wgmma,       // of a warpgroup; B, and A if not in registers, in shared memory
};

struct Atom {
  std::string name;
  AtomKind kind;
  /// gfx942, gfx950, sm_90a, x86-64; "*" is every target.
  std::string target;
  int lanes;
  int m, n, k;
  /// MLIR's names of the element types. "float": f32, f16 or bf16, widened.
  std::string operand, result;
  layout::Layout a, b, c;
  /// LLVM's name, if one does it all.
  std::string intrinsic;
};

const std::vector<Atom>& atoms();

/// nullptr if the target has no atom of this name.
const Atom* find_atom(std::string_view name, std::string_view target);
/// The names of the target's atoms, in order, with ", " between them.
std::string atom_names(std::string_view target);

enum class Operand : uint8_t { a, b, c };

/// Which element of the whole operand each thread of the block holds: (thread, value) -> index into its shape, (M, K), (N, K) or
/// (M, N). Values of one atom come first, then atoms along the first mode, then along the second. `waves` maps a wave's place in
/// (M, N) to its number. Throws std::invalid_argument where atoms and waves do not divide the shape.
layout::Layout mma_spread(const Atom& atom, const layout::Layout& waves, Operand operand, int64_t rows, int64_t columns);

}  // namespace jaxator::flight
