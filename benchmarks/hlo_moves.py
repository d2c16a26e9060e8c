"""Copies and transpositions beside our calls in an optimised HLO module."""

from __future__ import annotations

import re


def moves_beside_calls(text: str) -> list[str]:
    """Instructions of the optimised HLO that copy or transpose an operand or a result of one of our calls."""
    defined: dict[str, str] = {}
    calls = []
    for line in text.splitlines():
        if match := re.match(r"\s*(?:ROOT )?%?([\w.-]+) = (.*)", line):
            defined[match.group(1)] = match.group(2)
            if 'custom_call_target="jaxator.' in line:
                calls.append(match.group(1))
    moving = re.compile(r"^\S+ (?:copy|transpose)\(|^\S+ fusion\(.*calls=%?(?:wrapped_)?(?:copy|transpose)")

    def behind(name: str) -> set[str]:
        """Names that a value comes from, through tuples and reinterpretations."""
        body = defined.get(name, "")
        if re.match(r"^\S+ (?:bitcast|get-tuple-element)\(", body):
            return behind(_operands(body)[0])
        return {name}

    found = []
    for call in calls:
        found += [
            f"{name} = {defined[name][:100]} -> {call}"
            for o in _operands(defined[call])
            for name in behind(o)
            if moving.match(defined.get(name, ""))
        ]
    for name, body in defined.items():
        if moving.match(body) and any(call in behind(o) for o in _operands(body) for call in calls):
            found.append(f"{name} = {body[:100]}")
    return sorted(set(found))


def _operands(body: str) -> list[str]:
    match = re.match(r"(?:\(.*?\)|\S+) [a-z][\w-]*\((.*)", body)
    inside = match.group(1) if match else ""
    depth, end = 1, 0
    for end, character in enumerate(inside):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            break
    return re.findall(r"%([\w.-]+)", inside[:end])
