"""Meshes, placements and expected programs of the row ops on eight virtual devices."""

import collections
import dataclasses
import math

import hlo
import jax
import numpy as np
import pytest
from hlo import Collective
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ops import OpCase

Placement = dict[str, tuple[str, ...]]
"""Mesh axes of a dimension. Rows are "b t d", or "b t n h" for rope; d and h stay whole."""

MESHES = {"1d": ((8,), ("p",)), "2d": ((4, 2), ("p", "q"))}
PLACEMENTS: dict[str, tuple[str, Placement]] = {
    "b:p": ("1d", {"b": ("p",)}),
    "b:pq": ("2d", {"b": ("p", "q")}),
    "b:p t:q": ("2d", {"b": ("p",), "t": ("q",)}),
    "b:q": ("2d", {"b": ("q",)}),
    "t:p": ("2d", {"t": ("p",)}),
}
every_placement = pytest.mark.parametrize("placement", PLACEMENTS)


def make_mesh(name: str, kind: AxisType = AxisType.Auto) -> Mesh:
    shape, axes = MESHES[name]
    return jax.make_mesh(shape, axes, axis_types=(kind,) * len(axes), devices=jax.devices("cpu")[: math.prod(shape)])


def dims_of(case: OpCase, kind: str) -> str:
    if kind == "parameter":
        return "d"
    if kind == "row":
        return "btnh" if case.is_rope else "btd"
    return ("" if "shared" in kind else "b") + "t" + ("c" if "table" in kind else "")


def spec(dims: str, placement: Placement) -> P:
    return P(*(placement.get(d) for d in dims))


def specs_of(case: OpCase, placement: Placement) -> tuple[P, ...]:
    return tuple(spec(dims_of(case, kind), placement) for kind in case.operands)


def row_spec(case: OpCase, placement: Placement) -> P:
    return spec(dims_of(case, "row"), placement)


def local_shape(shape, dims: str, placement: Placement, mesh: Mesh) -> tuple[int, ...]:
    return tuple(n // math.prod(mesh.shape[a] for a in placement.get(d, ())) for n, d in zip(shape, dims, strict=True))


@dataclasses.dataclass
class Problem:
    case: OpCase
    operands: tuple
    cotangents: tuple
    placement: Placement
    mesh: Mesh

    @staticmethod
    def make(case: OpCase, placement: str, kind: AxisType = AxisType.Auto, dtype: str = "bfloat16") -> "Problem":
        mesh_name, where = PLACEMENTS[placement]
        operands = case.make(case.sharded, dtype)
        return Problem(case, operands, case.cotangents(operands), where, make_mesh(mesh_name, kind))

    def placed(self):
        """Operands and cotangents on the mesh."""
        row = row_spec(self.case, self.placement)
        put = lambda a, s: jax.device_put(a, NamedSharding(self.mesh, s))  # noqa: E731
        operands = tuple(map(put, self.operands, specs_of(self.case, self.placement)))
        return operands, tuple(put(c, row) for c in self.cotangents)

    def expected_collectives(self) -> collections.Counter:
        axes = tuple(a for d in self.placement.values() for a in d)
        size = 4 * self.operands[0].shape[-1]
        sums = Collective("all-reduce", size, hlo.groups_of(self.mesh, axes))
        return collections.Counter({sums: len(self.case.parameters)} if self.case.parameters and axes else {})

    def expected_shapes(self) -> tuple[str, ...]:
        """Of the forward call's operands. A rope without positions makes its own, one for each t."""
        shapes = []
        for kind, a in zip(self.case.operands, self.operands, strict=True):
            shapes.append(
                hlo.shape_text(a.dtype.name, local_shape(a.shape, dims_of(self.case, kind), self.placement, self.mesh))
            )
        if self.case.operands == ("row",) and self.case.is_rope:
            shapes.append(hlo.shape_text("int32", local_shape(self.operands[0].shape[1:2], "t", self.placement, self.mesh)))
        return tuple(shapes)

    def check(self, compiled, operands, cotangents, *, only_values: bool = False) -> None:
        values, gradients = compiled(operands, cotangents)
        want_values, want_gradients = jax.jit(self.case.value_and_vjp)(self.operands, self.cotangents)
        for got, want in zip(values, want_values, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        for i, got, want in zip(self.case.differentiable, gradients, want_gradients, strict=True):
            if self.case.operands[i] == "row":
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        self.case.assert_right(self.operands, self.cotangents, values, gradients)
        if only_values:
            return
        text = compiled.as_text()
        assert hlo.collectives(text) == self.expected_collectives(), text
        forward, backward = sorted(hlo.custom_calls(text), key=lambda call: call.target, reverse=True)
        assert forward.operands == self.expected_shapes(), text
        assert backward.operands[0] == forward.operands[0] == backward.results[0], text
