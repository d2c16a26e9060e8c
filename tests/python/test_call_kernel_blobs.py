"""Binaries of call_kernel: what they are, which one serves a program, and every argument that breaks a rule."""

import hashlib
import re
import shutil
import struct
import subprocess

import call_kernel_cases as cases
import jax
import numpy as np
import pytest
from call_kernel_cases import KERNELS, SAXPY_PTX, SOFTMAX_PTX, normal, on_cpu, saxpy  # noqa: F401

import jaxator as jxt
from jaxator import _blob

S = jax.ShapeDtypeStruct
X = normal(6)


def elf(machine: int, flags: int = 0, version: int = 8, size: int = 64) -> bytes:
    header = bytearray(size)
    header[:9] = b"\x7fELF\x02\x01\x01\x41" + bytes([version])
    struct.pack_into("<HH", header, 16, 3, machine)
    struct.pack_into("<I", header, 48, flags)
    return bytes(header)


def ptx(target: str) -> bytes:
    return SAXPY_PTX.replace(b"sm_80", target.encode())


CUBIN, OLD_CUBIN, HSACO = elf(190, 0x6005A04), elf(190, 0x5A055A, version=7), elf(224, 0x54F)

KINDS = {
    "PTX": (SAXPY_PTX, ("PTX", "cuda", "sm_80")),
    "PTX of a compiler": (SOFTMAX_PTX, ("PTX", "cuda", "sm_90a")),
    "cubin": (CUBIN, ("cubin", "cuda", "sm_90")),
    "cubin of CUDA 12": (OLD_CUBIN, ("cubin", "cuda", "sm_90")),
    "cubin that does not say": (elf(190), ("cubin", "cuda", None)),
    "HSACO": (HSACO, ("HSACO", "rocm", "gfx950")),
    "other HSACO": (elf(224, 0x99), ("HSACO", "rocm", None)),
    "shared object": (elf(62), ("shared object", "cpu", "x86-64")),
}


@pytest.mark.parametrize("contents, want", KINDS.values(), ids=KINDS)
def test_binaries_say_what_they_are(contents, want):
    found = _blob.identify(contents)
    assert (found.kind, found.platform, found.architecture) == want


RUNS = [
    (ptx("sm_80"), "sm_80 sm_86 sm_90a sm_100a", "sm_75"),
    (ptx("sm_90a"), "sm_90a", "sm_80 sm_100a"),
    (ptx("sm_100f"), "sm_100a sm_103a", "sm_90a sm_120a"),
    (CUBIN, "sm_90a", "sm_80 sm_100a"),
    (elf(190, 0x5000), "sm_80 sm_86 sm_89", "sm_75 sm_90a"),
    (HSACO, "gfx950", "gfx942"),
    (elf(224, 0x99), "gfx950 gfx942", ""),
]


@pytest.mark.parametrize("contents, able, unable", RUNS)
def test_where_a_binary_runs(contents, able, unable):
    blob = _blob.identify(contents)
    assert all(blob.runs_on(name) for name in able.split()) and not any(blob.runs_on(name) for name in unable.split())


# blob, jaxator.target -> the binary that a program for CUDA carries, or the reason why there is none
CHOICES = {
    "the only one": (ptx("sm_90a"), None, ptx("sm_90a")),
    "by name": ({"sm_80": ptx("sm_80"), "sm_90a": ptx("sm_90a")}, "sm_90a", ptx("sm_90a")),
    "an earlier one": ({"sm_70": ptx("sm_70"), "sm_80": ptx("sm_80")}, "sm_90a", ptx("sm_80")),
    "named before fitting": ({"sm_90a": ptx("sm_70"), "sm_80": ptx("sm_80")}, "sm_90a", ptx("sm_70")),
    "a later one": (ptx("sm_100a"), "sm_90a", "architecture=sm_90a: blob has sm_100a"),
    "unclear": ({"sm_80": ptx("sm_80"), "sm_90a": ptx("sm_90a")}, None, "blob has sm_80, sm_90a: say which"),
    "none": (HSACO, None, "blob has no kernel for it"),
}


