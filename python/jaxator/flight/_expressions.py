"""Expressions whose meaning in Python asks for the truth of a value: and, or, not, a if c else b, chained comparisons. Calls
go through the tracer too, so that helpers are rewritten as well."""

from __future__ import annotations

import ast
from typing import Any

from jaxator.flight import _names

RUNTIME = "_flight"
# What looks at the frame of its caller.
_LEFT_ALONE = {"super", "locals", "globals", "vars", "eval", "exec", "dir", "__import__"}


class Unsupported(Exception):  # noqa: N818 not shown to users as it is
    """The function has something that cannot be rewritten."""

    def __init__(self, node: ast.AST, what: str):
        super().__init__(what)
        self.line = getattr(node, "lineno", 0)
        self.column = getattr(node, "col_offset", 0) + 1
        self.what = what


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def name_constant(name: str) -> ast.Constant:
    return ast.Constant(name)


def store_name(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def call(function: str, *arguments: ast.expr) -> ast.Call:
    """Of a function of _control.py."""
    return ast.Call(ast.Attribute(load(RUNTIME), function, ast.Load()), list(arguments), [])


def place(made: ast.AST, node: ast.AST) -> None:
    """New nodes get the place of the one that they stand for: its first line, for Python moves a call over several lines to
    where the name of its method ends."""
    line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
    end = node.end_col_offset if node.end_lineno == line else column + 1  # type: ignore[attr-defined]
    for part in ast.walk(made):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            part.lineno, part.col_offset, part.end_lineno, part.end_col_offset = line, column, line, end  # type: ignore[attr-defined]


class Expressions(ast.NodeTransformer):
    def __init__(self, rewriter: Any):
        self._rewriter = rewriter

    def part(self, value: ast.expr) -> ast.Lambda:
        """A function in the place that gives the value. Its parameter tells it from a lambda of the user's."""
        for node in _names.inside([value]):
            if isinstance(node, ast.NamedExpr):
                raise Unsupported(node, "an assignment `:=` in a part of an expression that may not be evaluated")
        arguments = ast.arguments([], [], ast.arg("_flight_"), [], [], None, [])
        return ast.Lambda(arguments, value)

    def delayed(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(self.part(self.visit(node)), node)

    def as_load(self, node: Any) -> Any:
        """A copy of a target, to be read."""
        if isinstance(node, ast.AST):
            fields = {name: self.as_load(value) for name, value in ast.iter_fields(node)}
            if "ctx" in fields:
                fields["ctx"] = ast.Load()
            return ast.copy_location(type(node)(**fields), node)
        return [self.as_load(x) for x in node] if isinstance(node, list) else node

    def _made(self, made: ast.expr, node: ast.expr) -> ast.expr:
        place(made, node)
        return made

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *others = node.values
        return self._made(call(name, self.visit(first), *map(self.delayed, others)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        made = call("not_", operand) if isinstance(node.op, ast.Not) else ast.UnaryOp(node.op, operand)
        return self._made(made, node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return self._made(call("choose", self.visit(node.test), self.delayed(node.body), self.delayed(node.orelse)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            return self.generic_visit(node)  # type: ignore[return-value]
        names = ast.Tuple([name_constant(type(op).__name__) for op in node.ops], ast.Load())
        operands = map(self.delayed, node.comparators)
        return self._made(call("chain", self.visit(node.left), names, *operands), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in _LEFT_ALONE:
            return self.generic_visit(node)  # type: ignore[return-value]
        made = call("call", self.visit(node.func))
        made.args += [self.visit(x) for x in node.args]
        made.keywords = [ast.keyword(x.arg, self.visit(x.value)) for x in node.keywords]
        return self._made(made, node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        if _names.is_generator([node.body]):
            return node
        node.body = Expressions(self._rewriter).visit(node.body)
        return node
