/// Attention's kernels for gfx942 and gfx950 on the emulator, with all its checks, in several orders of waves: values, the same
/// bits in each order, nothing written beside the results, and what is refused.
#include "jaxator/attention.h"

#include "tests/cpp/attention_bounds.h"
#include "tests/cpp/rocm/testing.h"

namespace jaxator::testing {
namespace {

/// A host array in device memory, with a guard behind it that nobody may write.
class Guarded {
 public:
  Guarded(int device, const void* host, size_t bytes) : bytes_(bytes), memory_(device, filled(host, bytes)) {}
  Guarded(int device, size_t bytes) : Guarded(device, nullptr, bytes) {}

  template <class T = void> T* data() { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> all = memory_.values();
    for (size_t i = bytes_; i < all.size(); i++) EXPECT_EQ(all[i], kGuard) << "byte " << i - bytes_ << " behind the array";
    all.resize(bytes_);
    return all;
  }
  void read_to(TestArray& array) const {
    const std::vector<unsigned char> bytes = read();
    std::memcpy(array.data(), bytes.data(), bytes.size());
  }

 private:
  static constexpr unsigned char kGuard = 0xa5;
  static std::vector<unsigned char> filled(const void* host, size_t bytes) {
    std::vector<unsigned char> all(bytes + 256, kGuard);
    if (host != nullptr && bytes > 0) std::memcpy(all.data(), host, bytes);
    return all;
  }

  size_t bytes_;
  DeviceArray<unsigned char> memory_;
};

size_t bytes_of(const TestArray& array) {
  return array.bytes().size() - 2 * static_cast<size_t>(static_cast<const char*>(array.data()) - array.bytes().data());
}

struct Results {
  AttentionForward forward;
  AttentionBackward backward;
};

/// The arrays of a problem on a device, and a call of both passes on them.
class OnDevice {
 public:
  OnDevice(int device, const AttentionProblem& p)
      : p_(p),
        device_(device),
        q_(device, p.q.data(), bytes_of(p.q)),
        k_(device, p.k.data(), bytes_of(p.k)),
        v_(device, p.v.data(), bytes_of(p.v)),
        bias_(device, p.bias.data(), bytes_of(p.bias)),
        dout_(device, p.dout.data(), bytes_of(p.dout)),
        mask_(device, p.in.mask.data(), p.in.mask.size()),
        query_ids_(device, p.in.query_segment_ids.data(), p.in.query_segment_ids.size() * 4),
        key_ids_(device, p.in.key_segment_ids.data(), p.in.key_segment_ids.size() * 4),
        dlse_(device, p.dlse.data(), p.dlse.size() * 4) {}

  Results run() {
    const AttentionDesc& d = p_.desc;
    const DType kv_type = d.kv_gradients_f32 ? DType::f32 : d.type;
    const int64_t rows = d.batch * d.query_length * d.heads;
    Results r{{TestArray(d.type, p_.dout.size()), TestArray(DType::f32, rows)},
              {TestArray(d.type, p_.q.size()), TestArray(kv_type, p_.k.size()), TestArray(kv_type, p_.v.size()),
               TestArray(DType::f32, d.bias_gradient ? p_.bias.size() : 0)}};
    auto& [dq, dk, dv, dbias] = r.backward;
    Guarded out(device_, bytes_of(r.forward.out)), lse(device_, rows * 4),
        scratch(device_, attention_rocm_backward_scratch_bytes(d));
    Guarded gq(device_, bytes_of(dq)), gk(device_, bytes_of(dk)), gv(device_, bytes_of(dv)), gbias(device_, bytes_of(dbias));
    AttentionForwardArgs forward;
    AttentionBackwardArgs backward;
    fill(forward), fill(backward);
    forward.out = out.data(), forward.lse = lse.data<float>();
    backward.out = out.data(), backward.lse = lse.data<float>(), backward.dout = dout_.data();
    backward.dlse = p_.dlse.empty() ? nullptr : dlse_.data<float>();
    backward.dq = gq.data(), backward.dk = gk.data(), backward.dv = gv.data(), backward.scratch = scratch.data();
    backward.dbias = d.bias_gradient ? gbias.data<float>() : nullptr;
    for (bool prepare_only : {true, false}) {
      RocmStream stream{.device = device_, .architecture = rocm_device_architecture(device_)};
      stream.prepare_only = prepare_only;
      attention_forward(d, forward, stream);
      attention_backward(d, backward, stream);
    }
    out.read_to(r.forward.out), lse.read_to(r.forward.lse), scratch.read();
    gq.read_to(dq), gk.read_to(dk), gv.read_to(dv), gbias.read_to(dbias);
    return r;
  }

