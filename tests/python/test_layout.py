"""jaxator.flight.layout: Python values, the laws of the algebra against a NumPy model, errors, bank conflicts."""

import copy
import dataclasses
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from layout_model import coordinates, everything, index, random_compact, random_layout, size, swizzled

from jaxator.flight import layout as lib
from jaxator.flight.layout import ComposedLayout, Layout, Swizzle

L = Layout.parse


def draws(make, count=400, **options):
    source = random.Random(7)
    return [make(source, **options) for _ in range(count)]


# ---- values ---------------------------------------------------------------------------------------------------------


def test_index_of_numbers_and_coordinates():
    for a in draws(random_layout):
        expected = everything(a)
        np.testing.assert_array_equal(a.indices(), expected)
        assert a.size == len(expected) and a.cosize == expected.max() + 1
        for i in (0, a.size // 2, a.size - 1, a.size + 5):
            assert a(i) == index(a, i)
        for number, coordinate in list(enumerate(coordinates(a.shape)))[:: max(1, a.size // 5)]:
            assert a(coordinate) == expected[number]
            if isinstance(coordinate, tuple) and len(coordinate) > 1:
                assert a(*coordinate) == expected[number]


def test_texts_round_trip():
    for a in draws(random_layout):
        assert L(str(a)) == a and eval(repr(a)) == a
        b = ComposedLayout(Swizzle(2, 1, 3), 4, a)
        assert lib.parse(str(b)) == b and eval(repr(b)) == b
    assert str(L(" ( (2 , 2) , 3, ) : ((24,2),8)")) == "((2,2),3):((24,2),8)"
    assert L("(4):(2)") == Layout((4,), (2,)) != Layout(4, 2)
    assert Layout([np.int32(4), (2, 3)]) == L("(4,(2,3)):(1,(4,8))")


def test_hash_compare_pickle_copy():
    a, same, other = L("((2,2),3):((24,2),8)"), Layout(((2, 2), 3), ((24, 2), 8)), L("(4,3):(24,8)")
    assert a == same and hash(a) == hash(same) and a != other and a != str(a)
    assert {a: 1}[same] == 1 and len({a, same, other}) == 2
    for value in (a, Swizzle(3, 4, 3), ComposedLayout(Swizzle(3, 4, 3), 0, a)):
        for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
            assert again == value and hash(again) == hash(value) and type(again) is type(value)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, dataclasses.fields(value)[0].name, 4)


def test_leaves_that_are_no_numbers():
    a = L("(4,?{div=8}):(E0,2E1.0)")
    assert a.shape == (4, "?{div=8}") and a.stride == ("E0", "2E1.0")
    assert pickle.loads(pickle.dumps(a)) == a and Layout(a.shape, a.stride) == a
    assert L("(2,(2,2)):(E0,(E1,2E1))")(1, (1, 1)) == (1, 3)
    assert L("(4,8):(8,1)")(None, 3) == 3


def test_modes():
    a = L("((4,2),8):((2,1),8)")
    assert (a.rank, a.depth, a.mode(0), a.mode(1)) == (2, 2, L("(4,2):(2,1)"), L("8:8"))
    assert (L("4:1").rank, L("4:1").depth, L("(4):(1)").depth) == (1, 0, 1)
    with pytest.raises(ValueError, match="mode: 2 is not one of 2 modes"):
        a.mode(2)


# ---- laws -----------------------------------------------------------------------------------------------------------


def attempts(operation, pairs, at_least):
    """(a, b, operation(a, b)) where it is defined; enough must be."""
    found = []
    for a, b in pairs:
        try:
            found.append((a, b, operation(a, b)))
        except ValueError as error:
            assert str(error).split(":")[0] in ("composition", "complement", operation.__name__), error
    assert len(found) >= at_least, f"only {len(found)} of {len(pairs)} are defined"
    return found


def test_composition():
    pairs = list(zip(draws(random_layout, 3000), draws(random_compact, 3000, largest=16, gap=2), strict=True))
    for a, b, r in attempts(lib.composition, pairs, 600):
        np.testing.assert_array_equal(r.indices(), index(a, everything(b)), f"{a} o {b} = {r}")
        assert [size(s) for s in r.shape] == [size(s) for s in b.shape] if b.rank > 1 else r.size == b.size


def test_composition_by_mode():
    a = L("((4,2),8):((2,1),8)")
    r = lib.composition(a, (Layout(4, 2), None))
    table = everything(a).reshape(8, 8)  # columns first
    np.testing.assert_array_equal(r.indices().reshape(8, 4), table[:, ::2])
    np.testing.assert_array_equal(lib.composition(a, (2, 3)).indices().reshape(3, 2), table[:3, :2])


def test_coalesce():
    for a in draws(random_layout):
        r = lib.coalesce(a)
        np.testing.assert_array_equal(r.indices(), everything(a))
        assert r.depth <= 1 and r == lib.coalesce(r)
    assert str(lib.coalesce(L("((2,4),(1,6)):((1,2),(7,8))"), (1, 1))) == "(8,6):(1,8)"


def test_complement():
    for a, bound, r in attempts(lib.complement, [(a, 96) for a in draws(random_compact, largest=24, gap=3)], 300):
        reached = (everything(a)[:, None] + everything(r)[None, :]).ravel()
        assert len(set(reached)) == len(reached), f"{a} and {r} reach an index twice"
        assert set(range(bound)) <= set(reached)
        assert (np.diff(everything(r)) > 0).all()


def test_inverses():
    for a in draws(random_compact, gap=1):
        np.testing.assert_array_equal(index(a, everything(lib.right_inverse(a))), np.arange(a.size))
    for a in draws(random_compact, gap=3):
        r, inverse = lib.left_inverse(a), lib.right_inverse(a)
        np.testing.assert_array_equal(index(r, everything(a)), np.arange(a.size))
        np.testing.assert_array_equal(index(a, everything(inverse)), np.arange(inverse.size))


DIVIDES = (lib.zipped_divide, lib.tiled_divide, lib.flat_divide)


def test_divides():
    pairs = list(zip(draws(random_compact, 1500), draws(random_compact, 1500, largest=8, gap=2), strict=True))
    for a, tiler, r in attempts(lib.logical_divide, pairs, 300):
        np.testing.assert_array_equal(r.mode(0).indices(), index(a, everything(tiler)))
        rest = lib.complement(tiler, a.size)
        np.testing.assert_array_equal(r.mode(1).indices(), index(a, everything(rest)))
        assert lib.zipped_divide(a, tiler) == r
    source = random.Random(3)
    for _ in range(100):
        rows, columns = (source.choice((4, 6, 8, 12)) for _ in range(2))
        tile = tuple(source.choice([n for n in range(1, s + 1) if s % n == 0]) for s in (rows, columns))
        a = Layout((rows, columns), (columns, 1))
        table = everything(a).reshape(columns, rows).T
        tiles = table.reshape(rows // tile[0], tile[0], columns // tile[1], tile[1])
        zipped, tiled, flat = (divide(a, tile) for divide in DIVIDES)
        for i, j, y, x in np.ndindex(*tiles.transpose(1, 3, 0, 2).shape):
            assert zipped((i, j), (y, x)) == tiled((i, j), y, x) == flat(i, j, y, x) == tiles[y, i, x, j]
        assert lib.logical_divide(a, tile)((1 % tile[0], 0), 0) == tiles[0, 1 % tile[0], 0, 0]


def test_products():
    pairs = list(zip(draws(random_compact, largest=16, gap=2), draws(random_compact, largest=8, gap=2), strict=True))
    for a, b, r in attempts(lib.logical_product, pairs, 150):
        assert r.mode(0) == a
        copies = lib.complement(a, a.size * b.cosize)
        np.testing.assert_array_equal(r.mode(1).indices(), index(copies, everything(b)))
        assert len(set(r.indices())) == r.size
        assert lib.zipped_product(a, b) == r
    block, copies = L("(2,5):(5,1)"), L("(3,4):(1,3)")
    assert str(lib.zipped_product(block, (3, 2))) == "((2,5),(3,2)):((5,1),(1,5))"
    assert str(lib.tiled_product(block, (3, 2))) == "((2,5),3,2):((5,1),1,5)"
    assert str(lib.flat_product(block, (3, 2))) == "(2,5,3,2):(5,1,1,5)"
    blocked, raked = lib.blocked_product(block, copies), lib.raked_product(block, copies)
    for i, j, y, x in np.ndindex(2, 5, 3, 4):
        at = block(i, j) + 10 * copies(y, x)
        assert blocked((i, y), (j, x)) == raked((y, i), (x, j)) == at


def test_tile_to_shape():
    for block in draws(random_compact, largest=8):
        if block.rank != 2:
            continue
        sizes = [size(s) for s in block.shape]
        shape = (sizes[0] * 3, sizes[1] * 2)
        r = lib.tile_to_shape(block, shape, (1, 0))
        assert sorted(r.indices()) == list(range(r.size)) and r.size == shape[0] * shape[1]
        table = r.indices().reshape(shape[1], shape[0])
        np.testing.assert_array_equal(table[: sizes[1], : sizes[0]].ravel(), everything(block))
        assert table[sizes[1], 0] == block.size  # the next copy is along mode 1


def test_ordered_layouts():
    assert str(lib.make_ordered_layout((2, (3, 4), 5), (2, (0, 3), 1))) == "(2,(3,4),5):(15,(1,30),3)"
    assert str(lib.make_ordered_layout((2, (3, 4), 5), (1, 0, 2))) == "(2,(3,4),5):(12,(1,3),24)"


def test_recast():
    a = L("(4,8):(8,1)")
    bytes_of = (a.indices()[:, None] * 2 + np.arange(2)).ravel()
    assert sorted(lib.recast(a, 8, 16).indices()) == sorted(bytes_of)
    wide = lib.recast(a, 64, 16)
    assert str(wide) == "(4,2):(2,1)" and lib.recast(wide, 16, 64) == a
    assert lib.recast(ComposedLayout(Swizzle(3, 4, 3), 0, L("(8,128):(128,1)")), 16, 8) == ComposedLayout(
        Swizzle(3, 3, 3), 0, L("(8,64):(64,1)")
    )


def test_swizzles():
    numbers = np.arange(512)
    for swizzle in (Swizzle(3, 4, 3), Swizzle(2, 0, 5), Swizzle(1, 3, -2), Swizzle(0, 0, 0)):
        expected = swizzled(swizzle, numbers)
        assert [swizzle(int(i)) for i in numbers] == list(expected)
        assert sorted(expected) == list(numbers) or swizzle.shift == -2
        np.testing.assert_array_equal(swizzled(swizzle, expected), numbers)
        for a in draws(random_layout, 20):
            b = ComposedLayout(swizzle, 8, a)
            np.testing.assert_array_equal(b.indices(), swizzled(swizzle, 8 + everything(a)))
            assert b(a.size - 1) == b.indices()[-1] and (b.shape, b.size, b.rank) == (a.shape, a.size, a.rank)
    tiles = lib.zipped_divide(lib.composition(Swizzle(3, 0, 3), L("(8,8):(8,1)")), (2, 4))
    assert str(tiles) == "S<3,0,3> o 0 o ((2,4),(4,2)):((8,1),(16,4))"


GOLDEN = [
    (lib.complement, L("(3,2):(2,1)"), 12, "2:6"),
    (lib.composition, L("(6,9):(19,69)"), L("(6,3):(3,1)"), "((2,3),3):((57,69),19)"),
    (lib.composition, L("(6,2):(8,2)"), L("(4,3):(3,1)"), "((2,2),3):((24,2),8)"),
    (lib.composition, L("(10,2):(16,4)"), L("(5,4):(1,5)"), "(5,(2,2)):(16,(80,4))"),
    (lib.composition, L("20:2"), L("(5,4):(4,1)"), "(5,4):(8,2)"),
    (lib.complement, L("(2,2):(1,6)"), 24, "(3,2):(2,12)"),
    (lib.complement, L("(4,6):(1,4)"), 24, "1:0"),
    (lib.complement, L("4:2"), 24, "(2,3):(1,8)"),
    (lib.logical_divide, L("16:3"), L("4:4"), "(4,4):(12,3)"),
    (
        lib.logical_divide,
        L("(9,(4,8)):(59,(13,1))"),
        (Layout(3, 3), Layout((2, 4), (1, 8))),
        "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))",
    ),
    (lib.logical_product, L("(2,2):(4,1)"), L("6:1"), "((2,2),(2,3)):((4,1),(2,8))"),
]


@pytest.mark.parametrize(("operation", "a", "b", "expected"), GOLDEN)
def test_golden_values(operation, a, b, expected):
    assert str(operation(a, b)) == expected


# ---- how it is called -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: L("(4,8):(1"), ValueError, """parse: ')' expected at character 8 of "(4,8):(1\""""),
        (lambda: L("S<3,4,3>"), ValueError, "S<3,4,3> is no plain layout (shape):(stride)"),
        (lambda: L("4:1\0:2"), ValueError, "normalize: a text has a zero byte in it: ('4:1\\x00:2',)"),
        (lambda: Layout((4, 8), (1, 2, 3)), ValueError, "layout: shape and stride are nested differently"),
        (lambda: Layout((4, -8)), ValueError, "layout: leaf 1: shape -8 must be a positive number"),
        (lambda: Layout((4, 2.5)), TypeError, "an integer or a tuple of integers was expected, not 2.5"),
        (lambda: Layout(2**70), ValueError, "a number of 64 bits expected"),
        (lambda: L("(" * 10**6), ValueError, "normalize: a text of 1000000 characters is longer than 2048"),
        (lambda: Swizzle(3, 0, 2), ValueError, "swizzle: the 3 bits overlap those 2 apart"),
        (lambda: L("(4,8):(1,4)")(1, 2, 3), ValueError, "crd2idx: leaf 0: a coordinate of 3 modes does not fit 2 modes"),
        (lambda: L("(4,8):(1,4)")(), TypeError, "an index or a coordinate is missing"),
        (
            lambda: lib.composition(L("(4,3):(1,7)"), L("5:2")),
            ValueError,
            "composition: leaf 0: shape 5 must be a multiple of 2 = 4 / stride",
        ),
        (lambda: lib.composition(3, L("4:1")), TypeError, "Layout or ComposedLayout was expected, not 3"),
        (
            lambda: lib.complement(Swizzle(1, 0, 1), 8),
            TypeError,
            "Layout was expected, not Swizzle(bits=1, base=0, shift=1)",
        ),
        (
            lambda: lib.left_inverse(L("(4,2):(1,2)")),
            ValueError,
            "left_inverse: leaf 1: stride 2 must be a multiple of 4, the extent of the smaller strides",
        ),
        (
            lambda: lib.logical_divide(L("(4,8):(1,4)"), (2, 2, 2)),
            ValueError,
            "logical_divide: 3 modes do not fit a layout of 2",
        ),
        (lambda: lib.draw(L("(100,100):(1,100)")), ValueError, "draw: 10000 cells are more than 4096"),
        (lambda: lib.draw(L("4:1"), format="png"), ValueError, """draw: format='png' must be "svg" or "text\""""),
        (
            lambda: lib.conflicts(L("(4,4):(4,1)"), "gfx90a"),
            ValueError,
            "target gfx90a must be one of gfx942, gfx950, sm_90, x86-64",
        ),
        (
            lambda: lib.conflicts(L("(4,4):(4,1)"), "sm_90", 12),
            ValueError,
            "phases: the width of 12 bytes must be 1, 2, 4, 8 or 16",
        ),
        (
            lambda: lib.conflicts(L("(4,4):(4,1)"), "sm_90", direction="up"),
            ValueError,
            "direction up must be one of read, write",
        ),
    ],
)
def test_refusals_name_what_was_wrong(call, error, text):
    with pytest.raises(error) as raised:
        call()
    assert text in str(raised.value)


def test_long_answers():
    a = L("(64,64):(64,1)")
    assert len(a.indices()) == 4096 and len(lib.draw(a)) > 100_000


def test_many_threads_at_once():
    pairs = list(zip(draws(random_layout, 200), draws(random_compact, 200, largest=16), strict=True))

    def work(pair):
        try:
            return str(lib.composition(*pair)), str(lib.draw(pair[0]))
        except ValueError as error:
            return str(error)

    expected = [work(pair) for pair in pairs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(work, pairs)) == expected


# ---- banks ----------------------------------------------------------------------------------------------------------


def passes(addresses, phases, width):
    """Of one instruction, from the definition."""
    total = 0
    for lanes in phases.lanes:
        words = {(addresses[lane] + b) // phases.bank_bytes for lane in lanes if lane < len(addresses) for b in range(width)}
        total += max(np.bincount([word % phases.banks for word in words]), default=0) if words else 0
    return total


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "sm_90"])
@pytest.mark.parametrize("direction", ["read", "write"])
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_cost_by_definition(target, direction, width):
    phases = lib.phases(target, width, direction)
    lanes = sum(map(len, phases.lanes))
    assert (
        sorted(lane for phase in phases.lanes for lane in phase)
        == list(range(lanes))
        == list(range(32 if target == "sm_90" else 64))
    )
    run, source = width // 2, random.Random(width)
    for _ in range(25):
        strides = tuple(source.choice((0, 1, 2, 3, 4, 8, 16, 33, 64)) * run for _ in range(3))
        a = Layout(((4, 4, lanes // 16), run), (strides, 1))
        for each in (a, ComposedLayout(Swizzle(2, 3, source.choice((2, 3, 4))), 0, a)):
            cost = lib.cost(each, target, width, element=2, direction=direction)
            assert cost.passes == passes(each.indices()[:lanes] * 2, phases, width), each
            assert (cost.instructions, cost.phases) == (1, len(phases.lanes))
            assert lib.conflicts(each, target, width, element=2, direction=direction) == cost.passes - cost.phases


def test_proposed_swizzle():
    write, read = L("((8,8),8):((8,64),1)"), L("((16,4),(8,2)):((64,8),(1,32))")
    for target in ("gfx942", "gfx950", "sm_90"):
        assert lib.conflicts(read, target, element=2) > 0
        found = lib.propose_swizzle(write, read, target, element=2)
        assert lib.conflicts(lib.composition(found, write), target, element=2, direction="write") == 0
        assert lib.conflicts(lib.composition(found, read), target, element=2) == 0
    assert lib.propose_swizzle(write, write, "sm_90", element=2) == Swizzle(0, 0, 0)
    column = L("((64)):((128))")
    assert lib.propose_swizzle(column, column, "gfx942", element=2, write_width=2, read_width=2).bits == 5
    assert lib.propose_swizzle(column, column, "x86-64", element=2, write_width=2, read_width=2) is None
