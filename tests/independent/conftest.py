"""Each test with a share of the draws runs once for each of its seeds: `test_layers.py::test_one_layer[37]` is one draw."""

from .draws import TOTAL


def pytest_generate_tests(metafunc):
    """Split the draws over the tests by their shares; each has one at least."""
    if "seed" in metafunc.fixturenames and hasattr(metafunc.function, "share"):
        draws = metafunc.config.getoption("draws") * metafunc.function.share / TOTAL
        metafunc.parametrize("seed", range(max(1, round(draws))))
