/// @file
/// The passes, each with the options that the compiler's pipeline gives it.
#pragma once

#include <memory>

#include "mlir/Pass/Pass.h"
#include "src/flight/passes/tiles_vectors.h"
#include "src/flight/target.h"

namespace jaxator::flight {

/// Races of shared memory, barriers that not all threads reach, too much shared memory.
std::unique_ptr<mlir::Pass> create_check(const Target& target);
/// Tiles to each thread's vector; reductions to shuffles and shared memory.
std::unique_ptr<mlir::Pass> create_tiles_to_threads(const Target& target);
/// x86's fast way: tiles to arrays and vector loops, no threads.
std::unique_ptr<mlir::Pass> create_tiles_to_loops(const Vectors& vectors);
/// Elementary functions to arithmetic.
std::unique_ptr<mlir::Pass> create_expand_math(const Target& target);
/// Matrix instructions to the target's.
std::unique_ptr<mlir::Pass> create_lower_mma(const Target& target);
/// Views, loads and stores to addresses; shared memory to variables.
std::unique_ptr<mlir::Pass> create_lower_views(const Target& target);
/// Reports bank conflicts of shared memory as remarks; changes nothing.
std::unique_ptr<mlir::Pass> create_banks(const Target& target);
/// Printing on x86.
std::unique_ptr<mlir::Pass> create_lower_print();
/// Address arithmetic in 32 bits where that is enough.
std::unique_ptr<mlir::Pass> create_narrow_index();
/// Functions to the kernels of a GPU.
std::unique_ptr<mlir::Pass> create_to_gpu(const Target& target);
/// Functions to code for one block on one CPU thread.
std::unique_ptr<mlir::Pass> create_threads_to_loops();
/// Vectors of one element to scalars.
std::unique_ptr<mlir::Pass> create_unit_vectors();

/// For tests of single passes.
void register_passes();

}  // namespace jaxator::flight