@pytest.mark.parametrize("blob, target, want", CHOICES.values(), ids=CHOICES)
def test_which_binary_serves_a_program(blob, target, want, monkeypatch):
    monkeypatch.setattr(jxt._targets, "local_architecture", lambda platform: None)
    entries = _blob.parse(blob)
    if target is None:
        chosen, refused = _blob.choose(entries)
    else:
        with jxt.target(target):
            chosen, refused = _blob.choose(entries)
    if isinstance(want, bytes):
        assert chosen["cuda"].contents == want
    else:
        assert want in refused["cuda"][0] and "cuda" not in chosen


def lower(blob, *platforms):
    return jax.jit(lambda x: saxpy(1.0, x, x, blob=blob)).trace(X).lower(lowering_platforms=platforms)


def test_programs_carry_the_binary_of_their_platform():
    blob = {"x86-64": elf(62), "sm_90a": SAXPY_PTX, "gfx950": HSACO}
    for platform, contents in (("cpu", elf(62)), ("cuda", SAXPY_PTX), ("rocm", HSACO)):
        text = lower(blob, platform).as_text()
        carried = {c: _blob.identify(c).text in text for c in blob.values()}
        assert carried == {c: c == contents for c in blob.values()}
    text = lower(blob, "cpu", "cuda").as_text()
    assert text.count("@jaxator.call_kernel") == 2


def test_what_a_program_tells_the_handler():
    def f():
        out = S((8, 8), np.uint8)
        scalars = (True, -7, 2**40, 1.5, np.float64(1), np.int16(-3))
        geometry = dict(grid=(2, 4), block=64, cluster=2, shared_bytes=48)
        return jxt.call_kernel(SAXPY_PTX, "saxpy", out_shape=out, scalars=scalars, **geometry)

    text = jax.jit(f).trace().lower(lowering_platforms=("cuda",)).as_text()
    for attribute in (
        f'hash = "{hashlib.sha256(SAXPY_PTX).hexdigest()}"',
        'name = "saxpy"',
        "grid = dense<[2, 4, 1]> : tensor<3xi64>",
        "block = dense<[64, 1, 1]> : tensor<3xi64>",
        "cluster = dense<[2, 1, 1]> : tensor<3xi64>",
        "shared_bytes = 48 : i64",
        f"scalars = dense<[1, {2**32 - 7}, {2**40}, {0x3FC00000}, {0x3FF << 52}, {2**16 - 3}]> : tensor<6xi64>",
        "scalar_bytes = dense<[1, 4, 8, 4, 8, 2]> : tensor<6xi64>",
    ):
        assert attribute in text, attribute


def test_a_platform_without_a_binary_is_an_error_of_lowering():
    for platform, reason in (("cuda", "blob has no kernel for it"), ("tpu", "blob has kernels for cpu, rocm")):
        with pytest.raises(
            jxt.UnsupportedError, match=f"call_kernel has no implementation for this call:\n  {platform}: {reason}"
        ):
            lower({"x86-64": elf(62), "gfx950": HSACO}, platform)
    with jxt.target("sm_90a"), pytest.raises(jxt.UnsupportedError, match="cuda: architecture=sm_90a: blob has sm_100a"):
        lower(ptx("sm_100a"), "cuda")
    with pytest.raises(jxt.UnsupportedError, match="cuda: blob has no kernel for it") as caught:
        lower({"x86-64": elf(62)}, "cpu", "cuda")
    assert list(caught.value.reasons) == ["cuda"]


def test_named_kernels_of_ops_are_refused_in_the_same_words():
    f = jax.jit(lambda x: jxt.rms_norm(x, implementation="cpu"))
    with pytest.raises(
        jxt.UnsupportedError,
        match="rms_norm has no implementation for this call:\n  cuda: implementation='cpu' was named: no kernels of it",
    ):
        f.trace(X).lower(lowering_platforms=("cuda",))


# ---- errors when the program is traced -------------------------------------------------------------------------------

