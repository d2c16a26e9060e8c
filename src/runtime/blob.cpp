#include "src/runtime/blob.h"

#include <zlib.h>

#include <array>
#include <bit>
#include <cstdint>

#include "jaxator/types.h"

namespace jaxator {
namespace {

/// The first 32 bits of the fractional part of a root of a prime: cube roots give the round constants, square roots the start.
/// Found by bisection on integers: x = floor(root * 2^32) is the largest with x^power <= prime * 2^(32 * power).
constexpr uint32_t root_bits(uint32_t prime, int power) {
  using Wide = unsigned __int128;
  const Wide limit = Wide{prime} << 32 * power;
  uint64_t low = 0, high = uint64_t{1} << (power == 3 ? 36 : 38);  // roots below 8 (of 311) and 5 (of 19), and bits to spare
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    Wide product = middle;
    for (int i = 1; i < power; i++) product *= middle;
    (product <= limit ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

struct Constants {
  std::array<uint32_t, 64> rounds{};
  std::array<uint32_t, 8> start{};
};

constexpr Constants kConstants = [] {
  Constants constants;
  int found = 0;
  for (uint32_t n = 2; found < 64; n++) {
    bool prime = true;
    for (uint32_t d = 2; d * d <= n; d++) prime = prime && n % d != 0;
    if (!prime) continue;
    if (found < 8) constants.start[found] = root_bits(n, 2);
    constants.rounds[found++] = root_bits(n, 3);
  }
  return constants;
}();
static_assert(kConstants.rounds[0] == 0x428a2f98 && kConstants.rounds[63] == 0xc67178f2 && kConstants.start[0] == 0x6a09e667);

void add_chunk(std::array<uint32_t, 8>& state, const unsigned char* chunk) {
  uint32_t words[64];
  for (int i = 0; i < 16; i++)
    words[i] = uint32_t{chunk[4 * i]} << 24 | chunk[4 * i + 1] << 16 | chunk[4 * i + 2] << 8 | chunk[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    const uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; i++) {
    const uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kConstants.rounds[i] + words[i];
    const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t sum[] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; i++) state[i] += sum[i];
}

}  // namespace

std::string sha256(std::string_view bytes) {
  std::array<uint32_t, 8> state = kConstants.start;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const size_t whole = bytes.size() / 64 * 64;
  for (size_t i = 0; i < whole; i += 64) add_chunk(state, data + i);
  // The rest, a one bit, zeros, the length in bits.
  unsigned char tail[128] = {};
  const size_t rest = bytes.size() - whole, tail_bytes = rest < 56 ? 64 : 128;
  bytes.substr(whole).copy(reinterpret_cast<char*>(tail), rest);
  tail[rest] = 0x80;
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (int i = 0; i < 8; i++) tail[tail_bytes - 1 - i] = static_cast<unsigned char>(bits >> 8 * i);
  for (size_t i = 0; i < tail_bytes; i += 64) add_chunk(state, tail + i);
  std::string digits;
  for (uint32_t word : state)
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
  return digits;
}

std::string decode_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); i++) values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  const size_t digits = text.find_last_not_of('=') + 1, padding = text.size() - digits;
  if (text.size() % 4 != 0 || padding > 2) throw Error("blob: " + std::to_string(text.size()) + " characters are no base64");
  std::string bytes;
  bytes.reserve(digits * 3 / 4);
  uint32_t held = 0;
  int bits = 0;
  for (size_t i = 0; i < digits; i++) {
    const int value = values[static_cast<unsigned char>(text[i])];
    if (value < 0) throw Error("blob: character " + std::to_string(i) + " is no digit of base64");
    held = held << 6 | static_cast<uint32_t>(value);
    if ((bits += 6) >= 8) bytes += static_cast<char>(held >> (bits -= 8));
  }
  return bytes;
}

namespace {

std::string unpack(const std::string& packed, int64_t size) {
  // Nothing compresses better than 1 : 1032 in this format, so a false size cannot ask for much.
  if (size < 0 || size > static_cast<int64_t>(packed.size()) * 1040)
    throw Error("blob: " + std::to_string(packed.size()) + " bytes do not unpack to " + std::to_string(size));
  std::string bytes(static_cast<size_t>(size), '\0');
  uLongf written = bytes.size();
  const int status =
      uncompress(reinterpret_cast<Bytef*>(bytes.data()), &written, reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (status != Z_OK || written != bytes.size())
    throw Error("blob: damaged: zlib says " + std::to_string(status) + " after " + std::to_string(written) + " of " +
                std::to_string(size) + " bytes");
  return bytes;
}

}  // namespace

std::string blob_contents(std::string_view base64, std::string_view hash, int64_t unpacked_bytes) {
  std::string bytes = decode_base64(base64);
  if (unpacked_bytes != 0) bytes = unpack(bytes, unpacked_bytes);
  if (const std::string found = sha256(bytes); found != hash)
    throw Error("blob: its SHA-256 is " + found + ", the program says " + std::string(hash));
  return bytes;
}

}  // namespace jaxator
