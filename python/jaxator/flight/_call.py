"""Calls of the user's functions while a kernel is traced: each is rewritten once (see _rewrite.py), and its copy is
called."""

from __future__ import annotations

import ast
import builtins
import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from jaxator.flight import _location, _names, _ops, _source, _state
from jaxator.flight._errors import FlightError
from jaxator.flight._expressions import RUNTIME, Unsupported
from jaxator.flight._rewrite import Rewriter
from jaxator.flight._value import Value

# Their functions know nothing of values of run time.
_LIBRARIES = sys.stdlib_module_names | {"jax", "jaxlib", "numpy", "ml_dtypes", "scipy", "pytest", "_pytest"}
_OUTER = "_flight_outer"
_COPY = "_flight_copy"

_lock = threading.Lock()
_rewritten: dict[int, tuple[types.CodeType, types.CodeType | None]] = {}
"""Code of a function -> code of its copy, None if it has no source. By identity: the first of the pair keeps that alive."""
_made: set[int] = set()
"""Code of copies."""


def check_source(function: types.FunctionType) -> None:
    """Rewrites a kernel when it is decorated, so that its source is read when it is what was imported."""
    try:
        _copy_of(function)
    except _source.NoSourceError as error:
        raise FlightError(f"{error}; a kernel's control flow is read from its source") from None


def rewritten(function: Any) -> Callable[..., Any]:
    """The function's copy. Bound methods stay bound."""
    if isinstance(function, types.MethodType):
        return types.MethodType(rewritten(function.__func__), function.__self__)
    code = _copy_of(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = types.CellType(_control())
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


@functools.cache
def _control() -> types.ModuleType:
    from jaxator.flight import _control

    return _control


def _copy_of(function: types.FunctionType) -> types.CodeType:
    code = function.__code__
    with _lock:
        found = _rewritten.get(id(code))
    if found is None:
        try:
            found = (code, _rewrite(function))
        except _source.NoSourceError:
            found = (code, None)
        with _lock:
            _rewritten[id(code)] = found
    if found[1] is None:
        raise _source.NoSourceError(f"the source of {code.co_name} ({code.co_filename}) cannot be read")
    return found[1]


def _rewrite(function: types.FunctionType) -> types.CodeType:
    node = _source.definition(function)
    code = function.__code__
    body: list[ast.stmt] = (
        node.body if isinstance(node, ast.FunctionDef) else [ast.copy_location(ast.Return(node.body), node.body)]
    )
    if _names.is_generator(body):
        raise Unsupported(node, "yield or await")
    try:
        lowered = Rewriter(_names.parameters(node.args), body, [0]).function(body)
    except Unsupported as error:
        frame = (code.co_name, code.co_filename, error.line, error.column)
        raise FlightError(f"{error.what} is not supported in a kernel or in a function that it calls", (frame,)) from None
    arguments = _without_values(node.args)
    # Under names that no source has: the user's would hide the function or the class from its own body (recursion, `Class.x`).
    copy = ast.FunctionDef(_COPY, arguments, lowered, [], None)
    outer_arguments = ast.arguments([], [ast.arg(name) for name in (*code.co_freevars, RUNTIME)], None, [], [], None, [])
    inner: list[ast.stmt] = [ast.copy_location(copy, node)]
    owner = code.co_qualname.split(".")[-2:-1]
    if owner and owner[0].isidentifier():  # of a method: names like __x are those of its class, whose leading _ do not count
        inner = [ast.ClassDef("___" + owner[0], [], [], inner, [])]
        if "type_params" in ast.ClassDef._fields:
            inner[0].type_params = []  # type: ignore[attr-defined]
    outer = ast.FunctionDef(_OUTER, outer_arguments, inner, [], None)
    for made in (copy, outer):
        if "type_params" in ast.FunctionDef._fields:
            made.type_params = []
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, node)], []))
    compiled = compile(module, code.co_filename, "exec", code.co_flags & _source._FUTURE, dont_inherit=True)
    return _register(_find(compiled, copy.name)).replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _without_values(arguments: ast.arguments) -> ast.arguments:
    """Defaults and annotations are the original's."""
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    nothing = ast.Constant(None)
    arguments.defaults = [nothing for _ in arguments.defaults]
    arguments.kw_defaults = [default and nothing for default in arguments.kw_defaults]
    return arguments


def _find(code: types.CodeType, name: str) -> types.CodeType:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name and code.co_name != "<module>":
                return constant
            found = _find(constant, name) if constant.co_name == _OUTER or code.co_name == _OUTER else None
            if found is not None:
                return found
    raise AssertionError(f"{name} is not in what was compiled")


def _register(code: types.CodeType) -> types.CodeType:
    """Functions inside a copy are done."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _made.add(id(constant))
            _register(constant)
    return code


def _is_library(function: types.FunctionType) -> bool:
    package = (function.__module__ or "").split(".")[0]
    return package in _LIBRARIES or _location.is_ours(function.__code__)


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs) in a kernel."""
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(plain, functools.partial):
        return call(plain.func, *plain.args, *args, **{**plain.keywords, **kwargs})
    if not isinstance(plain, types.FunctionType):
        method = vars(type(function)).get("__call__")
        if isinstance(method, types.FunctionType) and not _is_library(method):
            return call(types.MethodType(method, function), *args, **kwargs)
        return _BUILTINS.get(_key(function), function)(*args, **kwargs)
    if _is_library(plain):
        return function(*args, **kwargs)
    with _state.current(plain.__name__).calling(plain.__code__):
        if id(plain.__code__) in _made:
            return function(*args, **kwargs)
        try:
            copy = rewritten(function)
        except (_source.NoSourceError, Unsupported):
            return function(*args, **kwargs)
        return copy(*args, **kwargs)


def _key(function: Any) -> Any:
    return function if isinstance(function, type | types.BuiltinFunctionType) else None


def _extreme(name: str, builtin: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(x, Value) for x in args):
            return builtin(*args, **kwargs)
        if kwargs or len(args) < 2:
            raise FlightError(f"{builtin.__name__} of values of run time takes two or more numbers")
        from jaxator.flight import _math

        return functools.reduce(getattr(_math, name), args)

    return choose


def _range(*args: Any) -> Any:
    if any(isinstance(x, Value) for x in args):
        raise FlightError("range of values of run time works as `for i in range(...)` only")
    return range(*args)


_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.min: _extreme("minimum", builtins.min),
    builtins.max: _extreme("maximum", builtins.max),
    builtins.range: _range,
    builtins.bool: lambda *args: args[0] if args and isinstance(args[0], Value) and _is_bool(args[0]) else bool(*args),
}


def _is_bool(x: Value) -> bool:
    return x.dtype == _ops.bool_
