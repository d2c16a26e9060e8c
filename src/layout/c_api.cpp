/// @file
/// The C function by which Python uses the layout library: the name of an operation and texts in, a text out.
#include "src/ffi/c_api.h"

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <variant>

#include "src/layout/draw.h"
#include "src/layout/recast.h"
#include "src/layout/swizzle_search.h"

namespace jaxator::layout {
namespace {

using Arguments = std::span<const char* const>;

// ---- reading arguments
// ---------------------------------------------------------------------------------------------------------

using Any = std::variant<Layout, SwizzledLayout, Swizzle>;

Any parse_any(std::string_view text) {
  if (text.find('S') == text.npos) return parse<Layout>(text);
  if (text.find('o') == text.npos) return parse<Swizzle>(text);
  return parse<SwizzledLayout>(text);
}

/// apply(layout) for a layout or a swizzled layout; a swizzle alone has no shape.
template <class Apply> auto with_layout(std::string_view text, const Apply& apply) {
  const Any any = parse_any(text);
  if (const auto* layout = std::get_if<Layout>(&any)) return apply(*layout);
  if (const auto* layout = std::get_if<SwizzledLayout>(&any)) return apply(*layout);
  throw std::invalid_argument(std::string(text) + " is a swizzle, not a layout");
}

int64_t number(std::string_view text) {
  const Int leaf = parse<Int>(text);
  if (!leaf.is_static() || leaf.basis != 0) throw std::invalid_argument(std::string(text) + " must be a number");
  return leaf.value;
}

int small_number(std::string_view text) {
  const int64_t value = number(text);
  if (value < 0 || value > 1 << 20) throw std::invalid_argument(std::string(text) + " must be from 0 to 1048576");
  return static_cast<int>(value);
}

/// The enumerator of this name; the names are in order.
template <class Enum, size_t count> Enum named(std::string_view text, const char* const (&names)[count], const char* what) {
  std::string all;
  for (size_t i = 0; i < count; i++) {
    if (text == names[i]) return static_cast<Enum>(i);
    all += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw std::invalid_argument(std::string(what) + " " + std::string(text) + " must be one of " + all);
}

Target target_of(std::string_view text) { return named<Target>(text, kTargetNames, "target"); }
Direction direction_of(std::string_view text) {
  static constexpr const char* kNames[] = {"read", "write"};
  return named<Direction>(text, kNames, "direction");
}

// ---- operations
// ----------------------------------------------------------------------------------------------------------------

std::string normalize(Arguments a) {
  return std::visit([](const auto& any) { return to_string(any); }, parse_any(a[0]));
}

std::string size_text(Arguments a) {
  return with_layout(a[0], [](const auto& layout) { return to_string(size(layout)); });
}

std::string crd2idx_text(Arguments a) {
  const Any any = parse_any(a[0]);
  const IntTuple coordinate = parse<IntTuple>(a[1]);
  return std::visit([&](const auto& layout) { return to_string(crd2idx(coordinate, layout)); }, any);
}

/// Of all coordinates in order, with blanks between them.
std::string indices(Arguments a) {
  return with_layout(a[0], [](const auto& layout) {
    const Math<> math{"indices"};
    const Int count = size(layout);
    math.require(count.value <= 1 << 24, "{0} indices are more than {1}", count, 1 << 24);
    std::string text;
    for (int64_t i = 0; i < count.value; i++) text += (i == 0 ? "" : " ") + std::to_string(layout(i));
    return text;
  });
}

std::string composition_text(Arguments a) {
  const Any left = parse_any(a[0]);
  if (const auto* swizzle = std::get_if<Swizzle>(&left)) return to_string(composition(*swizzle, parse<Layout>(a[1])));
  const Tile right = parse<Tile>(a[1]);
  return with_layout(a[0], [&](const auto& layout) { return to_string(composition(layout, right)); });
}

std::string coalesce_text(Arguments a) {
  const IntTuple profile = parse<IntTuple>(a[1]);
  return with_layout(a[0], [&](const auto& layout) { return to_string(coalesce(layout, profile)); });
}

std::string tile_to_shape_text(Arguments a) {
  const IntTuple shape = parse<IntTuple>(a[1]), order = parse<IntTuple>(a[2]);
  return with_layout(a[0], [&](const auto& layout) { return to_string(tile_to_shape(layout, shape, order)); });
}

std::string recast_text(Arguments a) {
  const Any any = parse_any(a[0]);
  return std::visit([&](const auto& layout) { return to_string(recast(layout, number(a[1]), number(a[2]))); }, any);
}

/// Divides are defined of swizzled layouts too: the swizzle stays outside.
template <class Divide> std::string divide(Arguments a, const Divide& apply) {
  const Tile tile = parse<Tile>(a[1]);
  return with_layout(a[0], [&](const auto& layout) { return to_string(apply(layout, tile)); });
}

/// cost(layout, target, width, element, direction): instructions, phases, passes.
std::string cost_text(Arguments a) {
  const Target target = target_of(a[1]);
  const Access access{small_number(a[2]), small_number(a[3]), direction_of(a[4])};
  const Cost c = with_layout(a[0], [&](const auto& layout) { return cost(layout, access, target); });
  return std::to_string(c.instructions) + " " + std::to_string(c.phases) + " " + std::to_string(c.passes);
}

/// phases(target, width, direction): banks, bytes of a bank, evidence, and the phase of each lane.
std::string phases_text(Arguments a) {
  const Phases p = phases(target_of(a[0]), small_number(a[1]), direction_of(a[2]));
  std::string text = std::to_string(p.banks) + " " + std::to_string(p.bank_bytes) + " " + kEvidenceNames[int(p.evidence)];
  for (int lane = 0; lane < p.lanes; lane++) text += " " + std::to_string(p.phase_of[lane]);
  return text;
}

/// propose_swizzle(target, element, write, its width, read, its width): empty where none serves.
std::string propose_text(Arguments a) {
  const int element = small_number(a[1]);
  const Access write{small_number(a[3]), element, Direction::write}, read{small_number(a[5]), element, Direction::read};
  const Proposal proposal = propose_swizzle(parse<Layout>(a[2]), write, parse<Layout>(a[4]), read, target_of(a[0]));
  return proposal.found ? to_string(proposal.swizzle) : "";
}

/// draw(layout, "" or tile, "" or target of the banks, element, "svg" or "text").
std::string draw_text(Arguments a) {
  Colours colours;
  if (*a[2] != 0) {
    colours = {small_number(a[3]), target_of(a[2])};
    Math<>{"draw"}.require(colours.element > 0, "the element's {0} bytes must be positive", colours.element);
  }
  const Grid grid = with_layout(a[0], [&](const auto& layout) {
    return *a[1] == 0 ? grid_of(layout, colours) : thread_value_grid(layout, parse<Layout>(a[1]));
  });
  return std::string_view(a[4]) == "svg" ? to_svg(grid) : to_text(grid);
}

// ---- recorded operations
// ---------------------------------------------------------------------------------------------------------

/// Gives each answer of run time the next handle, and writes down what it is made of. The same question gets the same handle.
class Recording {
 public:
  explicit Recording(int64_t next) : next_(next) {}

  int64_t handle(Op op, Int a, Int b) {
    static constexpr const char* kNames[] = {"add", "sub", "mul", "div", "ceil_div", "mod", "min", "max", "and", "xor"};
    const std::string question = std::string(kNames[static_cast<int>(op)]) + " " + to_string(a) + " " + to_string(b);
    const auto [known, is_new] = handles_.try_emplace(question, next_);
    if (is_new) steps_ += "\n" + std::to_string(next_++) + " " + question;
    return known->second;
  }
  const std::string& steps() const { return steps_; }

 private:
  int64_t next_;
  std::map<std::string, int64_t> handles_;
  std::string steps_;
};

struct Recorder {
  Recording* recording;
  int64_t operator()(Op op, Int a, Int b) const { return recording->handle(op, a, b); }
};

using Recorded = Math<Recorder>;

/// What a slice leaves, as a layout: a single mode without its tuple, no mode as 1:0.
Layout modes_of(const Layout& slice) { return slice.count == 0 ? Layout(Mode{1, 0}) : slice.unwrap(); }

/// The layout of a slice's modes, and in a second line the index at which it begins (a swizzled layout has that inside).
std::string recorded_slice(Arguments a, const Recorded& math) {
  const IntTuple coordinate = parse<IntTuple>(a[1]);
  return with_layout(a[0], [&](const auto& layout) {
    if constexpr (requires { layout.outer; }) {
      const auto sliced = slice(coordinate, layout, math);
      return to_string(sliced.with(modes_of(sliced.outer)));
    } else {
      return to_string(modes_of(slice(coordinate, layout))) + "\n" + to_string(crd2idx(coordinate, layout, math));
    }
  });
}

template <class Divide> std::string recorded_divide(Arguments a, const Divide& apply) {
  const Tile tile = parse<Tile>(a[1]);
  return with_layout(a[0], [&](const auto& layout) { return to_string(apply(layout, tile)); });
}

/// The answer of an operation whose leaves may hold handles.
std::string recorded(std::string_view name, Arguments a, const Recorded& math) {
  if (name == "slice") return recorded_slice(a, math);
  if (name == "crd2idx")
    return with_layout(a[0], [&](const auto& layout) { return to_string(crd2idx(parse<IntTuple>(a[1]), layout, math)); });
  if (name == "ordered") return to_string(make_ordered_layout(parse<IntTuple>(a[0]), parse<IntTuple>(a[1]), math));
  if (name == "composition") return recorded_divide(a, [&](const auto& l, const Tile& t) { return composition(l, t, math); });
  if (name == "zipped_divide") return recorded_divide(a, [&](const auto& l, const Tile& t) { return zipped_divide(l, t, math); });
  if (name == "logical_divide")
    return recorded_divide(a, [&](const auto& l, const Tile& t) { return logical_divide(l, t, math); });
  throw std::logic_error("no recorded operation " + std::string(name));
}

/// record(first handle, operation, its two arguments): the answer, then a line "handle operation a b" for each number of run time
/// that is new in it.
std::string record(Arguments a) {
  static constexpr const char* kNames[] = {"slice", "crd2idx", "ordered", "composition", "zipped_divide", "logical_divide"};
  const auto* name = std::ranges::find(kNames, std::string_view(a[1]), [](const char* known) { return std::string_view(known); });
  if (name == std::end(kNames)) throw std::logic_error("no recorded operation " + std::string(a[1]));
  Recording recording(number(a[0]));
  const std::string answer = recorded(*name, a.subspan(2), {*name, {&recording}});
  return answer + recording.steps();
}

struct Operation {
  std::string_view name;
  size_t arguments;
  std::string (*run)(Arguments);
};

#define JAXATOR_DIVIDE(name) \
  {#name, 2, [](Arguments a) { return divide(a, [](const auto& l, const Tile& t) { return name(l, t); }); }}
#define JAXATOR_PRODUCT(name, Right) \
  {#name, 2, [](Arguments a) { return to_string(name(parse<Layout>(a[0]), parse<Right>(a[1]))); }}

constexpr Operation kOperations[] = {
    {"normalize", 1, normalize},
    {"size", 1, size_text},
    {"cosize", 1, [](Arguments a) { return to_string(cosize(parse<Layout>(a[0]))); }},
    {"compact", 1, [](Arguments a) { return to_string(Layout(parse<IntTuple>(a[0]))); }},
    {"crd2idx", 2, crd2idx_text},
    {"indices", 1, indices},
    {"composition", 2, composition_text},
    {"complement", 2, [](Arguments a) { return to_string(complement(parse<Layout>(a[0]), parse<Int>(a[1]))); }},
    {"coalesce", 2, coalesce_text},
    {"right_inverse", 1, [](Arguments a) { return to_string(right_inverse(parse<Layout>(a[0]))); }},
    {"left_inverse", 1, [](Arguments a) { return to_string(left_inverse(parse<Layout>(a[0]))); }},
    JAXATOR_DIVIDE(logical_divide),
    JAXATOR_DIVIDE(zipped_divide),
    JAXATOR_DIVIDE(tiled_divide),
    JAXATOR_DIVIDE(flat_divide),
    JAXATOR_PRODUCT(logical_product, Tile),
    JAXATOR_PRODUCT(zipped_product, Tile),
    JAXATOR_PRODUCT(tiled_product, Tile),
    JAXATOR_PRODUCT(flat_product, Tile),
    JAXATOR_PRODUCT(blocked_product, Layout),
    JAXATOR_PRODUCT(raked_product, Layout),
    {"tile_to_shape", 3, tile_to_shape_text},
    {"make_ordered_layout", 2,
     [](Arguments a) { return to_string(make_ordered_layout(parse<IntTuple>(a[0]), parse<IntTuple>(a[1]))); }},
    {"recast", 3, recast_text},
    {"cost", 5, cost_text},
    {"phases", 3, phases_text},
    {"propose_swizzle", 6, propose_text},
    {"draw", 5, draw_text},
    {"record", 4, record},
};

/// Of an argument. What has more characters has more leaves than a layout can hold, and the parser goes as deep as parentheses
/// do.
constexpr size_t kMaxText = 2048;

std::string run(std::string_view name, Arguments arguments) {
  const auto* found = std::ranges::find(kOperations, name, &Operation::name);
  if (found == std::end(kOperations) || found->arguments != arguments.size())
    throw std::logic_error("no layout operation " + std::string(name) + " of " + std::to_string(arguments.size()) + " arguments");
  for (const char* argument : arguments)
    if (const size_t length = std::string_view(argument).size(); length > kMaxText)
      throw std::invalid_argument(std::string(name) + ": a text of " + std::to_string(length) + " characters is longer than " +
                                  std::to_string(kMaxText));
  return found->run(arguments);
}

}  // namespace
}  // namespace jaxator::layout

/// Writes the answer, or what was wrong, cut to the capacity, and its whole length. Returns 0; 1 where an argument breaks a rule;
/// 2 where the call itself is wrong.
JAXATOR_C_API int jaxator_layout(const char* operation, const char* const* arguments, int count, char* text, int capacity,
                                 int* length) {
  try {
    const std::string answer = jaxator::layout::run(operation, {arguments, static_cast<size_t>(count)});
    *length = jaxator::ffi::copy_text(answer, text, capacity);
    return 0;
  } catch (const std::invalid_argument& error) {
    *length = jaxator::ffi::copy_text(error.what(), text, capacity);
    return 1;
  } catch (const std::exception& error) {
    *length = jaxator::ffi::copy_text(error.what(), text, capacity);
    return 2;
  }
}
