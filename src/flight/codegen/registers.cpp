#include "src/flight/codegen/registers.h"

#include "llvm/CodeGen/MachineFrameInfo.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"

namespace jaxator::flight {

using namespace llvm;

namespace {

/// Registers of a class, named as the target names it, that a function uses. A part of one counts as all of it.
int64_t used(const MachineFunction& function, StringRef name) {
  const TargetRegisterInfo& target = *function.getSubtarget().getRegisterInfo();
  const MachineRegisterInfo& registers = function.getRegInfo();
  int64_t count = 0;
  for (const TargetRegisterClass* of : target.regclasses()) {
    if (name != target.getRegClassName(of)) continue;
    // What a called function may change is not used by this one.
    for (const MCPhysReg number : *of)
      count += !registers.isReserved(number) && registers.isPhysRegUsed(number, /*SkipRegMaskTest=*/true);
  }
  return count;
}

Needs needs_of(const MachineFunction& function) {
  Needs needs;
  needs.registers = used(function, "VR512");
  needs.scalars = used(function, "GR64");
  const TargetInstrInfo* target = function.getSubtarget().getInstrInfo();
  int64_t spills = 0, bytes = 0;
  for (const MachineBasicBlock& block : function)
    for (const MachineInstr& instruction : block)
      spills += instruction.getSpillSize(target) || instruction.getFoldedSpillSize(target);
  const MachineFrameInfo& frame = function.getFrameInfo();
  for (int slot = 0; slot < frame.getObjectIndexEnd(); slot++)
    if (frame.isSpillSlotObjectIndex(slot) && !frame.isDeadObjectIndex(slot)) bytes += frame.getObjectSize(slot);
  needs.spills = spills;
  needs.scratch_bytes = bytes;
  return needs;
}

class Count : public MachineFunctionPass {
 public:
  static char ID;
  explicit Count(StringMap<Needs>& kernels) : MachineFunctionPass(ID), kernels_(kernels) {}

  StringRef getPassName() const override { return "Registers of Flight's kernels"; }
  void getAnalysisUsage(AnalysisUsage& usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }
  bool runOnMachineFunction(MachineFunction& function) override {
    kernels_[function.getName()] = needs_of(function);
    return false;
  }

 private:
  StringMap<Needs>& kernels_;
};

char Count::ID = 0;

}  // namespace

PassConfigCallback count_registers(StringMap<Needs>& kernels) {
  // Here registers have been given, and the slots of the stack are those that are left.
  return [&kernels](TargetMachine&, PassManagerBase&, TargetPassConfig* passes) {
    passes->insertPass(&PrologEpilogCodeInserterID, IdentifyingPassPtr(new Count(kernels)));
  };
}

}  // namespace jaxator::flight
