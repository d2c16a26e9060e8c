"""Eight virtual CPU devices for every test, what the markers of pyproject.toml mean, and shared fixtures."""

from collections.abc import Callable, Iterator

import jax
import pytest

# Not XLA_FLAGS: that would leak into the processes that tests start.
jax.config.update("jax_num_cpu_devices", 8)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu"):
        try:
            jax.devices("gpu")
        except RuntimeError as error:
            pytest.skip(f"no GPU that JAX sees: {error}")


@pytest.fixture
def force_isa() -> Iterator[Callable[[str | None], None]]:
    """`jaxator._ffi.force_isa`, undone after the test."""
    from jaxator import _ffi

    yield _ffi.force_isa
    _ffi.force_isa(None)
