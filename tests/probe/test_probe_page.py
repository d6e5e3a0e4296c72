"""Figures and page of a probe: what is drawn is what the dataset holds, and the page needs nothing but its file."""

import base64
import dataclasses
import io
import re
import shutil
import subprocess
from types import SimpleNamespace

import made_probe
import numpy as np
import pytest
from PIL import Image

from tokenfield import plotting
from tokenfield.cli import probe_table
from tokenfield.probe import page
from tokenfield.probe.architecture import Architecture
from tokenfield.probe.page import figures, lead, remarks, write_probe_report
from tokenfield.probe.powers import with_powers
from tokenfield.probe.predicted import predict
from tokenfield.probe.verdict import verdict

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def data():
    made = made_probe.dataset()
    return with_powers(made.merge(predict(made, "post", causal=False), combine_attrs="no_conflicts"))


@pytest.fixture(scope="module")
def result(data):
    architecture = Architecture(
        "bert", "post", False, False, 4, 2, 2, 64, 32, False, False, 512, "Q4_1", True, ""
    )  # fmt: skip
    notes = ["weights were stored in Q4_1", *[f"text {k} has 900 tokens <cut>" for k in range(1, 7)]]
    return SimpleNamespace(dataset=data, architecture=architecture, notes=notes)


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    target = tmp_path_factory.mktemp("probe") / "new"
    assert write_probe_report(result, target, "tokenfield probe <model>") == target / "report.html"
    return target


def test_the_columns_of_page_and_terminal_have_the_same_names():
    for name, column in probe_table.COLUMNS.items():
        assert (column.meaning or column.head) == page.COLUMNS[name]


def line(figure, label):
    found = [each for ax in figure.axes for each in ax.lines if each.get_label() == label]
    assert len(found) == 1, label
    return np.asarray(found[0].get_ydata(), float)


def test_theory_figure_draws_the_curves(data):
    figure = plotting.probe_theory(data)
    np.testing.assert_array_equal(line(figure, "measured, all tokens"), data["mean_cosine"].mean("text"))
    np.testing.assert_array_equal(line(figure, "random weights"), data["null_mean_cosine"].mean("text"))
    np.testing.assert_array_equal(line(figure, "theory, Post-LN, V = I"), data["predicted_cosine"])
    np.testing.assert_array_equal(line(figure, "theory, flow"), data["predicted_cosine_flow"])
    bare = plotting.probe_theory(data.drop_vars([name for name in data if name.startswith(("null", "pred"))]))
    assert len(bare.axes[0].lines) == 3  # measured, without special tokens, and the axis
    same = data.assign(mean_cosine_no_special=data["mean_cosine"])
    assert len(plotting.probe_theory(same).axes[0].lines) == len(figure.axes[0].lines) - 1


def test_cosine_figure_is_a_density_of_pairs(data):
    figure = plotting.probe_cosines(data)
    mesh = figure.axes[0].collections[0]
    density = np.ma.filled(mesh.get_array(), 0).reshape(40, 5)
    np.testing.assert_allclose(density.sum(0) * 0.05, 1, rtol=1e-12)
    mean = (density * np.linspace(-0.975, 0.975, 40)[:, None]).sum(0) * 0.05
    weights = data["cosine_histogram"].sum("bin")
    exact = (data["mean_cosine"] * weights).sum("text") / weights.sum("text")
    np.testing.assert_allclose(mean, exact, atol=0.01)  # bins are 0.05 wide


def test_all_panels_of_cosines_share_the_scale_of_the_color_bar(data):
    sharp = np.zeros_like(data["cosine_histogram"])
    sharp[..., 30] = 10
    axes = ("layer", "text", "bin")
    both = data.assign(null_cosine_histogram=(axes, sharp), special_histogram=(axes, 0 * sharp))
    figure = plotting.probe_cosines(both)
    assert [ax.get_title("left").split("  ")[-1] for ax in figure.axes[:2]] == [
        "all pairs",
        "all pairs, random weights",
    ]
    norms = [ax.collections[0].norm for ax in figure.axes[:2]]
    assert norms[0] is norms[1]
    assert norms[0].vmax == pytest.approx(20)  # all pairs in one bin of width 0.05


