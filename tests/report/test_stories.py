"""Reports answer a question: their sentences, predictions and snippets are right."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
import xarray

import tokenfield as tkf
from tokenfield.lipschitz.growth import Growth, fit_power_law
from tokenfield.plotting.growth import growth_figure
from tokenfield.plotting.norms import norms_figure
from tokenfield.plotting.phase_diagram import phase_diagram_figure
from tokenfield.report import summary, write_report
from tokenfield.report.lipschitz import constant_story, factor_text, growth_story
from tokenfield.report.norms import norms_story
from tokenfield.report.page import paragraph
from tokenfield.report.phase_diagram import comparisons as noisy_comparisons
from tokenfield.report.phase_diagram import phase_diagram_story
from tokenfield.report.run_comparisons import comparisons
from tokenfield.report.run_sentences import answer, decimals, question, time_text
from tokenfield.report.run_tables import provenance_rows
from tokenfield.report.story import Comparison, Story, write_story
from tokenfield.results.describe import describe

POST = tkf.PostLN()


def run_snippet(folder, monkeypatch):
    """Execute the lines that a page offers, in its folder, as its reader would."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    (snippet,) = [unescape(each) for each in re.findall(r"<pre><code>(import .*?)</code></pre>", page, re.DOTALL)]
    monkeypatch.chdir(folder)
    scope = {}
    exec(compile(snippet, "snippet", "exec"), scope)
    return scope


