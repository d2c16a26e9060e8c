/// @file
/// x, positions | x, cosine, sine  -> y
/// x, y [..., N, H]; positions int32, cosine and sine float32 [..., H / 2]: one (row of H / 2) for each of the leading elements
/// of x, or for the last of them where leading axes share it (positions [T] for x [B, T, N, H]).
#include "jaxator/rope.h"

#include "src/ffi/ffi.h"

namespace jaxator::ffi {
namespace {

RopeDesc desc_of(const Attributes& attributes) {
  RopeDesc desc;
  desc.theta = attributes.get<double>("theta");
  desc.interleaved = attributes.get<bool>("interleaved");
  desc.inverse = attributes.get<bool>("inverse");
  desc.has_tables = attributes.get<bool>("has_tables");
  return desc;
}

void check(const Attributes& attributes) { desc_of(attributes).validate(); }

template <class Target> void execute(Call& call, Target& target) {
  const Buffer x = call.operand();
  RopeDesc desc = desc_of(call.attributes);
  const Buffer positions = call.operand_if(!desc.has_tables);
  const Buffer cosine = call.operand_if(desc.has_tables), sine = call.operand_if(desc.has_tables);
  const size_t rank = x.dimensions.size();
  if (rank < 2) throw Error("x has rank " + std::to_string(rank) + ": needs [..., heads, columns]");
  desc.type = x.dtype();
  desc.columns = x.dimensions[rank - 1];
  desc.heads = x.dimensions[rank - 2];
  desc.rows = desc.heads * desc.columns == 0 ? 0 : x.elements() / (desc.heads * desc.columns);
  if (desc.rows != 0) desc.angle_rows = desc.has_tables ? cosine.elements() / (desc.columns / 2) : positions.elements();
  rope(desc,
       {.x = x.data,
        .positions = positions.as<int32_t>(),
        .cosine = cosine.as<float>(),
        .sine = sine.as<float>(),
        .y = call.result().data},
       target);
}

}  // namespace
}  // namespace jaxator::ffi

JAXATOR_FFI_HANDLER(rope, jaxator::ffi::check, jaxator::ffi::execute)
JAXATOR_FFI_ROCM_HANDLER(rope, jaxator::ffi::execute)
