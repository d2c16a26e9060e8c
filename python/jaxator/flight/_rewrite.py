"""Control flow of a function as calls, so that conditions and bounds may be of run time.

An `if` becomes `_flight.if_(test, then, else, state)`, where `then` and `else` are functions in the place and the state gets
and sets the variables that they assign. What follows an `if` with a return, break or continue in it goes into a function of
its own, which the branches that fall through call last: so a jump is always the last thing that a branch does, and becomes
what it returns. The user's function is not touched: this works on a copy of its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from jaxator.flight import _names
from jaxator.flight._expressions import RUNTIME, Expressions, Unsupported, call, load, name_constant, place, store_name

Block = list[ast.stmt]


class Rewriter:
    """Of one function."""

    def __init__(self, parameters: list[str], body: Sequence[ast.stmt], count: list[int]):
        self._globals = _names.declared(body, ast.Global)
        self._outer = _names.declared(body, ast.Nonlocal)
        local = (_names.bound(body) | set(parameters)) - self._globals - self._outer
        self._locals = local
        self._parameters = parameters
        self._body = list(body)
        self._loads = _names.loads(body)
        self._count = count  # shared with nested functions: names are unique
        self._states: set[str] = set()
        self._expressions = Expressions(self)
        self._depth = 0
        self._loops = 0
        self._fixed = 0  # inside `with` and `try`

    def function(self, body: Sequence[ast.stmt]) -> Block:
        lowered = self._lower(list(body), None)
        unset = [name for name in sorted(self._states) if name not in self._parameters and name in self._locals]
        first = [self._at(store_name(name, call("unset", name_constant(name))), body[0]) for name in unset]
        keep = [s for s in body if isinstance(s, ast.Global | ast.Nonlocal)]
        return [*keep, *first, *lowered] or [ast.Pass()]

    def nested(self, parameters: list[str], body: Sequence[ast.stmt]) -> Block:
        return Rewriter(parameters, body, self._count).function(body)

    def is_variable(self, name: str) -> bool:
        return name in self._locals or name in self._outer

    # ---- blocks

    def _lower(self, statements: Block, tail: str | None) -> Block:
        """`tail` is the function with what follows the block."""
        result: Block = []
        for i, statement in enumerate(statements):
            if isinstance(statement, ast.If) and _names.jumps([statement], ast.Return, ast.Break, ast.Continue):
                return result + self._jumping_if(statement, statements[i + 1 :], tail)
            result += self._statement(statement)
            if isinstance(statement, ast.Return | ast.Break | ast.Continue):
                return result
        if tail:
            result.append(ast.Return(ast.Call(load(tail), [], [])))
        return result

    def _statement(self, node: ast.stmt) -> Block:
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        result = method(node) if method else self._simple(node)
        for made in result:
            self._at(made, node)
        return result

    def _at(self, made: ast.stmt, node: ast.AST) -> ast.stmt:
        place(made, node)
        return made

    def _simple(self, node: ast.stmt) -> Block:
        return [self._expressions.visit(node)]

    def _global(self, node: ast.stmt) -> Block:
        return []

    _nonlocal = _global

    # ---- jumps

    def _jumping_if(self, node: ast.If, rest: Block, tail: str | None) -> Block:
        if self._fixed:
            raise Unsupported(node, "return, break or continue under an `if` inside `with` or `try`")
        result: Block = []
        test = self._expressions.visit(node.test)
        if rest:
            after = self._new("rest")
            result.append(self._part(after, [], rest, tail, rest[0]))
            tail = after
        # The branches run all that comes after, so every variable may be set in them.
        result += self._if(node, test, tail, self._body, bool(self._loops))
        outcome = result.pop()
        assert isinstance(outcome, ast.Expr)
        result.append(ast.Return(outcome.value if self._depth else call("finish", outcome.value)))
        for made in result:
            self._at(made, node)
        return result

    def _return(self, node: ast.Return) -> Block:
        value = self._expressions.visit(node.value) if node.value else ast.Constant(None)
        return [ast.Return(call("Returning", value) if self._depth else value)]

    def _break(self, node: ast.Break) -> Block:
        return [ast.Return(ast.Attribute(load(RUNTIME), "BREAK", ast.Load()))]

    def _continue(self, node: ast.Continue) -> Block:
        return [ast.Return(ast.Attribute(load(RUNTIME), "CONTINUE", ast.Load()))]

    # ---- branches and loops

    def _if(
        self, node: ast.If, test: ast.expr | None = None, tail: str | None = None, region: Any = None, live: Any = None
    ) -> Block:
        """With `region`, all that the branches run; with `live` whether what they set is needed afterwards."""
        jumping = region is not None
        region = region or [node]
        test = test or self._expressions.visit(node.test)
        then, otherwise = self._new("then"), self._new("else")
        result: Block = [self._part(then, [], node.body, tail, node), self._part(otherwise, [], node.orelse, tail, node)]
        wanted = self._live(region) if not jumping else (None if live else set())
        setter, state = self._state(region, wanted, node)
        result += setter
        in_loop = ast.Constant(bool(self._loops))
        result.append(ast.Expr(call("if_", test, load(then), load(otherwise), state, in_loop)))
        return result

    def _for(self, node: ast.For) -> Block:
        iterable = node.iter
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id == "range":
            arguments = [self._expressions.visit(x) for x in iterable.args]
            source = call("loop_range", load("range"), *arguments)
            if iterable.keywords or any(isinstance(x, ast.Starred) for x in iterable.args):
                source = self._expressions.visit(iterable)
        else:
            source = self._expressions.visit(iterable)
        item = self._new("item")
        body = self._new("body")
        target = ast.Assign([node.target], load(item))
        self._at(target, node.target)
        self._loops += 1
        made = self._part(body, [item], [target, *node.body], None, node)
        self._loops -= 1
        return self._loop(node, made, "for_", [source, load(body)])

    def _while(self, node: ast.While) -> Block:
        body = self._new("body")
        test = self._expressions.delayed(node.test)
        self._loops += 1
        made = self._part(body, [], node.body, None, node)
        self._loops -= 1
        return self._loop(node, made, "while_", [test, load(body)])

    def _loop(self, node: ast.For | ast.While, body: ast.stmt, function: str, arguments: list[ast.expr]) -> Block:
        if node.orelse and _names.jumps(node.body, ast.Break):
            raise Unsupported(node, "`else` of a loop with a break")
        setter, state = self._state([node], None, node)
        result: Block = [body, *setter]
        outcome = call(function, *arguments, state)
        if _names.jumps(node.body, ast.Return):
            name = self._new("outcome")
            finish: ast.expr = load(name) if self._depth else call("finish", load(name))
            result.append(store_name(name, outcome))
            test = ast.Compare(load(name), [ast.IsNot()], [ast.Constant(None)])
            result.append(ast.If(test, [ast.Return(finish)], []))
        else:
            result.append(ast.Expr(outcome))
        for made in result:
            self._at(made, node)
        return result + self._lower(node.orelse, None) if node.orelse else result

    def _part(self, name: str, parameters: list[str], body: Block, tail: str | None, node: ast.AST) -> ast.stmt:
        """A function in the place that runs a block."""
        self._depth += 1
        loops = self._loops
        lowered = self._lower(list(body), tail)
        self._loops = loops
        self._depth -= 1
        names = _names.bound(body) | set(_names.assigned(body))
        declarations: Block = []
        for kind, chosen in ((ast.Global, names & self._globals), (ast.Nonlocal, names & (self._locals | self._outer))):
            if chosen:
                declarations.append(kind(sorted(chosen)))
        arguments = ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, [])
        made = ast.FunctionDef(name, arguments, [*declarations, *lowered] or [ast.Pass()], [], None)
        if "type_params" in ast.FunctionDef._fields:
            made.type_params = []
        return self._at(made, node)

    def _state(self, region: Block, live: set[str] | None, node: ast.AST) -> tuple[Block, ast.expr]:
        """What gets and sets the variables of a region: those that it sets, then those that it only reads (they may hold
        lists)."""
        read = _names.loads(region)
        changed = [name for name in _names.assigned(region) if self.is_variable(name)]
        others = sorted(name for name in read if name in self._locals and name not in changed)
        names = changed + others
        if not names:
            return [], ast.Constant(None)
        self._states |= set(names)
        setter, values = self._new("set"), self._new("values")
        arguments = ast.arguments([], [ast.arg(values)], None, [], [], None, [])
        target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        declaration = ast.Nonlocal(names)
        made = ast.FunctionDef(setter, arguments, [declaration, ast.Assign([target], load(values))], [], None)
        if "type_params" in ast.FunctionDef._fields:
            made.type_params = []
        getter = self._expressions.part(ast.Tuple([load(name) for name in names], ast.Load()))
        needed = ast.Constant(None) if live is None else ast.Tuple([ast.Constant(name) for name in sorted(live)], ast.Load())
        shown = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
        state = call("State", shown, ast.Constant(len(changed)), needed, getter, load(setter))
        return [self._at(made, node)], state

    def _live(self, region: Block) -> set[str] | None:
        """Variables whose values may be needed after a branch; None for all."""
        if self._loops or self._outer:
            return None
        inner = _names.loads(region)
        return {name for name, count in self._loads.items() if count > inner.get(name, 0)}

    def _new(self, kind: str) -> str:
        self._count[0] += 1
        return f"_flight_{kind}_{self._count[0]}"

    # ---- other statements

    def _with(self, node: ast.With) -> Block:
        node.items = [self._expressions.visit(item) for item in node.items]
        node.body = self._inline(node.body)
        return [node]

    def _try(self, node: ast.Try) -> Block:
        node.body = self._inline(node.body)
        for handler in node.handlers:
            handler.body = self._inline(handler.body)
        node.orelse = self._inline(node.orelse) if node.orelse else []
        node.finalbody = self._inline(node.finalbody) if node.finalbody else []
        return [node]

    def _match(self, node: ast.Match) -> Block:
        node.subject = self._expressions.visit(node.subject)
        for case in node.cases:
            case.guard = self._expressions.visit(case.guard) if case.guard else None
            case.body = self._inline(case.body)
        return [node]

    def _inline(self, body: Block) -> Block:
        self._fixed += 1
        lowered = self._lower(body, None)
        self._fixed -= 1
        return lowered or [ast.Pass()]

    def _functiondef(self, node: ast.FunctionDef) -> Block:
        if not _names.is_generator(node.body):
            node.body = self.nested(_names.parameters(node.args), node.body)
        return [node]

    def _asyncfunctiondef(self, node: ast.AsyncFunctionDef) -> Block:
        return [node]

    def _classdef(self, node: ast.ClassDef) -> Block:
        return [node]

    def _assign(self, node: ast.Assign) -> Block:
        value = self._expressions.visit(node.value)
        if all(map(_is_names, node.targets)):
            return [ast.Assign(node.targets, value)]
        temporary = self._new("value")
        result: Block = [store_name(temporary, value)]
        for target in node.targets:
            result += self._store(target, load(temporary))
        return result

    def _annassign(self, node: ast.AnnAssign) -> Block:
        if node.value is None:
            return [ast.Pass()]
        return self._store(node.target, self._expressions.visit(node.value))

    def _augassign(self, node: ast.AugAssign) -> Block:
        value = self._expressions.visit(node.value)
        target = node.target
        if isinstance(target, ast.Name):
            return [ast.AugAssign(target, node.op, value)]
        result: Block = []
        if isinstance(target, ast.Subscript):
            at = self._new("place")
            result.append(store_name(at, self._expressions.visit(target.slice)))
            target = ast.Subscript(target.value, load(at), ast.Store())
            old: ast.expr = ast.Subscript(self._load_of(target.value), load(at), ast.Load())
        else:
            old = ast.Attribute(self._load_of(target.value), target.attr, ast.Load())
        return result + self._store(target, ast.BinOp(old, node.op, value), visited=True)

    def _load_of(self, node: ast.expr) -> ast.expr:
        return self._expressions.visit(self._expressions.as_load(node))

    def _store(self, target: ast.expr, value: ast.expr, visited: bool = False) -> Block:
        """target = value, where assigning to a part of a variable gives the variable a new value."""
        if isinstance(target, ast.Name):
            return [ast.Assign([target], value)]
        if isinstance(target, ast.Tuple | ast.List):
            return self._store_several(target, value)
        if isinstance(target, ast.Subscript):
            at = target.slice if visited else self._expressions.visit(target.slice)
            changed = call("set_item", self._load_of(target.value), at, value)
        elif isinstance(target, ast.Attribute):
            changed = call("set_attribute", self._load_of(target.value), name_constant(target.attr), value)
        else:
            raise Unsupported(target, "an assignment to this")
        base = target.value
        if isinstance(base, ast.Name):
            if self.is_variable(base.id):
                return [store_name(base.id, changed)]
            return [ast.Expr(call("same", load(base.id), changed, name_constant(base.id)))]
        if isinstance(base, ast.Subscript | ast.Attribute):
            return self._store(base, changed)
        return [ast.Expr(changed)]

    def _store_several(self, target: ast.Tuple | ast.List, value: ast.expr) -> Block:
        parts: list[ast.expr] = []
        later: Block = []
        for part in target.elts:
            inner = part.value if isinstance(part, ast.Starred) else part
            if isinstance(inner, ast.Name):
                parts.append(part)
                continue
            name = self._new("part")
            stored = ast.Name(name, ast.Store())
            parts.append(ast.Starred(stored, ast.Store()) if isinstance(part, ast.Starred) else stored)
            later += self._store(inner, load(name))
        return [ast.Assign([ast.Tuple(parts, ast.Store())], value), *later]


def _is_names(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_names, target.elts))
    if isinstance(target, ast.Starred):
        return _is_names(target.value)
    return isinstance(target, ast.Name)
