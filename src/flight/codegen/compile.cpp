#include "src/flight/codegen/compile.h"

#include <map>

#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "src/flight/codegen/lines.h"
#include "src/flight/codegen/link.h"
#include "src/flight/codegen/machine.h"
#include "src/flight/codegen/pipeline.h"
#include "src/flight/codegen/ptxas.h"
#include "src/flight/codegen/registers.h"
#include "src/flight/codegen/report.h"
#include "src/flight/dialect/dialect.h"

namespace jaxator::flight {

using namespace mlir;

namespace {

FatalHandler& fatal_handler() {
  static FatalHandler handler;
  return handler;
}

/// One compile: what it is told on the way, and where it is.
class Compile {
 public:
  Compile(const Request& request, MLIRContext& context, const Progress& progress, Code& code)
      : request_(request), target_(*request.target), context_(context), progress_(progress), code_(code) {}

  std::optional<Failure> run();
  Failure fatal(const std::string& reason) const;

 private:
  friend class Watch;
  std::optional<Failure> lower();
  std::optional<Failure> generate();
  std::optional<Failure> finish();
  std::optional<Failure> read_needs();
  std::optional<Failure> check_needs(LLVM::LLVMFuncOp kernel, const Needs& needs);
  bool whole_tiles();
  void note(Diagnostic& diagnostic);
  void note_places();
  Failure fail(const char* kind, const std::string& message) const { return {kind, message, frames_, {}}; }
  Failure take_failure(const std::string& otherwise);
  void at(const std::string& stage) {
    stage_ = stage;
    progress_(stage_, frames_);
  }
  void dump(const std::string& name, const std::string& text) {
    if (request_.options.dump) code_.dumps.push_back({name, text});
  }

  const Request& request_;
  const Target& target_;
  MLIRContext& context_;
  const Progress& progress_;
  Code& code_;
  std::string stage_;
  std::vector<Frame> frames_;  // of the kernel
  bool rules_ = true;          // what is reported now is about the request, not about the compiler
  std::vector<Failure> failures_;
  OwningOpRef<ModuleOp> module_;
  std::map<std::string, std::vector<Frame>> intrinsics_;  // where each is called
  std::map<std::string, std::vector<Frame>> kernels_;
  std::unique_ptr<llvm::LLVMContext> llvm_;
  std::unique_ptr<llvm::Module> llvm_module_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::StringMap<Needs> needs_;  // of each kernel
};

/// Keeps the stage up to date, and dumps what each pass leaves.
class Watch : public PassInstrumentation {
 public:
  explicit Watch(Compile& compile) : compile_(compile) {}

  void runBeforePass(Pass* pass, Operation*) override {
    compile_.rules_ = pass->getArgument().starts_with("flight-");
    compile_.at(name(pass));
  }
  void runAfterPass(Pass* pass, Operation* op) override {
    if (!compile_.request_.options.dump) return;
    std::string text;
    llvm::raw_string_ostream stream(text);
    op->print(stream);
    count_++;
    compile_.dump((count_ < 10 ? "0" : "") + std::to_string(count_) + "-" + name(pass), text);
  }

 private:
  static std::string name(Pass* pass) { return (pass->getArgument().empty() ? pass->getName() : pass->getArgument()).str(); }

  Compile& compile_;
  int count_ = 0;
};

void Compile::note(Diagnostic& diagnostic) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
    code_.remarks.push_back({diagnostic.str(), frames_of(diagnostic.getLocation())});
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error) return;
  Failure failure{rules_ ? "diagnostic" : "backend", diagnostic.str(), frames_of(diagnostic.getLocation()), {}};
  for (Diagnostic& more : diagnostic.getNotes()) {
    std::string text = more.str();
    for (const Frame& frame : frames_of(more.getLocation()))
      text += "\n  " + frame.file + ":" + std::to_string(frame.line) + " in " + frame.function;
    failure.notes.push_back(text);
  }
  failures_.push_back(std::move(failure));
}

/// The first error, with the others as notes.
Failure Compile::take_failure(const std::string& otherwise) {
  if (failures_.empty()) return fail("backend", otherwise);
  Failure first = std::move(failures_[0]);
  for (size_t i = 1; i < failures_.size(); i++) first.notes.push_back(failures_[i].message);
  if (first.frames.empty()) first.frames = frames_;
  return first;
}

