"""Runs drawn over each other, and panels in the user's own axes: lines are read back and compared with observables."""

import io
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

sys.path.append(str(Path(__file__).parent.parent / "probe"))
import made_probe

import tokenfield as tkf
from tokenfield.plotting import style

STARTS = [tkf.circle_tokens([0.0, 1.0, 2.0]), tkf.circle_tokens([0.0, 0.2, 3.0])]
MODELS = [tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN()) for beta in (1.0, 4.0)]


@pytest.fixture(scope="module")
def runs():
    return list(tkf.simulate_many(MODELS, STARTS, 0.5, save_at=4))


def test_lines_are_observables(runs):
    sheet = tkf.compare(runs)
    energies, orders, counts = sheet.axes
    for k, run in enumerate(runs):
        for ax, expected in (
            (energies, run.observe("normalized_energy")),
            (orders, run.observe("order_parameter")),
            (counts, run.observe("clusters")),
        ):
            line = ax.lines[k]
            np.testing.assert_allclose(line.get_xdata(), run.times, atol=1e-15)
            np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-14)
    named = [text.get_text() for text in sheet.legends[0].get_texts()]
    assert named == ["Softmax(beta=1.0)", "Softmax(beta=4.0)"]
    assert orders.get_title(loc="left") == r"$\mathbf{b}$  Order parameter"


def test_titles_fit_their_panels_in_a_wider_font(runs, monkeypatch):
    usual = style.settings()
    monkeypatch.setattr(style, "settings", lambda: {**usual, "font.family": "DejaVu Sans"})
    sheet = tkf.compare(runs)
    sheet.savefig(io.BytesIO(), dpi=sheet.dpi)
    boxes = [ax._left_title.get_window_extent() for ax in sheet.axes]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert boxes[-1].x1 <= sheet.bbox.x1
    assert max(box.y1 for box in boxes) <= sheet.bbox.y1


def test_into_axes_of_the_user(runs):
    figure = Figure()
    first, second = figure.subplots(1, 2)
    assert tkf.compare(runs, ["one", "two"], "mean_cosine", ax=first) is first
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["one", "two"]
    tkf.compare(runs, quantities="fraction_above", ax=second)
    assert second.get_title(loc="left") == "Fraction of pairs with cosine above 0.999"
    second.clear()
    np.testing.assert_allclose(first.lines[1].get_ydata(), runs[1].observe("mean_cosine"), atol=1e-14)
    assert runs[0].plot(ax=second, panel="energy") is second
    np.testing.assert_allclose(second.lines[1].get_ydata(), runs[0].observe("order_parameter"), atol=1e-14)
    assert figure.axes == [first, second]


def test_names_say_what_differs_and_other_states_join(runs):
    """Under different units of time the axis is log10 t."""
    dataset = runs[1].dataset.assign_attrs(log_time_unit=np.log(100.0))
    both = tkf.compare([runs[0], tkf.Trajectory(dataset)], quantities=["order_parameter"])
    np.testing.assert_allclose(both.axes[0].lines[1].get_xdata()[1:], 2 + np.log10(runs[1].times[1:]), atol=1e-14)
    assert both.axes[0].get_xlabel() == r"$\log_{10} t$"
    same = tkf.compare([runs[0], runs[0]], quantities=["order_parameter"])
    assert [text.get_text() for text in same.legends[0].get_texts()] == ["run 1", "run 2"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda runs: tkf.compare([]), "runs must be a non-empty list of trajectories"),
        (lambda runs: tkf.compare(runs[0]), "runs must be a list of trajectories, got Trajectory"),
        (lambda runs: tkf.compare(runs, ["one"]), "labels must have one entry for each of the 2 runs, got 1"),
        (lambda runs: tkf.compare(runs, quantities="ordr_parameter"), "did you mean 'order_parameter'"),
        (lambda runs: tkf.compare(runs, ax=Figure().add_subplot()), "ax must be one axes for each of the 3 quantities"),
        (lambda runs: runs[0].plot(ax=Figure().add_subplot(), panel="energies"), "panel must be"),
        (lambda runs: runs[0].plot(ax=3), "ax must be matplotlib axes, got 3"),
        (lambda runs: tkf.plotting.staircase(runs[0], ax=3), "ax must be matplotlib axes, got 3"),
    ],
)  # fmt: skip
def test_bad_input(runs, make, words):
    with pytest.raises(ValueError, match=words):
        make(runs)


def settled():
    model = tkf.Transformer(tkf.Softmax(beta=50.0), norm=tkf.PostLN())
    return tkf.simulate(model, tkf.circle_tokens([0.0, 0.5, 2.0]), t1=math.inf)


def curves(ax):
    """All lines, segments and titles of a panel."""
    lines = [line.get_xydata().tolist() for line in ax.lines]
    segments = [
        np.concatenate(each.get_segments()).tolist() for each in ax.collections if hasattr(each, "get_segments")
    ]
    return lines, segments, [ax.get_title(loc=side) for side in ("left", "center")], ax.get_xlim(), ax.get_ylim()


@pytest.mark.parametrize("name", ["staircase", "merge_tree", "space_time", "probe_theory", "cosine_histograms"])
def test_figures_of_one_panel_draw_into_axes_of_the_user(name):
    """They draw there what they draw into a figure of their own, and leave all else alone."""
    draw = getattr(tkf.plotting, name)
    run = made_probe.dataset() if name == "probe_theory" else settled()
    (own,) = draw(run).axes
    figure = Figure(figsize=(9.0, 3.0), layout="constrained")
    first, second = figure.subplots(1, 2)
    first.plot([0.0, 1.0], [2.0, 3.0])
    before, position = curves(first), first.get_position().bounds
    assert draw(run, ax=second) is second
    assert curves(second) == curves(own)
    assert curves(own)[0] + curves(own)[1] + own.patches != []
    assert len(second.patches) == len(own.patches)
    assert curves(first) == before
    assert first.get_position().bounds == position
    assert figure.axes == [first, second]
    assert not figure.legends
    assert not figure.texts
    assert tuple(figure.get_size_inches()) == (9.0, 3.0)
    assert second.get_legend() is None or name in ("probe_theory", "cosine_histograms")
