"""Problems of the row ops as trees of arrays, and their comparison bit by bit."""

import jax
import numpy as np

from ops import OpCase


def assert_same(got, want, what="") -> None:
    """The same tree of arrays, bit by bit."""
    assert jax.tree.structure(got) == jax.tree.structure(want), what
    for i, (g, w) in enumerate(zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w), err_msg=f"{what} [{i}]")


def problem(case: OpCase, dtype: str = "float32", seed: int = 0):
    operands = case.make(case.small, dtype, seed)
    return operands, case.cotangents(operands, seed + 1000)


def stacked(case: OpCase, count: int, dtype: str = "float32"):
    """`count` different problems, each array with a leading dimension."""
    return jax.tree.map(lambda *a: np.stack(a), *(problem(case, dtype, seed) for seed in range(count)))


def is_shared(kind: str) -> bool:
    return kind == "parameter" or "shared" in kind


def at(tree, *index):
    return jax.tree.map(lambda a: a[index], tree)
