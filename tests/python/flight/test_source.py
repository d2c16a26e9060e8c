"""What is compiled is what Python would run: edited sources, patched helpers, cells of a notebook, several threads."""

import concurrent.futures
import importlib.util
import linecache
import pathlib
import sys
import textwrap

import numpy as np
import pytest
from places import INTERPRETER, like, program_of, run

from jaxator import flight
from jaxator.flight import FlightError

FILE = """
from jaxator import flight

def helper(x):
    if x > 0.0:
        return x * {factor}
    return x

@flight.kernel
def kernel(x, y):
    i = flight.thread_id()
    y[i] = helper(x[i])

@flight.jit
def launch(x, y):
    kernel(x, y).launch(grid=1, block=x.size)
"""


def written(folder, name, text):
    path = pathlib.Path(folder, f"{name}.py")
    path.write_text(textwrap.dedent(text))
    return path


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def result(module, x):
    return run(INTERPRETER, module.launch, [x], [like(x.shape)])[0]


X = np.array([-1, 2, 3], np.float32)


def test_a_kernel_is_what_was_imported(tmp_path):
    """Lines inserted above after the import move every line of the file; the kernel was read when it was decorated."""
    path = written(tmp_path, "edited_kernel", FILE.format(factor=2.0))
    module = imported(path)
    result(module, X)
    path.write_text("# one\n# two\n# three\n" + path.read_text().replace("helper(x[i])", "helper(x[i]) + 100.0"))
    linecache.checkcache()
    np.testing.assert_array_equal(result(module, X), [-1, 4, 6])


def test_an_edited_helper_that_was_not_read_yet_is_refused(tmp_path):
    """It must neither be compiled from the wrong lines nor from other source than Python runs."""
    path = written(tmp_path, "edited_helper", FILE.format(factor=2.0))
    module = imported(path)
    path.write_text(path.read_text().replace("x * 2.0", "x * 3.0"))
    linecache.checkcache()
    with pytest.raises(FlightError, match="the source of helper has been changed since it was imported"):
        result(module, X)
    module = imported(path)  # again, as the message says
    np.testing.assert_array_equal(result(module, X), [-1, 6, 9])


def test_a_replaced_helper_is_the_one_that_is_traced(tmp_path, monkeypatch):
    module = imported(written(tmp_path, "patched", FILE.format(factor=2.0)))
    before = program_of(module.launch, [X], [like(3)]).launches[0].text
    monkeypatch.setattr(module, "helper", lambda x: x + 1.0)
    np.testing.assert_array_equal(result(module, X), X + 1)
    monkeypatch.undo()
    assert program_of(module.launch, [X], [like(3)]).launches[0].text == before


def test_a_helper_whose_code_was_exchanged(tmp_path):
    module = imported(written(tmp_path, "exchanged", FILE.format(factor=2.0)))
    result(module, X)

    def other(x):
        return x * 10.0

    module.helper.__code__ = other.__code__
    np.testing.assert_array_equal(result(module, X), X * 10)


def test_cells_of_a_notebook():
    """A notebook keeps the text of each cell in linecache under a made-up name."""
    text = FILE.format(factor=4.0)
    linecache.cache["<ipython-input-7-abc>"] = (len(text), None, text.splitlines(True), "<ipython-input-7-abc>")
    scope = {"__name__": "__main__"}
    exec(compile(text, "<ipython-input-7-abc>", "exec"), scope)
    (y,) = run(INTERPRETER, scope["launch"], [X], [like(3)])
    np.testing.assert_array_equal(y, [-1, 8, 12])


def test_a_kernel_without_source_is_refused():
    with pytest.raises(FlightError, match="the source of kernel .* cannot be read"):
        exec(compile(FILE.format(factor=1.0), "<nowhere>", "exec"), {"__name__": "nowhere"})


def test_annotations_as_text(tmp_path):
    """`from __future__ import annotations` must not make a number of run time a constant."""
    text = "from __future__ import annotations\nfrom jaxator import flight\nN = flight.Dim('n')\n" + textwrap.dedent("""
        @flight.kernel
        def kernel(x: flight.Tensor[N], y: flight.Tensor[N], a: flight.f32, b: int, c: flight.Constexpr[int]):
            i = flight.thread_id()
            if i < x.shape[0]:
                y[i] = x[i] * a + b + c

        @flight.jit
        def launch(x, y, *, a, b, c):
            kernel(x, y, a, b, c).launch(grid=1, block=64)
        """)
    module = imported(written(tmp_path, "as_text", text))
    texts = set()
    for size, a, b in ((3, 2.0, 1), (5, 4.0, 7)):
        x = np.arange(size, dtype=np.float32)
        texts.add(program_of(module.launch, [x], [like(size)], {"a": a, "b": b, "c": 2}).launches[0].text)
        np.testing.assert_array_equal(run(INTERPRETER, module.launch, [x], [like(size)], a=a, b=b, c=2)[0], x * a + b + 2)
    assert len(texts) == 1


def test_threads_trace_the_same(tmp_path):
    module = imported(written(tmp_path, "threads", FILE.format(factor=2.0)))
    expected = [program_of(module.launch, [np.zeros(n, np.float32)], [like(n)]).launches[0].text for n in range(1, 9)]
    fresh = imported(written(tmp_path, "threads", FILE.format(factor=2.0)))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            jobs = [pool.submit(program_of, fresh.launch, [np.zeros(n, np.float32)], [like(n)]) for n in range(1, 9)]
            assert [job.result().launches[0].text for job in jobs] == expected


def test_a_trace_leaves_nothing_behind_after_an_error(tmp_path):
    module = imported(written(tmp_path, "again", FILE.format(factor=2.0)))

    @flight.jit
    def wrong(x, y):
        module.kernel(x).launch(grid=1, block=3)

    with pytest.raises(FlightError, match="missing"):
        program_of(wrong, [X], [like(3)])
    with pytest.raises(FlightError, match="only inside"):
        flight.barrier()
    np.testing.assert_array_equal(result(module, X), [-1, 4, 6])
