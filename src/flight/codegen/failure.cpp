#include "src/flight/codegen/failure.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace jaxator::flight {

using namespace mlir;

std::vector<Frame> frames_of(Location location) {
  std::vector<Frame> frames;
  Location rest = location;
  while (true) {
    if (const auto call = dyn_cast<CallSiteLoc>(rest)) {
      const std::vector<Frame> inner = frames_of(call.getCallee());
      frames.insert(frames.end(), inner.begin(), inner.end());
      rest = call.getCaller();
    } else if (const auto fused = dyn_cast<FusedLoc>(rest); fused && !fused.getLocations().empty()) {
      rest = fused.getLocations()[0];
    } else {
      break;
    }
  }
  std::string function;
  if (const auto name = dyn_cast<NameLoc>(rest)) {
    function = name.getName().str();
    rest = name.getChildLoc();
  }
  if (const auto file = dyn_cast<FileLineColLoc>(rest))
    frames.push_back({function, file.getFilename().str(), file.getLine(), file.getColumn()});
  return frames;
}

llvm::json::Value to_json(const std::vector<Frame>& frames) {
  llvm::json::Array array;
  for (const Frame& frame : frames) array.push_back(llvm::json::Array{frame.function, frame.file, frame.line, frame.column});
  return array;
}

llvm::json::Value to_json(const Failure& failure) {
  llvm::json::Array notes;
  for (const std::string& note : failure.notes) notes.push_back(note);
  return llvm::json::Object{
      {"kind", failure.kind}, {"message", failure.message}, {"frames", to_json(failure.frames)}, {"notes", std::move(notes)}};
}

}  // namespace jaxator::flight
