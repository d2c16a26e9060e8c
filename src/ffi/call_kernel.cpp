/// @file
/// A kernel that the user brings: any operands -> any results. Their addresses are the kernel's first arguments, in this order,
/// followed by the scalars. The blob travels in the attributes, so an exported program is complete.
#include <array>

#include "src/ffi/c_api.h"
#include "src/ffi/ffi.h"
#include "src/runtime/blob.h"
#include "src/runtime/cpu_blob.h"
#include "src/runtime/cuda/launch.h"
#include "src/runtime/rocm/launch.h"

namespace jaxator::ffi {
namespace {

using Numbers = xla::ffi::Span<const int64_t>;

constexpr size_t kMostArguments = 256;  // on the stack of one call; Python says the same

/// What each execution reads. The rest is read where it is needed: an attribute costs some 20 ns.
struct CallKernel {
  const Attributes& attributes;
  std::string_view hash;  // SHA-256 of what the blob stands for
  std::string name;
  Numbers grid;
  Numbers scalars, scalar_bytes;  // bits in the low bytes of each number
  Numbers order;                  // which array or scalar the kernel's argument k is; empty: all, in their order

  explicit CallKernel(const Attributes& a)
      : attributes(a),
        hash(a.get<std::string_view>("hash")),
        name(a.get<std::string_view>("name")),
        grid(a.get<Numbers>("grid")),
        scalars(a.get<Numbers>("scalars")),
        scalar_bytes(a.get<Numbers>("scalar_bytes")),
        order(a.get_or<Numbers>("order", Numbers(nullptr, 0))) {}

  Numbers block() const { return attributes.get<Numbers>("block"); }
  Numbers cluster() const { return attributes.get<Numbers>("cluster"); }
  int64_t shared_bytes() const { return attributes.get<int64_t>("shared_bytes"); }

  std::string contents() const {
    const auto blob = attributes.get<std::string_view>("blob");           // base64
    const auto blob_bytes = attributes.get_or<int64_t>("blob_bytes", 0);  // of what it unpacks to; 0: it is not compressed
    return blob_contents(blob, hash, blob_bytes);
  }
};

void require(bool holds, const std::string& what) {
  if (!holds) throw Error("call_kernel: " + what);
}

void check(const Attributes& attributes) {
  const CallKernel call(attributes);
  attributes.get<std::string_view>("blob");
  require(!call.name.empty(), "name=\"\": must name a kernel");
  for (const auto& [name, extents] : {std::pair("grid", call.grid), {"block", call.block()}, {"cluster", call.cluster()}}) {
    require(extents.size() == 3, std::string(name) + " has " + std::to_string(extents.size()) + " numbers: must have 3");
    for (int64_t extent : extents)
      require(extent >= 1 && extent <= INT32_MAX, std::string(name) + "=" + std::to_string(extent) + ": must be positive int32");
  }
  const int64_t shared_bytes = call.shared_bytes();
  require(shared_bytes >= 0 && shared_bytes <= INT32_MAX,
          "shared_bytes=" + std::to_string(shared_bytes) + ": must be int32 and not negative");
  require(call.scalars.size() == call.scalar_bytes.size(), "scalars and scalar_bytes differ in length");
  for (int64_t bytes : call.scalar_bytes)
    require(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8,
            "scalar of " + std::to_string(bytes) + " bytes: must be 1, 2, 4 or 8");
  require(call.order.size() <= kMostArguments,
          std::to_string(call.order.size()) + " arguments: must be at most " + std::to_string(kMostArguments));
}

/// Addresses of all arrays, operands first.
struct Arrays {
  std::array<void*, kMostArguments> data;
  size_t count = 0;
  CpuResult largest;

  Arrays(Call& call, size_t scalars) {
    const size_t wanted = call.operands() + call.results() + scalars;
    require(wanted <= kMostArguments, std::to_string(wanted) + " arguments: must be at most " + std::to_string(kMostArguments));
    for (size_t i = call.operands(); i > 0; i--) data[count++] = call.operand().data;
    for (size_t i = call.results(); i > 0; i--) {
      const Buffer result = call.result();
      data[count++] = result.data;
      const int64_t bytes = result.elements() * int64_t(xla::ffi::ByteWidth(result.type));
      if (bytes > largest.bytes) largest = {result.data, bytes};
    }
  }
};

/// What the kernel is called with: addresses of arrays (CPU), or of what holds an array's address (GPU), and of scalars.
struct Arguments {
  std::array<void*, kMostArguments> address;
  std::array<int, kMostArguments> bytes;  // of what is there
  size_t count = 0;

