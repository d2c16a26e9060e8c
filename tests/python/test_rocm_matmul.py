"""matmul on AMD's GPUs: lowered for ROCm without hardware, and run on the emulator by programs for CPUs, with an error for
every race, missing wait, access out of bounds and read of uninitialised memory."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import shapes
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from matmul_problems import ACTIVATIONS, Problem
from reference import Exact, assert_within

import jaxator as jxt
from jaxator import _targets

ARCHITECTURES = ("gfx942", "gfx950")
LAYOUTS = tuple(itertools.product((False, True), repeat=2))
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
every_layout = pytest.mark.parametrize("transpose_a, transpose_b", LAYOUTS)
emulated = pytest.mark.skipif(_targets.emulation_refusal() is not None, reason="the emulator is not built")


def lowered_for_rocm(function, *arguments) -> str:
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("rocm",)).as_text()


def check(problems: list[Problem], architecture: str, **more) -> None:
    """Values and gradients, of all problems in one program."""
    given = [(problem.operands(), problem.cotangent()) for problem in problems]
    run = jax.jit(
        lambda given: [
            problem.value_and_vjp(*one, implementation=architecture, **more)
            for problem, one in zip(problems, given, strict=True)
        ]
    )
    for problem, one, results in zip(problems, given, run(given), strict=True):
        problem.assert_right(*one, *results, what=architecture)


# ---- what programs are lowered to --------------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", [None, "rocm", "gfx942"])
def test_lowering_names_the_kernel(implementation: str | None) -> None:
    for dtype in ("bfloat16", "float16"):
        problem = Problem(16, 24, 32, dtype, has_bias=True, activation="gelu", has_residual=True)
        function = functools.partial(problem.value_and_vjp, implementation=implementation)
        text = lowered_for_rocm(function, problem.operands(), problem.cotangent())
        assert text.count("stablehlo.custom_call @jaxator.matmul(") == 3, text  # the product and its two gradients
        assert "emulated" not in text
        assert "stablehlo.transpose" not in text


def test_lowering_of_what_the_kernels_do_not_serve() -> None:
    for problem in (Problem(16, 24, 32, "float32"), Problem(16, 24, 33, "bfloat16")):
        assert "custom_call @jaxator." not in lowered_for_rocm(problem, *problem.operands())
    problem = Problem(16, 24, 33, "bfloat16")
    assert "@jaxator.matmul" in lowered_for_rocm(functools.partial(problem, implementation="rocm"), *problem.operands())
    for name in ("rocm", *ARCHITECTURES):
        with pytest.raises(jxt.UnsupportedError, match="dtype=float32: exact float32 products are XLA's"):
            jxt.matmul(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), implementation=name)


def test_sizes_beyond_the_kernels() -> None:
    """Known when the program is traced: an error where the kernels were named, else XLA's formulation."""
    for rows, columns, batch, rule in (
        (8, 2**22, (), "n=4194304: must be at most 4194303"),
        (2**30, 8, (), "m=1073741824: must be at most 1073741823"),
        (8, 8, (2**22,), "tiles of 256 x 256=4194304: must be at most 4194303"),
    ):
        a, b = (jax.ShapeDtypeStruct((*batch, *shape), jnp.bfloat16) for shape in ((rows, 8), (8, columns)))
        assert "custom_call @jaxator." not in lowered_for_rocm(jxt.matmul, a, b)
        with pytest.raises(jxt.UnsupportedError, match=rule):
            lowered_for_rocm(functools.partial(jxt.matmul, implementation="rocm"), a, b)


def test_export_for_rocm() -> None:
    problem = Problem(16, 24, 32, "bfloat16", has_bias=True)
    exported = jax.export.export(jax.jit(problem), platforms=["rocm", "cpu"], disabled_checks=jxt.export_checks())(
        *problem.operands()
    )
    again = jax.export.deserialize(exported.serialize())
    assert "jaxator.matmul" in again.mlir_module()
    want, _ = problem.exact(problem.operands(), problem.cotangent())
    assert_within(again.call(*problem.operands()), want)


