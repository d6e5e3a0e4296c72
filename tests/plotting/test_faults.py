"""Faults of figures that were seen, each with a test: what is cut off, what covers data, what does not align."""

import io
import json

import numpy as np
import pytest
import xarray
from test_plotting import made

import tokenfield as tkf
from tokenfield.observables.cluster_text import cluster_text
from tokenfield.plotting import energy_panel, overview, phase_diagram_figure, style
from tokenfield.report import summary


def drawn(figure):
    """The figure, laid out."""
    figure.savefig(io.BytesIO(), dpi=figure.dpi)
    return figure


@pytest.mark.parametrize("with_runs", [False, True])
def test_the_legend_of_phases_fits_a_wider_font(with_runs, monkeypatch):
    usual = style.settings()
    monkeypatch.setattr(style, "settings", lambda: {**usual, "font.family": "DejaVu Sans"})
    diagram = tkf.theory.phase_diagram(np.linspace(0, 6, 5), np.geomspace(0.05, 3, 5), d=2)
    runs = xarray.Dataset(
        {"beta": ("b", [2.0]), "kappa": (("b", "k"), [[1.0]]), "m_1": (("b", "k", "s"), [[[0.1, 0.5]]])},
        attrs={"config": json.dumps({"n": 1024})},
    )
    sheet = drawn(phase_diagram_figure(diagram, runs if with_runs else None))
    (legend,) = sheet.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= sheet.bbox.x1
    assert len(legend.get_texts()) == 4 + with_runs


def waiting():
    """A run with waits: 300 states at uneven times, and its end at the last one."""
    times = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 299)])
    angles = np.outer(np.clip(1 - np.log10(times + 1e-3) / 9, 0, 1), [0.0, 0.5, 1.5])
    x = np.stack([np.cos(angles), np.sin(angles)], -1)
    return made(x, times, events=[{"kind": "one_cluster", "time": 1e9, "detail": {}}])


def test_panels_below_each_other_have_the_same_time_axis():
    sheet = drawn(overview(waiting()))
    _, energies, cosines = sheet.subfigs[0].axes + sheet.subfigs[1].axes[:2]
    assert energies.get_xscale() == cosines.get_xscale() == "log"
    assert energies.get_xlim() == cosines.get_xlim() == (1e-3, 1e9)
    left, right = (ax.get_window_extent() for ax in (energies, cosines))
    assert (left.x0, left.x1) == pytest.approx((right.x0, right.x1), abs=0.5)
    assert not cosines.texts  # a name would cover data


def test_legend_and_names_of_events_cover_no_curve():
    sheet = style.Sheet(3.4, 2.2)
    ax = energy_panel(waiting(), sheet.add_subplot())
    drawn(sheet)
    legend = ax.get_legend().get_window_extent()
    (name,) = ax.texts
    box = name.get_window_extent()
    assert not box.overlaps(legend)
    for line in ax.lines[:2]:
        points = ax.transData.transform(line.get_xydata()[1:])
        assert (points[:, 1] < legend.y0).all()
        within = points[(points[:, 0] > box.x0) & (points[:, 0] < box.x1 - 1), 1]
        assert not ((within > box.y0) & (within < box.y1)).any()


def test_figure_terminal_and_report_count_the_same_clusters():
    rng = np.random.default_rng(0)
    angles = np.concatenate([rng.uniform(0, 6, 40), [1.0, 1.0, 1.0, 2.0, 2.0]])
    x = np.stack([np.cos(angles), np.sin(angles)], -1)[None]
    traj = made(np.repeat(x, 2, axis=0))
    sizes = summary(traj)["clusters"]
    text = cluster_text(sizes)
    count = sum(size > 1 for size in sizes)
    assert text.startswith(f"{count} clusters (")
    assert text.endswith(f"{len(sizes) - count} single tokens")
    assert overview(traj).subfigs[0].legends[0].get_title().get_text() == text
    from tokenfield.report.run_tables import final_rows

    row = next(value for name, value in final_rows(traj, summary(traj)) if name.startswith("clusters"))
    assert f"{count} clusters" in row
    assert f"{len(sizes) - count} single tokens" in row
