"""The budget of tests with random inputs."""

import pytest


@pytest.fixture
def budget(request):
    """`budget(n)`: `n` inputs, times the option `--fuzz`."""
    return lambda n: max(1, round(n * request.config.getoption("--fuzz")))
