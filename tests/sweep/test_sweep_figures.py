"""Pictures of sweeps: the numbers on their axes are those of the dataset and of theory."""

import numpy as np
import pytest
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure

import tokenfield as tkf
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.figures import MOST_PANELS
from tokenfield.sweep.plan import read_plan
from tokenfield.sweep.result import SweepResult
from tokenfield.sweep.store import layout

BETAS = {"linspace": [0.5, 4.0, 8]}
KAPPAS = {"logspace": [0.5, 12.0, 9]}


def filled(axes, record, values=None, **options):
    """A sweep of which no run was made: every number is drawn at random, or given."""
    options = {"run": {"t1": 4.0, "stop_when": "one-cluster", "tokens": {"n": 8, "d": 3}}, "repeats": 3} | options
    plan = read_plan({"axes": axes, "record": {"q": record}, **options})
    dataset = layout(plan, Cells(plan))
    shape = dataset["q"].shape
    dataset["q"].values[:] = (
        np.random.default_rng(0).random(shape) if values is None else np.broadcast_to(values, shape)
    )
    return SweepResult(dataset)


def meshes(sheet):
    panels = [ax for ax in sheet.axes if ax.get_label() != "<colorbar>"]
    return [part for ax in panels for part in ax.collections if isinstance(part, QuadMesh)]


def legend(sheet):
    """The entries of the legend, and the notes above them."""
    if not sheet.legends:
        return [], ""
    return [text.get_text() for text in sheet.legends[0].get_texts()], sheet.legends[0].get_title().get_text()


def line(ax, label):
    return next(one for one in ax.lines if one.get_label() == label)


def bands(ax):
    return [part.get_paths()[0].vertices[:, 1] for part in ax.collections if isinstance(part, PolyCollection)]


def test_panels_of_an_unbounded_quantity_share_one_scale_and_show_the_means():
    scale = np.array([1.0, 30.0])[:, None, None, None]
    found = filled({"d": [2, 64], "beta": BETAS, "kappa": KAPPAS}, "energy")
    found.dataset["q"].values[:] *= scale
    drawn = meshes(found.plot())
    assert len(drawn) == 2
    mean = found.dataset["q"].values.mean(-1)  # (d, beta, kappa): kappa, which is longer, goes across
    for k, mesh in enumerate(drawn):
        assert mesh.get_clim() == pytest.approx((mean.min(), mean.max()))
        np.testing.assert_allclose(mesh.get_array(), mean[k])


def test_fractions_are_on_the_scale_from_0_to_1():
    assert meshes(filled({"beta": BETAS, "kappa": KAPPAS}, "order_parameter").plot())[0].get_clim() == (0, 1)


def test_cells_of_a_logarithmic_axis_end_at_geometric_means():
    found = filled({"beta": BETAS, "kappa": KAPPAS}, "order_parameter")
    sheet = found.plot()
    edges = meshes(sheet)[0].get_coordinates()
    kappa, beta = found.dataset["kappa"].values, found.dataset["beta"].values
    np.testing.assert_allclose(edges[0, 1:-1, 0], np.sqrt(kappa[1:] * kappa[:-1]))
    np.testing.assert_allclose(edges[1:-1, 0, 1], (beta[1:] + beta[:-1]) / 2)
    assert (sheet.axes[0].get_xscale(), sheet.axes[0].get_yscale()) == ("log", "linear")


def test_values_out_of_order_are_drawn_in_order():
    betas = [3.0, 1.0, 2.5, 2.0, 4.0, 0.5, 7.0, 6.0]
    axes = {"beta": betas, "kappa": KAPPAS}
    found = filled(axes, "order_parameter", theory="critical_kappa")
    sheet = found.plot()
    np.testing.assert_allclose(meshes(sheet)[0].get_array(), found.mean("q").sortby("beta").transpose("beta", "kappa"))
    assert list(line(sheet.axes[0], r"theory: critical $\kappa$").get_ydata()) == sorted(betas)
    found = filled({"beta": [3.0, 1.0, 2.0]}, "order_parameter")
    drawn = line(found.plot().axes[0], "mean")
    assert list(drawn.get_xdata()) == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(drawn.get_ydata(), found.mean("q").sortby("beta"))


