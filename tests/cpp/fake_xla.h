/// @file
/// XLA's side of a typed FFI call, for tests: a frame with buffers and attributes, and the functions of the API that our
/// handlers use. Calls a handler as XLA does, in each stage.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "xla/ffi/api/c_api.h"

struct XLA_FFI_Error {
  std::string message;
  XLA_FFI_Error_Code code;
};

struct XLA_FFI_ExecutionContext {
  void* stream = nullptr;
  int32_t device = 0;
  int64_t threads = 1;
  std::vector<std::thread> running;
};

namespace jaxator::testing {

/// The functions that are left out are null: a handler that calls one of them crashes the test.
inline const XLA_FFI_Api& fake_xla_api() {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api a{};
    a.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    a.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    a.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) { return new XLA_FFI_Error{args->message, args->errc}; };
    a.XLA_FFI_Error_GetMessage = [](XLA_FFI_Error_GetMessage_Args* args) { args->message = args->error->message.c_str(); };
    a.XLA_FFI_Error_Destroy = [](XLA_FFI_Error_Destroy_Args* args) { delete args->error; };
    a.XLA_FFI_Stream_Get = [](XLA_FFI_Stream_Get_Args* args) -> XLA_FFI_Error* {
      if (args->ctx->stream == nullptr) return new XLA_FFI_Error{"no stream on a host", XLA_FFI_Error_Code_UNIMPLEMENTED};
      args->stream = args->ctx->stream;
      return nullptr;
    };
    a.XLA_FFI_DeviceOrdinal_Get = [](XLA_FFI_DeviceOrdinal_Get_Args* args) -> XLA_FFI_Error* {
      args->device_ordinal = args->ctx->device;
      return nullptr;
    };
    a.XLA_FFI_ThreadPool_NumThreads = [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
      *args->num_threads = args->ctx->threads;
      return nullptr;
    };
    a.XLA_FFI_ThreadPool_Schedule = [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
      args->ctx->running.emplace_back(args->task, args->data);
      return nullptr;
    };
    return a;
  }();
  return api;
}

/// What a handler returned; code 0 is success.
struct FakeResult {
  int code = 0;
  std::string message;
};

class FakeCall {
 public:
  using Value = std::variant<bool, int64_t, float, std::string, std::vector<int64_t>>;

  XLA_FFI_ExecutionContext context;
  std::map<std::string, Value> attributes;

  void operand(XLA_FFI_DataType type, std::vector<int64_t> dimensions, const void* data) {
    add(operands_, type, dimensions, data);
  }
  void result(XLA_FFI_DataType type, std::vector<int64_t> dimensions, const void* data) { add(results_, type, dimensions, data); }

  FakeResult run(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage) {
    const std::vector<XLA_FFI_ArgType> arg_types(operands_.size(), XLA_FFI_ArgType_BUFFER);
    const std::vector<XLA_FFI_RetType> ret_types(results_.size(), XLA_FFI_RetType_BUFFER);
    std::vector<void*> args, rets;
    for (Array& array : operands_) args.push_back(&array.buffer);
    for (Array& array : results_) rets.push_back(&array.buffer);
    Attributes encoded(attributes);
    XLA_FFI_CallFrame frame{};
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = &fake_xla_api();
    frame.ctx = &context;
    frame.stage = stage;
    frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, int64_t(args.size()), const_cast<XLA_FFI_ArgType*>(arg_types.data()),
                  args.data()};
    frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, int64_t(rets.size()), const_cast<XLA_FFI_RetType*>(ret_types.data()),
                  rets.data()};
    frame.attrs = encoded.frame();
    XLA_FFI_Error* error = handler(&frame);
    for (std::thread& thread : context.running) thread.join();
    context.running.clear();
    if (error == nullptr) return {};
    FakeResult result{error->code, error->message};
    delete error;
    return result;
  }

  /// The traits that a handler declares, as XLA asks for them when it is registered.
  static XLA_FFI_Handler_Traits traits(XLA_FFI_Handler* handler) {
    XLA_FFI_Metadata metadata{};
    metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
    XLA_FFI_Metadata_Extension extension{{XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr},
                                         &metadata};
    XLA_FFI_CallFrame frame{};
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.extension_start = &extension.extension_base;
    frame.api = &fake_xla_api();
    return handler(&frame) == nullptr ? metadata.traits : ~0u;
  }

 private:
  struct Array {
    std::vector<int64_t> dimensions;
    XLA_FFI_Buffer buffer;
  };

  static void add(std::deque<Array>& arrays, XLA_FFI_DataType type, const std::vector<int64_t>& dimensions, const void* data) {
    Array& array = arrays.emplace_back(Array{dimensions, {}});
    array.buffer = {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, type, const_cast<void*>(data), int64_t(dimensions.size()),
                    array.dimensions.data()};
  }

  /// Attributes in the C structs; a map keeps them sorted by name, as XLA does.
  class Attributes {
   public:
    explicit Attributes(const std::map<std::string, Value>& values) {
      for (const auto& [name, value] : values) {
        name_pointers_.push_back(&names_.emplace_back(XLA_FFI_ByteSpan{name.c_str(), name.size()}));
        std::visit([this](const auto& v) { encode(v); }, value);
      }
    }

    XLA_FFI_Attrs frame() {
      return {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, int64_t(types_.size()), types_.data(), name_pointers_.data(), pointers_.data()};
    }

   private:
    void scalar(XLA_FFI_DataType type, const void* value) {
      types_.push_back(XLA_FFI_AttrType_SCALAR);
      pointers_.push_back(&scalars_.emplace_back(XLA_FFI_Scalar{type, const_cast<void*>(value)}));
    }
    void encode(const bool& value) { scalar(XLA_FFI_DataType_PRED, &value); }
    void encode(const int64_t& value) { scalar(XLA_FFI_DataType_S64, &value); }
    void encode(const float& value) { scalar(XLA_FFI_DataType_F32, &value); }
    void encode(const std::string& value) {
      types_.push_back(XLA_FFI_AttrType_STRING);
      pointers_.push_back(&names_.emplace_back(XLA_FFI_ByteSpan{value.data(), value.size()}));
    }
    void encode(const std::vector<int64_t>& value) {
      types_.push_back(XLA_FFI_AttrType_ARRAY);
      arrays_.push_back({XLA_FFI_DataType_S64, value.size(), const_cast<int64_t*>(value.data())});
      pointers_.push_back(&arrays_.back());
    }

    std::deque<XLA_FFI_ByteSpan> names_;  // and texts; elements of a deque do not move
    std::deque<XLA_FFI_Scalar> scalars_;
    std::deque<XLA_FFI_Array> arrays_;
    std::vector<XLA_FFI_AttrType> types_;
    std::vector<XLA_FFI_ByteSpan*> name_pointers_;
    std::vector<void*> pointers_;
  };

  std::deque<Array> operands_, results_;
};

}  // namespace jaxator::testing
