/// @file
/// The skin between XLA's FFI and the library: one handler has the same shape as every other, so that an op's file says only
/// how its buffers and attributes become a desc. That is said once, as a template over where the kernel runs: an Executor on a
/// CPU, a stream on a GPU. Handlers keep no state and allocate nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jaxator/cuda.h"
#include "jaxator/executor.h"
#include "jaxator/rocm.h"
#include "jaxator/types.h"
#include "xla/ffi/api/ffi.h"

namespace jaxator::ffi {

/// Version of the attributes. A program exported by a newer library with other attributes is refused by name.
inline constexpr int64_t kAttributeVersion = 1;

/// Attributes by name, with errors that carry the name.
class Attributes {
 public:
  explicit Attributes(const xla::ffi::Dictionary& dictionary) : dictionary_(dictionary) {}

  template <class T> T get(const char* name) const {
    xla::ffi::ErrorOr<T> value = dictionary_.get<T>(name);
    if (value.has_error()) throw Error(std::string("attribute ") + name + " is missing or has another type");
    return *value;
  }
  /// For an attribute that came later than the first version of the call.
  template <class T> T get_or(const char* name, T otherwise) const {
    return dictionary_.contains(name) ? get<T>(name) : otherwise;
  }

 private:
  const xla::ffi::Dictionary& dictionary_;
};

/// One operand or result.
struct Buffer {
  void* data;
  xla::ffi::DataType type;
  xla::ffi::Span<const int64_t> dimensions;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : dimensions) n *= d;
    return n;
  }
  int64_t last() const { return dimensions.size() == 0 ? 1 : dimensions.back(); }
  DType dtype() const;  // throws Error for a type that kernels do not take
  int64_t item_bytes() const { return type == xla::ffi::DataType::F32 || type == xla::ffi::DataType::S32 ? 4 : 2; }

  /// Address of element i, null where the buffer is absent.
  void* at(int64_t i) const { return data == nullptr ? nullptr : static_cast<char*>(data) + i * item_bytes(); }
  template <class T> T* as(int64_t i = 0) const { return data == nullptr ? nullptr : static_cast<T*>(data) + i; }
};

/// How many pieces of the rows have a parameter of their own, as vmap over it makes: 1 without a parameter.
inline int64_t groups_of(const Buffer& parameter, int64_t columns) {
  return parameter.data == nullptr || columns == 0 ? 1 : parameter.elements() / columns;
}

/// Throws Error if a buffer that the caller sized at trace time is too small.
inline void require_elements(const char* name, const Buffer& buffer, int64_t needed) {
  if (needed > 0 && (buffer.data == nullptr || buffer.elements() < needed))
    throw Error(std::string(name) + " has " + std::to_string(buffer.data == nullptr ? 0 : buffer.elements()) +
                " elements: needs " + std::to_string(needed));
}

/// What one execution got from XLA. Operands and results are taken in order.
class Call {
 public:
  Call(xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets, const xla::ffi::Dictionary& attributes, bool on_host)
      : attributes(attributes), args_(args), rets_(rets), on_host_(on_host) {}

  const Attributes attributes;

  size_t operands() const { return args_.size(); }
  size_t results() const { return rets_.size(); }
  Buffer operand();
  Buffer result();
  /// The next operand (result) if present, else a buffer whose data is null.
  Buffer operand_if(bool present) { return present ? operand() : Buffer{}; }
  Buffer result_if(bool present) { return present ? result() : Buffer{}; }

 private:
  xla::ffi::RemainingArgs args_;
  xla::ffi::RemainingRets rets_;
  bool on_host_;
  size_t next_arg_ = 0, next_ret_ = 0;
};

/// XLA's intra-op pool as an Executor.
class XlaExecutor final : public Executor {
 public:
  explicit XlaExecutor(xla::ffi::ThreadPool pool) : pool_(pool) {}
  void parallel_for(int64_t tasks, int64_t slots, TaskRef body) override;

 private:
  xla::ffi::ThreadPool pool_;
};

/// Runs body and turns what it throws into the error that JAX raises.
template <class Body> xla::ffi::Error guarded(Body&& body) {
  try {
    body();
    return xla::ffi::Error::Success();
  } catch (const UnsupportedError& error) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kUnimplemented, std::string("jaxator: ") + error.what());
  } catch (const CudaError& error) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kInternal, std::string("jaxator: ") + error.what());
  } catch (const RocmError& error) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kInternal, std::string("jaxator: ") + error.what());
  } catch (const Error& error) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kInvalidArgument, std::string("jaxator: ") + error.what());
  } catch (const std::exception& error) {
    return xla::ffi::Error(xla::ffi::ErrorCode::kInternal, std::string("jaxator: ") + error.what());
  }
}

template <void (*execute)(Call&, Executor&)>
xla::ffi::Error execute_on_cpu(xla::ffi::ThreadPool pool, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                               xla::ffi::Dictionary attributes) {
  return guarded([&] {
    XlaExecutor executor(pool);
    Call call(args, rets, attributes, true);
    execute(call, executor);
  });
}

