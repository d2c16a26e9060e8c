#include <sys/mman.h>

#include <cstdint>

#include "src/ffi/ffi.h"
#include "src/tile/cpu/row_tasks.h"

namespace jaxator::ffi {
namespace {

/// XLA's CPU client takes large results from fresh memory, and the first touch of each 4 KiB page then costs more than the
/// kernel: 7.3 ms, and 2.9 to give them back, against 1.4 in all with huge pages, for the 32 MiB of rms_norm 4096x4096, which
/// takes 1.5. Where the system allows huge pages on request, the 2 MiB pages that the result touches take one fault each. The
/// first and the last count too: the C library's mapping is often a little longer than the result and ends with a page (the last
/// one alone is 510 faults, 0.4 ms). Below 16 MiB the C library reuses memory that is warm already. A hint: failure changes
/// nothing.
void prefer_huge_pages(void* data, size_t bytes) {
  constexpr size_t kLeast = 16u << 20;
  if (bytes < kLeast) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes + kHugePage - 1) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

DType Buffer::dtype() const {
  switch (type) {
    case xla::ffi::DataType::F32:
      return DType::f32;
    case xla::ffi::DataType::BF16:
      return DType::bf16;
    case xla::ffi::DataType::F16:
      return DType::f16;
    default:
      throw Error("element type " + std::to_string(static_cast<int>(type)) + ": must be float32, bfloat16 or float16");
  }
}

Buffer Call::operand() {
  auto buffer = args_.get<xla::ffi::AnyBuffer>(next_arg_);
  if (buffer.has_error()) throw Error("operand " + std::to_string(next_arg_) + " is missing");
  next_arg_++;
  return {buffer->untyped_data(), buffer->element_type(), buffer->dimensions()};
}

Buffer Call::result() {
  auto buffer = rets_.get<xla::ffi::AnyBuffer>(next_ret_);
  if (buffer.has_error()) throw Error("result " + std::to_string(next_ret_) + " is missing");
  next_ret_++;
  if (on_host_) prefer_huge_pages((*buffer)->untyped_data(), (*buffer)->size_bytes());
  return {(*buffer)->untyped_data(), (*buffer)->element_type(), (*buffer)->dimensions()};
}

}  // namespace jaxator::ffi
