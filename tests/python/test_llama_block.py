"""benchmarks/llama_block.py: what it reports is found, and nothing else."""

import dataclasses
import sys
from pathlib import Path

import jax
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import llama_block

HLO = """
  %a = bf16[8,8]{1,0} parameter(0)
  %turned = bf16[8,8]{1,0} transpose(%a), dimensions={1,0}
  %flat = bf16[64]{0} bitcast(%turned)
  %call.1 = (bf16[8,8]{1,0}, f32[8]{0}) custom-call(%flat, %a), custom_call_target="jaxator.rms_norm_forward", attributes={}
  %y = bf16[8,8]{1,0} get-tuple-element(%call.1), index=0
  %moved = bf16[8,8]{0,1} copy(%y)
  %elsewhere = bf16[8,8]{0,1} copy(%a)
"""


def test_copies_beside_calls_are_found() -> None:
    found = llama_block.moves_beside_calls(HLO)
    assert [line.split(" = ")[0] for line in found] == ["moved", "turned"]
    assert not llama_block.moves_beside_calls(
        HLO.replace("custom-call(%flat, %a)", "custom-call(%a, %a)").replace("copy(%y)", "copy(%a)")
    )


def small() -> llama_block.Settings:
    return dataclasses.replace(
        llama_block.WIDTH_8B, width=128, hidden=256, heads=4, kv_heads=2, head_size=32, sequence_length=64, batch=2
    )


def lowered(settings: llama_block.Settings) -> jax.stages.Compiled:
    _, parameters = llama_block.model.create_model(settings)
    batch = jax.random.randint(jax.random.key(1), (settings.batch, settings.sequence_length + 1), 0, 256)
    return llama_block.programs(settings)["jaxator"].lower(parameters, batch).compile()


def test_nothing_is_moved_for_our_calls() -> None:
    """Two layers have 5 kinds of calls forward and backward: rope twice, attention, two norms, swiglu, and the first norm."""
    text = lowered(small()).as_text()
    assert text.count('custom_call_target="jaxator.') == 2 * (2 * 6 + 1)
    assert llama_block.moves_beside_calls(text) == []


@pytest.mark.gpu
def test_nothing_is_moved_for_our_calls_on_a_gpu() -> None:
    settings = dataclasses.replace(small(), width=512, head_size=128, sequence_length=256)
    with jax.default_device(jax.devices("cuda")[0]):
        text = lowered(settings).as_text()
    assert text.count('custom_call_target="jaxator.') >= 26
    assert llama_block.moves_beside_calls(text) == []
