"""What a layout means, in NumPy, written from the definition alone; and families of layouts for the tests."""

import itertools

import numpy as np

from jaxator.flight.layout import Layout


def leaves(shape, stride):
    """[(shape, stride)] from left to right."""
    if not isinstance(shape, tuple):
        return [(shape, stride)]
    return [leaf for s, d in zip(shape, stride, strict=True) for leaf in leaves(s, d)]


def index(layout, numbers):
    """The indices of numbers, which may be past the size: the last leaf takes the rest."""
    numbers = np.asarray(numbers, np.int64)
    result = np.zeros_like(numbers)
    pairs = leaves(layout.shape, layout.stride)
    for k, (shape, stride) in enumerate(pairs):
        result += (numbers % shape if k + 1 < len(pairs) else numbers) * stride
        numbers = numbers // shape
    return result


def size(shape):
    return int(np.prod([size(s) for s in shape], dtype=np.int64)) if isinstance(shape, tuple) else shape


def everything(layout):
    return index(layout, np.arange(size(layout.shape)))


def coordinates(shape):
    """All nested coordinates in the order of numbers."""
    if not isinstance(shape, tuple):
        return list(range(shape))
    return [c[::-1] for c in itertools.product(*(coordinates(s) for s in reversed(shape)))]


def swizzled(swizzle, numbers):
    mask = (1 << swizzle.bits) - 1
    low, apart = swizzle.base, abs(swizzle.shift)
    if swizzle.shift > 0:
        return numbers ^ ((numbers >> (low + apart) & mask) << low)
    return numbers ^ ((numbers >> low & mask) << (low + apart))


def random_shape(random, largest, depth=2):
    """One to three modes, nested up to `depth`, with at most `largest` elements."""
    modes, room = [], largest
    for _ in range(random.randint(1, 3)):
        if depth > 1 and random.random() < 0.3:
            mode = random_shape(random, room, depth - 1)
        else:
            mode = random.choice([n for n in (1, 2, 2, 3, 4, 4, 6, 8) if n <= room])
        modes.append(mode)
        room //= size(mode)
    return tuple(modes) if len(modes) > 1 or random.random() < 0.5 else modes[0]


def with_strides(shape, strides):
    """The nesting of the shape, with strides taken in order."""
    return tuple(with_strides(s, strides) for s in shape) if isinstance(shape, tuple) else next(strides)


def random_layout(random, largest=64):
    """Any strides."""
    shape = random_shape(random, largest)
    return Layout(shape, with_strides(shape, iter(lambda: random.choice((0, 1, 1, 2, 3, 4, 6, 8, 12, 16)), None)))


def random_compact(random, largest=64, gap=1):
    """Strides in a random order, each the extent of the smaller ones times up to `gap`."""
    shape = random_shape(random, largest)
    sizes = [s for s, _ in leaves(shape, shape)]
    strides, extent = [0] * len(sizes), 1
    for k in random.sample(range(len(sizes)), len(sizes)):
        extent *= random.randint(1, gap)
        strides[k] = extent
        extent *= sizes[k]
    return Layout(shape, with_strides(shape, iter(strides)))
