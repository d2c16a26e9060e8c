/// @file
/// The specification of attention: plain loops in float64, visibility spelled out pair by pair.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "jaxator/attention.h"

namespace jaxator::reference {

struct AttentionInputs {
  std::vector<double> q, k, v, bias;
  std::vector<uint8_t> mask;
  std::vector<int32_t> query_lengths, key_lengths, query_segment_ids, key_segment_ids;
};

struct AttentionOutputs {
  std::vector<double> out, lse;
};
struct AttentionGradients {
  std::vector<double> dq, dk, dv, dbias;
};

inline int64_t attention_element(const int64_t (&shape)[4], int64_t b, int64_t n, int64_t t, int64_t s) {
  const int64_t at[4] = {b, n, t, s};
  int64_t element = 0;
  for (int i = 0; i < 4; i++) element = element * shape[i] + (shape[i] == 1 ? 0 : at[i]);
  return element;
}

inline int64_t cut(int64_t value, int64_t most) { return value < 0 ? 0 : value > most ? most : value; }

/// Visible by everything but the logit.
inline bool attention_visible(const AttentionDesc& d, const AttentionInputs& x, int64_t b, int64_t n, int64_t t, int64_t s) {
  const int64_t queries = d.has_query_lengths ? cut(x.query_lengths[b], d.query_length) : d.query_length;
  const int64_t keys = d.has_key_lengths ? cut(x.key_lengths[b], d.key_length) : d.key_length;
  if (t >= queries || s >= keys) return false;
  if (d.has_segment_ids) {
    const int32_t mine = x.query_segment_ids[b * d.query_length + t], other = x.key_segment_ids[b * d.key_length + s];
    if (mine < 0 || other < 0 || mine != other) return false;
  }
  const int64_t at = t + (d.causal_bottom_right ? keys - queries : 0);
  if (d.causal && s > at) return false;
  if (d.window_left >= 0 && s < at - d.window_left) return false;
  if (d.window_right >= 0 && s > at + d.window_right) return false;
  return !d.has_mask || x.mask[attention_element(d.mask_shape, b, n, t, s)] != 0;
}

/// Logits of one query, -inf where invisible.
inline std::vector<double> attention_logits(const AttentionDesc& d, const AttentionInputs& x, int64_t b, int64_t n, int64_t t) {
  std::vector<double> logits(d.key_length, -std::numeric_limits<double>::infinity());
  const int64_t kv = n / (d.heads / d.kv_heads);
  for (int64_t s = 0; s < d.key_length; s++) {
    if (!attention_visible(d, x, b, n, t, s)) continue;
    double dot = 0;
    for (int64_t h = 0; h < d.head_size; h++)
      dot += x.q[((b * d.query_length + t) * d.heads + n) * d.head_size + h] *
             x.k[((b * d.key_length + s) * d.kv_heads + kv) * d.head_size + h];
    logits[s] = d.scale * dot + (d.has_bias ? x.bias[attention_element(d.bias_shape, b, n, t, s)] : 0);
  }
  return logits;
}

/// Turns logits into probabilities and returns the logsumexp; all zeros and -inf if nothing is visible.
inline double attention_softmax(std::vector<double>& row) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double x : row)
    if (std::isnan(x) || x > most) most = x;
  if (most == -std::numeric_limits<double>::infinity()) {
    row.assign(row.size(), 0.0);
    return most;
  }
  for (double& x : row) sum += x = x == -std::numeric_limits<double>::infinity() ? 0.0 : std::exp(x - most);
  for (double& x : row) x /= sum;
  return most + std::log(sum);
}

inline AttentionOutputs attention(const AttentionDesc& d, const AttentionInputs& x) {
  AttentionOutputs y{std::vector<double>(d.batch * d.query_length * d.heads * d.value_size),
                     std::vector<double>(d.batch * d.query_length * d.heads)};
  for (int64_t b = 0; b < d.batch; b++)
    for (int64_t t = 0; t < d.query_length; t++)
      for (int64_t n = 0; n < d.heads; n++) {
        std::vector<double> p = attention_logits(d, x, b, n, t);
        const int64_t row = (b * d.query_length + t) * d.heads + n, kv = n / (d.heads / d.kv_heads);
        y.lse[row] = attention_softmax(p);
        for (int64_t s = 0; s < d.key_length; s++)
          if (p[s] != 0)
            for (int64_t v = 0; v < d.value_size; v++)
              y.out[row * d.value_size + v] += p[s] * x.v[((b * d.key_length + s) * d.kv_heads + kv) * d.value_size + v];
      }
  return y;
}

/// Gradients of sum(out * dout) + sum(lse * dlse); an empty dlse counts as zeros. Rows with lse -inf get zeros.
inline AttentionGradients attention_gradients(const AttentionDesc& d, const AttentionInputs& x, const std::vector<double>& dout,
                                              const std::vector<double>& dlse) {
  const AttentionOutputs y = attention(d, x);
  AttentionGradients g{std::vector<double>(x.q.size()), std::vector<double>(x.k.size()), std::vector<double>(x.v.size()),
                       std::vector<double>(x.bias.size())};
  for (int64_t b = 0; b < d.batch; b++)
    for (int64_t t = 0; t < d.query_length; t++)
      for (int64_t n = 0; n < d.heads; n++) {
        const int64_t row = (b * d.query_length + t) * d.heads + n, kv = n / (d.heads / d.kv_heads);
        if (y.lse[row] == -std::numeric_limits<double>::infinity()) continue;
        std::vector<double> p = attention_logits(d, x, b, n, t);
        attention_softmax(p);
        double delta = dlse.empty() ? 0 : -dlse[row];
        for (int64_t v = 0; v < d.value_size; v++) delta += dout[row * d.value_size + v] * y.out[row * d.value_size + v];
        for (int64_t s = 0; s < d.key_length; s++) {
          if (p[s] == 0) continue;
          const int64_t key = (b * d.key_length + s) * d.kv_heads + kv;
          double dp = 0;
          for (int64_t v = 0; v < d.value_size; v++) {
            dp += dout[row * d.value_size + v] * x.v[key * d.value_size + v];
            g.dv[key * d.value_size + v] += p[s] * dout[row * d.value_size + v];
          }
          const double ds = p[s] * (dp - delta);
          if (d.has_bias) g.dbias[attention_element(d.bias_shape, b, n, t, s)] += ds;
          for (int64_t h = 0; h < d.head_size; h++) {
            g.dq[row * d.head_size + h] += d.scale * ds * x.k[key * d.head_size + h];
            g.dk[key * d.head_size + h] += d.scale * ds * x.q[row * d.head_size + h];
          }
        }
      }
  return g;
}

}  // namespace jaxator::reference
