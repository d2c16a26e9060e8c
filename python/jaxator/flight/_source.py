"""The source of a function, checked to be what was imported."""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import types
from collections.abc import Iterator
from typing import Any

from jaxator.flight._errors import FlightError

_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0
)
Definition = ast.FunctionDef | ast.Lambda


class NoSourceError(Exception):
    """The function has no source that could be read."""


def definition(function: types.FunctionType) -> Definition:
    """The syntax tree of a function, its own copy. Raises FlightError where the file is not the one that was imported."""
    code = function.__code__
    for attempt in range(2):
        text = "".join(linecache.getlines(code.co_filename, function.__globals__))
        if not text:
            raise NoSourceError(f"the source of {code.co_name} ({code.co_filename}) cannot be read")
        try:
            tree, codes = _parse(code.co_filename, text, code.co_flags & _FUTURE)
        except SyntaxError:
            tree, codes = ast.Module([], []), frozenset()
        if code in codes or _is_pytests(code):
            found = [node for node in ast.walk(tree) if _is_definition(node, code)]
            if found:
                return _copy(min(found, key=_length))
        if attempt == 0:
            linecache.checkcache(code.co_filename)
    raise FlightError(
        f"the source of {code.co_name} has been changed since it was imported ({code.co_filename}, line "
        f"{code.co_firstlineno}): "
        "import it again, so that what is compiled is what Python runs"
    )


@functools.lru_cache(64)
def _parse(filename: str, text: str, flags: int) -> tuple[ast.Module, frozenset[types.CodeType]]:
    """The tree of a file, and the code of every function in it."""
    tree = compile(text, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    return tree, frozenset(_codes(compile(text, filename, "exec", flags, dont_inherit=True)))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _is_pytests(code: types.CodeType) -> bool:
    """pytest rewrites assert statements when it imports a test, so such a function differs from its source."""
    return "@pytest_ar" in code.co_names


def _is_definition(node: ast.AST, code: types.CodeType) -> bool:
    if isinstance(node, ast.FunctionDef):
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        return node.name == code.co_name and first == code.co_firstlineno
    if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
        return all(_is_inside(place, node) for place in code.co_positions())
    return False


def _is_inside(place: tuple[int | None, ...], node: ast.Lambda) -> bool:
    """An instruction's place, if it has one: the one that enters the function begins at column 0."""
    line, end_line, column, end_column = place
    if line is None or end_line is None or column is None or end_column is None or column == end_column == 0:
        return True
    first, last = (node.lineno, node.col_offset), (node.end_lineno or line, node.end_col_offset or end_column)
    return first <= (line, column) and (end_line, end_column) <= last


def _length(node: ast.AST) -> tuple[int, int]:
    """The lambda inside another one has all its instructions inside both."""
    assert isinstance(node, ast.FunctionDef | ast.Lambda)
    return (node.end_lineno or 0) - node.lineno, (node.end_col_offset or 0) - node.col_offset


def _copy(node: Any) -> Definition:
    """The rewriter changes trees in place."""
    if isinstance(node, ast.AST):
        fields = {name: _copy(value) for name, value in ast.iter_fields(node)}
        return ast.copy_location(type(node)(**fields), node)  # type: ignore[return-value]
    return [_copy(x) for x in node] if isinstance(node, list) else node  # type: ignore[return-value]
