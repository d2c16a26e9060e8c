/// @file
/// Kernels that came from outside travel in a program's text: as base64, with a hash that says what was meant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace jaxator {

/// SHA-256 (FIPS 180-4) as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

/// Throws Error for text that is no base64 (RFC 4648, with padding).
std::string decode_base64(std::string_view text);

/// The contents of a blob; throws Error if they do not have this hash. `unpacked_bytes` is their size where the blob is
/// compressed (zlib's format), 0 where it is not.
std::string blob_contents(std::string_view base64, std::string_view hash, int64_t unpacked_bytes = 0);

}  // namespace jaxator
