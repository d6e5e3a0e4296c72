"""A finished run, shared by the tests of commands."""

import pytest
from commands import tokenfield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One full run with a folder, shared by the tests that look at it."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    model = ("--attention", "softmax", "--norm", "post", "--beta", "9", "--n", "24", "--d", "3")
    flags = (*model, "--t1", "4", "--seed", "0", "--save-at", "9")
    return folder, tokenfield("simulate", *flags, "--out", folder, "--json")