GOOD = dict(
    blob=SAXPY_PTX, name="saxpy", operands=(X, X), out_shape=S((6,), np.float32), grid=1, block=128, scalars=(6, 1.0)
)
BIG = S((6,), np.float32)

BAD = {
    "no binary": (dict(blob=b"GIF89a"), ValueError, r"blob: 6 bytes that start with b'GIF89a': must be PTX text, a cubin"),
    "empty binary": (dict(blob=b""), ValueError, "blob: 0 bytes"),
    "text": (dict(blob=SAXPY_PTX.decode()), TypeError, "blob=str: must be bytes, or a mapping"),
    "nothing": (dict(blob={}), TypeError, "blob=dict: must be bytes"),
    "machine": (dict(blob=elf(40)), ValueError, "an ELF file for machine 40"),
    "short ELF": (dict(blob=b"\x7fELF"), ValueError, "4 bytes of an ELF file"),
    "key": (dict(blob={"cuda": SAXPY_PTX}), ValueError, "target='cuda': must be a GPU architecture"),
    "value": (dict(blob={"sm_90a": "text"}), TypeError, r"blob\['sm_90a'\]=str: must be bytes"),
    "wrong key": (dict(blob={"gfx950": SAXPY_PTX}), ValueError, r"blob\['gfx950'\] is PTX: that runs on cuda, not on rocm"),
    "cubin for the CPU": (
        dict(blob={"x86-64": CUBIN}),
        ValueError,
        r"blob\['x86-64'\] is a cubin: that runs on cuda, not on cpu",
    ),
    "name": (dict(name=""), ValueError, "name='': must be the name of a kernel"),
    "no result": (dict(out_shape=()), TypeError, r"out_shape=\(\): must be a jax.ShapeDtypeStruct"),
    "result": (dict(out_shape=3), TypeError, "out_shape=3: must be a jax.ShapeDtypeStruct"),
    "zero grid": (dict(grid=0), ValueError, r"grid\[0\]=0: must be from 1 to 2147483647"),
    "grid y": (dict(grid=(1, 65536)), ValueError, r"grid\[1\]=65536: must be from 1 to 65535"),
    "grid rank": (dict(grid=(1, 1, 1, 1)), ValueError, r"grid=\(1, 1, 1, 1\): must have one to three numbers"),
    "grid type": (dict(grid=1.5), TypeError, "grid=1.5: must be an int"),
    "grid function": (dict(grid=lambda o, r: "x"), TypeError, "grid='x': must be an int"),
    "block": (dict(block=(32, 33)), ValueError, r"block=\(32, 33, 1\): 1056 threads, must be at most 1024"),
    "block z": (dict(block=(1, 1, 65)), ValueError, r"block\[2\]=65: must be from 1 to 64"),
    "cluster": (dict(grid=16, cluster=16), ValueError, r"cluster\[0\]=16: must be from 1 to 8"),
    "big cluster": (dict(grid=(4, 4), cluster=(4, 4)), ValueError, r"cluster=\(4, 4, 1\): 16 blocks, must be at most 8"),
    "grid and cluster": (
        dict(grid=(6, 3), cluster=(2, 2)),
        ValueError,
        r"grid\[1\]=3: must be a multiple of cluster\[1\]=2",
    ),
    "shared": (dict(shared_bytes=-1), ValueError, "shared_bytes=-1: must be int32 and not negative"),
    "shared type": (dict(shared_bytes="1 KB"), TypeError, "shared_bytes='1 KB': must be an int"),
    "scalar array": (dict(scalars=(jax.numpy.float32(1),)), TypeError, r"scalars\[0\] is an array: pass it as an operand"),
    "scalar vector": (dict(scalars=(6, np.ones(2))), TypeError, r"scalars\[1\]=array\(\[1., 1.\]\): must be a bool, int"),
    "scalar text": (dict(scalars=("a",)), TypeError, r"scalars\[0\]='a': must be a bool, int"),
    "scalar size": (dict(scalars=(2**63,)), ValueError, r"scalars\[0\]=9223372036854775808: must fit in int64"),
    "arguments": (dict(scalars=(0,) * 254), ValueError, "257 operands, results and scalars: must be at most 256"),
    "operand alias": (dict(input_output_aliases={2: 0}), ValueError, r"aliases=\{2: 0\}: 2 must be one of 2 operands"),
    "result alias": (dict(input_output_aliases={0: 1}), ValueError, r"aliases=\{0: 1\}: 1 must be one of 1 results"),
    "alias type": (
        dict(input_output_aliases={0: 0}, out_shape=S((6,), np.int32)),
        ValueError,
        r"operand 0 is float32\[6\], result 0 int32\[6\]: must be equal",
    ),
    "alias twice": (dict(input_output_aliases={0: 0, 1: 0}), ValueError, "a result shares memory with one operand at most"),
    "vmap method": (
        dict(vmap_method="vectorized"),
        ValueError,
        "vmap_method='vectorized': must be one of None, 'sequential'",
    ),
    "narrowed": (
        dict(operands=(np.ones(6), X)),
        TypeError,
        "operand 0 would become float32 from float64: enable jax_enable_x64",
    ),
}