/// Does a kernel use tiles, and no name of a thread?
bool Compile::whole_tiles() {
  if (request_.options.route == "tiles") return true;
  if (request_.options.route == "threads") return false;
  bool tiles = false, threads = false;
  module_->walk([&](Operation* op) {
    threads |= isa<ThreadIdOp, ShuffleOp, MmaOp>(op);
    tiles |= llvm::any_of(op->getResultTypes(), [](Type type) { return isa<TileType>(type); });
  });
  return tiles && !threads;
}

std::optional<Failure> Compile::lower() {
  at("parse");
  const ScopedDiagnosticHandler handler(&context_, [&](Diagnostic& diagnostic) { return note(diagnostic), success(); });
  module_ = parseSourceString<ModuleOp>(request_.text, ParserConfig(&context_), "<request>");
  if (!module_) return take_failure("the text is not a module");
  for (auto function : module_->getOps<func::FuncOp>()) {
    kernels_[function.getName().str()] = frames_of(function.getLoc());
    if (frames_.empty()) frames_ = frames_of(function.getLoc());
    if (!function->hasAttr("flight.block") || function.isExternal() || !function.getBody().hasOneBlock())
      return Failure{
          "diagnostic", "kernel " + function.getName().str() + " must have flight.block and one block of code", frames_, {}};
  }
  if (kernels_.empty()) return fail("diagnostic", "the module has no kernel");
  PassManager manager(&context_);
  manager.enableVerifier(true);
  manager.addInstrumentation(std::make_unique<Watch>(*this));
  std::optional<Vectors> vectors;
  if (target_.x86() && whole_tiles()) vectors = vectors_of(target_, request_.options);
  add_passes(manager, target_, vectors ? &*vectors : nullptr);
  if (failed(manager.run(*module_))) return take_failure("a pass failed");
  rules_ = false;
  note_places();
  annotate_loops(*module_);
  at("translate");
  if (target_.cdna() && failed(add_line_tables(*module_))) return take_failure("no line tables");
  llvm_ = std::make_unique<llvm::LLVMContext>();
  llvm_module_ = translateModuleToLLVMIR(*module_, *llvm_);
  if (!llvm_module_) return take_failure("the module cannot be translated to LLVM");
  return std::nullopt;
}

/// LLVM names the intrinsic that it cannot make code of, but not where it is called.
void Compile::note_places() {
  module_->walk([&](LLVM::CallIntrinsicOp call) { intrinsics_[call.getIntrin().str()] = frames_of(call.getLoc()); });
}

Failure Compile::fatal(const std::string& reason) const {
  Failure failure = fail("backend", reason + " (in " + stage_ + ")");
  for (const auto& [name, frames] : intrinsics_)
    if (reason.find(name) != std::string::npos) failure.frames = frames;
  return failure;
}

std::optional<Failure> Compile::generate() {
  at("machine");
  std::string error;
  machine_ = make_machine(target_, request_.options, error);
  if (!machine_) return fail("request", error);
  prepare(*llvm_module_, target_, *machine_, request_.options);
  // Without a handler LLVM prints errors such as "local memory exceeds limit" and ends the process.
  llvm_->setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* self) {
        if (info->getSeverity() != llvm::DS_Error) return;
        std::string text;
        llvm::raw_string_ostream stream(text);
        llvm::DiagnosticPrinterRawOStream printer(stream);
        info->print(printer);
        auto& compile = *static_cast<Compile*>(self);
        compile.failures_.push_back(compile.fail("backend", text));
      },
      this);
  at("optimise");
  optimise(*llvm_module_, *machine_, request_.options.optimize);
  if (request_.options.dump) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm_module_->print(stream, nullptr);
    dump("90-llvm", text);
    const auto copy = llvm::CloneModule(*llvm_module_);
    llvm::SmallVector<char, 0> assembly;
    if (emit(*copy, *machine_, true, assembly)) dump("91-assembly", std::string(assembly.begin(), assembly.end()));
  }
  at("code");
  std::optional<llvm::RegisterTargetPassConfigCallback> counting;
  if (target_.x86()) counting.emplace(count_registers(needs_));
  if (!emit(*llvm_module_, *machine_, target_.nvidia(), code_.bytes))
    return fail("backend", std::string(target_.name) + " cannot emit code");
  if (!failures_.empty()) return take_failure("");
  return std::nullopt;
}

