"""Layouts with leaves of run time: the answer and the steps written down give, for numbers, the answer for these."""

import random
import re

import pytest

from jaxator.flight.layout._call import call


def leaves(text):
    return re.findall(r"\?(\d+)(?:\{div=(\d+)\})?", text)


def with_numbers(text, values):
    """Handles replaced by what they hold; each must be a multiple of its divisor."""
    for handle, divisor in leaves(text):
        assert values[int(handle)] % int(divisor or 1) == 0, (text, values)
    return re.sub(r"\?(\d+)(?:\{div=\d+\})?", lambda m: str(values[int(m[1])]), text)


def evaluate(steps, values):
    operators = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a // b,
        "mod": lambda a, b: a % b, "ceil_div": lambda a, b: -(-a // b), "min": min, "max": max, "and": lambda a, b: a & b,
        "xor": lambda a, b: a ^ b,
    }  # fmt: skip
    for step in steps:
        handle, name, *operands = step.split(" ")
        a, b = (int(with_numbers(x, values)) for x in operands)
        values[int(handle)] = operators[name](a, b)
    return values


def compare(operation, first, second, values, answers=1):
    lines = call("record", str(max(values, default=0) + 1), operation, first, second).split("\n")
    values = evaluate(lines[answers:], dict(values))
    fixed = [with_numbers(x, values) for x in (first, second)]
    expected = call("record", "1", operation, *fixed).split("\n")
    assert len(expected) == answers, "nothing of run time was left"
    for mine, theirs in zip(lines[:answers], expected, strict=True):
        mine = with_numbers(mine, values)
        if ":" in mine and "o" not in mine:  # strides of single elements may be written otherwise: the same function counts
            assert call("indices", mine) == call("indices", theirs), (operation, first, second, mine, theirs)
        else:
            assert mine == theirs or call("indices", mine) == call("indices", theirs)


def dynamic(generator, values, multiple):
    """A leaf of run time that is a multiple of a number."""
    handle = len(values) + 1
    values[handle] = multiple * generator.randint(1, 6)
    return f"?{handle}" + (f"{{div={multiple}}}" if multiple > 1 else "")


@pytest.mark.parametrize("seed", range(200))
def test_divides_of_matrices(seed):
    generator, values = random.Random(seed), {}
    tile = generator.choice([1, 2, 4]), generator.choice([1, 3, 8])
    rows = dynamic(generator, values, tile[0] * generator.choice([1, 2]))
    columns = dynamic(generator, values, tile[1] * generator.choice([1, 3]))
    stride = columns if generator.random() < 0.5 else str(values[2])
    layout = f"({rows},{columns}):({stride},1)"
    compare(generator.choice(["zipped_divide", "logical_divide"]), layout, f"[{tile[0]}:1,{tile[1]}:1]", values)


@pytest.mark.parametrize("seed", range(200))
def test_slices(seed):
    generator, values = random.Random(seed), {}
    swizzle = generator.choice(["", "S<2,0,3> o 0 o ", "S<3,3,3> o 0 o "])
    shape = "((4,?1),8)"
    values[1] = generator.randint(1, 5)
    layout = f"{swizzle}{shape}:((1,?2{{div=64}}),4)"
    values[2] = 64 * generator.randint(1, 3)
    coordinates = []
    for size in (4 * values[1], 8):
        kept = generator.random() < 0.4
        if kept:
            coordinates.append("*")
        elif generator.random() < 0.5:
            coordinates.append(str(generator.randrange(size)))
        else:
            values[len(values) + 1] = generator.randrange(1, size)
            coordinates.append(f"?{len(values)}")
    compare("slice", layout, f"({','.join(coordinates)})", values, 1 if swizzle else 2)


@pytest.mark.parametrize("order", ["(0,1,2)", "(2,1,0)", "(1,2,0)"])
def test_compact(order):
    compare("ordered", "(?1{div=4},3,?2)", order, {1: 8, 2: 5})


def test_what_cannot_be_proved_is_refused():
    with pytest.raises(ValueError, match="must be a multiple of"):
        call("record", "2", "composition", "(?1,8):(16,1)", "6:1")
    with pytest.raises(RuntimeError, match="no recorded operation"):
        call("record", "1", "draw", "4:1", "4:1")


def test_equal_questions_have_one_answer():
    answer = call("record", "5", "crd2idx", "((4,8),(4,8)):((1,64),(4,128))", "(?1,?1)").split("\n")
    questions = [line.split(" ", 1)[1] for line in answer[1:]]
    assert len(questions) == len(set(questions))
