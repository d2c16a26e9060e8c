"""Runs in an environment that holds the wheels, nothing else: a kernel is traced, compiled and run, or, with the argument
`missing`, the error says what is not installed."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

import jaxator as jxt
from jaxator import flight
from jaxator.flight import _cache, _compiler, _trace
from jaxator.flight._program import ArraySpec

N = flight.Dim("n")
MAGIC = {"gfx942": b"\x7fELF", "gfx950": b"\x7fELF", "sm_90a": b"//"}  # HSACO, HSACO, PTX, which begins with a comment


@flight.kernel
def add(x: flight.Tensor[N], y: flight.Tensor[N], z: flight.Tensor[N]):
    i = flight.block_id() * 256 + flight.thread_id()
    if i < x.shape[0]:
        z[i] = x[i] + y[i]


@flight.jit
def vector_add(x, y, z):
    add(x, y, z).launch(grid=flight.ceil_div(x.shape[0], 256), block=256)


def call(x, y):
    return flight.call(vector_add, x, y, out_shape=x)


def check_missing(x, y) -> None:
    try:
        jax.jit(call)(x, y)
    except jxt.UnsupportedError as error:
        assert "pip install jaxator-flightc" in str(error), f"does not say what is missing: {error}"
    else:
        raise AssertionError("compiled a kernel without the compiler")
    print("without the compiler's wheel: the error says what to install")


def check_compiled(x, y) -> None:
    assert "site-packages" in str(_compiler.find_executable()), f"not the wheel's: {_compiler.find_executable()}"
    np.testing.assert_array_equal(jax.jit(call)(x, y), np.asarray(x) + np.asarray(y))
    made, spec = ["x86-64 run"], ArraySpec(x.shape, np.dtype("float32"))
    for target, magic in MAGIC.items():
        (launch,) = _trace.trace(vector_add, target, [spec, spec], [spec], {}).launches
        code = _cache.compiled(target, launch.text).code
        assert code.startswith(magic) and b"add" in code, f"{target}: not its code: {code[:80]!r}"
        made.append(f"{target} {len(code)} bytes")
    print(f"with the compiler's wheel: {', '.join(made)}")


def main() -> None:
    x, y = jnp.arange(1000, dtype=jnp.float32), jnp.full(1000, 0.5)
    _cache.set_folder(None)  # what an earlier run left would hide a compiler that fails
    if sys.argv[1:] == ["missing"]:
        check_missing(x, y)
    else:
        check_compiled(x, y)


if __name__ == "__main__":
    main()
