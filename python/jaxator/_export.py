"""What `jax.export` must be told about Jaxator's custom calls."""

from __future__ import annotations

from collections.abc import Sequence

from jax import export

from jaxator import _ffi


def export_checks() -> Sequence[export.DisabledSafetyCheck]:
    """Checks to disable so that a program with Jaxator's calls can be exported.

    ``jax.export.export(fn, disabled_checks=jxt.export_checks())``. The calls' attributes carry a version and no reference to
    this process; a process that imports jaxator can run the program. A program that is partitioned automatically over
    several devices cannot be exported (JAX raises ``NotImplementedError``: "serialization of host_callbacks"): use
    `jax.shard_map`, an explicit mesh, or the ops' ``mesh=`` argument there.
    """
    return [export.DisabledSafetyCheck.custom_call(target) for target in _ffi.targets()]
