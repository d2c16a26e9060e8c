"""How good a CDNA kernel is as far as can be told without the hardware: a run on the emulator with every check, and a
model of how its instructions are issued. Whatever this says is emulator-verified and schedule-modelled, not run on
hardware."""

from jaxator.judge.emulator import Code, EmulatorError, Geometry
from jaxator.judge.gates import Floors, Gate, Rule, floors_for, gates, read_rules
from jaxator.judge.launch import Launch, from_words, recorded, recording
from jaxator.judge.measure import Measures, measure
from jaxator.judge.model import Assumptions, Schedule, simulate

__all__ = [
    "Assumptions", "Code", "EmulatorError", "Floors", "Gate", "Geometry", "Launch", "Measures", "Rule", "Schedule",
    "floors_for", "from_words", "gates", "measure", "read_rules", "recorded", "recording", "simulate",
]  # fmt: skip
