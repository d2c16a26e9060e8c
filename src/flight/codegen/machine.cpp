#include "src/flight/codegen/machine.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
void LLVMInitializeX86AsmParser();
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTarget();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUAsmPrinter();
void LLVMInitializeAMDGPUAsmParser();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace jaxator::flight {

void initialise_llvm() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeX86AsmParser();
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUAsmPrinter();
  LLVMInitializeAMDGPUAsmParser();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

namespace {

/// The library's name for x86-64-v4 with AVX512_BF16 and VNNI.
constexpr llvm::StringLiteral kBf16Cpu = "x86-64-v4-bf16";

std::string host_features() {
  llvm::SubtargetFeatures features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) features.AddFeature(feature.getKey(), feature.getValue());
  return features.getString();
}

/// What a program on another machine compares with what it can run.
void say_instruction_set(llvm::Module& module, llvm::StringRef cpu) {
  auto* text = llvm::ConstantDataArray::getString(module.getContext(), cpu);
  new llvm::GlobalVariable(module, text->getType(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage, text, "jaxator_isa");
}

llvm::CodeGenOptLevel level_of(int optimize) {
  if (optimize == 0) return llvm::CodeGenOptLevel::None;
  if (optimize == 1) return llvm::CodeGenOptLevel::Less;
  return optimize == 2 ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::Aggressive;
}

}  // namespace

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target, const Options& options, std::string& error) {
  const llvm::Triple triple(target.triple);
  const llvm::Target* registered = llvm::TargetRegistry::lookupTarget(triple, error);
  if (registered == nullptr) return nullptr;
  std::string cpu = target.name, features = target.features;
  if (target.x86()) {
    const bool bf16 = options.cpu == kBf16Cpu;
    cpu = options.cpu.empty() ? llvm::sys::getHostCPUName().str() : bf16 ? "x86-64-v4" : options.cpu;
    features = options.cpu.empty() ? host_features() : bf16 ? "+avx512bf16,+avx512vnni" : "";
  }
  std::unique_ptr<llvm::TargetMachine> machine(
      registered->createTargetMachine(triple, cpu, features, {}, llvm::Reloc::PIC_, {}, level_of(options.optimize)));
  if (machine != nullptr && !machine->getMCSubtargetInfo()->isCPUStringValid(cpu)) {
    error = "cpu " + cpu + " is not one that LLVM knows";
    return nullptr;
  }
  return machine;
}

Vectors vectors_of(const Target& target, const Options& options) {
  std::string error;
  const auto machine = make_machine(target, options, error);
  if (machine == nullptr) return {};  // the error comes with the code
  const auto has = [&](const char* feature) { return machine->getMCSubtargetInfo()->checkFeatures(feature); };
  const bool wide = has("+avx512f,+avx512bw,+avx512dq,+avx512vl");
  return {wide ? 64 : has("+avx2") ? 32 : 16, wide ? 32 : 16, wide && has("+avx512bf16"), wide && has("+avx512vnni")};
}

void prepare(llvm::Module& module, const Target& target, const llvm::TargetMachine& machine, const Options& options) {
  if (target.x86() && !options.cpu.empty()) say_instruction_set(module, options.cpu);
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  // Code objects of version 5 are taken by every ROCm since 5.6.
  if (target.cdna()) module.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", 500);
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("no-trapping-math", "true");
    if (target.cdna()) function.addFnAttr("uniform-work-group-size", "true");
    if (!target.x86()) continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
    function.addFnAttr("prefer-vector-width", "512");
  }
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, int level) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  if (level == 0) {
    builder.buildO0DefaultPipeline(llvm::OptimizationLevel::O0).run(module, modules);
    return;
  }
  const llvm::OptimizationLevel levels[] = {llvm::OptimizationLevel::O1, llvm::OptimizationLevel::O2,
                                            llvm::OptimizationLevel::O3};
  builder.buildPerModuleDefaultPipeline(levels[level - 1]).run(module, modules);
}

bool emit(llvm::Module& module, llvm::TargetMachine& machine, bool assembly, llvm::SmallVectorImpl<char>& bytes) {
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  const auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind)) return false;
  passes.run(module);
  return true;
}

}  // namespace jaxator::flight