# ---- values on the emulator --------------------------------------------------------------------------------------------

VECTORS = ((8, 8, 8), (40, 24, 72), (264, 272, 136), (16, 24, 2120))
"""M, N, K whose rows are whole vectors in every layout: one tile, part of a step; several tiles, several steps; blocks that
share the steps."""
ELEMENTS = ((1, 1, 1), (5, 9, 7), (31, 259, 67), (0, 5, 8), (5, 0, 8), (5, 7, 0))
"""Everything else: 1, primes, no element at all."""
MANY_TILES = ((512, 768, 1024), (776, 520, 600), (1000, 1000, 1000), (2048, 24, 64))


@emulated
@every_architecture
@every_layout
def test_every_shape_and_layout(architecture: str, transpose_a: bool, transpose_b: bool) -> None:
    problems = [
        Problem(
            *shape,
            dtype=("bfloat16", "float16")[i % 2],
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            has_bias=i % 2 == 0,
            activation=ACTIVATIONS[i % 5],
            has_residual=i % 3 == 0,
            float32_result=i % 4 == 1,
        )
        for i, shape in enumerate((*VECTORS, *ELEMENTS))
    ]
    check(problems, architecture)


@emulated
@pytest.mark.full
@every_architecture
@every_layout
def test_the_long_list(architecture: str, transpose_a: bool, transpose_b: bool) -> None:
    """The shapes of every target in both types, and some with many tiles and steps."""
    layout = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    for dtype in ("bfloat16", "float16"):
        problems = [
            Problem(*shape, dtype, **layout, has_bias=i % 2 == 1, activation=ACTIVATIONS[i % 5], has_residual=i % 3 == 1,
                    float32_result=i % 7 == 3)
            for i, shape in enumerate((*shapes.PRODUCTS, *MANY_TILES))
        ]  # fmt: skip
        for problem in problems:
            check([problem], architecture)


@emulated
@every_architecture
def test_epilogues(architecture: str) -> None:
    options = itertools.product(ACTIVATIONS, (False, True), (False, True))
    problems = [
        Problem(16, 24 if i % 2 else 27, 32, "float16" if i % 3 else "bfloat16", transpose_b=True, has_bias=bias,
                activation=activation, has_residual=residual, float32_result=i % 4 == 3)
        for i, (activation, bias, residual) in enumerate(options)
    ]  # fmt: skip
    given = [problem.operands() for problem in problems]
    run = jax.jit(
        lambda given: [p(*operands, implementation=architecture) for p, operands in zip(problems, given, strict=True)]
    )
    for problem, operands, value in zip(problems, given, run(given), strict=True):
        assert_within(value, problem.exact(operands, problem.cotangent())[0], f"{architecture} {problem}")


@emulated
@every_architecture
def test_batches(architecture: str) -> None:
    leads = (((3,), ()), ((), (3,)), ((3,), (3,)), ((2, 1), (3,)), ((0,), ()), ((1,), (4,)))
    check(
        [
            Problem(16, 24, 8, "bfloat16", *lead, transpose_a=i % 2 == 1, transpose_b=i % 3 == 1, has_bias=True,
                    activation=ACTIVATIONS[i % 5], has_residual=i % 2 == 0)
            for i, lead in enumerate(leads)
        ],
        architecture,
    )  # fmt: skip


