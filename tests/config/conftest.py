"""A folder with classes of a user, shared by the tests of them."""

import sys

import pytest
from own_sources import FILES, TOML


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of the user, which are imported from it as the current one."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in FILES.items():
        assert len(text.strip().splitlines()) <= 60
        (folder / f"{name}.py").write_text(text)
    (folder / "run.toml").write_text(TOML)
    yield folder
    for name in FILES:
        sys.modules.pop(name, None)


@pytest.fixture
def inside(folder, monkeypatch):
    """Work in that folder."""
    monkeypatch.chdir(folder)
