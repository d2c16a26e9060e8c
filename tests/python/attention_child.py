"""Programs that the attention tests run in processes of their own: ``python attention_child.py NAME JSON`` prints one JSON line."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any


def run(name: str, *, cpus: int | None = None, pool: int | None = None, **arguments: Any) -> dict[str, Any]:
    """cpus: how many the process may use; pool: threads of XLA's pool."""
    import jaxator

    path = [str(pathlib.Path(folder).parent) for folder in jaxator.__path__]
    environment = (
        os.environ | {"PYTHONPATH": os.pathsep.join(path), "JAX_PLATFORMS": "cpu"} | ({"NPROC": str(pool)} if pool else {})
    )

    command = [sys.executable, __file__, name, json.dumps(arguments), str(cpus or 0)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def digest(results: dict[str, Any]) -> str:
    import numpy as np

    return hashlib.sha256(b"".join(np.asarray(results[n]).tobytes() for n in sorted(results))).hexdigest()


def digests() -> dict[str, Any]:
    """Bits of values and gradients, on every instruction set; the kernels may use as many threads as XLA's pool has."""
    import attention_problems as problems
    from attention_problems import Case, Shape

    from jaxator import _ffi

    found = {}
    # One key/value head: the rows are dealt to parts, whose dk and dv are added up; many: one part each.
    for shape in (Shape(1, 1200, 700, 2, 1, 32, 16), Shape(4, 90, 130, 8, 4, 16, 24)):
        for dtype in ("float32", "bfloat16"):
            problem = problems.make(Case(shape, bias="NS", causal=True), dtype)
            for implementation, isa, _ in problems.routes(dtype):
                _ffi.force_isa(isa)
                found[f"{shape.t} {dtype} {implementation} {isa}"] = digest(problem.run(implementation))
    return {"digests": found, "threads": len(os.listdir("/proc/self/task"))}


def compile_cached(folder: str) -> dict[str, int]:
    """Compiles values and gradients with a persistent cache; how often it hit and missed."""
    import collections

    import attention_problems as problems
    import jax

    events: collections.Counter[str] = collections.Counter()
    jax.monitoring.register_event_listener(lambda event, **_: events.update([event]))
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    problem = problems.make(problems.Case(bias="NTS", causal=True, segments=True))
    events.clear()
    results = problem.run(None)
    problem.check(results)
    return {kind: events[f"/jax/compilation_cache/cache_{kind}"] for kind in ("hits", "misses")}


if __name__ == "__main__":
    if int(sys.argv[3]):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[3])])
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
