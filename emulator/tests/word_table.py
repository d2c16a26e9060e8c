"""Cases whose results are words in registers, and what memory holds afterwards."""

from __future__ import annotations

import numpy as np
from assembly import Case, run_case
from emulator import Array


class WordTable:
    def __init__(self) -> None:
        self.cases: dict[str, Case] = {}
        self.expected: dict[str, dict[str, Array | int]] = {}
        self.memory: dict[str, Array] = {}

    def add(self, name: str, case: Case, expected: dict[str, Array | int], after: Array | None = None) -> None:
        assert name not in self.cases, name
        self.cases[name] = case
        self.expected[name] = expected
        if after is not None:
            self.memory[name] = after

    def check(self, module: str, name: str, architecture: str) -> None:
        """Runs a case of the module's CASES, which are this table's. Memory has to hold what is expected, or what it did."""
        case = self.cases[name]
        start = None if case.memory is None else case.memory.copy()
        got = run_case(module, name, architecture)
        for register, value in self.expected[name].items():
            result = got[register] if register[0] in "va" else got[register][0]
            np.testing.assert_array_equal(result, value, err_msg=f"{case.text}: {register}")
        if case.memory is not None and start is not None:
            np.testing.assert_array_equal(case.memory, self.memory.get(name, start), err_msg=case.text)
            case.memory[...] = start
