"""Two LLaMA layers of 8B width, forward and backward, on an NVIDIA GPU: Jaxator against plain JAX with cuDNN attention.

    python benchmarks/llama_block.py [--save benchmarks/results]

The model is the demo's (examples/train_llama). Prints step time (burst and sustained, as `jaxator bench --target cuda`), the
memory that XLA plans, and every copy or transposition that feeds or follows one of our calls in the optimised HLO.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

import jax

from hlo_moves import moves_beside_calls

from jaxator.cli import bench, gpu

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "train_llama"))
import model
import ops
from settings import Settings

WIDTH_8B = Settings(
    implementation="jaxator", steps=1, sequence_length=4096, batch=4, seed=0, layers=2, width=4096, hidden=14336, heads=32, kv_heads=8,
    head_size=128, learning_rate=1e-3, weight_decay=0.0, warmup_steps=0, validation_sequences=4, checkpoint_every=1, sample_bytes=0,
)  # fmt: skip


def cudnn_attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(query, key, value, is_causal=True, implementation="cudnn")


def programs(settings: Settings) -> dict[str, Any]:
    """Name -> jitted (parameters, batch) -> (loss, gradients)."""
    graph = jax.eval_shape(functools.partial(model.create_model, settings))[0]
    found = {}
    for name, chosen in (
        ("jaxator", ops.create_ops("jaxator", ops.jaxator_attention)),
        ("plain JAX with cuDNN attention", ops.create_ops("plain", cudnn_attention)),
    ):
        found[name] = jax.jit(jax.value_and_grad(functools.partial(model.loss, graph, chosen)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, help="also write the rows to a file in this folder")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    settings = WIDTH_8B
    with jax.default_device(gpu.device()):
        parameters = jax.jit(lambda: model.create_model(settings)[1])()
        batch = jax.random.randint(jax.random.key(1), (settings.batch, settings.sequence_length + 1), 0, model.VOCABULARY)
        runs, memory, losses = {}, {}, {}
        for name, step in programs(settings).items():
            compiled = step.lower(parameters, batch).compile()
            memory[name] = compiled.memory_analysis().temp_size_in_bytes
            losses[name] = float(compiled(parameters, batch)[0])
            if name == "jaxator":
                moves = moves_beside_calls(compiled.as_text())
                calls = compiled.as_text().count('custom_call_target="jaxator.')
            runs[name] = gpu.program(lambda p, b, step=step: step(p, b)[1], [(parameters, batch)])
        found = gpu.medians(runs, arguments.repeats)
    peer = next(name for name in runs if name != "jaxator")
    rows = []
    for regime, seconds in found.items():
        ours = seconds["jaxator"]
        tokens = settings.tokens_per_step
        rows.append(
            bench.Row(
                op="llama_block",
                case=f"forward+backward B{settings.batch} S{settings.sequence_length} 2 layers of 8B width {regime}",
                dtype="bfloat16",
                target="cuda",
                implementation="cuda",
                seconds=ours,
                value=tokens / ours,
                unit="tokens/s",
                limit_share=None,
                peer=peer,
                peer_value=tokens / seconds[peer],
                ratio=seconds[peer] / ours,
            )  # fmt: skip
        )
        print(dataclasses.asdict(rows[-1]))
    for name, size in memory.items():
        print(f"{name}: temporary memory {size / 2**30:.2f} GiB, loss {losses[name]:.4f}")
    print(f"{calls} calls of ours; copies or transpositions beside them: {len(moves)}", *moves, sep="\n  ")
    if arguments.save:
        print("written to", bench.write(rows, arguments.save, "cuda"))


if __name__ == "__main__":
    main()
