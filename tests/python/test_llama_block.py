"""benchmarks/llama_block.py: what it reports is found, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jaxator

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
import hlo_moves

HLO = """
  %a = bf16[8,8]{1,0} parameter(0)
  %turned = bf16[8,8]{1,0} transpose(%a), dimensions={1,0}
  %flat = bf16[64]{0} bitcast(%turned)
  %call.1 = (bf16[8,8]{1,0}, f32[8]{0}) custom-call(%flat, %a), custom_call_target="jaxator.rms_norm_forward", attributes={}
  %y = bf16[8,8]{1,0} get-tuple-element(%call.1), index=0
  %moved = bf16[8,8]{0,1} copy(%y)
  %elsewhere = bf16[8,8]{0,1} copy(%a)
"""

# The demo's modules have names that tests have too, so they are used in a process of their own.
CHILD = """
import dataclasses, json, sys, jax, llama_block
sizes = json.loads(sys.argv[1])
settings = dataclasses.replace(llama_block.WIDTH_8B, **sizes)
with jax.default_device(jax.devices(sys.argv[2])[0]):
    parameters = llama_block.model.create_model(settings)[1]
    batch = jax.random.randint(jax.random.key(1), (settings.batch, settings.sequence_length + 1), 0, 256)
    text = llama_block.programs(settings)["jaxator"].lower(parameters, batch).compile().as_text()
print(json.dumps([text.count('custom_call_target="jaxator.'), llama_block.moves_beside_calls(text)]))
"""


def calls_and_moves(platform: str, **sizes: int) -> tuple[int, list[str]]:
    small = dict(width=128, hidden=256, heads=4, kv_heads=2, head_size=32, sequence_length=64, batch=2) | sizes
    arguments = [sys.executable, "-c", CHILD, json.dumps(small), platform]
    environment = os.environ | {"PYTHONPATH": str(Path(jaxator.__file__).parents[1])}
    result = subprocess.run(arguments, cwd=BENCHMARKS, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return tuple(json.loads(result.stdout.splitlines()[-1]))


def test_copies_beside_calls_are_found() -> None:
    found = hlo_moves.moves_beside_calls(HLO)
    assert [line.split(" = ")[0] for line in found] == ["moved", "turned"]
    clean = HLO.replace("custom-call(%flat, %a)", "custom-call(%a, %a)").replace("copy(%y)", "copy(%a)")
    assert not hlo_moves.moves_beside_calls(clean)


def test_nothing_is_moved_for_our_calls() -> None:
    """Each layer: rope twice, attention, two norms, swiglu; and the first norm. All of them forward and backward."""
    assert calls_and_moves("cpu") == (2 * (2 * 6 + 1), [])


@pytest.mark.gpu
def test_nothing_is_moved_for_our_calls_on_a_gpu() -> None:
    calls, moves = calls_and_moves("cuda", width=512, head_size=128, sequence_length=256)
    assert calls >= 26 and moves == []