@pytest.mark.parametrize("change, error, text", BAD.values(), ids=BAD)
def test_bad_arguments_are_named(change, error, text):
    arguments = {**GOOD, **change}
    blob, name, operands = (arguments.pop(key) for key in ("blob", "name", "operands"))
    with pytest.raises(error, match=text):
        jax.eval_shape(lambda: jxt.call_kernel(blob, name, *operands, **arguments))


def test_symbolic_shapes_are_refused():
    (n,) = jax.export.symbolic_shape("n")
    with pytest.raises(TypeError, match="grid=.*n.*: must be an int that is known when the program is traced"):
        jax.export.export(jax.jit(lambda x: saxpy(1.0, x, x, blob=SAXPY_PTX)), platforms=("cuda",))(S((n,), np.float32))


# ---- errors when the program runs ------------------------------------------------------------------------------------


def test_what_the_loader_refuses_is_an_error_of_the_program():
    whole = cases.shared_object()
    for blob, name, text in (
        (whole, "daxpy", 'the shared object has no function daxpy (it must be extern "C" and visible)'),
        (whole[: len(whole) // 2], "saxpy", "a damaged ELF file"),
        (elf(62), "saxpy", "a damaged ELF file: its program headers lie outside"),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=re.escape(text)):
            jxt.call_kernel(blob, name, X, X, out_shape=BIG, grid=1, block=1, scalars=(6, 1.0))
    saxpy(1.0, X, X)  # the process lives on


# ---- the kernels in this folder --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["probes.ptx", "saxpy.ptx", "softmax.ptx"])
def test_ptx_assembles(file, tmp_path):
    ptxas = shutil.which("ptxas", path="/usr/local/cuda/bin") or shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("no ptxas")
    command = [ptxas, "-arch=sm_90a", "--warning-as-error", str(KERNELS / file), "-o", str(tmp_path / "cubin")]
    subprocess.run(command, check=True)
    found = _blob.identify((tmp_path / "cubin").read_bytes())
    assert (found.kind, found.platform) == ("cubin", "cuda") and found.runs_on("sm_90a")


def test_ptx_is_what_its_source_compiles_to(tmp_path):
    compiler = shutil.which("clang++-22")
    if compiler is None:
        pytest.skip("no clang++-22")
    source = (KERNELS / "softmax.cpp").read_text()
    (command,) = re.findall(r"^//   (clang\+\+ .*\n(?://     .*\n)*)", source, re.MULTILINE)
    words = command.replace("//", "").split()
    assert words[-3:] == ["softmax.cpp", "-o", "softmax.ptx"]
    out = tmp_path / "softmax.ptx"
    subprocess.run([compiler, *words[1:-2], "-o", str(out)], check=True, cwd=KERNELS)
    assert out.read_text() == (KERNELS / "softmax.ptx").read_text(), f"compile it again: {' '.join(words)}"
