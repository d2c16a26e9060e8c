"""Flight kernels as JAX functions: a launcher is traced and compiled for the shapes at hand when JAX traces the call, and the code
travels in the program like any kernel of `call_kernel`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxator import _blob, _dispatch, _ffi, _launch, _partition, _targets
from jaxator._errors import UnsupportedError
from jaxator.call_kernel import VMAP_METHODS, KernelCall, _check_aliases, _check_rule, _operand, _rule, _run
from jaxator.flight import _cache, _compiler, _trace, _version
from jaxator.flight._errors import FlightError
from jaxator.flight._program import TARGETS, ArrayArgument, ArraySpec, Launch, Program

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FlightCall:
    """Everything but the arrays. Has what `call_kernel`'s transformations ask of a call."""

    launcher: Any
    version: Any
    """What the launcher's functions were when the call was made: an edited helper makes another call."""
    results: tuple[tuple[Shape, np.dtype], ...]
    """Of the whole arrays, unbatched."""
    constants: tuple[tuple[str, Any], ...]
    """Scalars that are numbers, with their types: equal values of other types differ."""
    dynamic: tuple[str, ...]
    """Scalars that are arrays: the last operands."""
    aliases: tuple[tuple[int, int], ...]
    rule: str | None
    vmap_method: str | None
    target: str | None
    options: _compiler.Options
    batch: Shape = ()

    @property
    def name(self) -> str:
        return getattr(self.launcher, "__name__", "launcher")

    def partition_rule(self, operands: Sequence[Any]) -> _partition.Rule | None:
        if self.rule is None or not operands:
            return None
        return _rule(self.rule, operands, self.batch, [shape for shape, _ in self.results])

    def run(self, rule: _partition.Rule | None, operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        """The call on one device's part of the operands."""
        operands = _ffi.vary(_ffi.varying_axes(*operands), *operands)
        results = KernelCall._local_results(self, rule, operands)
        specs = [ArraySpec(shape, dtype) for shape, dtype in results]
        if all(math.prod(spec.shape) == 0 for spec in specs):
            zeros = [jnp.zeros(spec.shape, spec.dtype) for spec in specs]
            return _ffi.vary(_ffi.varying_axes(*operands), *zeros)
        programs, refused, errors = {}, {}, []
        for platform, target, reason in self._targets():
            if reason is not None:
                refused[platform] = [reason]
                continue
            try:
                programs[platform] = self._compile(target, operands, specs)
            except (FlightError, UnsupportedError) as error:
                errors.append(error)
                refused[platform] = [f"target={target!r}: {error}"]
        if not programs:
            raise errors[0] if errors else UnsupportedError("flight.call", refused)
        branches = {
            platform: functools.partial(self._execute, *compiled, specs, platform) for platform, compiled in programs.items()
        }
        otherwise = "compiled for " + ", ".join(branches)
        return _dispatch.only("flight.call", branches, refused, otherwise, *operands)

    def _targets(self) -> list[tuple[str, str | None, str | None]]:
        """(platform, target, why it is not served) for each platform."""
        if self.target is not None:
            platform = TARGETS[self.target].platform
            emulation = _targets.emulation_refusal() if platform == "rocm" else None
            served = [platform, *(["cpu"] if platform == "rocm" else [])]
            return [
                (p, self.target, emulation if p == "cpu" and platform == "rocm" else None)
                if p in served
                else (p, None, f"target={self.target!r} was named")
                for p in _targets.PLATFORMS
            ]
        found: list[tuple[str, str | None, str | None]] = [("cpu", "x86-64", None)]
        for platform in _targets.GPU_PLATFORMS:
            architecture = _targets.known_architecture(platform)
            if architecture in TARGETS:
                found.append((platform, architecture, None))
            elif architecture is None:
                found.append((platform, None, "no device tells its architecture: name one with jaxator.target(...)"))
            else:
                found.append((platform, None, f"architecture={architecture}: Flight compiles for {', '.join(TARGETS)}"))
        return found

    def _compile(
        self, target: str, operands: Sequence[jax.Array], results: Sequence[ArraySpec]
    ) -> tuple[Program, tuple[_cache.Artifact, ...]]:
        count = len(operands) - len(self.dynamic)
        scalars = {name: typed.value for name, typed in self.constants}
        scalars |= {name: np.dtype(a.dtype) for name, a in zip(self.dynamic, operands[count:], strict=True)}
        specs = [ArraySpec(tuple(a.shape), np.dtype(a.dtype)) for a in operands[:count]]
        program = _trace.trace(self.launcher, target, specs, results, scalars)
        return program, tuple(_cache.compiled(target, launch.text, self.options) for launch in program.launches)

    def _execute(
        self, program: Program, artifacts: Sequence[_cache.Artifact], results: Sequence[ArraySpec], platform: str,
        *operands: jax.Array,
    ) -> tuple[jax.Array, ...]:  # fmt: skip
        specs = [*(ArraySpec(tuple(a.shape), np.dtype(a.dtype)) for a in operands), *results, *program.temporaries]
        arrays: list[jax.Array | None] = [*operands, *(None for _ in (*results, *program.temporaries))]
        for operand, result in self.aliases:
            arrays[len(operands) + result] = operands[operand]
        for launch, artifact in zip(program.launches, artifacts, strict=True):
            _launch_kernel(launch, artifact, specs, arrays, platform)
        missing = [i for i in range(len(results)) if arrays[len(operands) + i] is None]
        if missing:
            raise ValueError(f"flight.call: {self.name} writes nothing to result {missing[0]}")
        return tuple(arrays[len(operands) : len(operands) + len(results)])  # type: ignore[return-value]


def _launch_kernel(
    launch: Launch, artifact: _cache.Artifact, specs: Sequence[ArraySpec], arrays: list[jax.Array | None], platform: str
) -> None:
    """One custom call. What it writes becomes a new value of the array, in the same memory where it had one."""
    used = list(dict.fromkeys(a.index for a in launch.arguments if isinstance(a, ArrayArgument)))
    written = [index for index in used if index in launch.writes]
    read = [index for index in used if arrays[index] is not None]
    if unset := [index for index in used if arrays[index] is None and index not in written]:
        raise ValueError(f"flight.call: kernel {launch.name} reads array {unset[0]}, which nothing was written to before")
    scalars = [a.value for a in launch.arguments if not isinstance(a, ArrayArgument)]
    first_scalar = len(read) + len(written)
    position = {index: len(read) + i for i, index in enumerate(written)}
    position = {index: i for i, index in enumerate(read)} | position
    numbers = iter(range(first_scalar, first_scalar + len(scalars)))
    order = [position[a.index] if isinstance(a, ArrayArgument) else next(numbers) for a in launch.arguments]
    bits = [_launch.scalar(i, value) for i, value in enumerate(scalars)]
    blob = _blob.identify(artifact.code)
    kernel = artifact.kernels.get(launch.name, {})
    outputs = _ffi.call(
        "call_kernel", [_ffi.empty(specs[index].shape, specs[index].dtype) for index in written],
        *(arrays[index] for index in read),
        target=artifact.target if platform == "cpu" and blob.platform == "rocm" else platform,
        input_output_aliases={i: written.index(index) for i, index in enumerate(read) if index in written},
        blob=blob.text, blob_bytes=np.int64(len(blob.contents)), hash=blob.hash, name=launch.name,
        order=np.array(order, np.int64),
        grid=np.array(launch.grid, np.int64), block=np.array(launch.block, np.int64), cluster=np.ones(3, np.int64),
        shared_bytes=np.int64(kernel.get("dynamic_shared_bytes") or 0),
        scalars=np.array([value for value, _ in bits], np.int64), scalar_bytes=np.array([size for _, size in bits], np.int64),
    )  # fmt: skip
    for index, output in zip(written, outputs, strict=True):
        arrays[index] = output


# ---- public ----------------------------------------------------------------------------------------------------------


def call(
    launcher: Callable[..., Any], *operands: ArrayLike, out_shape: Any, scalars: Mapping[str, Any] | None = None,
    input_output_aliases: Mapping[int, int] | None = None, vjp: Callable[..., Any] | None = None, target: str | None = None,
    sharding_rule: str | None = None, vmap_method: str | None = "sequential", options: _compiler.Options | None = None,
) -> Any:  # fmt: skip
    """Calls a launcher (`jaxator.flight.jit`) on arrays, inside `jax.jit` or outside.

    It is traced and compiled for the shapes and types at hand when JAX traces the call; the code lies in the program, by its
    contents, so an exported program needs neither Flight nor a compiler. Calls with equal kernels share one artifact, in memory,
    on disk and on the device.

    Args:
      launcher: called as ``launcher(*operands, *results, **scalars)`` with tensors.
      operands: arrays of any rank; NumPy and other arrays that JAX takes, also by DLPack.
      out_shape: results, as a pytree of `jax.ShapeDtypeStruct` or arrays.
      scalars: the launcher's keyword arguments. Python and NumPy numbers are fixed in the program; arrays of no dimensions are
        read by the kernel when it runs, so that another value needs no other program.
      input_output_aliases: operand -> result (of out_shape's leaves) in the same memory, as `jaxator.call_kernel`.
      vjp: ``vjp(operands, results, cotangents) -> cotangents of the operands`` (None for zero); results and cotangents in the
        structure of out_shape. Without it a derivative is refused.
      target: "x86-64", "gfx942", "gfx950" or "sm_90a": that one only; an AMD target also runs in programs for CPUs, on the
        emulator. None: what the program is lowered for, by its devices or `jaxator.target`; never guessed.
      sharding_rule, vmap_method: as `jaxator.call_kernel`. The launcher is traced again for the shapes of one device's part.
      options: limits and choices of the compiler.

    Returns:
      Arrays in the structure of out_shape.

    Raises:
      FlightError: the kernel is wrong; it shows the user's lines. A CompileError where the compiler found it.
      ValueError, TypeError: an argument breaks a rule.
      UnsupportedError: a platform is not served, with the reasons; the compiler is not installed.
    """
    if target is not None and target not in TARGETS:
        raise ValueError(f"flight.call: target={target!r}: must be None, {', '.join(map(repr, TARGETS))}")
    if vmap_method not in VMAP_METHODS:
        methods = ", ".join(map(repr, VMAP_METHODS))
        raise ValueError(f"flight.call: vmap_method={vmap_method!r}: must be one of {methods}")
    leaves, tree = jax.tree.flatten(out_shape)
    if not leaves or not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves):
        raise TypeError(f"flight.call: out_shape={out_shape!r}: must be a jax.ShapeDtypeStruct, or a pytree of them")
    results = tuple((tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in leaves)
    arrays = tuple(_array(i, a) for i, a in enumerate(operands))
    constants, dynamic = _scalars(scalars or {})
    aliases = dict(input_output_aliases or {})
    _check_aliases(aliases, arrays, results)
    if sharding_rule is not None:
        rule_of_scalars = "".join("," for _ in dynamic)
        left, arrow, right = sharding_rule.partition("->")
        sharding_rule = f"{left}{rule_of_scalars}{arrow}{right}" if arrays else sharding_rule
        shapes = (*(a.shape for a in arrays), *(() for _ in dynamic))
        _check_rule(sharding_rule, shapes, tuple(shape for shape, _ in results), aliases)
    made = FlightCall(
        launcher=launcher, version=_version.version(launcher), results=results, constants=constants, dynamic=tuple(dynamic),
        aliases=tuple(sorted(aliases.items())), rule=sharding_rule, vmap_method=vmap_method, target=target,
        options=options or _compiler.Options(),
    )  # fmt: skip
    everything = (*arrays, *dynamic.values())
    outputs = _run(made, everything) if vjp is None else _with_vjp(made, vjp, tree, everything)
    return jax.tree.unflatten(tree, outputs)


def _array(index: int, operand: Any) -> jax.Array:
    """Arrays of other frameworks come without a copy where they offer DLPack."""
    foreign = hasattr(operand, "__dlpack__") and not isinstance(operand, (jax.Array, np.ndarray, np.generic))
    return jax.dlpack.from_dlpack(operand) if foreign else _operand(index, operand)


def _scalars(scalars: Mapping[str, Any]) -> tuple[tuple[tuple[str, Any], ...], dict[str, jax.Array]]:
    constants, dynamic = [], {}
    for name, value in scalars.items():
        if isinstance(value, (jax.Array, np.ndarray)) and not isinstance(value, np.generic):
            array = jnp.asarray(value)
            if array.shape != ():
                raise ValueError(f"flight.call: scalars[{name!r}] has shape {array.shape}: must have no dimensions")
            dynamic[name] = array
        else:
            constants.append((name, _Typed(value, type(value))))
    return tuple(constants), dynamic


@dataclasses.dataclass(frozen=True)
class _Typed:
    """A constant that compares by its type too: 1, 1.0 and True are three kernels."""

    value: Any
    type: type


def _with_vjp(
    made: FlightCall, vjp: Callable[..., Any], tree: Any, operands: tuple[jax.Array, ...]
) -> tuple[jax.Array, ...]:
    count = len(operands) - len(made.dynamic)

    @jax.custom_vjp
    def f(*operands: jax.Array) -> tuple[jax.Array, ...]:
        return _run(made, operands)

    def forward(*operands: jax.Array) -> Any:
        results = f(*operands)
        return results, (operands, results)

    def backward(residuals: Any, cotangents: Sequence[jax.Array]) -> tuple[Any, ...]:
        operands, results = residuals
        unflatten = functools.partial(jax.tree.unflatten, tree)
        found = vjp(operands[:count], unflatten(results), unflatten(cotangents))
        if not isinstance(found, (tuple, list)) or len(found) != count:
            raise ValueError(f"flight.call: vjp returned {found!r}: must return a tuple of {count}, one for each operand")
        return (*found, *(None for _ in made.dynamic))

    f.defvjp(forward, backward)
    return f(*operands)
