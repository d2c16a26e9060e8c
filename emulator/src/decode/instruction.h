/// @file
/// A decoded instruction.
#pragma once

#include <array>
#include <vector>

#include "emulator/src/common.h"

namespace jaxator::emulator {

class Wave;
struct Instruction;
using Function = void (*)(Wave&, const Instruction&);

/// Thrown for an instruction or modifier that is not implemented.
class DecodeError : public Error {
 public:
  using Error::Error;
};

struct Operand {
  enum class Type : u8 { none, vector, scalar, constant, off };
  Type type = Type::none;
  u8 registers = 1;
  u16 index = 0;  // of the first register
  u32 bits = 0;   // a constant as 32 bits
  double real = 0;
  bool is_real = false;     // the constant is written as a decimal fraction: its bits depend on the operation's type
  bool is_literal = false;  // the constant is 32 bits of the instruction stream
  bool negate = false, absolute = false, sign_extend = false;

  bool is_vector() const { return type == Type::vector; }
  bool is_scalar() const { return type == Type::scalar; }
  bool is_constant() const { return type == Type::constant; }
};

/// Which counters and checks an instruction concerns.
enum class Class : u8 {
  vector_alu,
  matrix,  // MFMA and SMFMAC
  scalar_alu,
  branch,
  wait,  // s_waitcnt
  barrier,
  end,
  nop,  // also what the emulator need not do: priorities, sleeping, traces
  scalar_memory,
  lds,
  lds_permute,    // through LDS's crossbar, without touching its memory
  vector_memory,  // global, scratch and buffer
  flat,
  cache,  // write back, invalidate
};

/// Facts of a mnemonic that do not follow from its operands. Bits of Instruction::traits.
enum Trait : u32 {
  kClamp = 1u << 0,            // takes `clamp`
  kOutputModifier = 1u << 1,   // takes mul:2, mul:4, div:2
  kSourceModifiers = 1u << 2,  // takes - and | |
  kAccumulates = 1u << 3,      // reads its destination as the last source
  kReadsScc = 1u << 4,
  kWritesScc = 1u << 5,
  kReadsVcc = 1u << 6,
  kReadsExec = 1u << 7,  // as data
  kWritesExec = 1u << 8,
  kReadsM0 = 1u << 9,
  kWritesM0 = 1u << 10,
  kCrossLane = 1u << 11,    // a lane's result depends on other lanes
  kIgnoresExec = 1u << 12,  // writes all lanes
  kTwoResults = 1u << 13,   // operand 1 is a result, too
  kNoResult = 1u << 14,     // operand 0 is a source
  kSwaps = 1u << 15,        // operands 0 and 1 are both sources and results
  kKeepsRest = 1u << 16,    // part of the destination stays as it is
  kOpSel = 1u << 17,        // takes op_sel
  kTranscendental = 1u << 18,
  kStore = 1u << 19,
  kLoad = 1u << 20,
  kAtomic = 1u << 21,
  kToLds = 1u << 22,   // a fetch from global memory to LDS
  kCmpx = 1u << 23,    // also writes EXEC by comparison
  kDouble = 1u << 24,  // double precision
};

enum class Space : u8 { global, flat, scratch, buffer, lds };

/// What a family of instructions needs to know beside the operands; each family uses some of it.
struct Detail {
  u8 bytes = 0;  // of a lane's access
  u8 element_bits = 0;
  u8 operation = 0;  // an enumerator of the family
  u8 shift = 0;
  bool is_signed = false;
  bool high = false;  // the high 16 bits of the register
  bool half = false;  // 16 bits of the register, the others stay
  Space space = Space::global;
  u16 index = 0;  // into a table of the family
};

struct Dpp {
  bool used = false;
  bool bound_control = false;  // a source lane out of range reads as 0
  u8 row_mask = 15, bank_mask = 15;
  int control = -1;  // as encoded
};

struct Sdwa {
  bool used = false;
  u8 source[2] = {6, 6};  // BYTE_0..3, WORD_0..1, DWORD
  u8 destination = 6;
  enum class Unused : u8 { pad, sign_extend, preserve } unused = Unused::pad;
};

inline constexpr int kMaxOperands = 8;

/// Registers that an instruction names: [first, first + count) of one file.
struct RegisterRange {
  bool is_vector;
  u16 first;
  u8 count;
};

struct Instruction {
  Function execute = nullptr;
  u64 pc = 0;
  u32 size = 0;
  Class unit = Class::nop;
  u32 traits = 0;
  Detail detail;
  std::array<Operand, kMaxOperands> operands;
  int operand_count = 0;

  // modifiers
  i32 offset = 0;
  u8 offset0 = 0, offset1 = 0;
  u8 cbsz = 0, abid = 0, blgp = 0;
  u8 output_modifier = 0;  // 1: * 2, 2: * 4, 3: / 2
  u8 bitop3 = 0;
  u8 index_mode = 0;  // of s_set_gpr_idx_on
  bool clamp = false, offen = false, idxen = false;
  bool sc0 = false, sc1 = false, nt = false;
  bool returns = false;                                  // an atomic that gives the value before it
  u8 op_sel = 0, op_sel_hi = 0, neg_lo = 0, neg_hi = 0;  // bit i: of source i; op_sel's bit 3: of the destination
  Dpp dpp;
  Sdwa sdwa;

  u32 words[4] = {};  // as encoded
  std::string name;   // without _e32, _e64, _dpp, _sdwa
  std::string text;

  // Derived, for the checks.
  std::vector<RegisterRange> sources, results;
  u16 top_vector = 0, top_accumulator = 0;  // one past the highest register of each kind that is named

  bool has(u32 trait) const { return (traits & trait) != 0; }
  const Operand& operand(int i) const { return operands[i]; }
  bool selects_high(int source) const { return (op_sel >> source & 1) != 0; }
};

}  // namespace jaxator::emulator
