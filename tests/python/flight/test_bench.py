"""`jaxator bench flight`: its rows have the keys of all others; without a compiler or a GPU it says why there is none."""

import dataclasses
import json

import numpy as np
import places
import pytest
from places import like, run

from jaxator.cli import bench, flight_bench
from jaxator.cli import flight_kernels as kernels
from jaxator.flight import _compiler

KEYS = {field.name for field in dataclasses.fields(bench.Row)}


@pytest.mark.skipif(_compiler.find_executable() is None, reason="jaxator-flightc is not built")
@pytest.mark.parametrize("case", ["dispatch in jit", "trace and compile", "load in a new process"])
def test_rows(case, capsys):
    bench.run(bench.choose("flight", case=case), repeats=1, as_json=True, save=None)
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(row) == KEYS and row["op"] == row["implementation"] == "flight" and row["case"].startswith(case)
    assert row["seconds"] > 0 and row["ratio"] == pytest.approx(row["peer_value"] / row["value"])


def test_every_case_has_a_name():
    assert [task.text for task in bench.choose("flight")] == list(flight_bench.CASES["cpu"])
    assert set(flight_bench.CASES["cpu"]) == set(flight_bench._CPU)
    assert [task.op for task in bench.choose("flight", target="cuda")] == ["flight", "flight"]


def test_what_cannot_be_measured_is_skipped_with_its_reason(monkeypatch, capsys):
    monkeypatch.setattr(_compiler, "find_executable", lambda: None)
    bench.run(bench.choose("flight", case="softmax"), repeats=1, as_json=True, save=None)
    out, err = capsys.readouterr()
    assert out == "" and "skipped: flight softmax: jaxator-flightc is not in this installation" in err


@pytest.mark.parametrize("place", [places.INTERPRETER])
def test_kernels_are_right(place):
    """What is measured computes what it should."""
    random = np.random.default_rng(0)
    x, w = random.standard_normal((6, 256)).astype(np.float32), random.standard_normal(256).astype(np.float32)
    (y,) = run(place, kernels.rms_norm, [x, w], [like(x.shape)])
    np.testing.assert_allclose(
        y, x / np.sqrt((x.astype(float) ** 2).mean(1, keepdims=True) + 1e-6) * w, rtol=1e-5, atol=1e-6
    )
    (y,) = run(place, kernels.softmax, [x], [like(x.shape)])
    powers = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-4)
    a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((70, 96), (66, 96)))
    (c,) = run(place, kernels.gemm, [a, b], [like((70, 66))], tile=(32, 32, 32), threads=64)
    np.testing.assert_array_equal(c, a @ b.T)
    (z,) = run(place, kernels.add, [w, w], [like(256)], step=2.0)
    np.testing.assert_array_equal(z, 3 * w)