/// XLA runs initialize before every execution and never captures it; execute may be captured into a CUDA graph. Both run the
/// same code, the first to load and check only, so that the second cannot fail.
template <void (*execute)(Call&, const CudaStream&), bool prepare_only>
xla::ffi::Error execute_on_cuda(void* stream, int32_t device, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                xla::ffi::Dictionary attributes) {
  return guarded([&] {
    Call call(args, rets, attributes, false);
    execute(call, {.handle = stream, .device = device, .prepare_only = prepare_only});
  });
}

/// The same for ROCm; HIP graphs capture it.
template <void (*execute)(Call&, const RocmStream&), bool prepare_only>
xla::ffi::Error execute_on_rocm(void* stream, int32_t device, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                xla::ffi::Dictionary attributes) {
  return guarded([&] {
    Call call(args, rets, attributes, false);
    execute(call,
            {.handle = stream, .device = device, .architecture = rocm_device_architecture(device), .prepare_only = prepare_only});
  });
}

/// Runs a ROCm call on the emulator over the arrays of a program for CPUs; attribute "architecture" names the device.
using RocmExecute = void (*)(Call&, const RocmStream&);
xla::ffi::Error execute_emulated(RocmExecute execute, xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets,
                                 xla::ffi::Dictionary attributes);
template <RocmExecute execute>
xla::ffi::Error execute_emulated(xla::ffi::RemainingArgs args, xla::ffi::RemainingRets rets, xla::ffi::Dictionary attributes) {
  return execute_emulated(execute, args, rets, attributes);
}

template <xla::ffi::ExecutionStage stage> auto bind_gpu() {
  return xla::ffi::Ffi::Bind<stage>()
      .template Ctx<xla::ffi::PlatformStream<void*>>()
      .template Ctx<xla::ffi::DeviceOrdinal>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

template <void (*check)(const Attributes&)> xla::ffi::Error instantiate_stage(xla::ffi::Dictionary dictionary) {
  return guarded([&] {
    const Attributes attributes(dictionary);
    const int64_t version = attributes.get<int64_t>("version");
    if (version != kAttributeVersion)
      throw Error("version=" + std::to_string(version) + ": this library reads version " + std::to_string(kAttributeVersion));
    check(attributes);
  });
}

}  // namespace jaxator::ffi

/// Exports jaxator_<name> (execute) and jaxator_<name>_instantiate (checks the attributes when the program is compiled).
#define JAXATOR_FFI_CPU_HANDLER(name, check, execute)                                                 \
  _Pragma("GCC visibility push(default)") XLA_FFI_DEFINE_HANDLER_SYMBOL(                              \
      jaxator_##name, jaxator::ffi::execute_on_cpu<execute>,                                          \
      (xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs()));   \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(jaxator_##name##_instantiate, jaxator::ffi::instantiate_stage<check>, \
                                (xla::ffi::Ffi::BindInstantiate().Attrs()));                          \
  _Pragma("GCC visibility pop")

/// The same for both targets: `execute` is a template over where the kernel runs. Also exports jaxator_<name>_cuda and
/// jaxator_<name>_cuda_initialize.
#define JAXATOR_FFI_HANDLER(name, check, execute)                                                                \
  JAXATOR_FFI_CPU_HANDLER(name, check, execute<jaxator::Executor>)                                               \
  _Pragma("GCC visibility push(default)") XLA_FFI_DEFINE_HANDLER_SYMBOL(                                         \
      jaxator_##name##_cuda, (jaxator::ffi::execute_on_cuda<execute<const jaxator::CudaStream>, false>),         \
      (jaxator::ffi::bind_gpu<xla::ffi::ExecutionStage::kExecute>()), {xla::ffi::Traits::kCmdBufferCompatible}); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(jaxator_##name##_cuda_initialize,                                                \
                                (jaxator::ffi::execute_on_cuda<execute<const jaxator::CudaStream>, true>),       \
                                (jaxator::ffi::bind_gpu<xla::ffi::ExecutionStage::kInitialize>()));              \
  _Pragma("GCC visibility pop")

/// For ops with ROCm kernels, beside the above. Exports jaxator_<name>_rocm and jaxator_<name>_rocm_initialize, and
/// jaxator_<name>_emulated for programs for CPUs that name an AMD architecture.
#define JAXATOR_FFI_ROCM_HANDLER(name, execute)                                                                                \
  _Pragma("GCC visibility push(default)") XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                       \
      jaxator_##name##_rocm, (jaxator::ffi::execute_on_rocm<execute<const jaxator::RocmStream>, false>),                       \
      (jaxator::ffi::bind_gpu<xla::ffi::ExecutionStage::kExecute>()), {xla::ffi::Traits::kCmdBufferCompatible});               \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(jaxator_##name##_rocm_initialize,                                                              \
                                (jaxator::ffi::execute_on_rocm<execute<const jaxator::RocmStream>, true>),                     \
                                (jaxator::ffi::bind_gpu<xla::ffi::ExecutionStage::kInitialize>()));                            \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(jaxator_##name##_emulated, jaxator::ffi::execute_emulated<execute<const jaxator::RocmStream>>, \
                                (xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs()));                              \
  _Pragma("GCC visibility pop")
