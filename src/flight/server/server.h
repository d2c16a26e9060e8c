/// @file
/// The compiler's process: requests from standard input, answers to standard output.
#pragma once

namespace jaxator::flight {

/// Until standard input closes and all is answered. Returns the exit status.
int serve();

}  // namespace jaxator::flight
