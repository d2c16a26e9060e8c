/// @file
/// LDS reads and writes (DS), and the permutations that go through its crossbar.
#include <cstring>

#include "emulator/src/isa/memory_access.h"
#include "emulator/src/isa/memory_widths.h"

namespace jaxator::emulator {
namespace {

// ---- one or two values a lane ----------------------------------------------------------------------------------------

/// Address operand, and for the two-address forms the distance that an offset counts.
template <int address_operand> void list_accesses(Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  const LaneRegister& address = w.vector[i.operand(address_operand).index];
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++)
    if (lane_in(exec, l)) w.accesses.add(lds_access(w, u64{address[l]} + static_cast<u32>(i.offset), i.detail.bytes, l));
}

template <int address_operand> void list_two_accesses(Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  const LaneRegister& address = w.vector[i.operand(address_operand).index];
  const int bytes = i.detail.bytes, distance = bytes * i.detail.shift;
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++) {
    if (!lane_in(exec, l)) continue;
    w.accesses.add(lds_access(w, u64{address[l]} + static_cast<u64>(i.offset0 * distance), bytes, l));
    w.accesses.add(lds_access(w, u64{address[l]} + static_cast<u64>(i.offset1 * distance), bytes, l, bytes));
  }
}

void read(Wave& w, const Instruction& i) {
  list_accesses<1>(w, i);
  perform_load(w, i, w.exec(), deliver_value);
}
void write(Wave& w, const Instruction& i) {
  list_accesses<0>(w, i);
  perform_store(w, i, w.exec(), collect_value<1>);
}

void deliver_two(Plane* plane, const Instruction& i, u64 lanes, const LaneValues& values) {
  for (int l = 0; l < kLanes; l++)
    for (int k = 0; lane_in(lanes, l) && k < i.detail.bytes / 2; k++)
      memcpy(&plane[i.operand(0).index + k][l], values.at[l] + 4 * k, 4);
}
void collect_two(const Plane* plane, const Instruction& i, u64 lanes, LaneValues& values) {
  const int words = i.detail.bytes / 4;
  for (int l = 0; l < kLanes; l++)
    for (int k = 0; lane_in(lanes, l) && k < 2 * words; k++)
      memcpy(values.at[l] + 4 * k, &plane[i.operand(1 + k / words).index + k % words][l], 4);
}

void read_two(Wave& w, const Instruction& i) {
  list_two_accesses<1>(w, i);
  perform_load(w, i, w.exec(), deliver_two);
}
void write_two(Wave& w, const Instruction& i) {
  list_two_accesses<0>(w, i);
  perform_store(w, i, w.exec(), collect_two);
}

/// Addresses from the lane's number, M0 and the offset.
void list_by_lane(Wave& w, const Instruction& i) {
  const u64 exec = w.exec(), base = (w.scalar[kM0] & 0xFFFF) + static_cast<u32>(i.offset);
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++)
    if (lane_in(exec, l)) w.accesses.add(lds_access(w, base + 4 * static_cast<u64>(l), 4, l));
}
void read_by_lane(Wave& w, const Instruction& i) {
  list_by_lane(w, i);
  perform_load(w, i, w.exec(), deliver_value);
}
void write_by_lane(Wave& w, const Instruction& i) {
  list_by_lane(w, i);
  perform_store(w, i, w.exec(), collect_value<0>);
}

// ---- transposing reads -----------------------------------------------------------------------------------------------

u32 get_bits(const u8* bytes, int at, int count) {
  u32 value = 0;
  for (int k = 0; k < count; k++) value |= (u32{bytes[(at + k) / 8]} >> (at + k) % 8 & 1) << k;
  return value;
}

