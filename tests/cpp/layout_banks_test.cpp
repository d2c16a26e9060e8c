// What a memory's phases cost, against plain loops over lanes and banks that share nothing with the library but the layouts'
// indices.
#include "src/layout/banks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "src/layout/recast.h"
#include "src/layout/swizzle_search.h"
#include "src/layout/text.h"

namespace jaxator::layout {
namespace {

constexpr Access reads(int width, int element) { return {width, element, Direction::read}; }
constexpr Access writes(int width, int element) { return {width, element, Direction::write}; }

/// A tile of 16-byte chunks with `lanes` threads, in bf16 elements.
constexpr Layout chunks(const IntTuple& lanes, const IntTuple& strides) { return Layout(tuple(lanes, 8), tuple(strides, 1)); }

// ---- the swizzled box of Hopper's copy engine: rows of 128 bytes, chunk j of row r at j ^ (r & 7)
// ------------------------------

// In bytes it is Swizzle<3,4,3>, whatever lies there.
constexpr Swizzle kBox = Swizzle(3, 4, 3);
constexpr bool box_is_chunk_xor_row() {
  for (int row = 0; row < 64; row++)
    for (int chunk = 0; chunk < 8; chunk++)
      if (kBox(row * 128 + chunk * 16) != row * 128 + (chunk ^ (row & 7)) * 16) return false;
  return true;
}
static_assert(box_is_chunk_xor_row());

// stmatrix by a warpgroup, as the epilogues of matmul and attention use it: lane l of warp w names row 16 w + l % 16 of column
// block j + l / 16, for j = 0, 2, 4, 6. An operand read by ldmatrix is the same access.
constexpr Layout kStmatrix = Layout(tuple(tuple(16, 2, 4), tuple(8, 4)), tuple(tuple(64, 8, 1024), tuple(1, 16)));
constexpr Swizzle kBoxOfBf16 = recast(kBox, 16, 8);
static_assert(kBoxOfBf16 == Swizzle(3, 3, 3));
static_assert(conflicts(composition(kBoxOfBf16, kStmatrix), writes(16, 2), Target::sm_90) == 0);
static_assert(conflicts(composition(kBoxOfBf16, kStmatrix), reads(16, 2), Target::sm_90) == 0);
static_assert(cost(kStmatrix, writes(16, 2), Target::sm_90) == Cost{16, 64, 512}, "unswizzled, eight rows share their banks");

// ldmatrix.trans: eight rows again, of another column block for each eight lanes.
static_assert(conflicts(composition(kBoxOfBf16, Layout(tuple(tuple(8, 4), 8), tuple(tuple(64, 8), 1))), reads(16, 2),
                        Target::sm_90) == 0);

// A box is copied out by rows, 16 bytes a thread, where a group ends inside it.
constexpr Layout kCopy = Layout(tuple(tuple(8, 16), tuple(8, 4)), tuple(tuple(8, 64), tuple(1, 1024)));
static_assert(conflicts(composition(kBoxOfBf16, kCopy), reads(16, 2), Target::sm_90) == 0);

// float32 results: st.shared.v2 of lane l at row l / 4 (and + 8), columns 8 j + 2 (l % 4). This box serves them by half only:
// chunks 2 j and 2 j + 1 of an even row and of the row after it change places, and a phase has four rows.
constexpr Swizzle kBoxOfFloat = recast(kBox, 32, 8);
constexpr Layout kFloats = Layout(tuple(tuple(4, 8, 4), tuple(2, 2, 4)), tuple(tuple(2, 32, 512), tuple(1, 256, 8)));
static_assert(cost(composition(kBoxOfFloat, kFloats), writes(8, 4), Target::sm_90) == Cost{32, 64, 128});
static_assert(cost(kFloats, writes(8, 4), Target::sm_90) == Cost{32, 64, 256}, "four rows on the same banks");

// The search finds the copy engine's swizzle by itself: rows written whole, columns of chunks read.
constexpr Layout kRows = chunks(tuple(8, 4), tuple(8, 64)), kColumns = chunks(tuple(8, 4), tuple(64, 8));
constexpr Proposal kFound = propose_swizzle(kRows, writes(16, 2), kColumns, reads(16, 2), Target::sm_90);
static_assert(kFound.found && kFound.swizzle == kBoxOfBf16);

// ---- gfx942 and gfx950: what kernels there do
// ----------------------------------------------------------------------------------

// MFMA operands, 16 rows by four chunks of a wave, in tile rows of 128 bytes (gfx950, two steps of k) and 64 bytes (gfx942). The
// chunk goes to slot chunk ^ row / (rows in a line of all banks), a line being 256 and 128 bytes.
constexpr Layout kRows128 = Layout(tuple(tuple(16, 4), tuple(8, 2)), tuple(tuple(64, 8), tuple(1, 32)));
static_assert(conflicts(composition(Swizzle(3, 3, 4), kRows128), reads(16, 2), Target::gfx950) == 0);
static_assert(cost(kRows128, reads(16, 2), Target::gfx950) == Cost{2, 8, 32}, "unswizzled, four times the cycles");
constexpr Layout kRows64 = chunks(tuple(16, 4), tuple(32, 8));
static_assert(conflicts(composition(Swizzle(2, 3, 3), kRows64), reads(16, 2), Target::gfx942) == 0);
static_assert(cost(kRows64, reads(16, 2), Target::gfx942) == Cost{1, 8, 16});

// Attention on gfx950. K: 32 rows of 256 bytes, chunk x of row r at x ^ r % 16. V: four rows by four chunks of 8 bytes for each
// 16 lanes of ds_read_b64_tr_b16, chunk x of row r at x ^ 4 (r % 4).
constexpr Layout kKeys = chunks(tuple(32, 2), tuple(128, 8));
constexpr Layout kValues = Layout(tuple(tuple(2, 2, 4, 2, 2), 4), tuple(tuple(4, 8, 128, 16, 512), 1));
static_assert(conflicts(composition(Swizzle(4, 3, 4), kKeys), reads(16, 2), Target::gfx950) == 0);
static_assert(cost(kKeys, reads(16, 2), Target::gfx950) == Cost{1, 4, 64}, "unswizzled, 16 rows one after another");
static_assert(conflicts(composition(Swizzle(2, 5, 2), kValues), reads(8, 2), Target::gfx950) == 0);
// No swizzle suits all: that of K leaves V's access as bad as none does, and the other way round.
static_assert(conflicts(kValues, reads(8, 2), Target::gfx950) == 6);
static_assert(conflicts(composition(Swizzle(4, 3, 4), kValues), reads(8, 2), Target::gfx950) == 6);
static_assert(conflicts(composition(Swizzle(2, 5, 2), kKeys), reads(16, 2), Target::gfx950) > 0);

// Rows that are 256 bytes apart share banks on gfx950, rows that are 128 bytes apart do not; gfx942 has half the banks. Writes
// see 32 banks on both.
constexpr Layout two_lanes(int64_t bytes) { return Layout(tuple(tuple(2)), tuple(tuple(bytes))); }
static_assert(conflicts(two_lanes(128), reads(8, 1), Target::gfx950) == 0 &&
              conflicts(two_lanes(256), reads(8, 1), Target::gfx950) == 1);
static_assert(conflicts(two_lanes(128), reads(8, 1), Target::gfx942) == 1 &&
              conflicts(two_lanes(64), reads(8, 1), Target::gfx942) == 0);
static_assert(conflicts(two_lanes(128), writes(8, 1), Target::gfx950) == 1);

// What the copy to LDS writes, 1024 bytes of a wave in order, is free everywhere; so is one word for all lanes.
constexpr Layout kSame = Layout(tuple(tuple(64)), tuple(tuple(0)));
static_assert(cost(Layout(tuple(64, 16), tuple(16, 1)), writes(16, 1), Target::gfx950) == Cost{1, 8, 8});
static_assert(cost(kSame, reads(4, 4), Target::gfx942) == Cost{1, 2, 2});

// A transpose through 32 x 32 floats, and through rows of 33.
constexpr Layout column(int64_t row) { return Layout(tuple(tuple(32, 2)), tuple(tuple(row, 1))); }
static_assert(conflicts(column(32), reads(4, 4), Target::gfx942) == 62 &&
              conflicts(column(33), reads(4, 4), Target::gfx942) == 0);

// A line of the cache is what a vector costs: a column of 16 rows touches 16 lines, a row one, an unaligned row two.
static_assert(cost(Layout(tuple(tuple(16)), tuple(tuple(33))), reads(4, 4), Target::x86_64) == Cost{1, 1, 16});
static_assert(cost(Layout(tuple(tuple(16)), tuple(tuple(1))), reads(4, 4), Target::x86_64) == Cost{1, 1, 1});
static_assert(cost(SwizzledLayout{Swizzle(), Int(3), Layout(tuple(tuple(16)), tuple(tuple(1)))}, reads(4, 4), Target::x86_64) ==
              Cost{1, 1, 2});

// ---- plain loops
// ---------------------------------------------------------------------------------------------------------------

using Lanes = std::vector<std::vector<int>>;

Lanes runs(int lanes, int together) {
  Lanes all;
  for (int lane = 0; lane < lanes; lane++) {
    if (lane % together == 0) all.emplace_back();
    all.back().push_back(lane);
  }
  return all;
}

/// Both halves of a wave alike.
Lanes twice(Lanes half) {
  const size_t count = half.size();
  for (size_t i = 0; i < count; i++) {
    half.push_back(half[i]);
    for (int& lane : half.back()) lane += 32;
  }
  return half;
}

struct Hardware {
  Lanes phases;
  int banks, bank_bytes;
};

/// Written down from the measurements, not computed.
Hardware hardware(Target target, int width, Direction direction) {
  const Lanes eights = twice({{0, 1, 2, 3, 20, 21, 22, 23},
                              {4, 5, 6, 7, 16, 17, 18, 19},
                              {8, 9, 10, 11, 28, 29, 30, 31},
                              {12, 13, 14, 15, 24, 25, 26, 27}});
  const Lanes sixteens = twice(
      {{0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27}, {4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31}});
  if (target == Target::x86_64) return {runs(64 / width, 64 / width), 1, 64};
  if (target == Target::sm_90) return {runs(32, width == 16 ? 8 : width == 8 ? 16 : 32), 32, 4};
  if (direction == Direction::write) return {runs(64, width >= 12 ? 8 : width == 8 ? 16 : 32), 32, 4};
  if (width == 12) return {eights, 32, 4};
  if (target == Target::gfx942) return {width == 16 ? eights : runs(64, width == 8 ? 16 : 32), 32, 4};
  return {width == 16 ? sixteens : runs(64, width == 8 ? 32 : 64), 64, 4};
}

template <class AnyLayout> Cost brute_force(const AnyLayout& layout, int64_t threads, int64_t values, const Access& access,
                                            Target target) {
  const Hardware h = hardware(target, access.width, access.direction);
  int wave = 0;
  for (const auto& phase : h.phases) wave += static_cast<int>(phase.size());
  const int64_t run = access.width / access.element;
  Cost sum;
  for (int64_t first = 0; first < threads; first += wave)
    for (int64_t value = 0; value < values; value += run) {
      sum.instructions++;
      for (const auto& phase : h.phases) {
        std::map<int64_t, std::set<int64_t>> words_of_bank;
        for (int lane : phase)
          if (first + lane < threads)
            for (int64_t byte = 0; byte < access.width; byte++) {
              const int64_t address =
                  layout(first + lane, value + byte / access.element) * access.element + byte % access.element;
              words_of_bank[address / h.bank_bytes % h.banks].insert(address / h.bank_bytes);
            }
        size_t most = 0;
        for (const auto& [bank, words] : words_of_bank) most = std::max(most, words.size());
        sum.phases += most > 0;
        sum.passes += static_cast<int64_t>(most);
      }
    }
  return sum;
}

constexpr Target kTargets[] = {Target::gfx942, Target::gfx950, Target::sm_90, Target::x86_64};
constexpr Direction kDirections[] = {Direction::read, Direction::write};

TEST(LayoutBanks, PhasesAreTheMeasuredOnes) {
  for (Target target : kTargets)
    for (Direction direction : kDirections)
      for (int width : {1, 2, 4, 8, 12, 16, 32, 64}) {
        const bool legal = target == Target::x86_64 ? width != 12 : width <= 16 && (width != 12 || target != Target::sm_90);
        if (!legal) {
          EXPECT_THROW(phases(target, width, direction), std::invalid_argument);
          continue;
        }
        const Hardware h = hardware(target, width, direction);
        const Phases p = phases(target, width, direction);
        EXPECT_EQ(p.banks, h.banks);
        EXPECT_EQ(p.bank_bytes, h.bank_bytes);
        ASSERT_EQ(p.count, static_cast<int>(h.phases.size())) << kTargetNames[int(target)] << " " << width;
        int lanes = 0;
        for (int i = 0; i < p.count; i++)
          for (int lane : h.phases[i]) {
            EXPECT_EQ(p.phase_of[lane], i) << kTargetNames[int(target)] << " " << width;
            lanes++;
          }
        EXPECT_EQ(p.lanes, lanes);
      }
}

TEST(LayoutBanks, EvidenceIsStated) {
  const auto evidence = [](Target t, int width, Direction d = Direction::read) { return phases(t, width, d).evidence; };
  EXPECT_EQ(evidence(Target::gfx950, 16), Evidence::measured);
  EXPECT_EQ(evidence(Target::gfx950, 8, Direction::write), Evidence::measured);
  EXPECT_EQ(evidence(Target::gfx950, 16, Direction::write), Evidence::assumed);
  EXPECT_EQ(evidence(Target::gfx942, 8), Evidence::measured);
  EXPECT_EQ(evidence(Target::gfx942, 16, Direction::write), Evidence::documented);
  EXPECT_EQ(evidence(Target::gfx942, 4), Evidence::assumed);
  EXPECT_EQ(evidence(Target::sm_90, 16), Evidence::documented);
}

/// Random access patterns of whole accesses: threads of up to three modes and one of the values' runs, any strides.
TEST(LayoutBanks, CostIsThatOfPlainLoops) {
  std::mt19937 random(4);
  const auto pick = [&](std::initializer_list<int> from) { return from.begin()[random() % from.size()]; };
  int conflicted = 0, swizzled = 0;
  for (int round = 0; round < 600; round++) {
    const Target target = kTargets[random() % 4];
    Access access{pick({1, 2, 4, 8, 16}), 1, kDirections[random() % 2]};
    if (target != Target::sm_90 && target != Target::x86_64 && random() % 8 == 0) access.width = 12;
    if (access.width != 12) access.element = pick({1, 2, 4, 8, 16});
    if (access.element > access.width) access.element = access.width;
    const int64_t run = access.width / access.element, slot = access.width == 12 ? 4 : run;
    const auto stride = [&] { return slot * pick({0, 1, 2, 3, 4, 5, 8, 9, 16, 32, 64, 65, 128}); };
    const IntTuple threads = tuple(pick({1, 2, 4, 8, 16, 32}), pick({1, 2, 3, 4, 8}), pick({1, 2, 5}));
    const IntTuple strides = tuple(stride(), stride(), stride());
    const Layout layout = Layout(tuple(threads, tuple(run, pick({1, 3}))), tuple(strides, tuple(1, stride())));
    const int64_t count = size(threads).value, values = size(layout.mode(1)).value;
    const Cost plain = cost(layout, access, target);
    ASSERT_EQ(plain, brute_force(layout, count, values, access, target)) << to_string(layout) << " " << kTargetNames[int(target)];
    conflicted += plain.conflicts() > 0;
    if (access.width == 12) continue;
    int base = pick({0, 1, 2});
    for (int64_t n = run; n > 1; n /= 2) base++;
    const int bits = pick({1, 2, 3}), shift = bits + pick({0, 1, 2});
    const SwizzledLayout mixed{Swizzle(bits, base, random() % 2 ? shift : -shift), Int(run * pick({0, 1, 6})), layout};
    ASSERT_EQ(cost(mixed, access, target), brute_force(mixed, count, values, access, target)) << to_string(mixed);
    swizzled++;
  }
  EXPECT_GT(conflicted, 100);
  EXPECT_GT(swizzled, 400);
}

struct Pair {
  const char* what;
  Layout write, read;
  Access write_access, read_access;
};

/// Tiles in bf16: written by rows in 16-byte chunks unless said otherwise.
const Pair kPairs[] = {
    {"MFMA operand, rows of 128 bytes", chunks(tuple(8, 8), tuple(8, 64)), kRows128, writes(16, 2), reads(16, 2)},
    {"MFMA operand, rows of 64 bytes", chunks(tuple(4, 16), tuple(8, 32)), kRows64, writes(16, 2), reads(16, 2)},
    {"attention's keys", chunks(tuple(16, 4), tuple(8, 128)), kKeys, writes(16, 2), reads(16, 2)},
    {"attention's values", chunks(tuple(16, 4), tuple(8, 128)), kValues, writes(16, 2), reads(8, 2)},
    {"ldmatrix", kRows, kColumns, writes(16, 2), reads(16, 2)},
    {"float transpose", Layout(tuple(tuple(32, 32)), tuple(tuple(1, 32))), Layout(tuple(tuple(32, 32)), tuple(tuple(32, 1))),
     writes(4, 4), reads(4, 4)},
    {"halves of chunks written", Layout(tuple(tuple(16, 16), 4), tuple(tuple(4, 64), 1)), kRows128, writes(8, 2), reads(16, 2)},
    {"accumulator of 16 x 16 written by columns", Layout(tuple(tuple(16, 4), 4), tuple(tuple(32, 4), 1)), kRows64, writes(8, 2),
     reads(16, 2)},
    {"a column of words 256 bytes apart", Layout(tuple(tuple(64)), tuple(tuple(128))),
     Layout(tuple(tuple(64)), tuple(tuple(128))), writes(2, 2), reads(2, 2)},
    {"already apart", chunks(tuple(8, 8), tuple(8, 64)), chunks(tuple(8, 8), tuple(8, 64)), writes(16, 2), reads(16, 2)},
};

int64_t brute_force(const Layout& layout, const Access& access, Target target, const Swizzle& swizzle) {
  const auto index = [&](int64_t thread, int64_t value) {
    return swizzle(layout.rank() == 1 ? layout(thread) + value : layout(thread, value));
  };
  const int64_t run = access.width / access.element, values = layout.rank() == 1 ? run : size(layout.mode(1)).value;
  const int64_t threads = size(layout.mode(0)).value;
  for (int64_t thread = 0; thread < threads; thread++)
    for (int64_t value = 0; value < values; value++)
      if (index(thread, value) != index(thread, value / run * run) + value % run) return INT64_MAX;  // the access falls apart
  return brute_force(index, threads, values, access, target).conflicts();
}

TEST(LayoutBanks, ProposedSwizzlesAreFreeOfConflicts) {
  int found = 0, none = 0, needless = 0;
  for (const Pair& pair : kPairs)
    for (Target target : {Target::gfx942, Target::gfx950, Target::sm_90}) {
      SCOPED_TRACE(std::string(pair.what) + " on " + kTargetNames[int(target)]);
      const auto both = [&](const Swizzle& swizzle) {
        const int64_t write = brute_force(pair.write, pair.write_access, target, swizzle);
        return write != 0 ? write : brute_force(pair.read, pair.read_access, target, swizzle);
      };
      const Proposal proposal = propose_swizzle(pair.write, pair.write_access, pair.read, pair.read_access, target);
      if (proposal.found) {
        EXPECT_EQ(both(proposal.swizzle), 0) << to_string(proposal.swizzle);
        proposal.swizzle.bits == 0 ? needless++ : found++;
        continue;
      }
      none++;
      for (int bits = 0; bits <= 6; bits++)
        for (int base = 0; base <= 8; base++)
          for (int shift = bits; shift <= 8; shift++)
            for (int way : {1, -1})
              EXPECT_NE(both(Swizzle(bits, base, way * shift)), 0) << bits << " " << base << " " << way * shift;
    }
  EXPECT_GE(found, 15);
  EXPECT_GE(none, 1);
  EXPECT_GE(needless, 3);
}

/// Three words a lane: what begins at word 15 crosses every slot that a swizzle could move; what begins at word 6 only small
/// ones. And two lanes that differ in one bit only.
TEST(LayoutBanks, ProposalsKeepAccessesWhole) {
  const auto lanes = [](int64_t stride, int run) { return Layout(tuple(tuple(2), run), tuple(tuple(stride), 1)); };
  for (Target target : {Target::gfx942, Target::gfx950}) {
    EXPECT_FALSE(propose_swizzle(lanes(15, 3), writes(12, 4), lanes(128, 3), reads(12, 4), target).found);
    const Proposal whole = propose_swizzle(lanes(6, 3), writes(12, 4), lanes(128, 3), reads(12, 4), target);
    EXPECT_TRUE(whole.found && whole.swizzle.base == 4);
    EXPECT_EQ(brute_force(lanes(6, 3), writes(12, 4), target, whole.swizzle), 0);
  }
  EXPECT_EQ(propose_swizzle(lanes(1, 1), writes(4, 4), lanes(32, 1), reads(4, 4), Target::sm_90).swizzle, Swizzle(1, 4, 1));
}

/// The notes' swizzles, and the same accesses one step off, which the search must not return for them.
TEST(LayoutBanks, GoodAndBadAccessesAreToldApart) {
  const auto free = [](const Layout& layout, Swizzle swizzle, Access access, Target target) {
    return conflicts(composition(swizzle, layout), access, target) == 0;
  };
  EXPECT_TRUE(free(kRows128, Swizzle(3, 3, 4), reads(16, 2), Target::gfx950));
  EXPECT_FALSE(free(kRows128, Swizzle(3, 3, 5), reads(16, 2), Target::gfx950));
  EXPECT_FALSE(free(kRows128, Swizzle(1, 3, 4), reads(16, 2), Target::gfx950));
  EXPECT_FALSE(free(kRows128, Swizzle(3, 3, 4), reads(16, 2), Target::gfx942));  // a line of its banks is one row, not two
  EXPECT_TRUE(free(kRows128, Swizzle(3, 3, 3), reads(16, 2), Target::gfx942));
  EXPECT_TRUE(free(kKeys, Swizzle(4, 3, 4), reads(16, 2), Target::gfx950));
  EXPECT_FALSE(free(kKeys, Swizzle(2, 3, 4), reads(16, 2), Target::gfx950));
  EXPECT_TRUE(free(kValues, Swizzle(2, 5, 2), reads(8, 2), Target::gfx950));
  EXPECT_FALSE(free(kValues, Swizzle(2, 3, 4), reads(8, 2), Target::gfx950));
  // Padded rows: 33 floats are free for 32 banks in a phase; gfx950 reads all 64 lanes in one phase of 64 banks, where lanes 31
  // and 32 meet. Rows of 40 bf16 are good for ldmatrix and twice as slow for the reads of MFMA operands.
  EXPECT_EQ(conflicts(column(33), reads(4, 4), Target::gfx950), 1);
  EXPECT_EQ(conflicts(chunks(tuple(16, 4), tuple(40, 8)), reads(16, 2), Target::sm_90), 0);
  EXPECT_EQ(cost(chunks(tuple(16, 4), tuple(40, 8)), reads(16, 2), Target::gfx950), (Cost{1, 4, 8}));
}

std::string refusal(const std::string& layout, const Access& access, Target target) {
  try {
    if (layout[0] == 'S')
      cost(parse<SwizzledLayout>(layout), access, target);
    else
      cost(parse<Layout>(layout), access, target);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(LayoutBanks, BadAccessesAreRefused) {
  const Target gfx950 = Target::gfx950;
  EXPECT_EQ(refusal("(4,8):(8,1)", reads(6, 1), gfx950), "phases: the width of 6 bytes must be 1, 2, 4, 8, 12 or 16");
  EXPECT_EQ(refusal("(4,8):(8,1)", reads(12, 1), Target::sm_90), "phases: the width of 12 bytes must be 1, 2, 4, 8 or 16");
  EXPECT_EQ(refusal("(4,8):(8,1)", reads(128, 1), Target::x86_64),
            "phases: the width of 128 bytes must be 1, 2, 4, 8, 16, 32 or 64");
  EXPECT_EQ(refusal("(4,8):(8,1)", reads(16, 3), gfx950),
            "conflicts: the width of 16 bytes must be a multiple of the element's 3");
  EXPECT_EQ(refusal("(4,8):(8,1)", reads(16, 0), gfx950),
            "conflicts: the width of 16 bytes must be a multiple of the element's 0");
  EXPECT_EQ(refusal("(4,8,2):(8,1,0)", reads(16, 2), gfx950), "conflicts: a thread-value layout has one or two modes, not 3");
  EXPECT_EQ(refusal("(4,6):(8,1)", reads(16, 2), gfx950), "conflicts: 6 values a thread are no multiple of the 8 of one access");
  EXPECT_EQ(refusal("(4,8):(1,4)", reads(16, 2), gfx950),
            "conflicts: values 0 and 1 of a thread must be neighbours in memory for an access of 16 bytes");
  EXPECT_EQ(refusal("(4,8):(9,1)", reads(16, 2), gfx950), "conflicts: index 9 of elements of 2 bytes is not aligned to 16 bytes");
  EXPECT_EQ(refusal("(4,8):(-8,1)", reads(16, 2), gfx950), "conflicts: index -8 must not be negative");
  EXPECT_EQ(refusal("S<1,2,1> o 0 o (4,8):(8,1)", reads(16, 2), gfx950),
            "conflicts: the swizzle parts indices 8 and 12 of an access of 16 bytes");
  EXPECT_EQ(refusal("(?,8):(8,1)", reads(16, 2), gfx950), "conflicts: shape ? has no number");
  EXPECT_EQ(refusal("(?4,8):(8,1)", reads(16, 2), gfx950), "");
  EXPECT_EQ(refusal("(33554432,8):(8,1)", reads(16, 2), gfx950), "conflicts: 268435456 indices are more than 16777216");
  EXPECT_EQ(refusal("(2,8):(562949953421312,1)", reads(16, 2), gfx950),
            "conflicts: the indices reach over 562949953421320, more than 281474976710656");
  EXPECT_THROW(propose_swizzle(kRows, writes(16, 2), kRows, reads(16, 4), gfx950), std::invalid_argument);
}

}  // namespace
}  // namespace jaxator::layout
