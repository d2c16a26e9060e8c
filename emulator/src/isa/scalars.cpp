#include "emulator/src/isa/scalars.h"

namespace jaxator::emulator {

u32 read_scalar(const Wave& w, const Operand& operand, int part) {
  if (operand.is_scalar()) {
    switch (operand.index) {
      case kSharedBase:
        return part == 0 ? 0 : kSharedAperture;
      case kPrivateBase:
        return part == 0 ? 0 : kPrivateAperture;
      case kVccIsZero:
        return w.scalar64(kVcc) == 0;
      case kExecIsZero:
        return w.exec() == 0;
      default:
        return w.scalar[operand.index + part];
    }
  }
  if (operand.is_constant()) {
    if (part == 0) return operand.bits;
    if (operand.is_literal) return 0;  // of B64 and U64; inline constants are sign-extended
    return !operand.is_real && static_cast<i32>(operand.bits) < 0 ? ~0u : 0;
  }
  throw Fault{Kind::unsupported, "a vector register as a scalar operand"};
}

u64 read_scalar64(const Wave& w, const Operand& operand) {
  if (operand.is_constant() && operand.is_real) return as_bits(operand.real);
  const u32 low = read_scalar(w, operand);
  return join(low, read_scalar(w, operand, 1));
}

u64 double_bits(const Operand& operand) {
  if (operand.is_real) return as_bits(operand.real);
  if (operand.is_literal) return u64{operand.bits} << 32;
  return static_cast<u64>(i64{static_cast<i32>(operand.bits)});
}

void write_scalar(Wave& w, const Operand& operand, u32 value, int part) {
  if (!operand.is_scalar() || operand.index >= kSharedBase) throw Fault{Kind::unsupported, "a result that is no scalar register"};
  w.scalar[operand.index + part] = value;
}

void write_scalar64(Wave& w, const Operand& operand, u64 value) {
  write_scalar(w, operand, static_cast<u32>(value));
  write_scalar(w, operand, static_cast<u32>(value >> 32), 1);
}

}  // namespace jaxator::emulator