 private:
  void fill(AttentionInputs& args) {
    const AttentionDesc& d = p_.desc;
    args.q = q_.data(), args.k = k_.data(), args.v = v_.data();
    if (d.has_bias) args.bias = bias_.data();
    if (d.has_mask) args.mask = mask_.data<uint8_t>();
    if (d.has_segment_ids) args.query_segment_ids = query_ids_.data<int32_t>(), args.key_segment_ids = key_ids_.data<int32_t>();
  }

  const AttentionProblem& p_;
  const int device_;
  Guarded q_, k_, v_, bias_, dout_, mask_, query_ids_, key_ids_, dlse_;
};

void expect_same(const TestArray& a, const TestArray& b, const std::string& what) {
  EXPECT_EQ(std::memcmp(a.data(), b.data(), bytes_of(a)), 0) << what;
}

void expect_right(const AttentionProblem& p, const Results& got, const std::string& what) {
  const AttentionExpected want = AttentionBounds(p, /*bf16_dot=*/true).expected();
  const auto within = [&](const TestArray& array, Doubles value, const Doubles& error, const char* name) {
    Doubles numbers = array.values();
    for (size_t i = 0; i < value.size(); i++)
      if (std::isinf(value[i])) {
        EXPECT_EQ(numbers[i], value[i]) << what << " " << name << "[" << i << "]";
        numbers[i] = value[i] = 0;
      }
    expect_within(numbers, value, [&](size_t i) { return error[i] + 1e-30; }, what + " " + name);
  };
  within(got.forward.out, want.y.out, want.out_error, "out"), within(got.forward.lse, want.y.lse, want.lse_error, "lse");
  within(got.backward.dq, want.g.dq, want.dq_error, "dq"), within(got.backward.dk, want.g.dk, want.dk_error, "dk");
  within(got.backward.dv, want.g.dv, want.dv_error, "dv");
  if (p.desc.bias_gradient) within(got.backward.dbias, want.g.dbias, want.dbias_error, "dbias");
}

class RocmAttention : public Rocm {
 protected:
  static void check(const AttentionProblem& p, const std::string& what) {
    for (int device : kDevices) {
      OnDevice arrays(device, p);
      configure();
      const Results first = arrays.run();
      expect_right(p, first, what + " on device " + std::to_string(device));
      for (uint64_t seed : {1, 2}) {
        configure(emulator::kWaits | emulator::kRaces, seed);
        const Results again = arrays.run();
        expect_same(first.forward.out, again.forward.out, what + " out"),
            expect_same(first.backward.dq, again.backward.dq, what + " dq");
        expect_same(first.backward.dk, again.backward.dk, what + " dk"),
            expect_same(first.backward.dv, again.backward.dv, what + " dv");
      }
    }
  }
};

TEST_F(RocmAttention, CausalInEveryOrderOfWaves) {
  for (int64_t size : {64, 128}) {
    AttentionDesc d = attention_desc(DType::bf16, {1, 270, 150, 2, 1, size, size});
    d.causal = true;
    check(AttentionProblem(d, 1), "causal " + std::to_string(size));
  }
}

TEST_F(RocmAttention, PairsInEveryOrderOfWaves) {
  AttentionDesc d = attention_desc(DType::bf16, {1, 150, 140, 2, 1, 72, 128});
  d.has_segment_ids = d.has_mask = d.has_bias = d.bias_gradient = d.kv_gradients_f32 = true;
  set_shape(d.mask_shape, d, 0b0011), set_shape(d.bias_shape, d, 0b0111);
  check(AttentionProblem(d, 2), "pairs");
}

TEST_F(RocmAttention, Refusals) {
  const RocmStream stream = prepared(0);
  const auto error = [&](DType type, AttentionShape shape) {
    const AttentionDesc d = attention_desc(type, shape);
    return error_of([&] { attention_forward(d, AttentionForwardArgs{}, stream); }) + "|" +
           error_of([&] { attention_backward(d, AttentionBackwardArgs{}, stream); });
  };
  const auto twice = [](const std::string& text) { return text + "|" + text; };
  EXPECT_EQ(error(DType::f32, {1, 4, 4, 1, 1, 8, 8}), twice("type=float32: the ROCm kernels take bfloat16 and float16"));
  EXPECT_EQ(error(DType::bf16, {1, 4, 4, 1, 1, 136, 8}), twice("head_size=136: must be at most 128 on ROCm"));
  EXPECT_EQ(error(DType::bf16, {1, 4, 4, 1, 1, 8, 12}), twice("value_size=12: must be a multiple of 8 on ROCm"));
  EXPECT_EQ(error(DType::bf16, {1, int64_t{1} << 29, 4, 1, 1, 8, 8}),
            twice("query_length=536870912: must be at most 536870911 on ROCm"));
}

}  // namespace
}  // namespace jaxator::testing