/// Elements change places within each 16 lanes: element n of lane l is element l % elements of lane l / elements + n * stride.
template <int bits, int words> void deliver_transposed(Plane* plane, const Instruction& i, u64, const LaneValues& values) {
  constexpr int elements = 32 * words / bits, stride = 16 / elements;
  for (int l = 0; l < kLanes; l++) {
    u64 out[2] = {};
    for (int n = 0; n < elements; n++) {
      const int from = (l & ~15) + (l & 15) / elements + stride * n, at = n * bits;
      const u64 element = get_bits(values.at[from], l % elements * bits, bits);
      out[at / 64] |= element << at % 64;
      if (at % 64 + bits > 64) out[1] |= element >> (64 - at % 64);
    }
    for (int k = 0; k < words; k++) plane[i.operand(0).index + k][l] = static_cast<u32>(out[k / 2] >> 32 * (k % 2));
  }
}

template <int bits, int words> void read_transposed(Wave& w, const Instruction& i) {
  if (w.exec() != kAllLanes) throw Fault{Kind::unsupported, "a transposing read with inactive lanes"};
  const LaneRegister& address = w.vector[i.operand(1).index];
  w.accesses.clear();
  for (int l = 0; l < kLanes; l++) w.accesses.add(lds_access(w, u64{address[l]} + static_cast<u32>(i.offset), 4 * words, l));
  perform_load(w, i, kAllLanes, deliver_transposed<bits, words>);
}

// ---- permutations ----------------------------------------------------------------------------------------------------

void write_active(Wave& w, const Instruction& i, const u32 (&values)[kLanes]) {
  const u64 exec = w.exec();
  for (int l = 0; l < kLanes; l++)
    if (lane_in(exec, l)) w.vector[i.operand(0).index][l] = values[l];
}

int lane_of_address(u32 address, const Instruction& i) {
  return static_cast<int>((address + static_cast<u32>(i.offset)) / 4 & 63);
}

/// Each lane sends its value to a lane. The highest sender wins.
void permute(Wave& w, const Instruction& i) {
  const LaneRegister &address = w.vector[i.operand(1).index], &value = w.vector[i.operand(2).index];
  u32 out[kLanes] = {};
  for (int l = 0; l < kLanes; l++)
    if (lane_in(w.exec(), l)) out[lane_of_address(address[l], i)] = value[l];
  write_active(w, i, out);
}

/// Each lane takes the value of a lane. Inactive lanes give 0.
void bpermute(Wave& w, const Instruction& i) {
  const LaneRegister &address = w.vector[i.operand(1).index], &value = w.vector[i.operand(2).index];
  u32 out[kLanes];
  for (int l = 0; l < kLanes; l++) {
    const int from = lane_of_address(address[l], i);
    out[l] = lane_in(w.exec(), from) ? value[from] : 0;
  }
  write_active(w, i, out);
}

/// The source lane of ds_swizzle by its 16-bit pattern, within 32 lanes (4 for quads).
int swizzle_source(u32 pattern, int l) {
  const int low = l & 31, base = l & ~31;
  if (pattern >= 0xC000) {  // rotation by a number of lanes, except for the bits of a mask
    const int mask = static_cast<int>(pattern & 31), distance = static_cast<int>(pattern >> 5 & 31);
    const int rotated = (pattern >> 10 & 1) != 0 ? low - distance : low + distance;
    return base | (((low & mask) | (rotated & ~mask)) & 31);
  }
  if ((pattern & 0x8000) != 0) return (l & ~3) + static_cast<int>(pattern >> 2 * (l & 3) & 3);
  const int and_mask = pattern & 31, or_mask = pattern >> 5 & 31, xor_mask = pattern >> 10 & 31;
  return base | (((low & and_mask) | or_mask) ^ xor_mask);
}

void swizzle(Wave& w, const Instruction& i) {
  const LaneRegister& value = w.vector[i.operand(1).index];
  const u32 pattern = i.words[0] & 0xFFFF;
  u32 out[kLanes];
  for (int l = 0; l < kLanes; l++) {
    const int from = swizzle_source(pattern, l);
    out[l] = lane_in(w.exec(), from) ? value[from] : 0;
  }
  write_active(w, i, out);
}

void refuse_fft(Instruction& i, Architecture) {
  if ((i.words[0] & 0xFFFF) >= 0xE000) throw DecodeError("the FFT mode of ds_swizzle_b32 is not implemented");
}

