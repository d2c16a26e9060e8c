// Divides, products, tiles, recasts, swizzles and composed layouts against their definitions, and known answers.
#include <set>

#include "tests/cpp/layout_testing.h"

namespace jaxator::layout::testing {
namespace {

Tile tile(const char* text) { return parse<Tile>(text); }

/// Layouts to divide and to repeat: compact ones in two orders, and one with gaps.
std::vector<Layout> blocks(int64_t size, bool nested = true) {
  std::vector<Layout> all;
  for (const IntTuple& shape : shapes_up_to(size, 3, nested)) {
    all.push_back(Layout(shape));
    Layout other(shape);
    for (int k = 0, extent = 3; k < shape.count; k++) {
      Mode& leaf = other.leaves[shape.count - 1 - k];
      leaf.stride = extent;
      extent *= static_cast<int>(leaf.shape.value) * (k == 0 ? 2 : 1);
    }
    all.push_back(other);
  }
  return all;
}

TEST(LayoutTiles, KnownAnswers) {
  EXPECT_EQ(composition(L("(6,2):(8,2)"), L("(4,3):(3,1)")), L("((2,2),3):((24,2),8)"));
  EXPECT_EQ(composition(L("(6,9):(19,69)"), L("(6,3):(3,1)")), L("((2,3),3):((57,69),19)"));
  EXPECT_EQ(composition(L("20:2"), L("(5,4):(4,1)")), L("(5,4):(8,2)"));
  EXPECT_EQ(composition(L("(10,2):(16,4)"), L("(5,4):(1,5)")), L("(5,(2,2)):(16,(80,4))"));
  EXPECT_EQ(composition(L("(12,(4,8)):(59,(13,1))"), tile("[3:4,8:2]")), L("(3,(2,4)):(236,(26,1))"));
  EXPECT_EQ(complement(L("(3,2):(2,1)"), 12), L("2:6"));
  EXPECT_EQ(complement(L("4:1"), 24), L("6:4"));
  EXPECT_EQ(complement(L("6:4"), 24), L("4:1"));
  EXPECT_EQ(complement(L("(4,6):(1,4)"), 24), L("1:0"));
  EXPECT_EQ(complement(L("4:2"), 24), L("(2,3):(1,8)"));
  EXPECT_EQ(complement(L("(2,4):(1,6)"), 24), L("3:2"));
  EXPECT_EQ(complement(L("(2,2):(1,6)"), 24), L("(3,2):(2,12)"));
  EXPECT_EQ(logical_divide(L("(14,6,9):(19,69,1)"), L("(2,3,6):(7,14,1)")), L("((2,3,6),(2,9)):((133,69,19),(207,1))"));
  EXPECT_EQ(logical_divide(L("(4,2,3):(2,1,8)"), L("4:2")), L("((2,2),(2,3)):((4,1),(2,8))"));
  const Layout nine = L("(9,(4,8)):(59,(13,1))");
  EXPECT_EQ(logical_divide(nine, tile("[3:3,(2,4):(1,8)]")), L("((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"));
  EXPECT_EQ(zipped_divide(nine, tile("[3:3,(2,4):(1,8)]")), L("((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"));
  EXPECT_EQ(tiled_divide(nine, tile("[3:3,(2,4):(1,8)]")), L("((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"));
  EXPECT_EQ(flat_divide(nine, tile("[3:3,(2,4):(1,8)]")), L("(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"));
  EXPECT_EQ(logical_product(L("(2,2):(4,1)"), L("6:1")), L("((2,2),(2,3)):((4,1),(2,8))"));
  EXPECT_EQ(blocked_product(L("(2,5):(5,1)"), L("(3,4):(1,3)")), L("((2,3),(5,4)):((5,10),(1,30))"));
  EXPECT_EQ(raked_product(L("(2,5):(5,1)"), L("(3,4):(1,3)")), L("((3,2),(4,5)):((10,5),(30,1))"));
  EXPECT_EQ(right_inverse(L("(4,8):(8,1)")), L("(8,4):(4,1)"));
  EXPECT_EQ(left_inverse(L("4:2")), L("(2,4):(4,1)"));
  EXPECT_EQ(tile_to_shape(L("(8,64):(64,1)"), T("(16,128)")), L("(16,(64,2)):(64,(1,1024))"));
  EXPECT_EQ(tile_to_shape(L("(8,64):(64,1)"), T("(16,128)"), T("(1,0)")), L("((8,2),(64,2)):((64,1024),(1,512))"));
  EXPECT_EQ(tile_to_shape(L("(4,2):(2,1)"), T("(8,6,3)"), T("(2,0,1)")), L("((4,2),(2,3),3):((2,72),(1,8),24)"));
}

TEST(LayoutTiles, DivideTakesTheTileAndMovesIt) {
  int64_t accepted = 0, whole = 0;
  const auto tilers = blocks(6, false);
  for (const Layout& layout : blocks(24))
    for (const Layout& tiler : tilers) {
      Layout result;
      if (refused([&] { result = logical_divide(layout, tiler); })) continue;
      accepted++;
      const Layout rest = complement(tiler, size(layout));
      ASSERT_EQ(result.rank(), 2);
      for (int64_t j = 0; j < size(rest).value; j++)
        for (int64_t i = 0; i < size(tiler).value; i++)
          ASSERT_EQ(result(i, j), layout(tiler(i) + rest(j))) << to_string(layout) << " / " << to_string(tiler);
      if (size(result) != size(layout)) continue;
      // Nothing is left over: every element is there once.
      whole++;
      auto got = indices(result), want = indices(layout);
      std::sort(got.begin(), got.end());
      std::sort(want.begin(), want.end());
      ASSERT_EQ(got, want) << to_string(layout) << " / " << to_string(tiler);
    }
  EXPECT_GT(accepted, 2000);
  EXPECT_GT(whole, 1000);
}

TEST(LayoutTiles, FormsOfADivide) {
  for (int64_t m : {6, 8, 12})
    for (int64_t n : {4, 9, 10})
      for (int64_t k : {1, 5})
        for (int64_t tm : {1, 2, 3})
          for (int64_t tn : {1, 2, 5}) {
            const Layout layout(tuple(m, n, k), tuple(1000, 7, 1));
            const Tile by = make_tile(tm, tn);
            const Layout logical = logical_divide(layout, by), zipped = zipped_divide(layout, by);
            const Layout tiled = tiled_divide(layout, by), flat = flat_divide(layout, by);
            ASSERT_EQ(zipped.rank(), 2);
            ASSERT_EQ(tiled.rank(), 4);
            ASSERT_EQ(flat.rank(), 5);
            for (int64_t i = 0; i < tm; i++)
              for (int64_t j = 0; j < tn; j++)
                for (int64_t mi = 0; mi * tm < m; mi++)
                  for (int64_t nj = 0; nj * tn < n; nj++)
                    for (int64_t l = 0; l < k; l++) {
                      const int64_t want = 1000 * (i + mi * tm) + 7 * (j + nj * tn) + l;
                      ASSERT_EQ(logical(tuple(i, mi), tuple(j, nj), l), want);
                      ASSERT_EQ(zipped(tuple(i, j), tuple(mi, nj, l)), want);
                      ASSERT_EQ(tiled(tuple(i, j), mi, nj, l), want);
                      ASSERT_EQ(flat(i, j, mi, nj, l), want);
                    }
          }
}

TEST(LayoutTiles, KeptAndNestedModes) {
  const Layout layout = L("(8,(4,6)):(100,(1,10))");
  EXPECT_EQ(composition(layout, tile("[*,4:1]")), L("(8,4):(100,1)"));
  EXPECT_EQ(composition(layout, tile("*")), layout);
  EXPECT_EQ(composition(layout, make_tile(4)), L("(4,(4,6)):(100,(1,10))"));
  EXPECT_EQ(composition(layout, tile("[2:1,[2:2,*]]")), L("(2,(2,6)):(100,(2,10))"));
  EXPECT_EQ(logical_divide(layout, make_tile(keep, 4)), L("(8,(4,6)):(100,(1,10))"));
  EXPECT_EQ(zipped_divide(layout, make_tile(2, make_tile(2, 3))), L("((2,(2,3)),(4,(2,2))):((100,(1,10)),(200,(2,30)))"));
  EXPECT_EQ(zipped_divide(layout, make_tile(keep, 4)), L("((1,4),(8,6)):((0,1),(100,10))"));
  EXPECT_EQ(flat_divide(layout, make_tile(keep, 4)), L("(1,4,8,6):(0,1,100,10)"));
  EXPECT_EQ(logical_divide(layout, 8), logical_divide(layout, L("8:1")));
  EXPECT_EQ(zipped_product(L("(2,4):(4,1)"), make_tile(keep, 3)), L("((1,4),(2,3)):((0,1),(4,4))"));
  EXPECT_EQ(logical_product(L("(2,4):(4,1)"), make_tile(8)), L("((2,(4,2)),4):((4,(1,8)),1)"));
}

/// Copy t of the block is where the complement of the block says.
TEST(LayoutTiles, ProductRepeatsTheBlock) {
  int64_t accepted = 0;
  const auto all = blocks(6, false);
  for (const Layout& block : blocks(8))
    for (const Layout& copies : all) {
      Layout result, blocked, raked;
      if (refused([&] { result = logical_product(block, copies); })) continue;
      accepted++;
      ASSERT_EQ(result.mode(0), block);
      const Layout where = complement(block, size(block).value * cosize(copies).value);
      std::set<int64_t> seen;
      for (int64_t t = 0; t < size(copies).value; t++)
        for (int64_t i = 0; i < size(block).value; i++) {
          ASSERT_EQ(result(i, t), block(i) + where(copies(t))) << to_string(block) << " x " << to_string(copies);
          ASSERT_TRUE(seen.insert(result(i, t)).second) << to_string(result);
        }
      if (refused([&] { blocked = blocked_product(block, copies), raked = raked_product(block, copies); })) continue;
      const int rank = std::max(block.rank(), copies.rank());
      ASSERT_EQ(blocked.rank(), rank);
      const IntTuple block_shape = block.pad(rank, Mode{1, 0}).shape(), copies_shape = copies.pad(rank, Mode{1, 0}).shape();
      for (int64_t t = 0; t < size(copies).value; t++)
        for (int64_t i = 0; i < size(block).value; i++) {
          IntTuple side_by_side, interleaved;
          if (i > 1 && t > 1) continue;
          const IntTuple in_block = idx2crd(i, block_shape), in_copies = idx2crd(t, copies_shape);
          for (int m = 0; m < rank; m++) {
            side_by_side.push(tuple(in_block.mode(m), in_copies.mode(m)));
            interleaved.push(tuple(in_copies.mode(m), in_block.mode(m)));
          }
          ASSERT_EQ(crd2idx(side_by_side, blocked), IntTuple(result(i, t))) << to_string(blocked);
          ASSERT_EQ(crd2idx(interleaved, raked), IntTuple(result(i, t))) << to_string(raked);
        }
    }
  EXPECT_GT(accepted, 3000);
}

TEST(LayoutTiles, TileToShapeCovers) {
  for (const char* text : {"(2,3):(1,2)", "(2,3):(3,1)", "4:1", "((2,2),3):((1,6),2)"})
    for (const char* order : {"0", "(0,1)", "(1,0)"})
      for (int64_t m : {1, 4, 5, 8})
        for (int64_t n : {1, 3, 7}) {
          const Layout block = L(text), result = tile_to_shape(block, tuple(m, n), T(order));
          ASSERT_EQ(result.rank(), 2);
          const int64_t bm = size(block.mode(0)).value, bn = block.rank() > 1 ? size(block.mode(1)).value : 1;
          ASSERT_EQ(size(result.mode(0)).value, (m + bm - 1) / bm * bm);
          ASSERT_EQ(size(result.mode(1)).value, (n + bn - 1) / bn * bn);
          std::set<int64_t> seen;
          for (int64_t i = 0; i < size(result.mode(0)).value; i++)
            for (int64_t j = 0; j < size(result.mode(1)).value; j++) {
              ASSERT_TRUE(seen.insert(result(i, j)).second);
              const int64_t inside = block.rank() > 1 ? block(i % bm, j % bn) : block(i % bm);
              ASSERT_EQ(result(i, j), result(i / bm * bm, j / bn * bn) + inside);
            }
        }
}

TEST(LayoutTiles, OrderedLayouts) {
  EXPECT_EQ(make_ordered_layout(T("(2,3,4)"), T("(1,2,0)")), L("(2,3,4):(4,8,1)"));
  EXPECT_EQ(make_ordered_layout(T("((2,3),4)"), T("(1,0)")), L("((2,3),4):((4,8),1)"));
  EXPECT_EQ(make_ordered_layout(T("(2,?{div=4})"), T("(1,0)"), Math<Unknown>{"test"}), L("(2,?{div=4}):(?{div=4},1)"));
  EXPECT_EQ(make_layout_like(L("(2,3,4):(100,7,-9)")), L("(2,3,4):(12,1,3)"));
  EXPECT_EQ(make_layout_like(L("((2,3),4):((0,8),1)")), L("((2,3),4):((0,4),1)"));
  EXPECT_EQ(make_layout_like(L("(2,3,4):(?,1,?)")), L("(2,3,4):(3,1,6)"));
  EXPECT_EQ(make_fragment_like(L("((2,2),3,4):((16,0),1,8)")), L("((2,2),3,4):((1,0),2,6)"));
  for (const IntTuple& shape : shapes_up_to(24))
    for (const IntTuple& order : {T("(0,1,2)"), T("(2,1,0)"), T("(1,2,0)")}) {
      if (shape.depth() != 1 || (shape.count > 1 && size(shape).value <= 16)) continue;  // without leaves of size 1
      const Layout ordered = make_ordered_layout(shape, order.take(0, shape.count));
      ASSERT_EQ(cosize(ordered), size(ordered));
      ASSERT_EQ(make_layout_like(ordered), ordered);
    }
}

std::set<int64_t> image(const Layout& layout) {
  const auto all = indices(layout);
  return std::set<int64_t>(all.begin(), all.end());
}

TEST(LayoutTiles, RecastIsTheSameMemory) {
  int64_t accepted = 0;
  for (const IntTuple& shape : shapes_up_to(16))
    for_strides(shape, {0, 1, 2, 3, 4, 8}, [&](const Layout& layout) {
      const auto old_image = image(layout);
      for (const auto& [new_bits, old_bits] : {std::pair{4, 8}, {16, 8}, {64, 16}, {6, 8}, {8, 6}, {8, 8}}) {
        Layout result;
        if (refused([&] { result = recast(layout, new_bits, old_bits); })) continue;
        accepted++;
        std::set<int64_t> want;  // elements that any bit of an old one is in
        for (int64_t i : old_image)
          for (int64_t bit = i * old_bits; bit < (i + 1) * old_bits; bit++) want.insert(bit / new_bits);
        ASSERT_EQ(image(result), want) << to_string(layout) << " " << old_bits << " -> " << new_bits << " " << to_string(result);
      }
    });
  EXPECT_GT(accepted, 10000);
  EXPECT_EQ(upcast(L("(8,4):(1,8)"), 4), L("(2,4):(1,2)"));
  EXPECT_EQ(upcast(L("(8,4):(4,1)"), 4), L("(8,1):(1,1)"));
  EXPECT_EQ(downcast(L("(8,4):(4,1)"), 2), L("(8,8):(8,1)"));
  EXPECT_EQ(downcast(L("(1,4):(1,1)"), 2), L("(1,8):(2,1)"));
}

TEST(LayoutTiles, SwizzleIsAnInvolution) {
  for (int bits = 0; bits <= 3; bits++)
    for (int base = 0; base <= 3; base++)
      for (int shift = -5; shift <= 5; shift++) {
        if (std::abs(shift) < bits) continue;
        const Swizzle swizzle(bits, base, shift);
        std::set<int64_t> seen;
        for (int64_t x = 0; x < 2 * swizzle.period(); x++) {
          ASSERT_EQ(swizzle(swizzle(x)), x);
          ASSERT_EQ(swizzle(x + swizzle.period()), swizzle(x) + swizzle.period());
          ASSERT_EQ(crd2idx(x, swizzle), IntTuple(swizzle(x)));
          ASSERT_EQ(swizzle(x) >> base << base | (x & ((1 << base) - 1)), swizzle(x));  // the low bits stay
          seen.insert(swizzle(x));
        }
        ASSERT_EQ(static_cast<int64_t>(seen.size()), 2 * swizzle.period());
        for (int64_t factor : {1, 2, 4}) {
          const Swizzle finer = downcast(swizzle, factor);
          ASSERT_EQ(upcast(finer, factor), swizzle);
          for (int64_t x = 0; x < 64; x++) ASSERT_EQ(finer(x) / factor, swizzle(x / factor));
        }
      }
}

TEST(LayoutTiles, ComposedLayouts) {
  const SwizzledLayout block = composition(Swizzle(2, 1, 3), L("(8,8):(8,1)"));
  const SwizzledLayout row = slice(T("(5,*)"), block);
  EXPECT_EQ(to_string(row), "S<2,1,3> o 40 o (8):(1)");
  for (int64_t j = 0; j < 8; j++) EXPECT_EQ(row(j), block(5, j));
  const SwizzledLayout zipped = zipped_divide(block, make_tile(4, 2));
  const SwizzledLayout part = composition(block, make_tile(L("2:4"), keep));
  for (int64_t i = 0; i < 8; i++)
    for (int64_t j = 0; j < 8; j++) {
      EXPECT_EQ(zipped(tuple(i % 4, j % 2), tuple(i / 4, j / 2)), block(i, j));
      EXPECT_EQ(part(i / 4, j), block(i / 4 * 4, j));
      EXPECT_EQ(coalesce(block, T("(1,1)"))(i, j), block(i, j));
    }
  const SwizzledLayout wide = tile_to_shape(block, T("(16,24)"), T("(1,0)"));
  for (int64_t i = 0; i < 16; i++)
    for (int64_t j = 0; j < 24; j++) EXPECT_EQ(wide(i, j), block(i % 8, j % 8) + (i / 8 * 3 + j / 8) * 64);
  EXPECT_EQ(recast(block, 8, 16), composition(Swizzle(2, 2, 3), L("(8,16):(16,1)")));
  EXPECT_EQ(recast(recast(block, 8, 16), 16, 8), block);
  EXPECT_EQ(to_string(recast(row, 32, 16)), "S<2,0,3> o 20 o (4):(1)");

  // A layout inside: what slicing leaves of a layout with carries.
  const Composed<Layout> shifted{L("(4,4):(1,100)"), 3, L("4:1")};
  EXPECT_EQ(shifted(0), 3);
  EXPECT_EQ(shifted(1), 100);
  EXPECT_EQ(shifted(2), 101);
  const Composed<SwizzledLayout> chain{block, tuple(0, 3), L("(2,2):(E0,E1)")};
  EXPECT_EQ(chain(1, 1), block(1, 4));
}

TEST(LayoutTiles, BasisStrides) {
  const Layout identity = L("(4,(2,3)):(E0,(E1.0,E1.1))");
  EXPECT_EQ(crd2idx(T("(3,(1,2))"), identity), T("(3,(1,2))"));
  EXPECT_EQ(crd2idx(T("(3,5)"), identity), T("(3,(1,2))"));
  EXPECT_EQ(crd2idx(23, identity), T("(3,(1,2))"));
  EXPECT_EQ(crd2idx(T("(0,(1,0))"), identity), T("(0,(1))"));
  const Layout matrix = L("(4,(2,3)):(6,(3,1))");
  EXPECT_EQ(composition(matrix, identity), matrix);
  EXPECT_EQ(composition(matrix, L("(2,2):(2E0,E1)")), L("(2,2):(12,3)"));
  EXPECT_EQ(composition(L("(4,8):(E0,E1)"), L("(2,(2,4)):(16,(1,4))")), L("(2,(2,4)):(4E1,(E0,E1))"));
  EXPECT_EQ(coalesce(L("(2,3):(E0,2E0)")), L("6:E0"));
  EXPECT_EQ(zipped_divide(L("(8,8):(E0,E1)"), make_tile(2, 4)), L("((2,4),(4,2)):((E0,E1),(2E0,4E1))"));
  EXPECT_EQ(crd2idx(T("((1,3),(3,1))"), zipped_divide(L("(8,8):(E0,E1)"), make_tile(2, 4))), T("(7,7)"));
}

TEST(LayoutTiles, SliceAndDice) {
  const Layout layout = L("((2,3),4,5):((1,2),6,24)");
  EXPECT_EQ(slice(T("(*,2,*)"), layout), L("((2,3),5):((1,2),24)"));
  EXPECT_EQ(slice(T("((1,*),2,*)"), layout), L("(3,5):(2,24)"));
  EXPECT_EQ(slice(T("(1,2,3)"), layout), L("():()"));
  EXPECT_EQ(slice(T("*"), layout), L("(((2,3),4,5)):(((1,2),6,24))"));
  EXPECT_EQ(dice(T("((1,*),2,*)"), layout), L("(2,4):(1,6)"));
  EXPECT_EQ(slice(T("(*,2,*)"), T("(7,8,9)")), T("(7,9)"));
  EXPECT_EQ(crd2idx(T("((1,*),2,*)"), layout), IntTuple(13));
  EXPECT_EQ(size(L("():()")), Int(1));
  for (int64_t i = 0; i < 6; i++)
    for (int64_t j = 0; j < 5; j++) EXPECT_EQ(layout(i, 2, j), 12 + slice(T("(*,2,*)"), layout)(i, j));
}

TEST(LayoutTiles, Modes) {
  const Layout layout = L("((2,3),4,5):((1,2),6,24)");
  EXPECT_EQ(layout.rank(), 3);
  EXPECT_EQ(layout.depth(), 2);
  EXPECT_EQ(layout.mode(0), L("(2,3):(1,2)"));
  EXPECT_EQ(layout.get(0, 1), L("3:2"));
  EXPECT_EQ(layout.take(1, 3), L("(4,5):(6,24)"));
  EXPECT_EQ(layout.select(2, 0), L("(5,(2,3)):(24,(1,2))"));
  EXPECT_EQ(layout.group(1, 3), L("((2,3),(4,5)):((1,2),(6,24))"));
  EXPECT_EQ(layout.replace(0, L("7:8")), L("(7,4,5):(8,6,24)"));
  EXPECT_EQ(layout.append(L("7:8")), L("((2,3),4,5,7):((1,2),6,24,8)"));
  EXPECT_EQ(layout.prepend(L("7:8")), L("(7,(2,3),4,5):(8,(1,2),6,24)"));
  EXPECT_EQ(layout.flatten(), L("(2,3,4,5):(1,2,6,24)"));
  EXPECT_EQ(L("((2,3)):((1,2))").unwrap(), L("(2,3):(1,2)"));
  EXPECT_EQ(L("4:1").append(L("5:4")), L("(4,5):(1,4)"));
  EXPECT_EQ(L("4:1").pad(3, Mode{1, 0}), L("(4,1,1):(1,0,0)"));
  EXPECT_EQ(Layout(T("((2,3),4)")), L("((2,3),4):((1,2),6)"));
  EXPECT_EQ(make_layout(L("4:1"), L("(2,3):(4,8)")), L("(4,(2,3)):(1,(4,8))"));
  EXPECT_TRUE(layout.congruent(T("((0,0),0,0)")));
  EXPECT_FALSE(layout.congruent(T("(0,0,0,0)")));
}

}  // namespace
}  // namespace jaxator::layout::testing
