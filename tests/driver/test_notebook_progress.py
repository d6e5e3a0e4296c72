"""Progress bars in a notebook, with a stand-in for IPython: what is shown below the cell, and that it goes away."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

import tokenfield._notebook as notebook
from tokenfield.driver.progress import Progress
from tokenfield.sweep.progress import SweepProgress


@pytest.fixture
def pages(monkeypatch):
    """All that a notebook was told to show below a cell, in order."""
    shown = []

    def display(page, display_id):
        assert display_id
        shown.append(page)
        return SimpleNamespace(update=shown.append)

    for name, content in (
        ("IPython", {"get_ipython": lambda: SimpleNamespace(config={"IPKernelApp": {}})}),
        ("IPython.display", {"HTML": str, "display": display}),
    ):
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(notebook, "PAUSE", 0.0)
    return shown


def test_a_run(pages):
    with Progress(None, "<simulating>", 8.0) as bar:
        bar.update(2.0, rate=40.0)
    first, second, last = pages
    assert first.startswith("&lt;simulating&gt; <progress")
    assert 'value="0.2500"' in second
    assert "t = 2 of 8 · 40 steps/s" in second
    assert "s left" in second
    assert last == ""


def test_a_sweep(pages):
    with SweepProgress(None, "plan", 4) as bar:
        bar.update(2, 1)
    assert 'value="0.7500"' in pages[1]
    assert "3 of 4 cells, 1 failed" in pages[1]
    assert pages[-1] == ""


def test_not_in_a_plain_ipython(pages, monkeypatch):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace(config={}))
    with Progress(None, "simulating", 8.0) as bar:
        bar.update(2.0)
    assert pages == []


def test_not_if_it_is_not_wanted(pages):
    with Progress(False, "simulating", 8.0) as bar:
        bar.update(2.0)
    assert pages == []