void no_operation(Wave&, const Instruction&) {}

// ---- names -----------------------------------------------------------------------------------------------------------

constexpr Width kReads[] = {
    {"u8", {.bytes = 1}},
    {"i8", {.bytes = 1, .is_signed = true}},
    {"u16", {.bytes = 2}},
    {"i16", {.bytes = 2, .is_signed = true}},
    {"u8_d16", {.bytes = 1, .half = true}},
    {"u8_d16_hi", {.bytes = 1, .high = true, .half = true}},
    {"i8_d16", {.bytes = 1, .is_signed = true, .half = true}},
    {"i8_d16_hi", {.bytes = 1, .is_signed = true, .high = true, .half = true}},
    {"u16_d16", {.bytes = 2, .half = true}},
    {"u16_d16_hi", {.bytes = 2, .high = true, .half = true}},
    {"b32", {.bytes = 4}},
    {"b64", {.bytes = 8}},
    {"b96", {.bytes = 12}},
    {"b128", {.bytes = 16}},
};
constexpr Width kWrites[] = {{"b8", {.bytes = 1}},   {"b8_d16_hi", {.bytes = 1, .high = true}},
                             {"b16", {.bytes = 2}},  {"b16_d16_hi", {.bytes = 2, .high = true}},
                             {"b32", {.bytes = 4}},  {"b64", {.bytes = 8}},
                             {"b96", {.bytes = 12}}, {"b128", {.bytes = 16}}};

}  // namespace

void add_lds(Table& t) {
  constexpr u32 load = kLoad, store = kStore | kNoResult;
  for (const Width& width : kReads)
    t.add(std::string("ds_read_") + width.name, {read, Class::lds, load, in_space(width.detail, Space::lds)});
  for (const Width& width : kWrites)
    t.add(std::string("ds_write_") + width.name, {write, Class::lds, store, in_space(width.detail, Space::lds)});
  for (const u8 bytes : {u8{4}, u8{8}}) {
    const std::string suffix = bytes == 4 ? "_b32" : "_b64";
    for (const u8 distance : {u8{1}, u8{64}}) {
      const std::string two = (distance == 1 ? "2" : "2st64") + suffix;
      const Detail detail{.bytes = bytes, .shift = distance, .space = Space::lds};
      t.add("ds_read" + two, {read_two, Class::lds, load, detail});
      t.add("ds_write" + two, {write_two, Class::lds, store, detail});
    }
  }
  t.add("ds_read_addtid_b32", {read_by_lane, Class::lds, load | kReadsM0, {.bytes = 4, .space = Space::lds}});
  t.add("ds_write_addtid_b32", {write_by_lane, Class::lds, store | kReadsM0, {.bytes = 4, .space = Space::lds}});
  t.add("ds_read_b64_tr_b16",
        {read_transposed<16, 2>, Class::lds, load | kCrossLane, {.bytes = 8, .element_bits = 16, .space = Space::lds}});
  t.add("ds_read_b64_tr_b8",
        {read_transposed<8, 2>, Class::lds, load | kCrossLane, {.bytes = 8, .element_bits = 8, .space = Space::lds}});
  t.add("ds_read_b64_tr_b4",
        {read_transposed<4, 2>, Class::lds, load | kCrossLane, {.bytes = 8, .element_bits = 4, .space = Space::lds}});
  t.add("ds_read_b96_tr_b6",
        {read_transposed<6, 3>, Class::lds, load | kCrossLane, {.bytes = 12, .element_bits = 6, .space = Space::lds}});
  t.add("ds_permute_b32", {permute, Class::lds_permute, kCrossLane});
  t.add("ds_bpermute_b32", {bpermute, Class::lds_permute, kCrossLane});
  t.add("ds_swizzle_b32", {.execute = swizzle, .unit = Class::lds_permute, .traits = kCrossLane, .prepare = refuse_fft});
  t.add("ds_nop", {.execute = no_operation, .unit = Class::nop, .by_encoding = true});
}

}  // namespace jaxator::emulator