def links(folder):
    page = re.sub(r"<script.*?</script>", "", (folder / "report.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r'<a href="([^"#]*)"', page))


@pytest.fixture(scope="module")
def equal():
    """Tokens at equal angles: the cosine has an exact law."""
    model = tkf.Transformer(tkf.Softmax(beta=1.0), POST)
    return tkf.simulate(model, tkf.equiangular_tokens(0.0, 8), t1=12.0, save_at=49, rtol=1e-9, atol=1e-12)


def test_a_run_is_compared_with_theory(equal):
    rows = {row.what: row for row in comparisons(equal, summary(equal))}
    assert all(row.agrees for row in rows.values())
    assert [name.split(" ")[0] for name in rows] == ["interaction", "clusters", "time", "rate"]
    rate = next(row for name, row in rows.items() if name.startswith("rate"))
    assert float(rate.predicted) == 2.0
    assert float(rate.measured) == pytest.approx(2.0, rel=1e-3)
    time = rows["time from mean cosine 0 to 0.99"]
    assert float(time.measured) == pytest.approx(tkf.theory.time_to_cosine(0.99, 8, 1.0, "post"), rel=1e-3)


def test_a_run_that_contradicts_theory_is_reported(equal):
    turned = tkf.Trajectory(equal.dataset.assign(x=equal.dataset["x"][::-1].drop_vars("time")))
    rows = {row.what: row for row in comparisons(turned, summary(turned))}
    assert rows["interaction energy"].agrees is False
    assert rows["clusters in the long run"].agrees is None  # 8 at the end, but a longer run might have 1


def made(model, x, **config):
    """A run of given tokens (frames, n, d), without a simulation."""
    frames, n, _ = np.shape(x)
    data = {
        "x": (("time", "token", "coordinate"), x),
        "weights": ("token", np.full(n, 1 / n)),
        "positions": ("token", np.ones(n)),
    }
    config = json.dumps({"model": describe(model), **config})
    numbers = {"events": "[]", "log_time_unit": 0.0, "steps": 3, "rejected_steps": 0, "state": "Tokens"}
    return tkf.Trajectory(xarray.Dataset(data, {"time": np.arange(frames) * 1.0}, {"config": config, **numbers}))


def test_no_formula_is_used_where_none_holds():
    x = np.asarray(tkf.uniform_sphere(6, 3, seed=0).x)[None].repeat(3, 0)
    soft, causal = tkf.Softmax(beta=1.0), tkf.Softmax(beta=1.0, causal=True)
    for model, config in ((tkf.Transformer(causal, POST), {"rtol": 1e-6}), (tkf.Transformer(soft), {"rtol": 1e-6})):
        traj = made(model, x, **config)
        assert comparisons(traj, summary(traj)) == []
    for config, expected in (({"rtol": 1e-6}, 2), ({}, 0)):  # discrete layers are no flow
        traj = made(tkf.Transformer(soft, POST), x, **config)
        assert len(comparisons(traj, summary(traj))) == expected


def test_noisy_order_is_held_against_the_stationary_law():
    model = tkf.Transformer(tkf.Unnormalized(1.0), POST, noise=tkf.SphereNoise(5.0))
    law = tkf.theory.stationary_states(1.0, 5.0, 3)[1].m_1
    for order, agrees in ((law, True), (0.5, None)):
        turn = np.linspace(0, 2 * np.pi, 400, endpoint=False)
        ring = np.stack([np.full(400, order), *np.sqrt(1 - order**2) * np.array([np.cos(turn), np.sin(turn)])], axis=1)
        traj = made(model, ring[None].repeat(3, 0), method="heun", dt=0.01)
        (row,) = comparisons(traj, summary(traj))
        assert float(row.predicted) == pytest.approx(law, abs=1e-3)
        assert float(row.measured) == pytest.approx(order, abs=1e-3)
        assert row.agrees is agrees
    assert "κ = 5 is above the critical 2.718" in row.what
    assert "The noise keeps the 400 tokens moving" in answer(traj, summary(traj))[0]
    assert "fixed size, dt = 0.01" in dict(provenance_rows(traj))["tolerances (relative, absolute)"]
    asked = question(traj)
    assert "Brownian motion on the sphere with κ = 5" in asked
    assert "weights" not in asked
    moving = made(tkf.Transformer(tkf.Unnormalized(1.0), POST, fisher_rao=0.5), ring[None], rtol=1e-6)
    assert "weights that move at the rate c = 0.5" in question(moving)


def test_the_answer_counts_clusters():
    angles = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 2.0])
    traj = made(
        tkf.Transformer(tkf.Softmax(1.0), POST), np.stack([np.cos(angles), np.sin(angles)], -1)[None], rtol=1e-6
    )
    assert answer(traj, summary(traj))[0] == "At time 0, 6 tokens form 2 clusters (sizes 3, 2) and 1 single token."
    assert [decimals(value) for value in (0.123, -0.001, 0.99956, 1.0)] == ["0.12", "0.00", "0.9996", "1.00"]


def test_times_beyond_all_bounds_are_powers_of_ten(equal):
    assert time_text(equal, 12.3456) == "12.35"
    long = tkf.Trajectory(equal.dataset.assign_attrs(log_time_unit=1000 * np.log(10)))
    assert time_text(long, 100.0) == "10^{1002}"


@pytest.mark.slow
def test_the_snippet_of_a_run_reads_it_again(equal, tmp_path, monkeypatch, capsys):
    equal.save(tmp_path / "trajectory.zarr")
    write_report(equal, tmp_path, animation=None)
    assert links(tmp_path) == {"trajectory.zarr"}
    np.testing.assert_array_equal(run_snippet(tmp_path, monkeypatch)["traj"].times, equal.times)
    write_report(equal, tmp_path / "bare", animation=None)
    assert "tkf.load" not in (tmp_path / "bare" / "report.html").read_text(encoding="utf-8")


def test_norms_name_the_best_and_the_worst_rule(tmp_path, monkeypatch, capsys):
    study = tkf.studies.normalization_study(d=40, n=6, depth=3, seeds=3, rules=("post", "sqrt"))
    study["mean_cosine"][{"layer": -1}] = [[0.95] * 3, [0.3] * 3]
    study["recursion"][{"layer": -1}] = [0.94, 0.5]
    story = norms_story(study, norms_figure(study), "tokenfield norms <x>")
    assert story.answer == "Tokens collapse (mean cosine at least 0.9) under Post-LN."
    assert "lowest under sqrt-scaling (0.30)" in story.more
    assert [row.agrees for row in story.comparisons] == [True, False]
    study.to_zarr(tmp_path / "norms.zarr", consolidated=False, zarr_format=3)
    page = write_story(story, tmp_path).read_text(encoding="utf-8")
    assert "tokenfield norms &lt;x&gt;" in page
    assert "norms.zarr" in links(tmp_path)
    run_snippet(tmp_path, monkeypatch)
    assert "0.95" in capsys.readouterr().out


def test_a_phase_diagram_says_whether_order_jumps(tmp_path, monkeypatch, capsys):
    diagram = tkf.theory.phase_diagram([1.0, 4.0], [0.3, 3.0], d=2)
    m_1 = np.array([[[0.0, 0.0], [0.9, 0.1]]])
    kappa = np.array([[0.5, 4.0]])
    runs = xarray.Dataset(
        {"order_parameter": (("beta", "place", "start"), m_1), "kappa": (("beta", "place"), kappa)},
        {"beta": [1.0]},
        {"config": '{"n": 10000}'},
    )
    story = phase_diagram_story(diagram, None, phase_diagram_figure(diagram))
    assert "sets in gradually up to β = 2.447; above, it sets in with a jump" in story.more
    below, above = noisy_comparisons(runs, 2, "unnormalized")
    assert (below.agrees, below.predicted) == (True, "0.00")
    assert above.agrees is False  # disorder is unstable there
    diagram.to_zarr(tmp_path / "phase_diagram.zarr", consolidated=False, zarr_format=3)
    write_story(story, tmp_path)
    run_snippet(tmp_path, monkeypatch)
    assert links(tmp_path) == {"phase_diagram.zarr", "phase_diagram.png"}


def test_growth_is_reported_as_a_power(tmp_path, monkeypatch, capsys):
    lengths, factors = np.array([10, 20, 40]), np.array([0.99, 1.01])
    constants = 3 * lengths[:, None] ** 0.25 * factors
    scales = zip(lengths.tolist(), (1.0, 1.0, 1e-6), strict=True)  # the last bound is too small on purpose
    bounds = tuple(tkf.lipschitz.bounds(scale * np.eye(2), scale * np.eye(2), R=1.0, n=n) for n, scale in scales)
    found = Growth(lengths, constants, fit_power_law(lengths, constants), True, np.ones(3), bounds)
    inputs = {"attention": "softmax", "d": 2, "data": "heavy_tailed", "causal": False}
    story = growth_story(found, inputs, growth_figure({"x": found}))
    assert "grows like n^{0.25}" in story.answer
    assert "1.19 times as sensitive" in story.more
    in_units = growth_story(replace(found, log_unit=1e4 * np.log(10)), inputs, growth_figure({"x": found}))
    assert (
        f"<td>{3 * 40**0.25 * np.sqrt(0.99 * 1.01):.4g} × 10<sup>10000</sup></td>" in dict(in_units.evidence)["Numbers"]
    )
    assert [row.agrees for row in story.comparisons] == [True, True, True, False]
    data = xarray.Dataset({"constant": (("n", "sample"), constants)}, {"n": lengths}, {"power": 0.25})
    data.to_zarr(tmp_path / "growth.zarr", consolidated=False, zarr_format=3)
    write_story(story, tmp_path)
    run_snippet(tmp_path, monkeypatch)
    assert "0.25" in capsys.readouterr().out


def test_a_bound_that_is_attained_holds_up_to_rounding():
    """At beta = 0 a constant is its bound. That of tokens at 0 is accurate to 1e-6 only."""
    inputs = {"attention": "softmax", "d": 2, "n": 4, "R": 1.0, "data": "sphere"}
    bounds = {"sharp_data": 1.0, "upper": 1.00000999, "lower": 1.0}
    numbers = {"constant": 1 + 2**-52, "explicit_constant": None, "found": [], "log_unit": 0.0, "bounds": bounds}
    rows = constant_story(numbers, inputs).comparisons
    assert [(row.agrees, row.remark) for row in rows[:2]] == [(True, "100 % of the bound")] * 2
    for constant, agrees in ((1 - 5e-7, [True, True, True]), (1 - 1e-5, [True, True, None]), (1 + 1.1e-5, [False] * 2)):
        rows = constant_story({**numbers, "constant": constant}, inputs).comparisons
        assert [row.agrees for row in rows][: len(agrees)] == agrees


@pytest.mark.parametrize("value", [0.0, 1.0, 12.3, 9.99999, 3e-12])
def test_constants_in_a_large_unit_are_powers_of_ten(value):
    assert factor_text(value) == f"{value:.4g}"
    mantissa, exponent = f"{value:.3e}".split("e")
    power = f"{float(mantissa):.4g} × 10^{10000 + int(exponent)}" if value else "0"
    assert factor_text(value, 1e4 * np.log(10)) == power


def test_the_answer_is_one_sentence_and_the_rest_is_below_it(equal):
    first, more = answer(equal, summary(equal))
    assert first == "All 8 tokens are in one cluster at time 12."
    end = decimals(summary(equal)["mean_cosine"])
    assert more == f"The mean cosine between the tokens rises from 0.00 to {end}."
    lines = re.findall(r"<p.*?</p>", Story("Title", "Asked?", first, more=more).html())
    assert lines == ['<p class="asked">Asked?</p>', f'<p class="answer">{first}</p>', paragraph(more)]


def test_all_text_of_a_story_is_escaped():
    bad = "<b>&"
    row = Comparison(bad, bad, bad, None, bad)
    page = Story(bad, bad, bad, [row], bad, [(bad, "")], {bad: bad}, bad, bad, [(bad, "")]).html()
    assert "<b>" not in page
    assert page.count("&lt;b&gt;&amp;") >= 12
