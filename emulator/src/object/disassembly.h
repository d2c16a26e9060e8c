/// @file
/// Instruction text from LLVM's disassembler, which runs as a process of its own: jaxator-disassemble, 12 MB with its part of
/// LLVM linked statically. About one of 70,000 random words makes LLVM 22's AMDGPU disassembler crash, and a process that
/// computes must survive that; nor may it hold a second LLVM beside its own.
#pragma once

#include <span>
#include <vector>

#include "emulator/src/common.h"

namespace jaxator::emulator {

struct DisassembledLine {
  u32 offset, size;  // in bytes
  std::string text;  // "mnemonic operands modifiers", single spaces between the three
};

/// The instructions in `code` in order. Words that are no instruction are left out.
std::vector<DisassembledLine> disassemble(Architecture architecture, std::span<const u8> code);

/// How the helper says where it stopped: the exit status after a crash inside LLVM.
inline constexpr int kDisassemblerCrashed = 3;

}  // namespace jaxator::emulator