@pytest.mark.parametrize("attention", ["unnormalized", "softmax"])
@pytest.mark.parametrize("long", ["beta", "kappa"])
def test_the_critical_kappa_is_drawn_over_the_map(attention, long):
    axes = {"beta": {"linspace": [0.5, 4.0, 12 if long == "beta" else 8]}, "kappa": KAPPAS}
    run = {"t1": 4.0, "attention": {"kind": attention}, "tokens": {"n": 8, "d": 3}}
    ax = filled(axes, "order_parameter", run=run, theory="critical_kappa").plot().axes[0]
    drawn = line(ax, r"theory: critical $\kappa$")
    betas = np.linspace(0.5, 4.0, 12 if long == "beta" else 8)
    exact = [tkf.theory.critical_kappa(beta, 3, attention) for beta in betas]
    x, y = (betas, exact) if long == "beta" else (exact, betas)
    np.testing.assert_allclose(drawn.get_xdata(), x)
    np.testing.assert_allclose(drawn.get_ydata(), y)
    assert (ax.get_xlabel(), ax.get_ylabel())[long == "beta"] == r"$\kappa$"


def test_the_critical_kappa_is_in_the_units_of_time_of_the_run():
    run = {"t1": 4.0, "attention": {"kind": "unnormalized"}, "tokens": {"n": 8, "d": 3}}
    found = filled({"beta": [20.0, 40.0], "kappa": KAPPAS}, "order_parameter", run=run, theory="critical_kappa")
    places = tkf.sweep.predicted.thresholds(found.plan, {}, "kappa", "beta")
    exact = [tkf.theory.critical_kappa(20.0, 3), tkf.theory.critical_kappa(40.0, 3, log_unit=40.0)]
    np.testing.assert_allclose(places, exact)


def test_the_ready_plan_of_noisy_order_is_a_map_with_the_curve():
    plan = read_plan("noisy-order-parameter")
    found = SweepResult(layout(plan, Cells(plan)))
    found.dataset["order"].values[:] = 0.5
    sheet = found.plot()
    exact = [tkf.theory.critical_kappa(beta, 3) for beta in plan.axes["beta"].expanded()]
    np.testing.assert_allclose(line(sheet.axes[0], r"theory: critical $\kappa$").get_xdata(), exact)
    kappas = plan.axes["kappa"].expanded()
    assert min(kappas) < min(exact) < max(exact) < max(kappas)
    assert legend(sheet)[0] == [r"theory: critical $\kappa$"]


def test_the_equiangular_curve_over_time_is_the_theorys():
    record = {"observable": "fraction_above", "times": {"linspace": [0.0, 30.0, 7]}}
    run = {"t1": 30.0, "attention": {"kind": "softmax"}, "tokens": {"n": 8, "d": 3}}
    ax = filled({"beta": BETAS}, record, run=run, theory="equiangular").plot().axes[0]
    drawn = line(ax, "theory: equiangular tokens")
    exact = [tkf.theory.time_to_cosine(0.999, 8, beta, tkf.PostLN()) for beta in (0.5, 4.0)]
    np.testing.assert_allclose(drawn.get_xdata()[[0, -1]], exact)
    np.testing.assert_allclose(drawn.get_ydata(), np.linspace(0.5, 4.0, 8))


def test_unknown_theories_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^theory: Input should be 'equiangular', 'critical_kappa'.*, got 'kappa'$"):
        filled({"beta": BETAS}, "energy", theory="kappa")


def test_panels_that_are_left_out_are_told():
    axes = {"n": [2, 4], "beta": BETAS, "kappa": KAPPAS}
    assert legend(filled({"d": [2, 3], **axes}, "energy", repeats=1).plot()) == ([], "")
    sheet = filled({"d": [2, 3, 4, 5, 6, 7, 8], **axes}, "energy", repeats=1).plot()
    assert len(meshes(sheet)) == MOST_PANELS
    assert legend(sheet) == ([], "The first 12 of 14 panels are drawn.")


def test_bands_end_where_the_quantity_does_and_are_explained():
    values = np.array([0.0, 0.0, 1.0])
    sheet = filled({"beta": [1.0, 2.0], "d": [2, 3]}, "order_parameter", values).plot()
    found = bands(sheet.axes[0])
    assert len(found) == 2
    for band in found:
        assert band.min() == 0.0
        assert band.max() == pytest.approx(values.mean() + values.std())
    assert "Mean over 3 repeats; band: ± one standard deviation, cut to [0, 1]." in legend(sheet)[1]
    assert max(bands(filled({"beta": [1.0, 2.0]}, "fraction_above", 1 - values).plot().axes[0])[0]) == 1.0
    assert min(bands(filled({"beta": [1.0, 2.0]}, "mean_cosine", -values).plot().axes[0])[0]) < -0.5