def test_pairs_with_a_special_token_are_shown_by_themselves(data):
    axes = ("layer", "text", "bin")
    special = np.zeros_like(data["cosine_histogram"])
    special[..., 12], special[..., 13] = 1, 3
    figure = plotting.probe_cosines(data.assign(special_histogram=(axes, special)))
    density = np.ma.filled(figure.axes[1].collections[0].get_array(), 0).reshape(40, 5)
    np.testing.assert_allclose(density[12:14, 0], [5, 15])
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_ydata(), data["special_cosine"].mean("text"))
    assert len(plotting.probe_cosines(data.assign(special_histogram=(axes, 0 * special))).axes) == 2  # with the bar


def test_heads_and_layers_and_smoothness_figures_show_their_numbers(data):
    figure = plotting.probe_heads(data)
    np.testing.assert_array_equal(line(figure, "critical, 1/(1−ρ)"), data["critical_gamma"].median("text"))
    dots = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_array_equal(dots, data["gamma"].median("text").values.ravel())
    layers = plotting.probe_layers(data)
    measured = [ax.lines[-1].get_ydata() for ax in layers.axes]
    np.testing.assert_array_equal(measured[1], data["effective_rank"].mean("text"))
    np.testing.assert_allclose(measured[2], (data["largest_cluster"] / data["tokens"]).mean("text"))
    smooth = plotting.probe_smoothness(data)
    powers = smooth.axes[1].containers[0].lines[0].get_ydata()
    np.testing.assert_array_equal(powers, data["lipschitz_power"])
    last = line(smooth, "block 3")
    np.testing.assert_allclose(last, np.exp(np.log(data["lipschitz"][3]).mean("sample")))


def test_what_was_not_measured_is_not_drawn(data):
    bare = data.drop_vars(["gamma", "lipschitz_power"])
    assert set(figures(data)) == {"theory", "cosines", "histograms", "layers", "heads", "smoothness"}
    assert set(figures(bare)) == {"theory", "cosines", "histograms", "layers"}


def test_page_says_what_was_found(folder, result):
    page = (folder / "report.html").read_text(encoding="utf-8")
    from html import escape

    for sentence in verdict(result.dataset, result.architecture):
        assert escape(sentence.text) in page
    assert "weights stored in Q4_1, a 4-bit format" in page
    assert "tokenfield probe &lt;model&gt;" in page
    assert "text &lt;0&gt; &amp; more" in page
    assert "3 more texts were cut in the same way" in page
    assert "post-LN (from its config)" in page
    rows = re.findall(r'<tr><th scope="row">(\d)</th>((?:<td>[^<]*</td>)+)</tr>', page)
    first = re.findall(r"<td>([^<]*)</td>", rows[0][1])
    assert float(first[0]) == pytest.approx(float(result.dataset["mean_cosine"][0].mean()), rel=5e-3)


def test_page_needs_no_network_and_figures_lie_beside_it(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|<link|https?://|@import", page)
    pictures = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    assert len(pictures) == 6
    names = ("theory", "cosines", "histograms", "layers", "heads", "smoothness")
    for name, picture in zip(names, pictures, strict=True):
        data = base64.b64decode(picture)
        assert (folder / f"{name}.png").read_bytes() == data
        assert Image.open(io.BytesIO(data)).width > 600


def test_windows_are_not_called_texts(data, result):
    assert lead(data, result.architecture).endswith("measured on 3 texts of 24 to 32 tokens.")
    windows = data.assign(text_number=("text", [1, 2, 2]))
    assert lead(windows, result.architecture).endswith("measured on 3 windows of 24 to 32 tokens in 2 texts.")


def test_an_unknown_family_is_not_said_to_be_bidirectional(data, result):
    unknown = dataclasses.replace(result.architecture, family="gpt_neox", norm="unknown", supported=False)
    text = lead(data, unknown)
    assert "bidirectional" not in text
    assert "norm rule not known" in text


def test_remarks_are_sentences():
    assert remarks(["a note", "Done.", "model.bin is old"]) == ["A note.", "Done.", "model.bin is old."]


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed (make test installs it when run by root)")
def test_a_browser_shows_the_page_without_complaint(folder, tmp_path):
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--enable-logging=stderr",
    ]
    command = [BROWSER, *flags, f"--user-data-dir={tmp_path}", f"--screenshot={tmp_path / 'page.png'}"]
    done = subprocess.run(
        [*command, "--window-size=1100,4000", (folder / "report.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    colors = np.asarray(Image.open(tmp_path / "page.png").convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colors[::7], axis=0)) > 500  # pictures are there
