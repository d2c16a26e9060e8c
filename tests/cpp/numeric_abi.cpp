// src/numeric behind plain C functions over arrays, for the Python tests. It is compiled many times: by both compilers, with and
// without optimisation, for each instruction set; all of these must give the same bits.

#include "src/numeric/blocks.h"
#include "src/numeric/denormals.h"
#include "src/numeric/hadamard.h"

using namespace jaxator::numeric;

namespace {

// The order is the tests' list FORMATS.
template <int index> constexpr Format format_at() {
  constexpr Format formats[] = {f32, bf16, f16, e4m3, e5m2, e4m3fnuz, e5m2fnuz, e2m1};
  return formats[index];
}
constexpr int kWide = 3, kFormats = 8;

/// Calls body.template operator()<format>() for number `index` of [first, last).
template <int first, int last, class Body> int with_format(int index, Body&& body) {
  if constexpr (first < last) {
    if (index != first) return with_format<first + 1, last>(index, body);
    body.template operator()<format_at<first>()>();
    return 0;
  } else {
    return -1;
  }
}

/// Calls body.template operator()<from, to>() for a pair.
template <int first_from, int last_from, int first_to, int last_to, class Body> int with_formats(int from, int to, Body&& body) {
  int status = -1;
  with_format<first_from, last_from>(from, [&]<Format source> {
    status = with_format<first_to, last_to>(to, [&]<Format target> { body.template operator()<source, target>(); });
  });
  return status;
}

/// Nearest-even without draws; otherwise one draw for each element, or one for all.
template <class Body> void with_rounding(const uint8_t* draws, int64_t step, Body&& body) {
  if (draws == nullptr)
    body([](int64_t) { return NearestEven{}; });
  else
    body([=](int64_t i) { return Stochastic{draws[i * step]}; });
}

template <Format from, Format to>
void convert_array(const void* in, void* out, int64_t n, const uint8_t* draws, int64_t draw_step, Overflow overflow) {
  with_rounding(draws, draw_step, [&](auto rounding_of) {
    const auto* codes = static_cast<const Code<from>*>(in);
    auto* results = static_cast<Code<to>*>(out);
    for (int64_t i = 0; i < n; i++) results[i] = convert<from, to>(codes[i], rounding_of(i), overflow);
  });
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int numeric_convert(int from, int to, const void* in, void* out, int64_t n, const uint8_t* draws, int64_t draw_step,
                           int overflow) {
  const auto body = [&]<Format source, Format target>() {
    convert_array<source, target>(in, out, n, draws, draw_step, static_cast<Overflow>(overflow));
  };
  return from < kWide ? with_formats<0, kWide, 0, kFormats>(from, to, body)
                      : with_formats<kWide, kFormats, 0, kWide>(from, to, body);
}

EXPORT int numeric_decode_table(int from, uint32_t* out) {
  return with_format<kWide, kFormats>(from, [&]<Format source> {
    for (int code = 0; code < decode_table<source, f32>.size; code++) out[code] = decode_table<source, f32>[code];
  });
}

EXPORT void numeric_e2m1_doubled(int8_t* out) {
  for (int code = 0; code < 16; code++) out[code] = e2m1_doubled.at[code];
}

EXPORT void numeric_encode_e8m0(const uint32_t* in, uint8_t* out, int64_t n, int overflow) {
  for (int64_t i = 0; i < n; i++) out[i] = encode_e8m0(in[i], static_cast<Overflow>(overflow));
}
EXPORT void numeric_decode_e8m0(const uint8_t* in, uint32_t* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = decode_e8m0(in[i]);
}

EXPORT int numeric_block_scale(int element, int mode, const uint32_t* amax, uint8_t* out, int64_t n) {
  return with_format<kWide, kFormats>(element, [&]<Format format> {
    for (int64_t i = 0; i < n; i++) out[i] = block_scale<format>(amax[i], static_cast<ScaleMode>(mode));
  });
}

/// Element i of block b is x[b * block_stride + i * stride]. With a key the draws are keyed by that offset plus first_index.
EXPORT int numeric_quantise(int source, int element, int mode, const void* x, int64_t blocks, int64_t block_stride,
                            int64_t stride, const uint32_t* key, uint32_t stream, uint64_t first_index, uint8_t* scales,
                            uint8_t* codes) {
  return with_formats<0, kWide, kWide, kFormats>(source, element, [&]<Format from, Format to>() {
    const auto* values = static_cast<const Code<from>*>(x);
    const auto quantise = [&](int64_t b, auto rounding_of) {
      scales[b] = quantise_block<to, from>(values + b * block_stride, stride, static_cast<ScaleMode>(mode), rounding_of,
                                           codes + b * kBlockBytes<to>);
    };
    for (int64_t b = 0; b < blocks; b++) {
      const uint64_t first = first_index + static_cast<uint64_t>(b * block_stride);
      if (key == nullptr)
        quantise(b, AllNearestEven{});
      else
        quantise(b, KeyedStochastic{{{key[0], key[1]}}, static_cast<Stream>(stream), first, static_cast<uint64_t>(stride)});
    }
  });
}

EXPORT int numeric_dequantise(int element, int target, const uint8_t* codes, const uint8_t* scales, int64_t blocks, void* y) {
  return with_formats<kWide, kFormats, 0, kWide>(element, target, [&]<Format from, Format to>() {
    for (int64_t b = 0; b < blocks; b++)
      dequantise_block<from, to>(codes + b * kBlockBytes<from>, scales[b], static_cast<Code<to>*>(y) + b * kBlock, 1);
  });
}

/// In place on groups of n floats.
EXPORT int numeric_hadamard(int n, float* x, int64_t groups, uint32_t signs) {
  const KeepDenormals keep;
  for (int64_t g = 0; g < groups; g++) {
    if (n == 16)
      hadamard(*reinterpret_cast<float (*)[16]>(x + g * 16), signs);
    else if (n == 32)
      hadamard(*reinterpret_cast<float (*)[32]>(x + g * 32), signs);
    else
      return -1;
  }
  return 0;
}

EXPORT uint32_t numeric_hadamard_signs(const uint32_t* key) { return hadamard_signs({{key[0], key[1]}}); }

EXPORT void numeric_philox(const uint32_t* counters, const uint32_t* keys, uint32_t* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const uint32_t *c = counters + 4 * i, *k = keys + 2 * i;
    const RandomWords words = philox4x32_10({{c[0], c[1], c[2], c[3]}}, {{k[0], k[1]}});
    for (int j = 0; j < 4; j++) out[4 * i + j] = words.word[j];
  }
}

EXPORT int numeric_draw(int bits, const uint32_t* key, uint32_t stream, const uint64_t* indices, uint32_t* out, int64_t n) {
  const auto fill = [&]<int width>() {
    for (int64_t i = 0; i < n; i++) out[i] = draw<width>({{key[0], key[1]}}, static_cast<Stream>(stream), indices[i]);
  };
  switch (bits) {
    case 1:
      fill.template operator()<1>();
      break;
    case 2:
      fill.template operator()<2>();
      break;
    case 4:
      fill.template operator()<4>();
      break;
    case 8:
      fill.template operator()<8>();
      break;
    case 16:
      fill.template operator()<16>();
      break;
    case 32:
      fill.template operator()<32>();
      break;
    default:
      return -1;
  }
  return 0;
}

/// Sets the calling thread's control word and returns the old one; bits 6 and 15 flush denormals.
EXPORT uint32_t numeric_exchange_control(uint32_t word) {
  const uint32_t old = KeepDenormals::control();
  KeepDenormals::set_control(word);
  return old;
}

/// The product of two floats in this thread's mode: shows that the mode is what the test wants.
EXPORT float numeric_multiply(const float* a, const float* b) { return *a * *b; }