/// What code objects, NVIDIA's assembler or, for x86, LLVM's own passes say of the code.
std::optional<Failure> Compile::read_needs() {
  const StringRef bytes(code_.bytes.data(), code_.bytes.size());
  if (target_.cdna()) {
    auto read = read_code_object(bytes);
    if (!read) return fail("backend", llvm::toString(read.takeError()));
    needs_ = std::move(*read);
  }
  if (target_.nvidia() && request_.options.optimize > 0) {
    at("ptxas");
    // A ptxas of an older CUDA may refuse what the driver takes: then nothing is known.
    if (auto read = ask_ptxas(bytes, target_.name))
      needs_ = std::move(*read);
    else
      code_.remarks.push_back({llvm::toString(read.takeError()), frames_});
  }
  return std::nullopt;
}

/// Registers that do not fit are an error, and memory of each thread's own, unless allowed. Without optimisation everything is in
/// memory. On x86 they are told only: a store to the stack stays in the cache, and no thread waits for another's.
std::optional<Failure> Compile::check_needs(LLVM::LLVMFuncOp kernel, const Needs& needs) {
  if (request_.options.optimize == 0) return std::nullopt;
  const std::string name = kernel.getName().str();
  Failure failure{"diagnostic", "kernel " + name, kernels_[name], {}};
  const int64_t spills = needs.spills.value_or(0), scratch = needs.scratch_bytes.value_or(0);
  if (target_.x86()) {
    if (spills > 0 && !kernel->hasAttr("flight.allow_spills"))
      code_.remarks.push_back(
          {failure.message + " stores " + std::to_string(spills) + " registers to the stack", kernels_[name]});
    return std::nullopt;
  }
  if (spills > 0 && !kernel->hasAttr("flight.allow_spills")) {
    failure.message += " spills " + std::to_string(spills) + " registers: use smaller fragments, or allow spills";
    return failure;
  }
  if (scratch > 0 && spills == 0 && !kernel->hasAttr("flight.allow_scratch")) {
    failure.message += " keeps " + std::to_string(scratch) +
                       " bytes of each thread in memory: index fragments with static numbers, or allow scratch";
    return failure;
  }
  return std::nullopt;
}

std::optional<Failure> Compile::finish() {
  std::string error;
  if (!target_.nvidia()) {
    at("link");
    if (!link_shared(code_.bytes, target_.x86(), error)) return fail("backend", error);
  }
  if (target_.x86()) {
    auto names = undefined_symbols({code_.bytes.data(), code_.bytes.size()});
    if (!names) return fail("backend", llvm::toString(names.takeError()));
    for (const std::string& name : *names)
      if (!llvm::is_contained({"memcpy", "memmove", "memset", "dprintf"}, name))
        return fail("backend", "the code calls " + name + ", which no library of a kernel has");
  }
  if (auto failure = read_needs()) return failure;
  for (auto kernel : module_->getOps<LLVM::LLVMFuncOp>()) {
    if (kernel.isExternal() || !kernels_.contains(kernel.getName().str())) continue;
    Needs& of_kernel = needs_[kernel.getName()];
    const auto number = [&](StringRef name) {
      const auto attribute = kernel->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    if (!of_kernel.shared_bytes) of_kernel.shared_bytes = number("flight.shared_bytes");
    if (!target_.x86()) of_kernel.bank_conflicts = number("flight.bank_conflicts");
    of_kernel.dynamic_shared_bytes = number("flight.dynamic_shared_bytes");
    if (auto failure = check_needs(kernel, of_kernel)) return failure;
    code_.kernels[kernel.getName()] = of_kernel.to_json();
  }
  return std::nullopt;
}

std::optional<Failure> Compile::run() {
  if (auto failure = lower()) return failure;
  if (auto failure = generate()) return failure;
  return finish();
}

/// What fatal errors of LLVM are about.
const Compile* current = nullptr;

}  // namespace

void set_fatal_handler(FatalHandler handler) {
  fatal_handler() = std::move(handler);
  llvm::install_fatal_error_handler([](void*, const char* reason, bool) {
    fatal_handler()(current != nullptr ? current->fatal(reason) : Failure{"backend", reason, {}, {}});
  });
  llvm::install_bad_alloc_error_handler([](void*, const char* reason, bool) { fatal_handler()({"memory", reason, {}, {}}); });
}

std::unique_ptr<MLIRContext> make_context() {
  DialectRegistry registry;
  register_dialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->printOpOnDiagnostic(false);
  return context;
}

std::optional<Failure> compile(const Request& request, MLIRContext& context, const Progress& progress, Code& code) {
  Compile compile(request, context, progress, code);
  current = &compile;
  auto failure = compile.run();
  current = nullptr;
  return failure;
}

}  // namespace jaxator::flight