  Arguments(const CallKernel& call, Arrays& arrays, bool on_gpu) {
    const auto add = [&](size_t i) {
      const bool is_array = i < arrays.count;
      const size_t scalar = i - arrays.count;
      bytes[count] = is_array ? int{sizeof(void*)} : static_cast<int>(call.scalar_bytes[scalar]);
      address[count++] = !is_array ? const_cast<int64_t*>(&call.scalars[scalar]) : on_gpu ? &arrays.data[i] : arrays.data[i];
    };
    const size_t all = arrays.count + call.scalars.size();
    if (call.order.size() == 0) {
      for (size_t i = 0; i < all; i++) add(i);
      return;
    }
    for (int64_t i : call.order) {
      require(i >= 0 && i < static_cast<int64_t>(all),
              "order has " + std::to_string(i) + ": must be one of " + std::to_string(all) + " arrays and scalars");
      add(static_cast<size_t>(i));
    }
  }
};

void run(const CallKernel& call, Arrays& arrays, Executor& executor) {
  CpuKernel kernel = find_cpu_kernel(call.hash, call.name);
  // XLA runs no initialize stage on CPUs.
  if (kernel == nullptr) kernel = load_cpu_kernel(call.hash, call.contents(), call.name);
  Arguments arguments(call, arrays, /*on_gpu=*/false);
  const int64_t grid[] = {call.grid[0], call.grid[1], call.grid[2]};
  run_cpu_kernel(kernel, call.name.c_str(), arguments.address.data(), grid, executor, arrays.largest);
}

void run(const CallKernel& call, Arrays& arrays, const CudaStream& stream) {
  cuda::Function* function = cuda::find_function(call.hash, call.name, stream.device);
  if (function == nullptr) {
    if (!stream.prepare_only)
      throw CudaError("kernel " + call.name + " is not loaded on device " + std::to_string(stream.device) +
                      ": it was not prepared");
    function = &cuda::load_function(call.hash, call.contents(), call.name, stream.device);
  }
  Arguments arguments(call, arrays, /*on_gpu=*/true);
  cuda::Geometry geometry{.shared_bytes = static_cast<int>(call.shared_bytes())};
  const Numbers block = call.block(), cluster = call.cluster();
  for (int i = 0; i < 3; i++) {
    geometry.grid[i] = call.grid[i];
    geometry.block[i] = static_cast<int>(block[i]);
    geometry.cluster[i] = static_cast<int>(cluster[i]);
  }
  cuda::launch(*function, call.name.c_str(), geometry, stream,
               {arguments.address.data(), {arguments.bytes.data(), arguments.count}});
}

void run(const CallKernel& call, Arrays& arrays, const RocmStream& stream) {
  const rocm::Function* function = rocm::find_function(call.hash, call.name, stream);
  if (function == nullptr) {
    if (!stream.prepare_only)
      throw RocmError("kernel " + call.name + " is not loaded on device " + std::to_string(stream.device) +
                      ": it was not prepared");
    function = &rocm::load_function(call.hash, call.contents(), call.name, stream);
  }
  // HIP cannot tell what a kernel takes, so the sizes of the arguments are not checked.
  Arguments arguments(call, arrays, /*on_gpu=*/true);
  rocm::Geometry geometry{.shared_bytes = static_cast<int>(call.shared_bytes())};
  const Numbers block = call.block(), cluster = call.cluster();
  for (int i = 0; i < 3; i++) {
    require(cluster[i] == 1, "cluster=" + std::to_string(cluster[i]) + ": this GPU has no clusters, must be 1");
    geometry.grid[i] = call.grid[i];
    geometry.block[i] = static_cast<int>(block[i]);
  }
  rocm::launch(*function, call.name.c_str(), geometry, stream, arguments.address.data());
}

template <class Target> void execute(Call& call, Target& target) {
  const CallKernel kernel(call.attributes);
  Arrays arrays(call, kernel.scalars.size());
  run(kernel, arrays, target);
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(call_kernel, jaxator::ffi::check, jaxator::ffi::execute)
JAXATOR_FFI_ROCM_HANDLER(call_kernel, jaxator::ffi::execute)
