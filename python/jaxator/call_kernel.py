"""Any kernel binary as a JAX function."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxator import _blob, _dispatch, _ffi, _launch, _partition
from jaxator._errors import UnsupportedError

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]

MOST_ARGUMENTS = 256
"""Of a kernel; the handler keeps their addresses on its stack."""

VMAP_METHODS = (None, "sequential", "sequential_unrolled", "broadcast_all", "expand_dims")

# ---- what is asked, on one device ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class KernelCall:
    """Everything but the arrays. Numbers may still be functions of the shapes, which sharding and vmap change."""

    blobs: tuple[tuple[str, _blob.Blob], ...]
    """Platform -> the binary that serves it."""
    refused: tuple[tuple[str, tuple[str, ...]], ...]
    name: str
    results: tuple[tuple[Shape, np.dtype], ...]
    """Of the whole arrays, unbatched."""
    grid: Any
    block: Any
    cluster: Any
    shared_bytes: Any
    scalars: Any
    """(bits, bytes) of each: values of different types compare equal."""
    aliases: tuple[tuple[int, int], ...]
    rule: str | None
    vmap_method: str | None
    batch: Shape = ()
    """Extents that `vmap` has put in front, outermost first."""
    emulated: str | None = None
    """The architecture whose binary programs for CPUs run on the emulator."""

    def partition_rule(self, operands: Sequence[Any]) -> _partition.Rule | None:
        """For whole operands."""
        if self.rule is None or not operands:
            return None
        return _rule(self.rule, operands, self.batch, [shape for shape, _ in self.results])

    def run(self, rule: _partition.Rule | None, operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        """The call on one device's part of the operands."""
        operands = _ffi.vary(_ffi.varying_axes(*operands), *operands)
        results = [_ffi.empty(shape, dtype) for shape, dtype in self._local_results(rule, operands)]
        if all(math.prod(r.shape) == 0 for r in results):
            zeros = [jnp.zeros(r.shape, r.dtype) for r in results]
            return _ffi.vary(_ffi.varying_axes(*operands), *zeros)
        attributes = self._attributes(tuple(a.shape for a in operands), tuple(r.shape for r in results))

        def branch(platform: str, blob: _blob.Blob) -> Callable[..., Any]:
            emulated = blob.platform == "rocm" and platform == "cpu"
            return functools.partial(
                _ffi.call, "call_kernel", results, input_output_aliases=dict(self.aliases), blob=blob.text,
                blob_bytes=np.int64(len(blob.contents)), hash=blob.hash, name=self.name,
                target=self.emulated if emulated else platform, **attributes,
            )  # fmt: skip

        branches = {platform: branch(platform, blob) for platform, blob in self.blobs}
        otherwise = "blob has kernels for " + ", ".join(branches)
        return _dispatch.only("call_kernel", branches, dict(self.refused), otherwise, *operands)

    def _local_results(self, rule: _partition.Rule | None, operands: Sequence[jax.Array]) -> list[tuple[Shape, np.dtype]]:
        whole = [((*self.batch, *shape), dtype) for shape, dtype in self.results]
        if rule is None:
            return whole
        sizes = {
            d[0]: n for dims, a in zip(rule.operands, operands, strict=True) for d, n in zip(dims, a.shape, strict=True)
        }
        return [
            (tuple(sizes.get(d[0], n) for d, n in zip(dims, shape, strict=True)), dtype)
            for dims, (shape, dtype) in zip(rule.results, whole, strict=True)
        ]

    def _attributes(self, operands: Shapes, results: Shapes) -> dict[str, Any]:
        def value(given: Any) -> Any:
            return given(operands, results) if callable(given) else given

        numbers = {name: _launch.extents(name, value(getattr(self, name))) for name in ("grid", "block", "cluster")}
        _launch.check_geometry(**numbers)
        shared_bytes = _launch.integer("shared_bytes", value(self.shared_bytes))
        if not 0 <= shared_bytes < 2**31:
            raise ValueError(f"call_kernel: shared_bytes={shared_bytes}: must be int32 and not negative")
        scalars = _bits(value(self.scalars)) if callable(self.scalars) else self.scalars
        count = len(operands) + len(results) + len(scalars)
        if count > MOST_ARGUMENTS:
            raise ValueError(f"call_kernel: {count} operands, results and scalars: must be at most {MOST_ARGUMENTS}")
        return {
            **{name: np.array(extents, np.int64) for name, extents in numbers.items()},
            "shared_bytes": np.int64(shared_bytes),
            "scalars": np.array([bits for bits, _ in scalars], np.int64),
            "scalar_bytes": np.array([size for _, size in scalars], np.int64),
        }


