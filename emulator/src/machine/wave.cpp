#include "emulator/src/machine/wave.h"

#include "emulator/src/checks/wave_checks.h"

namespace jaxator::emulator {

Wave::Wave() = default;
Wave::~Wave() = default;
Group::Group() = default;
Group::~Group() = default;

}  // namespace jaxator::emulator