@emulated
@every_architecture
def test_under_transformations(architecture: str) -> None:
    """vmap with a bias of its own, scan and remat, in both directions."""
    random = np.random.default_rng(5)
    x, w, bias = (random.normal(size=shape).astype(np.float32) for shape in ((3, 16, 32), (32, 32), (3, 32)))

    def program(implementation: str, x: jax.Array, w: jax.Array, bias: jax.Array) -> jax.Array:
        product = functools.partial(jxt.matmul, activation="silu", implementation=implementation)
        x, w = x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)
        mapped = jax.vmap(lambda x, b: product(x, w, bias=b))(x, bias)
        layer = jax.checkpoint(lambda carry, b: (product(carry, w, bias=b, residual=carry), None))
        return mapped.astype(jnp.float32).sum() + jax.lax.scan(layer, x[0], bias)[0].astype(jnp.float32).sum()

    got, want = (
        jax.jit(jax.value_and_grad(program, (1, 2, 3)), static_argnums=0)(implementation, x, w, bias)
        for implementation in (architecture, "cpu")
    )
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        # Both round every array to bfloat16, in different places of a unit: 2^-8 of each of the few values on a way.
        np.testing.assert_allclose(a, b, rtol=0.03, atol=0.03 * np.abs(b).max())


@emulated
@every_architecture
def test_nan_and_infinity_stay_where_they_belong(architecture: str) -> None:
    """Rows of a reach one row of the result, and what a tile has past the matrix reaches nothing."""
    for shape in ((24, 40, 72), (24, 40, 67)):
        problem = Problem(*shape, "bfloat16", transpose_b=True)
        a, b = problem.operands()
        a[3, 5], a[-1, -1], b[7, -1] = np.nan, np.inf, -np.inf
        got = np.asarray(jax.jit(functools.partial(problem, implementation=architecture))(a, b)).astype(np.float64)
        with np.errstate(invalid="ignore"):
            want = a.astype(np.float64) @ b.astype(np.float64).T
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(want) * np.sign(want))
        finite = np.isfinite(want)
        np.testing.assert_allclose(got[finite], want[finite], rtol=2**-7, atol=1e-4)


# ---- eight bits --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class EightBits:
    m: int
    n: int
    k: int
    types: tuple[str, str]
    transpose_a: bool = False
    transpose_b: bool = True
    scales_a: str | None = None
    scales_b: str | None = None
    lead: tuple[int, ...] = ()
    more: bool = False
    """bias, activation and residual."""

    def operands(self) -> dict[str, np.ndarray]:
        random = np.random.default_rng([self.m, self.n, self.k])
        shapes = ((self.k, self.m) if self.transpose_a else (self.m, self.k),
                  (self.n, self.k) if self.transpose_b else (self.k, self.n))  # fmt: skip
        given = {
            name: (random.normal(size=(*self.lead, *shape)) * 8).astype(getattr(ml_dtypes, dtype))
            for name, shape, dtype in zip("ab", shapes, self.types, strict=True)
        }
        for name, kind, rows in (("scale_a", self.scales_a, self.m), ("scale_b", self.scales_b, self.n)):
            if kind:
                shape = () if kind == "one" else (*self.lead, rows)
                given[name] = np.exp2(random.normal(size=shape)).astype(np.float32)
        if self.more:
            given["bias"] = random.normal(size=self.n).astype(np.float32)
            given["residual"] = random.normal(size=(*self.lead, self.m, self.n)).astype(ml_dtypes.bfloat16)
        return given

    def __call__(self, given: dict, **more) -> jax.Array:
        activation = "relu" if self.more else None
        layout = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        return jxt.matmul(**given, **layout, activation=activation, **more)

    def exact(self, given: dict[str, np.ndarray]) -> Exact:
        wide = {name: x.astype(np.float64) for name, x in given.items()}
        a = wide["a"].swapaxes(-1, -2) if self.transpose_a else wide["a"]
        b = wide["b"].swapaxes(-1, -2) if self.transpose_b else wide["b"]
        scale = np.ones(())
        if self.scales_a:
            scale = scale * (wide["scale_a"] if self.scales_a == "one" else wide["scale_a"][..., None])
        if self.scales_b:
            scale = scale * (wide["scale_b"] if self.scales_b == "one" else wide["scale_b"][..., None, :])
        z, size = (a @ b) * scale, (np.abs(a) @ np.abs(b)) * scale
        if self.more:
            z, size = z + wide["bias"], size + np.abs(wide["bias"]) + np.abs(wide["residual"])
            z = np.maximum(z, 0) + wide["residual"]
        return Exact(z, size, self.k + 8)