@dataclasses.dataclass(frozen=True)
class _Local:
    """A call with its rule; compares by both, so that caches keyed by it are hit."""

    call: KernelCall
    rule: _partition.Rule | None

    def __call__(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        return self.call.run(self.rule, operands)


# ---- sharding rule ---------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Names of the dimensions of operands and results; each "_" became a name of its own, that no user can write."""
    sides = text.split("->")
    if len(sides) != 2:
        raise ValueError(f"call_kernel: sharding_rule={text!r}: must have one '->'")
    unique = iter(range(10**6))

    def array(names: str) -> tuple[str, ...]:
        for name in names.split():
            if not re.fullmatch(r"_|[A-Za-z][A-Za-z0-9]*", name):
                raise ValueError(
                    f"call_kernel: sharding_rule={text!r}: {name!r} must be '_', or a letter with letters and digits"
                )
        dims = tuple(f"whole_{next(unique)}" if name == "_" else name for name in names.split())
        if len(set(dims)) < len(dims):
            raise ValueError(f"call_kernel: sharding_rule={text!r}: names a dimension of '{names.strip()}' twice")
        return dims

    left, right = (tuple(map(array, side.split(","))) for side in sides)
    return left, right


def _rule(text: str, operands: Sequence[Any], batch: Shape, results: Sequence[Shape]) -> _partition.Rule:
    """The rule with the dimensions that vmap put in front: of size 1 where it did not map an operand."""
    left, right = _parsed(text)

    def dims(names: tuple[str, ...], shape: Shape) -> tuple[tuple[str], ...]:
        mapped = (
            f"vmap_{i}" if n == size else f"whole_1_{i}" for i, (n, size) in enumerate(zip(shape, batch, strict=False))
        )
        return tuple((name,) for name in (*mapped, *names))

    rule = _partition.Rule(
        tuple(dims(names, a.shape) for names, a in zip(left, operands, strict=True)),
        tuple(dims(names, (*batch, *shape)) for names, shape in zip(right, results, strict=True)),
        frozenset(),
    )
    names = {d[0] for array in (*rule.operands, *rule.results) for d in array}
    return dataclasses.replace(rule, replicated=frozenset(name for name in names if name.startswith("whole_")))


def _check_rule(text: str, operands: Shapes, results: Shapes, aliases: Mapping[int, int]) -> None:
    left, right = _parsed(text)
    for what, arrays, shapes in (("operands", left, operands), ("results", right, results)):
        if len(arrays) != len(shapes):
            raise ValueError(f"call_kernel: sharding_rule={text!r} has {len(arrays)} {what}: the call has {len(shapes)}")
    sizes: dict[str, int] = {}
    for names, shape in zip((*left, *right), (*operands, *results), strict=True):
        if len(names) != len(shape):
            raise ValueError(
                f"call_kernel: sharding_rule={text!r}: '{' '.join(names)}' has {len(names)} dimensions, its array {shape}"
            )
        for name, size in zip(names, shape, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ValueError(f"call_kernel: sharding_rule={text!r}: {name} is {sizes[name]} and {size}")
    for operand, result in aliases.items():
        mine, its = (re.sub(r"whole_\d+", "_", " ".join(side)) for side in (left[operand], right[result]))
        if mine != its:
            raise ValueError(
                f"call_kernel: sharding_rule={text!r}: operand {operand} shares memory with result {result}, "
                f"but '{mine}' is not '{its}'"
            )


# ---- transformations -------------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=0, inline=True)
def _run(call: KernelCall, operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Compiled when called outside of jit."""
    return _no_derivative(call, *operands)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _no_derivative(call: KernelCall, *operands: jax.Array) -> tuple[jax.Array, ...]:
    return _batched(call)(*operands)


@_no_derivative.defjvp
def _refuse_derivative(call: KernelCall, *_: Any) -> Any:
    raise UnsupportedError("call_kernel", {"derivative": [f"kernel {call.name}: wrap the call in jax.custom_vjp"]})


@functools.lru_cache(maxsize=1024)
def _batched(call: KernelCall) -> Callable[..., Any]:
    """custom_vmap > partition > local."""

    @jax.custom_batching.custom_vmap
    def run(*operands: jax.Array) -> tuple[jax.Array, ...]:
        rule = call.partition_rule(operands)
        local = _Local(call, rule)
        return local(*operands) if rule is None else _partition.call(local, rule, operands)

    @run.def_vmap
    def run_vmap(size: int, batched: Sequence[bool], *operands: jax.Array) -> tuple[Any, Any]:
        results = _mapped(call, size, batched, operands)
        return results, tuple(True for _ in results)

    return run


def _mapped(call: KernelCall, size: int, batched: Sequence[bool], operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    method = call.vmap_method
    if method is None:
        methods = ", ".join(map(repr, VMAP_METHODS[1:]))
        raise NotImplementedError(f"call_kernel: vmap over kernel {call.name}: vmap_method=None, must be one of {methods}")
    if method.startswith("sequential"):

        def one(mapped: list[jax.Array]) -> tuple[jax.Array, ...]:
            rest = iter(mapped)
            return _batched(call)(*(next(rest) if b else a for b, a in zip(batched, operands, strict=True)))

        mapped = [a for b, a in zip(batched, operands, strict=True) if b]
        return jax.lax.scan(lambda _, x: (None, one(x)), None, mapped, unroll=method == "sequential_unrolled")[1]
    aliased = dict(call.aliases)
    arrays = [
        a if b else jnp.broadcast_to(a, (size if method == "broadcast_all" or i in aliased else 1, *a.shape))
        for i, (b, a) in enumerate(zip(batched, operands, strict=True))
    ]
    return _batched(dataclasses.replace(call, batch=(size, *call.batch)))(*arrays)


# ---- public ----------------------------------------------------------------------------------------------------------


def _operand(index: int, operand: ArrayLike) -> jax.Array:
    array = jnp.asarray(operand)
    if isinstance(operand, (np.ndarray, np.generic)) and operand.dtype != array.dtype:
        raise TypeError(
            f"call_kernel: operand {index} would become {array.dtype} from {operand.dtype}: enable jax_enable_x64"
        )
    return array


def _check_aliases(
    aliases: Mapping[int, int], operands: Sequence[jax.Array], results: Sequence[tuple[Shape, np.dtype]]
) -> None:
    for operand, result in aliases.items():
        text = f"call_kernel: input_output_aliases={dict(aliases)}: "
        if not 0 <= operand < len(operands):
            raise ValueError(f"{text}{operand} must be one of {len(operands)} operands")
        if not 0 <= result < len(results):
            raise ValueError(f"{text}{result} must be one of {len(results)} results")
        a, (shape, dtype) = operands[operand], results[result]
        if (a.shape, a.dtype) != (shape, dtype):
            raise ValueError(
                f"{text}operand {operand} is {a.dtype}{list(a.shape)}, result {result} {dtype}{list(shape)}: must be equal"
            )
    if len(set(aliases.values())) < len(aliases):
        raise ValueError(
            f"call_kernel: input_output_aliases={dict(aliases)}: a result shares memory with one operand at most"
        )


def call_kernel(
    blob: bytes | Mapping[str, bytes], name: str, *operands: ArrayLike, out_shape: Any, grid: Any, block: Any,
    shared_bytes: Any = 0, cluster: Any = None, scalars: Any = (), input_output_aliases: Mapping[int, int] | None = None,
    sharding_rule: str | None = None, vmap_method: str | None = None, implementation: str | None = None,
) -> Any:  # fmt: skip
    """Calls a kernel from a binary.

    The binary travels in the program, so an exported program needs nothing else. It is loaded once for each device, by
    its contents, before the program runs; on a GPU calls can be part of a CUDA graph.

    The kernel's arguments are the addresses of the operands, then those of the results, then the scalars. On a CPU it is a C
    function ``void name(void* const* arguments, const int64_t* grid, const int64_t* block)``, called once for each block of
    the grid, by several threads at a time: an argument is the address of an array, or of a scalar's value; block is this
    block's index, and both have three numbers.

    Args:
      blob: PTX text, a cubin, a HSACO or a shared object for x86-64; or a mapping from architectures ("sm_90a", "gfx950",
        "x86-64") to such binaries. Which one is used follows from the platform that the program is lowered for, and from the
        architecture of its devices or `jaxator.target`; PTX for an earlier architecture without a suffix serves later ones.
      name: the kernel's symbol in it (``extern "C"``).
      operands: arrays of any type and rank, contiguous and row-major in the kernel.
      out_shape: results, as a pytree of `jax.ShapeDtypeStruct` or arrays.
      grid: blocks: an int, up to three ints, or a function of (shapes of operands, shapes of results) that returns them. The
        function gets two tuples of tuples of ints when the program is traced: the shapes that the kernel sees, of one
        device's part, with the axes that vmap put in front; results in the order of out_shape's leaves.
      block, cluster: threads of a block and blocks of a cluster, like grid. Not used on CPUs.
      shared_bytes: dynamic shared memory of a block, an int or a function as for grid. Not used on CPUs.
      scalars: arguments passed by value, or a function as for grid that returns them. NumPy scalars keep their type; a bool
        has one byte, an int is an int32 where it fits and else an int64, a float is a float32.
      input_output_aliases: operand -> result (of out_shape's leaves) that lies in the same memory. An operand that is needed
        later is copied before; a donated one is not.
      sharding_rule: how the call may be cut up over devices, a name for each dimension: ``"m k, k n -> m n"``. A result that
        lacks a name is a partial sum over it, and is added up. ``_`` is a dimension that stays whole. Without a rule every
        device gets whole arrays; inside `jax.shard_map` the arrays are those of one device in either case.
      vmap_method: as `jax.ffi.ffi_call`: "sequential" (also "sequential_unrolled") calls the kernel once for each element,
        "broadcast_all" once with a new leading axis on every array, "expand_dims" with one of size 1 where an operand has
        none (and is not aliased); None refuses vmap.
      implementation: "gfx942" or "gfx950": that architecture's HSACO, on ROCm devices and, run by the emulator with all its
        checks, in programs for CPUs. None: what serves the platform.

    Returns:
      Arrays in the structure of out_shape. If all of them are empty, the kernel is not called.

    Raises:
      ValueError, TypeError: an argument breaks a rule; the text names it.
      UnsupportedError: when the program is lowered, for a platform that blob has no kernel for; when it is differentiated:
        wrap the call in `jax.custom_vjp`.
      jax.errors.JaxRuntimeError: when the program runs, with the driver's text: the binary is damaged or has no such kernel,
        or the kernel takes other arguments, fewer threads or less shared memory.

    Outside of `jax.jit` a call is compiled once for its arguments; functions count as new ones each time they are made.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"call_kernel: name={name!r}: must be the name of a kernel")
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"call_kernel: vmap_method={vmap_method!r}: must be one of {', '.join(map(repr, VMAP_METHODS))}")
    if implementation is None:
        blobs, refused = _blob.choose(_blob.parse(blob))
    else:
        blobs, refused = _blob.choose_emulated(_blob.parse(blob), implementation)
    leaves, tree = jax.tree.flatten(out_shape)
    if not leaves or not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves):
        raise TypeError(f"call_kernel: out_shape={out_shape!r}: must be a jax.ShapeDtypeStruct, or a pytree of them")
    results = tuple((tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in leaves)
    arrays = tuple(_operand(i, a) for i, a in enumerate(operands))
    aliases = dict(input_output_aliases or {})
    _check_aliases(aliases, arrays, results)
    if sharding_rule is not None:
        _check_rule(sharding_rule, tuple(a.shape for a in arrays), tuple(shape for shape, _ in results), aliases)
    if not blobs:
        raise UnsupportedError("call_kernel", {p: rules for p, rules in refused.items() if rules != _blob.NOT_OFFERED})
    call = KernelCall(
        blobs=tuple(blobs.items()), refused=tuple((p, tuple(r)) for p, r in refused.items()), name=name, results=results,
        grid=_frozen(grid), block=_frozen(block), cluster=_frozen(cluster), shared_bytes=_frozen(shared_bytes),
        scalars=scalars if callable(scalars) else _bits(scalars), aliases=tuple(sorted(aliases.items())), rule=sharding_rule,
        vmap_method=vmap_method, emulated=implementation,
    )  # fmt: skip
    return jax.tree.unflatten(tree, _run(call, arrays))


def _bits(scalars: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    return tuple(_launch.scalar(i, value) for i, value in enumerate(scalars))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, np.ndarray)) else value
