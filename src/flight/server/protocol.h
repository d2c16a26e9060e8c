/// @file
/// Requests and answers: a line of JSON, then bytes.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "src/flight/codegen/compile.h"

namespace jaxator::flight {

/// A request as it arrives; `request.text` follows the line.
struct Header {
  llvm::json::Value id = nullptr;
  int64_t size = 0;
  Request request;
};

/// What the first line of a request says. Where it is no request, the failure; `header.id` is set if the line has one, and
/// `header.size` if that many bytes follow all the same.
std::optional<Failure> read_header(llvm::StringRef line, Header& header);

std::string answer(const llvm::json::Value& id, const Failure& failure);
std::string answer(const llvm::json::Value& id, Code& code, double seconds);
std::string greeting();

}  // namespace jaxator::flight
