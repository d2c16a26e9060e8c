#include "emulator/src/checks/banks.h"

#include "src/layout/banks.h"

namespace jaxator::emulator {
namespace {

const layout::Phases& phases_of(Architecture architecture, int width, bool read) {
  static const auto all = [] {
    std::array<std::array<std::array<layout::Phases, 17>, 2>, 2> table;
    for (const auto target : {layout::Target::gfx942, layout::Target::gfx950})
      for (const auto direction : {layout::Direction::read, layout::Direction::write})
        for (const int bytes : {1, 2, 4, 8, 12, 16})
          table[target == layout::Target::gfx950][direction == layout::Direction::read][static_cast<size_t>(bytes)] =
              layout::phases(target, bytes, direction);
    return table;
  }();
  return all[architecture == Architecture::gfx950][read][static_cast<size_t>(width)];
}

}  // namespace

BankCycles bank_cycles(Architecture architecture, const AccessList& accesses, bool read) {
  BankCycles sum;
  // The values of a two-address form go one after the other.
  for (int second = 0; second < 2; second++) {
    i64 address[kLanes];
    layout::Phases phases;
    int width = 0;
    u64 lanes = 0;
    for (const Access& access : accesses) {
      if (access.space != Space::lds || (access.at != 0) != (second == 1)) continue;
      width = access.bytes;
      address[access.lane] = static_cast<i64>(access.address);
      lanes |= u64{1} << access.lane;
    }
    if (lanes == 0) continue;
    phases = phases_of(architecture, width, read);
    for (int l = 0; l < kLanes; l++)
      if (!lane_in(lanes, l)) phases.phase_of[l] = 255, address[l] = 0;  // takes no part
    for (int phase = 0; phase < phases.count; phase++) {
      const int passes = layout::detail::passes_of(phases, phase, address, kLanes, width);
      sum.taken += static_cast<u32>(passes);
      sum.conflict_free += passes > 0;
    }
  }
  return sum;
}

}  // namespace jaxator::emulator
