"""Random programs, the same everywhere: in the NumPy interpreter of the IR, on x86 by both routes with and without
optimisation, and on the emulator of both CDNA targets with all checks on. A failure is made smaller and printed as Python
that makes it again."""

import fuzz_layouts
import fuzz_run
import fuzz_tiles
import fuzz_values
import numpy as np
import pytest

from jaxator.flight import _compiler

pytestmark = pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
CHUNK = 50
CHUNKS = {fuzz_values: 8, fuzz_layouts: 4, fuzz_tiles: 2}
"""Of seeds, for each kind of program, in the shorter run. Each program runs in four or six compiled forms."""
FULL = 10
"""Times as many in the long one."""


def chunks(first, last):
    for module, count in CHUNKS.items():
        for chunk in range(first * count, last * count):
            yield pytest.param(module, chunk, id=f"{module.__name__}-{chunk}")


def run_chunk(module, chunk):
    fuzz_run.assert_all_right([module.make(seed) for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK)])


@pytest.mark.parametrize(("module", "chunk"), list(chunks(0, 1)))
def test_programs(module, chunk):
    run_chunk(module, chunk)


@pytest.mark.full
@pytest.mark.parametrize(("module", "chunk"), list(chunks(1, FULL)))
def test_more_programs(module, chunk):
    run_chunk(module, chunk)


def test_a_fault_is_found_made_smaller_and_printed(monkeypatch):
    """With an interpreter that subtracts where it should add, the report names the step and makes the case again."""
    import interpreter_ops

    monkeypatch.setitem(interpreter_ops._BINARY, "addi", np.subtract)
    steps = (
        ("compute", "mul", "i32", 0, 1),
        ("constant", "i32", 7),
        ("compute", "add", "u32", 0, 1),
        ("compute", "max", "f32", 2, 2),
    )
    with pytest.raises(AssertionError) as caught:
        fuzz_run.assert_all_right([fuzz_values.Values(1, steps, "exp")])
    text = str(caught.value)
    assert "To see it alone:" in text and "from fuzz_values import Values" in text
    assert "'mul'" not in text and "'max'" not in text


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_one_byte_a_thread(target):
    """LLVM 22 combines a byte to f32 and to 64 bits for ever, if they are vectors of one element."""
    case = fuzz_tiles.Tiles(96, (32, 32), (32, 32), 256, "rows", 21, (("reduce", "u8", 40, "sum", 1),))
    kernel = fuzz_run.traced(case, target, 0, {})
    assert _compiler.compile_text(target, fuzz_run.module_of([kernel]), _compiler.Options(time_limit_s=5.0)).code


def test_programs_are_made_again_by_their_text():
    for module in CHUNKS:
        case = module.make(3)
        assert eval(repr(case), vars(module)) == case == module.make(3)
