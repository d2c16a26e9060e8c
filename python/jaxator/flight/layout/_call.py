"""The layout library by its one C function: texts in, a text out; and nested tuples as text and back."""

from __future__ import annotations

import ctypes
import operator
from typing import Any

from jaxator._library import open_library

Leaf = int | str
"""A leaf that is no plain number is the library's text for it: "?12{div=4}" (dynamic), "E0.1" (a basis vector)."""
IntTuple = Leaf | tuple["IntTuple", ...]


def call(operation: str, *arguments: str) -> str:
    """An operation of the layout library. Raises ValueError where an argument breaks a rule."""
    return call_library("jaxator_layout", operation, *arguments)


def call_library(name: str, operation: str, *arguments: str) -> str:
    """An operation of a C function of this form."""
    if any("\0" in argument for argument in arguments):
        raise ValueError(f"{operation}: a text has a zero byte in it: {arguments}")
    function = getattr(open_library("libjaxator.so"), name)
    texts = (ctypes.c_char_p * len(arguments))(*(argument.encode() for argument in arguments))
    capacity, length = 1024, ctypes.c_int()
    while True:
        buffer = ctypes.create_string_buffer(capacity)
        status = function(operation.encode(), texts, len(arguments), buffer, capacity, ctypes.byref(length))
        if length.value < capacity:
            break
        capacity = length.value + 1
    answer = buffer.value.decode()
    if status != 0:
        raise (ValueError if status == 1 else RuntimeError)(answer)
    return answer


def to_text(value: Any) -> str:
    """Of nested tuples (or lists) of integers; None is "*"."""
    if value is None:
        return "*"
    if isinstance(value, str):
        return value
    if isinstance(value, tuple | list):
        return "(" + ",".join(map(to_text, value)) + ")"
    try:
        return str(operator.index(value))
    except TypeError:
        raise TypeError(f"an integer or a tuple of integers was expected, not {value!r}") from None


def from_text(text: str) -> IntTuple:
    """What the library writes for a leaf or a tuple."""
    outermost: list[Any] = []
    open_tuples = [outermost]
    leaf = ""
    for character in text + ",":
        if character == "(":
            open_tuples.append([])
            continue
        if character not in ",)":
            leaf += character
            continue
        if leaf:
            open_tuples[-1].append(int(leaf) if leaf.lstrip("-").isdecimal() else leaf)
            leaf = ""
        if character == ")":
            done = tuple(open_tuples.pop())
            open_tuples[-1].append(done)
    return outermost[0]
