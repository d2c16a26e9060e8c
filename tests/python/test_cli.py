"""The command line: what it prints, its JSON, its refusals. Nothing here looks at a time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import jaxator
from jaxator.cli import bench, cases
from jaxator.cli.app import app

ROOT = Path(__file__).parents[2]
KEYS = [
    "op",
    "case",
    "dtype",
    "target",
    "implementation",
    "seconds",
    "value",
    "unit",
    "limit_share",
    "peer",
    "peer_value",
    "ratio",
]


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})


def python(*arguments, **variables):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "JAX_PLATFORMS": "cpu"} | variables
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=300, check=False
    )


@pytest.fixture
def small(monkeypatch):
    """Cases that take no time."""
    row = cases._row_case
    monkeypatch.setattr(
        cases, "_row_case", lambda op, shape, dtype: row(op, (1, 16, 2, 64) if op == "rope" else (4, 64), dtype)
    )
    attention = cases._attention_case
    monkeypatch.setattr(
        cases,
        "_attention_case",
        lambda dtype, length, window, both: attention(dtype, 32, None if window is None else 8, both),
    )
    product = cases._matmul_case
    monkeypatch.setattr(cases, "_matmul_case", lambda dtype, shape, what: product(dtype, (8, 16, 12), what))


def test_doctor():
    result = invoke("doctor")
    assert result.exit_code == 0, result.output
    for text in ("jaxlib", "instruction sets", "rms_norm_forward", "cpu devices", bench.jax.__version__):
        assert text in result.output


def test_doctor_json():
    report = json.loads(invoke("doctor", "--json").output)
    assert set(report) == {"versions", "cpu", "cuda", "rocm", "flight", "libraries", "kernels", "devices", "notes"}
    assert report["versions"]["jaxator"] == jaxator.__version__
    assert report["kernels"]["rms_norm_forward"]["cpu"] == ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"]
    assert report["kernels"]["rms_norm_forward"]["cuda"] == ["sm_90a"]
    assert report["kernels"]["rms_norm_forward"]["rocm"] == ["gfx942", "gfx950"]
    assert report["kernels"]["swiglu_forward"]["rocm"] == ["gfx942", "gfx950"]
    assert report["flight"]["problem"] == "" and report["flight"]["version"]["llvm"].startswith("22.1")
    assert any(image.startswith("rms_norm_forward: sm_90a PTX") for image in report["cuda"]["images"])
    assert all(size > 0 for size in report["libraries"].values())
    assert any("jax_remove_custom_partitioning_ptr_from_cache_key" in note for note in report["notes"])


def test_explain():
    result = invoke("explain", "rms_norm", "--shape", "64,128")
    assert result.exit_code == 0, result.output
    assert "rms_norm_forward" in result.output and "rms_norm_backward" in result.output


@pytest.mark.parametrize("op", cases.ops())
def test_explain_json(op):
    shape = {"rope": "2,8,4,64", "dot_product_attention": "1x64x4x32", "matmul": "16,64,32"}.get(op, "16,64")
    result = invoke("explain", op, "--shape", shape, "--dtype", "float32", "--json")
    assert result.exit_code == 0, result.output
    calls = json.loads(result.output)["calls"]
    products = 2 if op == "matmul" else 1  # one for each operand's gradient
    assert [(call["op"], call["direction"]) for call in calls] == [(op, "forward"), *[(op, "backward")] * products]
    assert all(call["implementation"] == "cpu" for call in calls)


def test_explain_attention_options():
    arguments = ("--shape", "1,64,4,32", "--kv-heads", "2", "--keys", "48", "--causal", "--window", "16", "--json")
    result = invoke("explain", "dot_product_attention", *arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["calls"][0]["operands"][:2] == ["bfloat16[1,64,4,32]", "bfloat16[1,48,2,32]"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "no_such_op", "--shape", "8,8"), ("no_such_op", "rms_norm")),
        (("explain", "rms_norm", "--shape", "8,many"), ("8,many",)),
        (("explain", "rms_norm", "--shape", "8,8", "--causal"), ("causal", "rms_norm")),
        (("explain", "rms_norm", "--shape", "8,8", "--implementation", "cuda"), ("cuda", "no kernels")),
        (("explain", "dot_product_attention", "--shape", "8,8"), ("B,T,N,H",)),
        (("bench", "no_such_op"), ("no_such_op", "rms_norm", "dispatch")),
        (("bench", "rms_norm", "--case", "no such case"), ("no such case", "forward 4096x4096")),
        (("bench", "rms_norm", "--dtype", "int8"), ("int8", "bfloat16")),
    ],
)
def test_refusals_name_what_was_wrong(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert all(word in result.output for word in words), result.output


@pytest.mark.parametrize("op", [*cases.ops(), "dispatch"])
def test_bench_json(op, small):
    result = invoke("bench", op, "--json", "--repeats", "1")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    for row in rows:
        assert list(row) == KEYS
        assert row["op"] == op and row["target"] == "cpu"
        assert row["case"].startswith(("forward ", "forward+backward "))
        assert row["unit"] in ("GF/s", "TF/s", "GB/s", "us")
        assert row["seconds"] > 0 and row["value"] > 0 and row["peer_value"] > 0 and row["ratio"] > 0
        assert (row["limit_share"] is None) == (op == "dispatch")
    assert rows[0]["case"].startswith("forward ")


def test_bench_table_and_file(small, tmp_path):
    result = invoke(
        "bench", "rms_norm", "--case", "forward ", "--dtype", "float32", "--repeats", "1", "--save", str(tmp_path)
    )
    assert result.exit_code == 0, result.output
    assert "forward 4x64" in result.output and "GB/s" in result.output
    (file,) = tmp_path.iterdir()
    record = json.loads(file.read_text())
    assert set(record) == {"date", "commit", "device", "jax", "rows"}
    assert [list(row) for row in record["rows"]] == [KEYS] and record["rows"][0]["dtype"] == "float32"


def test_all_has_every_op_and_direction():
    tasks = bench.choose("all")
    assert {task.case.op for task in tasks if task.case} == set(cases.ops())
    texts = [task.text for task in tasks if task.case and task.case.op == "dot_product_attention"]
    assert "forward B1 S2048 N8 K2 H128 causal" in texts and "forward+backward B1 S2048 N8 K2 H128 causal" in texts
    assert any("window 256 visits" in text for text in texts)


def test_peers_compute_the_same(small):
    for op in cases.ops():
        for case in cases.cases(op, "float32"):
            operands = cases.inputs(case.operands)
            ours = bench.jax.tree.leaves(case.fn(*operands))
            for name, peer in case.peers.items():
                for a, b in zip(ours, bench.jax.tree.leaves(peer(*operands)), strict=True):
                    assert abs(a - b).max() < 1e-4, (op, case.text, name)


def test_as_a_module():
    result = python("-m", "jaxator.cli", "explain", "rms_norm", "--shape", "8,8", "--json")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["calls"]) == 2


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra(missing):
    result = python("-c", f"import sys; sys.modules[{missing!r}] = None; from jaxator.cli import main; main()")
    assert result.returncode == 1
    assert result.stdout == "" and result.stderr.splitlines() == [
        f'jaxator: the command line needs {missing}: pip install "jaxator[cli]"'
    ]


def test_the_package_imports_no_extra():
    code = "import sys, jaxator, jaxator.explain, jaxator.cli; assert not {'typer', 'rich'} & set(sys.modules)"
    result = python("-c", code)
    assert result.returncode == 0, result.stderr


def test_bench_report(tmp_path):
    def row(case, value, ratio, target="cuda"):
        return {
            "op": "rms_norm", "case": case, "dtype": "bfloat16", "target": target, "implementation": "cuda", "seconds": 1e-3,
            "value": value, "unit": "GB/s", "limit_share": 0.5, "peer": "XLA", "peer_value": value / ratio, "ratio": ratio,
        }  # fmt: skip

    def record(name, *rows):
        text = {
            "date": "2026-01-02T03:04:05+00:00",
            "commit": "abc",
            "device": {"gpu": "a GPU", "driver": "1.2"},
            "jax": "0.1",
        }
        (tmp_path / name).write_text(json.dumps(text | {"rows": rows}))

    record(
        "1.json",
        row("forward 8x8 burst", 100.0, 2.0),
        row("forward 8x8 sustained", 80.0, 1.6),
        row("forward 9x9", 1, 9, "cpu"),
    )
    record("2.json", row("forward 8x8 burst", 120.0, 3.0))
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- bench:cuda -->\nold\n<!-- /bench -->\nafter\n")
    arguments = (
        "--report",
        str(tmp_path),
        "--target",
        "cuda",
        "--figure",
        str(tmp_path / "f.png"),
        "--document",
        str(document),
    )
    result = invoke("bench", *arguments)
    assert result.exit_code == 0, result.output
    line = "| rms_norm | forward 8x8 | 120 / 80 GB/s | 40 / 50 GB/s (XLA) | 3.00x / 1.60x | 50% / 50% |"
    page = document.read_text()
    assert line in result.output and line in page and "old" not in page
    assert page.startswith("before\n<!-- bench:cuda -->\n| op") and page.endswith("commit abc.\n<!-- /bench -->\nafter\n")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    missing = invoke("bench", "--report", str(tmp_path), "--target", "rocm")
    assert missing.exit_code == 2 and "rocm" in missing.output


def test_bench_on_a_gpu_counts_each_pass_apart():
    tasks = bench.choose("rms_norm", target="cuda")
    assert {task.text for task in tasks} >= {"forward 8192x4096", "backward 8192x4096"}
    with pytest.raises(ValueError, match="target='tpu': must be one of cpu, cuda"):
        bench.choose("rms_norm", target="tpu")


@pytest.mark.gpu
@pytest.mark.parametrize("op", ["rms_norm", "dispatch"])
def test_bench_on_a_gpu(op):
    result = invoke("bench", op, "--json", "--repeats", "1", "--target", "cuda")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert all(row["target"] == "cuda" and row["seconds"] > 0 and row["peer_value"] > 0 for row in rows)
    if op == "rms_norm":
        assert {row["case"].rsplit(" ", 1)[1] for row in rows} == {"burst", "sustained"}
