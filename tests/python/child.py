"""Programs that tests run in processes of their own: ``python child.py NAME JSON`` prints one JSON line."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
from typing import Any

TESTS = pathlib.Path(__file__).parent
LIMIT_SECONDS = 240


def start(name: str, *, devices: int = 1, **arguments: Any) -> subprocess.Popen[str]:
    import jaxator  # wherever this process has it from, the child has it from there too

    # Test helpers and the package; the child's own directory has the former.
    path = [str(pathlib.Path(folder).parent) for folder in jaxator.__path__]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, str(TESTS / "child.py"), name, json.dumps(arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        output, errors = process.communicate(timeout=LIMIT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, f"{process.args} ended with {process.returncode}\n{errors[-4000:]}"
    return json.loads(output.splitlines()[-1])


def run(name: str, *, devices: int = 1, **arguments: Any) -> dict[str, Any]:
    return result(start(name, devices=devices, **arguments))


# ---- the programs ------------------------------------------------------------------------------------------------------


def first_use(threads: int) -> dict[str, int]:
    import numpy as np

    gate, right = threading.Barrier(threads), []
    x = np.random.default_rng(0).normal(size=(64, 96)).astype(np.float32)
    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def work() -> None:
        gate.wait()
        import jaxator as jxt

        right.append(bool(np.allclose(jxt.rms_norm(x, implementation="cpu"), want, rtol=1e-5)))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"right": sum(right)}


def run_exported(folder: str, names: list[str], sharding: str) -> dict[str, Any]:
    """Loads programs that another process exported, runs them on the stored inputs, stores what comes out."""
    import jax
    import numpy as np
    from jax import export

    import jaxator  # noqa: F401 (registers the custom calls)

    for name in names:
        program = export.deserialize(bytearray(pathlib.Path(folder, f"{name}.bin").read_bytes()))
        inputs = np.load(pathlib.Path(folder, f"{name}.npz"))
        arrays = [inputs[f"arr_{i}"] for i in range(len(inputs.files))]
        arrays = [a.view("bfloat16") if a.dtype.kind == "V" else a for a in arrays]
        if sharding != "one":
            mesh = jax.make_mesh((8,), ("p",), axis_types=(getattr(jax.sharding.AxisType, sharding),))
            arrays = [jax.device_put(a, s) for a, s in zip(arrays, program.in_shardings_jax(mesh), strict=True)]
        outputs = jax.tree.leaves(jax.jit(program.call)(*arrays))
        np.savez(pathlib.Path(folder, f"{name}.out.npz"), *(np.asarray(o, np.float32) for o in outputs))
    return {"devices": jax.device_count()}


def compile_cached(folder: str, devices_used: int) -> dict[str, int]:
    """Compiles two programs with a persistent cache and tells how often it was asked and hit."""
    import collections

    import jax
    import numpy as np

    import ops

    events: collections.Counter[str] = collections.Counter()
    jax.monitoring.register_event_listener(lambda event, **_: events.update([event]))
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if devices_used > 1:
        jax.config.update("jax_remove_custom_partitioning_ptr_from_cache_key", True)
    case = ops.CASES[0]
    operands = case.make(case.sharded, "float32")
    cotangents = case.cotangents(operands)
    if devices_used > 1:
        mesh = jax.make_mesh((devices_used,), ("p",), axis_types=(jax.sharding.AxisType.Auto,))
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("p"))
        operands = (jax.device_put(operands[0], rows), *operands[1:])
        cotangents = tuple(jax.device_put(c, rows) for c in cotangents)
    events.clear()
    values, gradients = jax.jit(case.value_and_vjp)(operands, cotangents)
    hits, misses = (events[f"/jax/compilation_cache/cache_{kind}"] for kind in ("hits", "misses"))
    case.assert_right(*([np.asarray(a) for a in some] for some in (operands, cotangents)), values, gradients)
    return {"hits": hits, "misses": misses}


def gloo(rank: int, port: int, explicit: bool) -> dict[str, Any]:
    """One of two processes, with two devices each; checks its own part of every result."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    import numpy as np

    import ops

    kind = jax.sharding.AxisType.Explicit if explicit else jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((2, 2), ("p", "q"), axis_types=(kind, kind))
    place = jax.sharding.PartitionSpec
    checked = 0
    for case in ops.MAIN:
        operands = case.make(case.sharded, "bfloat16")
        cotangents = case.cotangents(operands)

        def put(a: Any, kind: str) -> Any:
            shared = kind == "parameter" or "shared" in kind
            sharding = jax.sharding.NamedSharding(mesh, place() if shared else place(("p", "q")))
            return jax.make_array_from_callback(a.shape, sharding, lambda index: a[index])

        given = tuple(map(put, operands, case.operands)), tuple(put(c, "row") for c in cotangents)
        with jax.set_mesh(mesh):
            values, gradients = jax.jit(case.value_and_vjp)(*given)
        whole = [
            np.asarray(jax.jit(lambda a: a, out_shardings=jax.sharding.NamedSharding(mesh, place()))(a).addressable_data(0))
            for a in (*values, *gradients)
        ]
        case.assert_right(operands, cotangents, whole[: len(values)], whole[len(values) :], f"rank {rank}")
        checked += 1
    return {"checked": checked, "processes": jax.process_count(), "devices": jax.device_count()}


def gloo_attention(rank: int, port: int, explicit: bool) -> dict[str, Any]:
    """Batch over the processes, heads over the devices of each; grouped heads, and one head that all devices share."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    import functools

    import attention_problems as problems
    import numpy as np
    from attention_problems import Case, Shape

    P = jax.sharding.PartitionSpec
    kind = jax.sharding.AxisType.Explicit if explicit else jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((2, 2), ("p", "q"), axis_types=(kind, kind))
    checked = 0
    for kv_heads in (2, 1):
        problem = problems.make(Case(Shape(4, 6, 10, 4, kv_heads, 8, 4), bias="NTS", key_lengths=True, causal=True))
        heads = "q" if kv_heads == 2 else None
        specs = {
            "q": P("p", None, "q"),
            "k": P("p", None, heads),
            "v": P("p", None, heads),
            "bias": P(None, "q"),
            "key_lengths": P("p"),
        }

        def put(a: Any, spec: Any) -> Any:
            return jax.make_array_from_callback(a.shape, jax.sharding.NamedSharding(mesh, spec), lambda index: a[index])

        arrays = {name: put(a, specs[name]) for name, a in problem.arrays.items()}
        cotangents = tuple(put(c, P("p", None, "q")) for c in problem.cotangents)
        with jax.set_mesh(mesh):
            results = jax.jit(functools.partial(problems.value_and_vjp, problem.case))(arrays, cotangents)
        whole = jax.jit(lambda a: a, out_shardings=jax.sharding.NamedSharding(mesh, P()))
        problem.check({name: np.asarray(whole(a).addressable_data(0)) for name, a in results.items()}, what=f"rank {rank}")
        checked += len(results)
    return {"checked": checked, "processes": jax.process_count(), "devices": jax.device_count()}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