EIGHT_BIT_PROBLEMS = (
    *(EightBits(24, 40, 144, types, scales_a="each", scales_b="each") for types in itertools.product(EIGHT_BITS, repeat=2)),
    EightBits(264, 272, 208, EIGHT_BITS, scales_a="one", more=True),
    EightBits(8, 24, 32, EIGHT_BITS, scales_a="each", scales_b="one", lead=(2,), more=True),
    # Without alignment, and in the other layouts.
    *(EightBits(9, 17, 37, types, scales_b="each", more=True) for types in itertools.product(EIGHT_BITS, repeat=2)),
    *(EightBits(16, 32, 48, EIGHT_BITS, *layout, scales_a="one") for layout in LAYOUTS),
    EightBits(1, 1, 1, EIGHT_BITS), EightBits(3, 5, 0, EIGHT_BITS, more=True),
)  # fmt: skip


@pytest.mark.parametrize("implementation", ["xla", *(pytest.param(name, marks=emulated) for name in ARCHITECTURES)])
def test_eight_bits(implementation: str) -> None:
    given = [problem.operands() for problem in EIGHT_BIT_PROBLEMS]
    for wide in ({}, {"preferred_element_type": jnp.float32}):
        run = jax.jit(
            lambda given, wide=wide: [
                problem(one, implementation=implementation, **wide)
                for problem, one in zip(EIGHT_BIT_PROBLEMS, given, strict=True)
            ]
        )
        for problem, one, value in zip(EIGHT_BIT_PROBLEMS, given, run(given), strict=True):
            assert value.dtype == (jnp.float32 if wide else jnp.bfloat16)
            assert_within(value, problem.exact(one), f"{implementation} {problem}")


@emulated
@every_architecture
def test_every_code_of_eight_bits(architecture: str) -> None:
    """Each of the 256 codes times one, in a row of its own: numbers, both zeros, NaNs and infinities."""
    for types in itertools.product(EIGHT_BITS, repeat=2):
        for width in (16, 17):
            codes = np.zeros((256, width), np.uint8)
            codes[:, 3] = np.arange(256)
            a, b = codes.view(getattr(ml_dtypes, types[0])), np.zeros((16, width), getattr(ml_dtypes, types[1]))
            b[:, 3] = 1
            run = functools.partial(
                jxt.matmul, transpose_b=True, preferred_element_type=jnp.float32, implementation=architecture
            )
            want = a[:, 3].astype(np.float32)
            np.testing.assert_array_equal(np.asarray(jax.jit(run)(a, b)), np.repeat(want[:, None], 16, axis=1))


@emulated
@every_architecture
def test_mapped_scales(architecture: str) -> None:
    """vmap over scales, with and without the arrays that they belong to."""
    random = np.random.default_rng(2)
    a, b = (random.normal(size=shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((3, 8, 32), (16, 32)))
    rows, one = (np.exp2(random.normal(size=shape)).astype(np.float32) for shape in ((3, 8), (3,)))

    def run(implementation: str | None, a, b, rows, one):
        product = functools.partial(jxt.matmul, transpose_b=True, implementation=implementation)
        return (
            jax.vmap(lambda a, r: product(a, b, scale_a=r))(a, rows),
            jax.vmap(lambda a, s: product(a, b, scale_a=s, scale_b=s))(a, one),
            jax.vmap(lambda r, s: product(a[0], b, scale_a=r, scale_b=s))(rows, one),
        )

    got, want = (jax.jit(run, static_argnums=0)(name, a, b, rows, one) for name in (architecture, "xla"))
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x.astype(np.float32), y.astype(np.float32), rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize("implementation", ["xla", pytest.param("gfx950", marks=emulated)])
def test_eight_bits_over_a_mesh(implementation: str) -> None:
    """Scales follow their rows; where k is cut they multiply the whole sum."""
    problem = EightBits(16, 32, 64, EIGHT_BITS, scales_a="each", scales_b="each", more=True)
    given = problem.operands()
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4], axis_types=(jax.sharding.AxisType.Auto,) * 2)
    for m, n, k in (("x", "y", None), ("x", None, "y"), (None, ("x", "y"), None)):
        specs = (P(m, k), P(n, k), P(m), P(n), P(n), P(m, n))
        arrays = [given[name] for name in ("a", "b", "scale_a", "scale_b", "bias", "residual")]
        placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(arrays, specs, strict=True)]

        def run(a, b, scale_a, scale_b, bias, residual, **more):
            operands = {"scale_a": scale_a, "scale_b": scale_b, "bias": bias, "residual": residual}
            return jxt.matmul(a, b, transpose_b=True, activation="relu", implementation=implementation, **operands, **more)

        for value in (jax.jit(run)(*placed), jax.jit(functools.partial(run, mesh=mesh, in_specs=specs))(*placed)):
            assert_within(value, problem.exact(given), f"{implementation} {specs}")


