"""Which variables a piece of a function's syntax tree sets and reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of the same scope, the nodes themselves included. Of a nested function, only that it is one."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _SCOPES):
            stack += getattr(node, "decorator_list", [])
            continue
        stack += ast.iter_child_nodes(node)


def _comprehension_names(nodes: Iterable[ast.AST]) -> set[int]:
    """Identities of the name nodes that a comprehension binds for itself."""
    return {
        id(name)
        for node in nodes
        if isinstance(node, _COMPREHENSIONS)
        for generator in node.generators
        for name in ast.walk(generator.target)
    }


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """Variables that are set, in order of appearance, each once. `a[i] = x` and `a.b = x` set a."""
    nodes = list(nodes)
    everything = list(inside(nodes))
    own = _comprehension_names(everything)
    found: list[tuple[int, int, str]] = []
    for node in everything:
        if id(node) in own:
            continue
        place = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        for name in _set_by(node):
            found.append((*place, name))
    return list(dict.fromkeys(name for *_, name in sorted(found)))


def _set_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        return [node.id]
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        root: ast.expr = node
        while isinstance(root, ast.Subscript | ast.Attribute):
            root = root.value
        return [root.id] if isinstance(root, ast.Name) else []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        return [node.name]
    if isinstance(node, ast.MatchMapping) and node.rest:
        return [node.rest]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    return []


def bound(nodes: Iterable[ast.AST]) -> set[str]:
    """Variables that become local: as `assigned`, but `a[i] = x` leaves a what it is."""
    nodes = list(nodes)
    everything = list(inside(nodes))
    own = _comprehension_names(everything)
    return {
        name
        for node in everything
        if id(node) not in own and not isinstance(node, ast.Subscript | ast.Attribute)
        for name in _set_by(node)
    }


def loads(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """How often each name is read, nested functions included."""
    counts: dict[str, int] = {}
    for root in nodes:
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                counts[node.id] = counts.get(node.id, 0) + 1
    return counts


def parameters(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in [*every, arguments.vararg, arguments.kwarg] if argument is not None]


def declared(nodes: Iterable[ast.AST], kind: type[ast.Global | ast.Nonlocal]) -> set[str]:
    return {name for node in inside(nodes) if isinstance(node, kind) for name in node.names}


def jumps(nodes: Iterable[ast.AST], *kinds: type) -> bool:
    """A statement of these kinds is there: return anywhere, break and continue only of a loop outside."""
    for node in nodes:
        if isinstance(node, kinds):
            return True
        if isinstance(node, _SCOPES):
            continue
        inner = (ast.Return,) if isinstance(node, ast.For | ast.While) else kinds
        wanted = tuple(kind for kind in inner if kind in kinds)
        parts: list[ast.AST] = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.For | ast.While):
            if jumps(node.orelse, *kinds):
                return True
            parts = list(node.body)
        if wanted and jumps(parts, *wanted):
            return True
    return False


def is_generator(nodes: Iterable[ast.AST]) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom | ast.Await) for node in inside(nodes))
