/// @file
/// Reference values of an attention problem with the error that float32 kernels may make, pair by pair, to first order (a tenth
/// is added for the rest). u = 2^-24; a sum of n terms in any order errs by at most n u times the sum of magnitudes.
///   logit      e = u [(H + 3) |scale| sum|q k| + 2 |bias| + 3 |logit|]          product, scale, bias, subtraction of the maximum
///   p          relative x = max_s e + exponential's error (2e-7; 4e-6 for 16-bit types, its u |x| is in e); the rescaling of
///   running sums adds one
///              exponential's error for each tile, counted as 2 more
///   lse        x + (S + 4) u + u |lse|
///   out        (2 x + r + 2 (S + 4) u) sum p|v| + half an ulp of out            r = 2^-8 where p is rounded to bfloat16
///   p again    y = x + e(lse) + u |lse|                                         backward computes exp(logit - lse)
///   delta      sum|dout| e(out) + (V + 3) u sum|dout out| + u |dlse|
///   dS         p [y |dp - delta| + (V + 3) u sum|dout v| + e(delta) + 3 u (|dp| + |delta|)] = E;  with r: E + r |dS|
///   dq         |scale| sum_s (E + r|dS| + (S + 3) u |dS|) |k| + half an ulp;     dk the same over rows and |q|
///   dv         sum_rows p (y + r + (rows + 3) u) |dout| + half an ulp;           dbias sum (E + terms u |dS|)
#pragma once

#include "tests/cpp/attention_problem.h"

namespace jaxator::testing {

struct AttentionExpected {
  reference::AttentionOutputs y;
  reference::AttentionGradients g;
  Doubles out_error, lse_error, dq_error, dk_error, dv_error, dbias_error;
};

class AttentionBounds {
 public:
  AttentionBounds(const AttentionProblem& problem, bool bf16_dot) : p_(problem), d_(problem.desc), r_(bf16_dot ? 0x1p-8 : 0) {
    exponential_ = 3 * (d_.type == DType::f32 ? 2e-7 : 4e-6);
    x_.y = reference::attention(d_, p_.in);
    x_.g = reference::attention_gradients(d_, p_.in, p_.dout.values(), Doubles(p_.dlse.begin(), p_.dlse.end()));
    x_.out_error.resize(x_.y.out.size()), x_.lse_error.resize(x_.y.lse.size());
    x_.dq_error.resize(x_.g.dq.size()), x_.dk_error.resize(x_.g.dk.size()), x_.dv_error.resize(x_.g.dv.size()),
        x_.dbias_error.resize(x_.g.dbias.size());
    for (int64_t b = 0; b < d_.batch; b++)
      for (int64_t t = 0; t < d_.query_length; t++)
        for (int64_t n = 0; n < d_.heads; n++) row(b, t, n);
    finish(x_.dq_error, x_.g.dq), finish(x_.dk_error, x_.g.dk), finish(x_.dv_error, x_.g.dv);
    for (double& e : x_.dbias_error) e = 1.1 * e + 1e-30;
  }
  const AttentionExpected& expected() const { return x_; }

 private:
  static constexpr double u = 0x1p-24;

  void finish(Doubles& error, const Doubles& value) const {
    for (size_t i = 0; i < error.size(); i++) error[i] = 1.1 * error[i] + unit_roundoff(d_.type) * std::fabs(value[i]) + least();
  }
  /// Denormals of the element type, and what products that underflow lose.
  double least() const { return d_.type == DType::f16 ? 0x1p-24 : 1e-30; }

  void row(int64_t b, int64_t t, int64_t n) {
    const int64_t row = (b * d_.query_length + t) * d_.heads + n, kv = n / (d_.heads / d_.kv_heads), H = d_.head_size,
                  V = d_.value_size, S = d_.key_length;
    const double lse = x_.y.lse[row];
    if (lse == -std::numeric_limits<double>::infinity()) return;
    const Doubles logits = reference::attention_logits(d_, p_.in, b, n, t);
    Doubles p = logits;
    reference::attention_softmax(p);
    double x = 0;
    for (int64_t s = 0; s < S; s++) {
      if (p[s] == 0) continue;
      double dot = 0;
      for (int64_t h = 0; h < H; h++) dot += std::fabs(p_.in.q[row * H + h] * p_.in.k[((b * S + s) * d_.kv_heads + kv) * H + h]);
      const double bias = d_.has_bias ? std::fabs(p_.in.bias[reference::attention_element(d_.bias_shape, b, n, t, s)]) : 0;
      x = std::max(x, u * ((H + 3) * std::fabs(d_.scale) * dot + 2 * bias + 3 * std::fabs(logits[s])));
    }
    x += exponential_;
    x_.lse_error[row] = 1.1 * (x + (S + 4) * u + u * std::fabs(lse)) + 1e-30;
    Doubles magnitude(V);
    for (int64_t s = 0; s < S; s++)
      for (int64_t v = 0; p[s] != 0 && v < V; v++)
        magnitude[v] += p[s] * std::fabs(p_.in.v[((b * S + s) * d_.kv_heads + kv) * V + v]);
    for (int64_t v = 0; v < V; v++)
      x_.out_error[row * V + v] = 1.1 * (2 * x + r_ + 2 * (S + 4) * u) * magnitude[v] +
                                  unit_roundoff(d_.type) * std::fabs(x_.y.out[row * V + v]) + least();
    gradients(b, t, n, row, kv, p, x + x_.lse_error[row] + u * std::fabs(lse));
  }