def test_events_are_averaged_where_they_happened_and_open_marks_tell_where():
    times = np.full((3, 4, 3), np.nan)  # d, beta, repeat
    times[0] = [[1.0, 2.0, 3.0], [2.0, np.nan, 6.0], [np.nan] * 3, [np.nan] * 3]
    times[1, 0] = 5.0
    sheet = filled({"d": [2, 3, 4], "beta": [1.0, 2.0, 3.5, 4.0]}, {"event": "one_cluster"}, times).plot()
    entries, notes = legend(sheet)
    assert entries == ["$d$ = 2", "$d$ = 3"]
    np.testing.assert_allclose(line(sheet.axes[0], "$d$ = 2").get_ydata(), [2.0, 4.0, np.nan, np.nan])
    opened = [one for one in sheet.axes[0].lines if one.get_markerfacecolor() == "white"]
    assert [list(one.get_xydata()[0]) for one in opened] == [[2.0, 4.0]]
    assert "Open marks: the event did not happen in some repeats; the mean is over the others." in notes
    assert "No mark: the event did not happen in any repeat." in notes
    assert "No value: $d$ = 4." in notes
    assert sheet.axes[0].get_xlim()[1] > 4.0


def test_a_sweep_without_any_value_is_still_drawn():
    for axes in ({"beta": [1.0, 2.0]}, {"beta": BETAS, "kappa": KAPPAS}):
        entries, notes = legend(filled(axes, "energy", np.nan).plot())
        assert entries == []
        assert "there is no value in any repeat" in notes


def test_theory_is_neutral_in_the_legend():
    from tokenfield.plotting.style import INK, PALETTE

    sheet = filled({"d": [2, 3], "beta": [5.0, 10.0, 20.0, 50.0]}, "clusters", theory="first_clusters").plot()
    handles = dict(zip(legend(sheet)[0], sheet.legends[0].legend_handles, strict=True))
    assert set(handles) == {"$d$ = 2", "$d$ = 3", "theory (lines)"}
    assert handles["theory (lines)"].get_color() == INK
    assert handles["$d$ = 2"].get_color() == PALETTE[0]
    exact = [tkf.theory.first_clusters(beta, 2) for beta in (5.0, 10.0, 20.0, 50.0)]
    assert any(list(one.get_ydata()) == exact and one.get_color() == PALETTE[0] for one in sheet.axes[0].lines)


def test_kinds_are_marks_side_by_side_not_a_line():
    for axis, values, names in (
        ("attention.causal", [False, True], ["false", "true"]),
        ("norm", ["post", "pre", "sqrt"], ["post", "pre", "sqrt"]),
    ):
        found = filled({axis: values}, "order_parameter")
        ax = found.plot().axes[0]
        drawn = line(ax, "mean")
        assert drawn.get_linestyle() == "None"
        assert [text.get_text() for text in ax.get_xticklabels()] == names
        np.testing.assert_allclose(drawn.get_xdata(), range(len(values)))
        np.testing.assert_allclose(drawn.get_ydata(), found.mean("q"))
    sheet = filled({"attention.causal": [False, True], "beta": [1.0, 2.0, 3.0]}, "order_parameter").plot()
    assert legend(sheet)[0] == ["attention.causal = false", "attention.causal = true"]


def test_a_real_sweep_is_drawn_to_a_file(tmp_path):
    run = {"t1": 2.0, "tokens": {"n": 4, "d": 3}}
    found = tkf.sweep({"run": run, "axes": {"beta": [1.0, 2.0]}, "record": {"r": "order_parameter"}, "repeats": 2})
    sheet = found.plot()
    np.testing.assert_allclose(line(sheet.axes[0], "mean").get_ydata(), found.dataset["r"].values.mean(1))
    sheet.savefig(tmp_path / "r.png", dpi=60)
    assert (tmp_path / "r.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="name must be one of r, got 'q'"):
        found.plot("q")


def test_a_sweep_of_one_panel_is_drawn_into_axes_of_the_user():
    ax = Figure().add_subplot()
    found = filled({"beta": [3.0, 1.0, 2.0]}, "order_parameter")
    assert found.plot(ax=ax) is ax
    np.testing.assert_allclose(line(ax, "mean").get_ydata(), found.mean("q").sortby("beta"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"$\beta$", "order parameter")
    figure = Figure()
    found = filled({"beta": BETAS, "kappa": KAPPAS}, "order_parameter")
    found.plot("q", ax=figure.add_subplot())
    np.testing.assert_allclose(meshes(figure)[0].get_array(), found.mean("q").transpose("beta", "kappa"))
    several = filled({"d": [2, 64], "beta": BETAS, "kappa": KAPPAS}, "energy")
    with pytest.raises(ValueError, match="ax: this sweep has a panel for each value of d: use plot"):
        several.plot(ax=ax)
    with pytest.raises(ValueError, match="ax must be matplotlib axes, got 3"):
        found.plot(ax=3)
