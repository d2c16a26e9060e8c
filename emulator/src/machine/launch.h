/// @file
/// Runs the workgroups of a launch on several threads.
#pragma once

#include "emulator/src/machine/launch_state.h"

namespace jaxator::emulator {

/// Checks the request against kernel and architecture. Throws Error with the value and the rule.
void check_launch(const KernelDescriptor& kernel, Architecture architecture, size_t argument_bytes, const LaunchOptions& options);

/// Explicit arguments as given, hidden ones behind them.
std::vector<u64> lay_out_arguments(const KernelDescriptor& kernel, std::span<const u8> arguments, const LaunchOptions& options);

/// Runs to the end, or until a finding ends it.
Report run_launch(LaunchState& launch);

}  // namespace jaxator::emulator