def test_errors_of_eight_bits() -> None:
    a, b = np.zeros((4, 16), ml_dtypes.float8_e4m3fn), np.zeros((16, 8), ml_dtypes.float8_e5m2)
    with pytest.raises(TypeError, match="dtype of b is bfloat16: must be that of a, which is float8_e4m3fn"):
        jxt.matmul(a, b.astype(ml_dtypes.bfloat16))
    with pytest.raises(TypeError, match="scale_a is given for dtype=float32"):
        jxt.matmul(a.astype(np.float32), b.astype(np.float32), scale_a=1.0)
    with pytest.raises(ValueError, match=r"scale_b has shape \(4,\): must be \(\) or \(8,\)"):
        jxt.matmul(a, b, scale_b=np.ones(4, np.float32))
    with pytest.raises(ValueError, match="preferred_element_type=float16: must be float32 or bfloat16"):
        jxt.matmul(a, b, preferred_element_type=jnp.float16)
    with pytest.raises(TypeError, match="residual has dtype=float32: must be bfloat16 beside eight bits"):
        jxt.matmul(a, b, residual=np.zeros((4, 8), np.float32))
    for name in ("cpu", "cuda"):
        with pytest.raises(jxt.UnsupportedError, match="dtype=float8_e4m3fn"):
            jxt.matmul(a, b, implementation=name)


# ---- what explain says -------------------------------------------------------------------------------------------------


@emulated
@every_architecture
def test_explain(architecture: str) -> None:
    a, b = jnp.ones((4096, 64), jnp.bfloat16), jnp.ones((64, 4096), jnp.bfloat16)
    run = functools.partial(jxt.matmul, implementation=architecture)
    found = jxt.explain(jax.grad(lambda a, b: run(a, b).astype(jnp.float32).sum(), (0, 1)), a, b).calls
    assert [(c.direction, c.target, c.implementation) for c in found] == [
        ("forward", "cpu", architecture), ("backward", "cpu", architecture), ("backward", "cpu", architecture),
    ]  # fmt: skip
    config = found[0].config
    assert (config["kernel"], config["architecture"], config["emulated"]) == ("matmul_256x256", architecture, True)
    assert (config["tiles"], config["blocks_sharing_k"]) == (256, 1)
    # Chunks that fill the 38 compute units of a die, or the 32.
    assert config["chunk"] == {"gfx942": 38, "gfx950": 32}[architecture]
    (loose,) = jxt.explain(run, a[:, :7], b[:7]).calls
    assert (loose.config["kernel"], loose.config["because"]) == (
        "matmul_loose", "a's rows have 14 bytes: no multiple of 16",
    )  # fmt: skip
    (eight,) = jxt.explain(run, a.astype(ml_dtypes.float8_e5m2), b.astype(ml_dtypes.float8_e4m3fn)).calls
    assert eight.config["because"].startswith("eight bits need k contiguous in both operands")
