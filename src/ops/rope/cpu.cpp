/// @file
/// Rotary embedding on x86: bound by memory. cos and sin of a position are taken once and shared by its heads, in L1.
#include "src/ops/rope/cpu.h"

#include <algorithm>
#include <cmath>

#include "src/tile/cpu/lanes.h"
#include "src/tile/cpu/math.h"

namespace jaxator::JAXATOR_ISA {
namespace {

/// Pairs whose angles are held at a time (columns of 1024); longer heads take several turns. 8 KiB for the frequencies of the
/// call and 4 KiB for cos and sin of each thread, on the stack.
constexpr int64_t kTurn = 512;

/// Quarter turns for each position: theta^(-2 i / columns) * 2 / pi as a sum of two doubles, so that a position of 2^31 still
/// leaves float32 accuracy. A product in 64-bit mantissas from pair to pair: its error after i steps, i * 2^-64, counts for
/// less than it grows because the frequency falls by theta^(-2 i / columns).
struct Frequencies {
  alignas(64) double high[kTurn];
  alignas(64) double low[kTurn];

  Frequencies(double theta, int64_t columns, int64_t first, int64_t pairs) {
    constexpr long double kQuarterTurns = 0.636619772367581343075535053490057448L;
    const long double base = theta, ratio = powl(base, -2.0L / columns);
    long double frequency = powl(base, -2.0L * first / columns) * kQuarterTurns;
    for (int64_t i = 0; i < (pairs + kLanes - 1) / kLanes * kLanes; i++, frequency *= ratio) {
      high[i] = static_cast<double>(frequency);
      low[i] = static_cast<double>(frequency - high[i]);
    }
  }
};

/// cos and sin of one position's pairs.
struct Angles {
  alignas(64) float cosine[kTurn];
  alignas(64) float sine[kTurn];

  void set(const Frequencies& frequencies, int32_t position, int64_t pairs) {
    for (int64_t i = 0; i < pairs; i += kLanes) {
      const SineCosine at = sine_cosine(position, frequencies.high + i, frequencies.low + i);
      store(cosine + i, at.cosine);
      store(sine + i, at.sine);
    }
  }
};

/// Rotates pairs whose halves lie `half` apart.
template <class T>
JAXATOR_INLINE void rotate_halves(const T* x, const float* cosine, const float* sine, Pair sign, T* y, int64_t half,
                                  int64_t pairs) {
  for_pairs(pairs, [&](int64_t c, auto which) {
    const Pair a = load_pair(x + c, which), b = load_pair(x + half + c, which);
    const Pair cs = load_pair(cosine + c, which), sn = load_pair(sine + c, which) * sign;
    store_pair(y + c, a * cs - b * sn, which);
    store_pair(y + half + c, b * cs + a * sn, which);
  });
}

JAXATOR_INLINE f32v load_angles(const float* p, Whole) { return load_f32(p); }
JAXATOR_INLINE f32v load_angles(const float* p, Part part) { return load_f32(p, part.elements / 2); }

/// Rotates pairs of neighbours: one Pair of vectors holds kLanes of them.
template <class T>
JAXATOR_INLINE void rotate_neighbours(const T* x, const float* cosine, const float* sine, f32v sign, T* y, int64_t pairs) {
  for_pairs(2 * pairs, [&](int64_t c, auto which) {
    const Pair v = load_pair(x + c, which);
    const f32v a = even_places(v.lo, v.hi), b = odd_places(v.lo, v.hi);
    const f32v cs = load_angles(cosine + c / 2, which), sn = load_angles(sine + c / 2, which) * sign;
    const f32v first = a * cs - b * sn, second = b * cs + a * sn;
    store_pair(y + c, {alternate_low(first, second), alternate_high(first, second)}, which);
  });
}

/// One row's heads, for `pairs` pairs of each from pair `first` on.
template <class T>
void rotate_heads(const RopeDesc& desc, const float* cosine, const float* sine, const T* x, T* y, int64_t heads, int64_t first,
                  int64_t pairs) {
  const Pair sign = splat(desc.inverse ? -1.0f : 1.0f);
  for (int64_t head = 0; head < heads; head++, x += desc.columns, y += desc.columns)
    if (desc.interleaved)
      rotate_neighbours(x + 2 * first, cosine, sine, sign.lo, y + 2 * first, pairs);
    else
      rotate_halves(x + first, cosine, sine, sign, y + first, desc.columns / 2, pairs);
}

/// The rows of one task. Streamed, as many heads as fit go to a buffer first (see write_pairs).
template <class T>
void rotate_rows(const RopeDesc& desc, const RopeArgs& args, const Frequencies* frequencies, int64_t first, int64_t pairs,
                 int64_t row, int64_t end, bool stream) {
  constexpr int64_t kPiece = kBurst / sizeof(T);
  alignas(64) T buffer[kPiece];
  Angles angles;
  const int64_t half = desc.columns / 2, together = stream ? kPiece / desc.columns : desc.heads;
  for (; row < end; row++) {
    const int64_t angle_row = row % desc.angle_rows;
    const float *cosine = angles.cosine, *sine = angles.sine;
    if (frequencies != nullptr) {
      angles.set(*frequencies, args.positions[angle_row], pairs);
    } else {
      cosine = args.cosine + angle_row * half + first;
      sine = args.sine + angle_row * half + first;
    }
    for (int64_t head = 0; head < desc.heads; head += together) {
      const int64_t at = (row * desc.heads + head) * desc.columns, heads = std::min(together, desc.heads - head);
      const T* x = static_cast<const T*>(args.x) + at;
      T* y = static_cast<T*>(args.y) + at;
      rotate_heads(desc, cosine, sine, x, stream ? buffer : y, heads, first, pairs);
      if (stream)
        stream_bytes(reinterpret_cast<char*>(y), reinterpret_cast<const char*>(buffer), heads * desc.columns * sizeof(T));
    }
  }
}

}  // namespace

void rope(const RopeDesc& desc, const RopeConfig& config, const RopeArgs& args, Executor& executor) {
  with_type(desc.type, [&](auto type) {
    using T = decltype(type);
    const int64_t half = desc.columns / 2, tasks = (desc.rows + config.task_rows - 1) / config.task_rows;
    const bool stream = config.stream && half <= kTurn;  // otherwise a turn writes only parts of lines
    for (int64_t first = 0; first < half; first += kTurn) {
      const int64_t pairs = std::min(kTurn, half - first);
      const Frequencies frequencies(desc.theta, desc.columns, first, desc.has_tables ? 0 : pairs);
      auto body = [&](int64_t task, int64_t) {
        const int64_t row = task * config.task_rows;
        rotate_rows<T>(desc, args, desc.has_tables ? nullptr : &frequencies, first, pairs, row,
                       std::min(desc.rows, row + config.task_rows), stream);
        if (stream) _mm_sfence();
      };
      executor.parallel_for(tasks, tasks, body);
    }
  });
}

}  // namespace jaxator::JAXATOR_ISA
