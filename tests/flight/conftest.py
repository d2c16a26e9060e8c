"""What the tests of the compiler's process share."""

import flightc
import pytest


@pytest.fixture
def compiler():
    process = flightc.Process()
    yield process
    assert process.close() == 0
