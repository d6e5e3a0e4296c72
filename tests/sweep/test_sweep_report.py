"""The report of a sweep: the range of its numbers, theory beside them, and a snippet that works."""

import re
from html import unescape

import numpy as np
import pytest
from commands import linked_files

import tokenfield as tkf
from tokenfield.cli.sweep_found import draw
from tokenfield.report.story import write_story
from tokenfield.sweep.comparisons import comparisons, crossing
from tokenfield.sweep.page import answer, sweep_story

PLAN = {
    "theory": "critical_gamma",
    "run": {"depth": 1, "attention": {"beta": 1.0}, "tokens": {"kind": "equiangular", "n": 16, "d": 16, "rho": 0.5}},
    "axes": {"gamma": [0.5, 2.0, 4.0]},
    "record": {"cosine": "mean_cosine"},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return tkf.sweep(PLAN, tmp_path_factory.mktemp("sweep") / "found", progress=False)


def test_a_layer_at_equal_angles_agrees_with_theory(found):
    rows = list(comparisons(found))
    curve = [row for row in rows if row.what.startswith("mean cosine")]
    assert len(curve) == 3
    for row in curve:
        assert float(row.measured) == pytest.approx(float(row.predicted), rel=1e-3)
        assert row.agrees
    (place,) = [row for row in rows if row.what == "transition in gamma"]
    assert float(place.predicted) == 2.0
    wrong = tkf.sweep.SweepResult(found.dataset.assign(cosine=0 * found.dataset["cosine"]))
    assert not any(row.agrees for row in comparisons(wrong))


def test_the_answer_gives_the_range_and_its_places(found):
    values = found.mean("cosine").values
    text = answer(found, "cosine")
    low, high = np.argmin(values), np.argmax(values)
    assert f"from {values[low]:.3g} (at gamma = {PLAN['axes']['gamma'][low]:.4g})" in text
    assert f"to {values[high]:.3g} (at gamma = {PLAN['axes']['gamma'][high]:.4g})" in text


def test_the_report_links_figures_in_their_format(found):
    for format, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        draw(found, found.folder, format)
        assert linked_files(found.folder) == {"sweep.zarr", f"cosine.{format}"}
        assert (found.folder / f"cosine.{format}").read_bytes().startswith(start)


def test_the_snippet_opens_the_sweep(found, monkeypatch, capsys):
    page = write_story(sweep_story(found, {"cosine": found.plot()}), found.folder).read_text(encoding="utf-8")
    assert "3 of 3 cells are done." in page
    (snippet,) = [unescape(each) for each in re.findall(r"<pre><code>(import .*?)</code></pre>", page, re.DOTALL)]
    monkeypatch.chdir(found.folder)
    scope = {}
    exec(compile(snippet, "snippet", "exec"), scope)
    np.testing.assert_array_equal(scope["found"].mean("cosine"), found.mean("cosine"))


def test_crossings():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    assert crossing(x, np.array([0.0, 0.0, 1.0, 0.0]), 0.25) == 1.25
    assert crossing(x, np.array([0.0, np.nan, 1.0, 1.0]), 0.5) == 1.0
    assert crossing(x, np.zeros(4), 0.5) is None


def test_a_sweep_in_notebooks(found):
    page = found._repr_html_()
    assert page.startswith("<div")
    assert f"Sweep: {found.plan.name}" in page
    rows = dict(re.findall(r"<td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>", page))
    assert rows["gamma"] == "[0.5, 2.0, 4.0]"
    assert rows["cosine"] == found.dataset["cosine"].attrs["long_name"]
    assert rows["state"].startswith("3 cells, 3 done, 0 failed")
    assert "found.mean(&#x27;cosine&#x27;)" in page
    assert repr(found) == f"SweepResult({found.plan.name}: gamma 3 × repeat 1; 3 of 3 cells done, 0 failed)"