  void gradients(int64_t b, int64_t t, int64_t n, int64_t row, int64_t kv, const Doubles& p, double y) {
    const int64_t H = d_.head_size, V = d_.value_size, S = d_.key_length, rows = d_.query_length * (d_.heads / d_.kv_heads);
    const double dlse = p_.dlse.empty() ? 0 : p_.dlse[row], scale = std::fabs(d_.scale);
    double delta = -dlse, delta_error = u * std::fabs(dlse);
    for (int64_t v = 0; v < V; v++) {
      const double dout = p_.dout[row * V + v], out = x_.y.out[row * V + v];
      delta += dout * out;
      delta_error += std::fabs(dout) * (x_.out_error[row * V + v] + (V + 3) * u * std::fabs(out));
    }
    for (int64_t s = 0; s < S; s++) {
      if (p[s] == 0) continue;
      const int64_t key = (b * S + s) * d_.kv_heads + kv;
      double dp = 0, products = 0;
      for (int64_t v = 0; v < V; v++) {
        const double dout = p_.dout[row * V + v], product = dout * p_.in.v[key * V + v];
        dp += product;
        products += std::fabs(product);
        x_.dv_error[key * V + v] += p[s] * (y + r_ + (rows + 3) * u) * std::fabs(dout);
      }
      const double ds = std::fabs(p[s] * (dp - delta));
      const double error =
          p[s] * (y * std::fabs(dp - delta) + (V + 3) * u * products + delta_error + 3 * u * (std::fabs(dp) + std::fabs(delta)));
      for (int64_t h = 0; h < H; h++) {
        x_.dq_error[row * H + h] += scale * (error + (r_ + (S + 3) * u) * ds) * std::fabs(p_.in.k[key * H + h]);
        x_.dk_error[key * H + h] += scale * (error + (r_ + (rows + 3) * u) * ds) * std::fabs(p_.in.q[row * H + h]);
      }
      const double terms = static_cast<double>(x_.y.lse.size()) * S / std::max<size_t>(1, x_.dbias_error.size());
      if (d_.has_bias) x_.dbias_error[reference::attention_element(d_.bias_shape, b, n, t, s)] += error + (terms + 3) * u * ds;
    }
  }

  const AttentionProblem& p_;
  const AttentionDesc& d_;
  double r_, exponential_;
  AttentionExpected x_;
};

/// -inf in lse must be exact; everything else is within its bound.
inline void expect_forward(const AttentionForward& got, const AttentionExpected& want) {
  for (size_t i = 0; i < want.y.lse.size(); i++)
    if (want.y.lse[i] == -std::numeric_limits<double>::infinity() && got.lse[i] != want.y.lse[i]) {
      ADD_FAILURE() << "lse[" << i << "] = " << got.lse[i] << ", want -inf";
      break;
    }
  Doubles lse = want.y.lse, lse_error = want.lse_error;
  TestArray finite = got.lse;
  for (size_t i = 0; i < lse.size(); i++)
    if (std::isinf(lse[i])) lse[i] = 0, lse_error[i] = 1, finite.set(i, 0);
  expect_within(finite, lse, [&](size_t i) { return lse_error[i]; }, "lse");
  expect_within(got.out, want.y.out, [&](size_t i) { return want.out_error[i] + 1e-38; }, "out");
}

inline void expect_backward(const AttentionBackward& got, const AttentionExpected& want, bool bias_gradient) {
  expect_within(got.dq, want.g.dq, [&](size_t i) { return want.dq_error[i]; }, "dq");
  expect_within(got.dk, want.g.dk, [&](size_t i) { return want.dk_error[i]; }, "dk");
  expect_within(got.dv, want.g.dv, [&](size_t i) { return want.dv_error[i]; }, "dv");
  if (bias_gradient) expect_within(got.dbias, want.g.dbias, [&](size_t i) { return want.dbias_error[i]; }, "dbias");
}

/// Runs both passes on every instruction set and route that can.
inline void check_attention(AttentionProblem& p) {
  std::vector<AttentionDot> dots = {AttentionDot::f32};
  if (p.desc.type == DType::bf16) dots.push_back(AttentionDot::bf16);
  p.poison_empty_rows(reference::attention(p.desc, p.in).lse);
  SerialExecutor executor;
  for (AttentionDot dot : dots) {
    const AttentionBounds bounds(p, dot == AttentionDot::bf16);
    for_each_isa([&] {
      if (dot == AttentionDot::bf16 && cpu_isa() != CpuIsa::v4_bf16) return;
      SCOPED_TRACE(dot == AttentionDot::bf16 ? "bf16 dot" : "f32 dot");
      AttentionDesc d = p.desc;
      d.dot = dot;
      const AttentionForward y = run_forward(p, d, executor, 2);
      expect_forward(y, bounds.expected());
      expect_backward(run_backward(p, d, y, executor, 2), bounds.expected(), d.bias_gradient);
    });
  }
}

}  // namespace jaxator::testing
