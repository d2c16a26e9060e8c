"""`jaxator judge`: the kernels of an op, or one of a code object, judged without hardware."""

from __future__ import annotations

import dataclasses
import json as json_module
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer


def judge(
    subject: Annotated[str, typer.Argument(help="An op, as rms_norm, or a code object: kernel.hsaco.")],
    shape: Annotated[
        str | None, typer.Option(help="Op: sizes of the first operand; matmul: M,N,K; attention: B,T,N,H.")
    ] = None,
    target: Annotated[str, typer.Option(help="Op: gfx942 or gfx950.")] = "gfx950",
    dtype: Annotated[str, typer.Option(help="Op: element type.")] = "bfloat16",
    kv_heads: Annotated[int | None, typer.Option(help="Attention: key and value heads.")] = None,
    keys: Annotated[int | None, typer.Option(help="Attention: key length.")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Attention: causal.")] = False,
    window: Annotated[int | None, typer.Option(help="Attention: local window.")] = None,
    forward: Annotated[bool, typer.Option("--forward", help="Op: only the forward pass.")] = False,
    kernel: Annotated[str | None, typer.Option(help="Code object: which kernel. Op: only this one.")] = None,
    grid: Annotated[str, typer.Option(help="Code object: workgroups, as 4 or 4,2,1.")] = "1",
    block: Annotated[str, typer.Option(help="Code object: threads of a workgroup.")] = "64",
    lds: Annotated[int, typer.Option(help="Code object: bytes of dynamic LDS.")] = 0,
    arg: Annotated[
        list[str] | None, typer.Option(help="Code object: buffer:4K:bf16, buffer:4K, buffer:@FILE, i32:7, ...")
    ] = None,
    workgroup: Annotated[int, typer.Option(help="Which workgroup the model looks at.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the order of waves.")] = 0,
    floors: Annotated[Path | None, typer.Option(help="Regression floors: a TOML file of [[kernels]].")] = None,
    assume: Annotated[
        list[str] | None, typer.Option(help="Another latency or width of the model: vmem_latency=1500.")
    ] = None,
    mca: Annotated[bool, typer.Option("--mca", help="Also ask llvm-mca-22 about the loop, for at most 20 s.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Registers, spills, LDS cycles, modelled schedule and gates of a CDNA kernel. Exit status 1 if a gate is not passed."""
    from jaxator import judge as lib
    from jaxator.cli.explain import parse_shape
    from jaxator.judge import ops, report

    try:
        if subject.endswith((".hsaco", ".co", ".o")) or Path(subject).is_file():
            geometry = lib.Geometry(_extent("grid", grid), _extent("block", block), lds)
            launches = [lib.from_words(_read(Path(subject)), kernel, geometry, arg or [])]
        else:
            if shape is None:
                raise ValueError("an op needs --shape")
            options = dict(kv_heads=kv_heads, keys=keys, window=window, causal=causal)
            launches = _distinct(ops.record_op(subject, parse_shape(shape), dtype, target, options, forward), kernel)
        rules = lib.read_rules(floors) if floors else []
        assumptions = _assumptions(assume or [])
        judged = []
        for launch in launches:
            measures = lib.measure(launch, seed=seed, traced_workgroup=workgroup, assumptions=assumptions, with_mca=mca)
            judged.append((measures, lib.gates(measures, lib.floors_for(rules, measures.kernel, measures.architecture))))
    except (ValueError, TypeError, NotImplementedError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        print(json_module.dumps([report.as_dict(*one) for one in judged], indent=1))
    else:
        print("\n\n".join(report.text(*one) for one in judged))
    if not all(gate.passed for _, gates in judged for gate in gates):
        raise typer.Exit(1)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def _extent(name: str, text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) > 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"{name}={text!r}: must be up to three positive numbers, as 4,2,1")
    sizes = [int(part) for part in parts] + [1, 1]
    return sizes[0], sizes[1], sizes[2]


def _distinct(launches: Sequence[Any], kernel: str | None) -> list[Any]:
    """The first launch of each kernel, or of the one that was named."""
    first = {}
    for launch in launches:
        first.setdefault(launch.kernel, launch)
    if kernel is None:
        return list(first.values())
    if kernel not in first:
        raise ValueError(f"kernel={kernel!r}: the op launches {', '.join(first)}")
    return [first[kernel]]


def _assumptions(words: Sequence[str]) -> Any:
    from jaxator.judge import Assumptions

    defaults = Assumptions()
    known = [field.name for field in dataclasses.fields(Assumptions) if isinstance(getattr(defaults, field.name), int)]
    changes = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in known or not value.isdigit():
            raise ValueError(f"assume={word!r}: must be NAME=NUMBER with one of {', '.join(known)}")
        changes[name] = int(value)
    return dataclasses.replace(defaults, **changes)
