/// @file
/// The limits of a GPU: copies inside its memory and products that never leave the chip, timed by events.
#pragma once

#include <cstdint>

namespace jaxator::cuda {

/// Seconds of `count` copies of `bytes` from one device address to another, in the primary context of the device.
double copy_seconds(int device, uint64_t to, uint64_t from, int64_t bytes, int64_t count);

/// Seconds of `count` launches of bfloat16 products, each of peak_flops(device) operations. `out`: 256 floats a multiprocessor.
double peak_seconds(int device, uint64_t out, int64_t count);
double peak_flops(int device);

}  // namespace jaxator::cuda
