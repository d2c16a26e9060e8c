"""The Python of docs/flight: each page as a module."""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import re
import sys
import tempfile
import types

DOCS = pathlib.Path(__file__).parents[3] / "docs" / "flight"
LADDER = ("vector-add", "transpose", "softmax", "rms-norm", "gemm", "gemm-swiglu", "grouped-gemm")
_FOLDER = tempfile.TemporaryDirectory(prefix="flight_pages_")


def blocks(page: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text()
    return [
        block
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        if not block.startswith(">>>")
    ]


def _module(name: str, source: str) -> types.ModuleType:
    path = pathlib.Path(_FOLDER.name, f"{name}.py")
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def kernels(page: str) -> types.ModuleType:
    """What the page defines, without its use from JAX."""
    return _module("page_" + page.replace("-", "_"), "\n\n".join(b for b in blocks(page) if "flight.call(" not in b))


def whole(page: str) -> types.ModuleType:
    """Runs everything."""
    return _module("whole_" + page.replace("-", "_"), "\n\n".join(blocks(page)))
