/// @file
/// What is known for each pair of query and key alone: bias, mask, segments. Lanes read what their own logits need.
#pragma once

#include "src/ops/attention/cdna_common.h"

namespace jaxator::cdna::attention {

/// An element for each pair of a tile of up to 32 queries and any keys, from the first query on. 32-bit offsets: the host sees to
/// it that 32 rows are less than 2 GiB. Beyond the array lanes read zeros; keys past a row's end read the next row.
template <class Element> class PairRows {
 public:
  JAXATOR_DEVICE PairRows(const Visibility& v, const PairArray& a, u32 batch, u32 head, int first_query)
      : buffer_(begin_of(v, a, batch, head, first_query), bytes_of(v, a, first_query)),
        query_bytes_(static_cast<u32>(a.query) * sizeof(Element)),
        key_bytes_(static_cast<u32>(a.key) * sizeof(Element)) {}

  /// The element of a query, from the first one on, and a key.
  JAXATOR_DEVICE u32 offset(u32 query, u32 key) const { return query * query_bytes_ + key * key_bytes_; }
  JAXATOR_DEVICE Element load(u32 offset) const { return buffer_.load<Element>(offset); }

  /// From one key, or query, to the next; computed where it is used. Else sixteen multiples of it would be kept in registers.
  template <bool kKeys> JAXATOR_DEVICE u32 step() const {
    u32 bytes = kKeys ? key_bytes_ : query_bytes_;
    bytes = uniform(bytes);
    pin_shared(bytes);
    return bytes;
  }

 private:
  JAXATOR_DEVICE static const void JAXATOR_GLOBAL* begin_of(const Visibility&, const PairArray& a, u32 batch, u32 head,
                                                            int first) {
    const i64 at = batch * a.batch + head * a.head + first * a.query;
    return static_cast<const u8 JAXATOR_GLOBAL*>(a.data) + at * static_cast<i64>(sizeof(Element));
  }
  JAXATOR_DEVICE static u64 bytes_of(const Visibility& v, const PairArray& a, int first) {
    const int queries = smaller(v.query_length - first, 32);
    if (queries <= 0) return 0;
    return static_cast<u64>((queries - 1) * a.query + (v.key_length - 1) * a.key + 1) * sizeof(Element);
  }

  Buffer buffer_;
  u32 query_bytes_, key_bytes_;
};

struct MaskByte {
  u8 bits;
};

/// Where the results of a product are that a lane holds: element e is in row `row` + 8 * (e / 4) + e % 4 and in column `column`.
/// With kKeysAreRows a row is a key and a column a query, else the other way around. Queries count from `first_query` on.
struct PairPlace {
  u32 batch, head;
  int first_query;
  u32 column, row;
};

/// use(x, element) for each result. Four at a time are read: elements of all would not fit in the registers beside the rest.
template <bool kKeysAreRows, class Element, class Use>
JAXATOR_DEVICE void each_pair(Acc& x, const Visibility& v, const PairArray& array, const PairPlace& at, Use use) {
  const PairRows<Element> rows(v, array, at.batch, at.head, at.first_query);
  u32 offset = kKeysAreRows ? rows.offset(at.column, at.row) : rows.offset(at.row, at.column);
#pragma unroll
  for (u32 e = 0; e < 16; e += 4) {
    const u32 step = rows.template step<kKeysAreRows>();
    pin(offset);
#pragma unroll
    for (u32 i = 0; i < 4; i++) x[e + i] = use(x[e + i], rows.load(offset + i * step));
    offset += 8 * step;
    order();
  }
}

/// Products become exponents of 2: scale and bias.
template <class Params, bool kKeysAreRows> JAXATOR_DEVICE void scale_and_bias(Acc& x, const PairPlace& at) {
  const Params p = argument<Params>();
  const Visibility& v = p.see;
  const float scale = p.scale;
  const auto add = [=](float product, auto bias) { return product * scale + to_float(bias) * kLog2E; };
  if (v.bias.data == nullptr)
    x *= scale;
  else if (v.bias_type == 0)
    each_pair<kKeysAreRows, float>(x, v, v.bias, at, add);
  else if (v.bias_type == 1)
    each_pair<kKeysAreRows, Bf16>(x, v, v.bias, at, add);
  else
    each_pair<kKeysAreRows, F16>(x, v, v.bias, at, add);
}

/// -inf where the mask hides the key. By selection: the product with a hidden key may be NaN.
template <class Params, bool kKeysAreRows> JAXATOR_DEVICE void hide_masked(Acc& x, const PairPlace& at) {
  const Visibility v = argument<Params>().see;
  if (v.mask.data == nullptr) return;
  each_pair<kKeysAreRows, MaskByte>(x, v, v.mask, at,
                                    [](float y, MaskByte mask) { return mask.bits == 0 ? minus_infinity() : y; });
}

/// -inf where segments differ. column_id: of the lane's column, negative if that is padding.
template <class Params, bool kKeysAreRows> JAXATOR_DEVICE void hide_segments(Acc& x, const PairPlace& at, int column_id) {
  const Visibility v = argument<Params>().see;
  if (v.key_segments == nullptr) return;
  const int length = kKeysAreRows ? v.key_length : v.query_length;
  const int JAXATOR_GLOBAL* ids = (kKeysAreRows ? v.key_segments : v.query_segments) + static_cast<i64>(at.batch) * length;
  const u32 first = at.row + (kKeysAreRows ? 0 : at.first_query);
  const Buffer rows(ids, static_cast<u64>(length) * 4);
#pragma unroll
  for (u32 e = 0; e < 16; e += 4) {
    const Vector four = rows.load<Vector>((first + e / 4 * 8) * 4);
#pragma unroll
    for (u32 i = 0; i < 4; i++)
      if (column_id < 0 || static_cast<int>(four[i]) != column_id) x[e + i] = minus_infinity();
    order();
  }
}

}  // namespace jaxator::cdna::attention
