/// @file
/// The C function by which Python reads the table of atoms: the name of an operation and texts in, a text out.
///   atoms(target)                              a line an atom: name kind lanes m n k operand result A's spread B's C's
///   spread(target, atom, waves, a|b|c, "(M,K)") the spread of a whole operand, as mma_spread
#include <span>
#include <stdexcept>

#include "src/ffi/c_api.h"
#include "src/flight/atoms.h"
#include "src/layout/text.h"

namespace jaxator::flight {
namespace {

using Arguments = std::span<const char* const>;

constexpr const char* kKinds[] = {"plain", "mfma", "mfma_scale", "mma_sync", "wgmma"};

std::string list(Arguments arguments) {
  std::string text;
  for (const Atom& atom : atoms()) {
    if (atom.target != "*" && atom.target != arguments[0]) continue;
    text += atom.name + " " + kKinds[static_cast<int>(atom.kind)];
    for (const int number : {atom.lanes, atom.m, atom.n, atom.k}) text += " " + std::to_string(number);
    text += " " + atom.operand + " " + atom.result;
    for (const layout::Layout& spread : {atom.a, atom.b, atom.c}) text += " " + to_string(spread);
    text += "\n";
  }
  return text;
}

std::string spread(Arguments arguments) {
  const std::string_view target = arguments[0], name = arguments[1], operand = arguments[3];
  const Atom* atom = find_atom(name, target);
  if (atom == nullptr)
    throw std::invalid_argument("mma: " + std::string(target) + " has no atom " + std::string(name) + ", only " +
                                atom_names(target));
  if (operand != "a" && operand != "b" && operand != "c")
    throw std::invalid_argument("mma: operand " + std::string(operand) + " must be a, b or c");
  const auto shape = layout::parse<layout::IntTuple>(arguments[4]);
  if (shape.rank() != 2 || shape.count != 2)
    throw std::invalid_argument("mma: shape " + to_string(shape) + " must have two sizes");
  const auto waves = layout::parse<layout::Layout>(arguments[2]);
  return to_string(
      mma_spread(*atom, waves, static_cast<Operand>(operand[0] - 'a'), shape.leaves[0].value, shape.leaves[1].value));
}

std::string run(std::string_view operation, Arguments arguments) {
  if (operation == "atoms" && arguments.size() == 1) return list(arguments);
  if (operation == "spread" && arguments.size() == 5) return spread(arguments);
  throw std::logic_error("no operation " + std::string(operation) + " of " + std::to_string(arguments.size()) + " arguments");
}

}  // namespace
}  // namespace jaxator::flight

/// As jaxator_layout.
JAXATOR_C_API int jaxator_flight_atoms(const char* operation, const char* const* arguments, int count, char* text, int capacity,
                                       int* length) {
  try {
    *length = jaxator::ffi::copy_text(jaxator::flight::run(operation, {arguments, static_cast<size_t>(count)}), text, capacity);
    return 0;
  } catch (const std::invalid_argument& error) {
    *length = jaxator::ffi::copy_text(error.what(), text, capacity);
    return 1;
  } catch (const std::exception& error) {
    *length = jaxator::ffi::copy_text(error.what(), text, capacity);
    return 2;
  }
}
