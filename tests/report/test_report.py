"""Reports say what was measured, and need nothing but their file."""

import base64
import doctest
import io
import json
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from commands import linked_files
from PIL import Image

import tokenfield as tkf
from tokenfield.report import page as pages
from tokenfield.report import summary, write_report
from tokenfield.report.interactive import interactive
from tokenfield.report.run_tables import config_rows
from tokenfield.results.datasets import to_table
from tokenfield.results.describe import describe

BETA = 4.0
POST = tkf.Transformer(tkf.Softmax(BETA), tkf.PostLN())
FREE = tkf.Transformer(tkf.Softmax(1.0))


@pytest.fixture(scope="module")
def runs():
    return {
        1: tkf.layers(FREE, tkf.gaussian_tokens(10, 1, seed=0), 4, step=0.25),
        2: tkf.simulate(POST, tkf.circle_tokens([0.0, 0.5, 1.0, 1.2, 1.6]), 50.0, stop_when=tkf.one_cluster()),
        3: tkf.simulate(POST, tkf.uniform_sphere(12, 3, seed=1), 3.0, save_at=9),
        5: tkf.layers(POST, tkf.uniform_sphere(12, 5, seed=1), 8, step=0.4),
    }


def made(x, model=POST):
    """A trajectory of given tokens (frames, n, d), without a simulation."""
    frames, n, _ = np.shape(x)
    states = tkf.Tokens.__new__(tkf.Tokens)
    for name, value in (
        ("x", jnp.asarray(x)),
        ("weights", jnp.full((frames, n), 1 / n)),
        ("positions", jnp.ones((frames, n))),
        ("given_space", None),
    ):
        object.__setattr__(states, name, value)
    attributes = {"config": json.dumps({"model": describe(model)}), "events": "[]", "log_time_unit": -0.0}
    dataset = to_table(states, np.arange(frames)).assign_attrs(attributes | {"steps": 3, "rejected_steps": 1})
    return tkf.Trajectory(dataset)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_summary_is_what_the_observables_say(runs, d):
    traj, numbers = runs[d], summary(runs[d])
    final = traj.final
    groups = tkf.clusters(final)
    assert numbers["clusters"] == groups.sizes.tolist()
    assert (numbers["cluster_count"], numbers["loose"]) == (groups.count, groups.loose)
    several = sum(size > 1 for size in groups.sizes.tolist())
    assert (numbers["cluster_count"], numbers["single_tokens"]) == (several, len(groups.sizes) - several)
    assert numbers["order_parameter"] == tkf.order_parameter(final)
    assert numbers["mean_cosine"] == tkf.mean_cosine(final)
    assert numbers["effective_rank"] == tkf.effective_rank(final)
    if d == 1:
        assert (numbers["energy"], numbers["energy_kind"]) == (None, None)
    else:
        assert numbers["energy"] == pytest.approx(tkf.normalized_energy(final, BETA), rel=1e-14)
        assert numbers["energy_kind"] == "normalized"
    assert (numbers["time"], numbers["time_unit"], numbers["log_time_unit"]) == (traj.times[-1], "1", 0.0)
    assert (numbers["steps"], numbers["n"], numbers["d"]) == (traj.dataset.attrs["steps"], final.n, d)
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers


def test_summary_has_the_events(runs):
    (event,) = runs[2].events
    assert summary(runs[2])["events"] == [{"kind": "one_cluster", "time": event.time}]
    assert summary(runs[2])["clusters"] == [5]
    assert summary(runs[3])["events"] == []


def test_summary_at_beta_zero_has_the_centered_energy(runs):
    numbers = summary(made(runs[3].dataset["x"].values, tkf.Transformer(tkf.Softmax(0.0), tkf.PostLN())))
    assert (numbers["energy"], numbers["energy_kind"]) == (tkf.energy(runs[3].final, 0.0), "centered")


def test_summary_under_a_radial_norm_is_of_directions():
    theta = np.eye(3)[[0, 0, 1]]
    x = theta * np.array([1.0, 2.0, 3.0])[:, None]
    numbers = summary(made(np.stack([x, x]), tkf.Transformer(tkf.Softmax(BETA), tkf.PreLN())))
    assert (numbers["clusters"], numbers["cluster_metric"]) == ([2, 1], "cosine")
    assert numbers["energy"] == pytest.approx((5 + 4 * np.exp(-BETA)) / 9, rel=1e-14)
    assert numbers["effective_rank"] == pytest.approx(tkf.effective_rank(tkf.Tokens(x)), rel=1e-14)


def test_summary_of_rescaled_tokens_is_of_z():
    x = np.array([[[0.0, 1.0], [1e-4, 1.0], [5.0, 5.0]]])
    numbers = summary(made(x, tkf.Transformer(tkf.Softmax(1.0), tkf.Rescaled())))
    assert (numbers["clusters"], numbers["cluster_metric"], numbers["energy"]) == ([2, 1], "distance", None)


def test_summary_of_one_token_and_of_runs_that_overflow():
    alone = summary(made(np.eye(3)[None, :1]))
    assert (alone["mean_cosine"], alone["clusters"], alone["energy"]) == (None, [1], 1.0)
    x = np.random.default_rng(0).standard_normal((3, 4, 2))
    x[2] = np.nan
    numbers = summary(made(x, FREE))
    assert (numbers["time"], numbers["state_time"]) == (2.0, 1.0)
    assert numbers["order_parameter"] == tkf.order_parameter(tkf.Tokens(x[1]))
    huge = summary(made(1e200 * x[:2], FREE))
    assert huge["order_parameter"] == pytest.approx(numbers["order_parameter"], rel=1e-12)
    assert huge["mean_cosine"] == pytest.approx(numbers["mean_cosine"], rel=1e-12)


def test_summary_of_very_many_tokens_says_that_it_samples(monkeypatch):
    monkeypatch.setattr(sys.modules["tokenfield.report.summary"], "MOST_PAIRED", 50)
    x = np.random.default_rng(0).standard_normal((2, 80, 3))
    traj = made(x / np.linalg.norm(x, axis=-1, keepdims=True))
    numbers = summary(traj)
    assert (numbers["sampled"], sum(numbers["clusters"]), numbers["n"]) == (50, 50, 80)
    assert numbers["order_parameter"] == pytest.approx(tkf.order_parameter(traj.final))
    assert summary(made(x[:, :50], FREE))["sampled"] is None


def test_summary_does_not_load_matplotlib():
    code = "import sys, tokenfield.report.summary; sys.exit('matplotlib' in sys.modules or 'plotly' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    attributes = {"seed": 17, "start": json.dumps({"kind": "sphere", "n": 12})}
    traj = tkf.Trajectory(runs[3].dataset.assign_attrs(attributes))
    title = 'A <b>run</b> & "more"'
    path = write_report(
        traj, tmp_path_factory.mktemp("a") / "new", title=title, command="tokenfield simulate --d 3 <x>"
    )
    return path.read_text(encoding="utf-8")


def test_the_interactive_plot_is_named_for_screen_readers(report, runs):
    _, caption = interactive(runs[3])
    assert f'<div class="plot" role="group" aria-label="Interactive plot. {caption}">' in report


def without_scripts(html):
    return re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.DOTALL)


def test_report_loads_nothing_from_a_network(report):
    sources = re.findall(r"<script([^>]*)>", report)
    assert len(sources) >= 2
    assert not any("src" in attributes for attributes in sources)
    body = without_scripts(report)
    assert len(report) - len(body) > 3_000_000  # plotly.js is inside
    assert "http://" not in body
    assert "https://" not in body
    assert all(source.startswith("data:image/") for source in re.findall(r'src="([^"]*)"', body))
    assert "<link" not in body
    assert "@import" not in body
    assert "default-src &#x27;none&#x27;" in body


def test_report_escapes_text_and_says_how_it_was_made(report, runs):
    assert "<title>A &lt;b&gt;run&lt;/b&gt; &amp; &quot;more&quot;</title>" in report
    assert "tokenfield simulate --d 3 &lt;x&gt;" in report
    body = without_scripts(report)
    assert "<b>" not in body
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th><td[^>]*>(.*?)</td></tr>', body))
    numbers = summary(runs[3])
    assert float(rows["normalized energy"]) == pytest.approx(numbers["energy"], rel=1e-5)
    assert float(rows["order parameter"]) == pytest.approx(numbers["order_parameter"], rel=1e-5)
    assert rows["attention"] == "Softmax"
    assert rows["attention › beta"] == "4"
    assert rows["norm"] == "PostLN"
    assert rows["seed"] == "17"
    assert rows["start"] == "sphere"
    assert rows["tolerances (relative, absolute)"] == "1e−06, 1e−09"
    assert rows["steps"] == f"{numbers['steps']} ({numbers['rejected_steps']} rejected)"


def test_report_holds_figure_and_animation(report):
    found = re.findall(r'src="data:image/(png|gif);base64,([^"]*)"', without_scripts(report))
    assert [kind for kind, _ in found] == ["png", "gif"]
    png, gif = (Image.open(io.BytesIO(base64.b64decode(data))) for _, data in found)
    assert png.width >= 1000
    assert gif.n_frames == 9


def test_animation_of_a_report_may_be_given_or_left_out(runs, tmp_path):
    (tmp_path / "mine.gif").write_bytes(b"GIF89a mine")
    beside = {"overview.svg", "animation.mp4"}
    for name in beside:
        (tmp_path / name).touch()
    text = write_report(runs[2], tmp_path, animation=tmp_path / "mine.gif").read_text(encoding="utf-8")
    assert base64.b64encode(b"GIF89a mine").decode() in text
    assert linked_files(tmp_path) == beside
    text = write_report(runs[2], tmp_path, animation=None).read_text(encoding="utf-8")
    assert "image/gif" not in without_scripts(text)


def test_interactive_plot_is_small_and_names_what_it_shows(runs):
    x = np.random.default_rng(0).standard_normal((80, 600, 3))
    html, caption = interactive(made(x / np.linalg.norm(x, axis=-1, keepdims=True)))
    assert "500 of 600 tokens" in caption
    assert '"name":"39"' in html.replace(" ", "")
    assert '"name":"40"' not in html.replace(" ", "")
    _, caption = interactive(runs[5])
    variances = np.sort(np.linalg.eigvalsh(np.cov(runs[5].dataset["x"].values.reshape(-1, 5).T)))[::-1]
    assert f"{100 * variances[:3].sum() / variances.sum():.0f} % of the variance" in caption


def test_config_rows_leave_out_empty_and_internal_parts():
    model = tkf.Transformer(tkf.Softmax(A=[[0.0, 1.0], [-1.0, 0.0]], V=-1.0), tkf.PreLN(gain=[1.0, 2.0]))
    rows = dict(config_rows({"model": describe(model), "t1": 3.0, "rtol": 1e-6, "dt": None}))
    assert rows == {
        "attention": "Softmax",
        "attention › A": "[0, 1; -1, 0]",
        "attention › V": -1.0,
        "attention › causal": False,
        "attention › normalized": True,
        "norm": "PreLN",
        "norm › g": [1.0, 2.0],
        "t1": 3.0,
    }


def test_cells_are_escaped_and_rounded():
    html = pages.table([("<a>", 0.1 + 0.2, None, True, [1, 2.5]), ("b", -1e-9, "<i>", False, [])], head=("x&y",))
    assert "<th>x&amp;y</th>" in html
    assert '<th scope="row">&lt;a&gt;</th><td>0.3</td><td>–</td><td>yes</td><td>1, 2.5</td>' in html
    assert "<td>−1e−09</td><td>&lt;i&gt;</td><td>no</td><td>none</td>" in html


def test_the_same_figure_gives_the_same_bytes(runs, monkeypatch):
    files = []
    for seconds in ("0", "1000000000"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)  # the date that matplotlib would write
        files.append([pages.figure_bytes(runs[3].plot(), format, dpi=50) for format in ("png", "pdf")])
    assert files[0] == files[1]
    assert b"date>" not in pages.figure_bytes(runs[3].plot(), "svg")


@pytest.mark.parametrize("name", ["page", "table", "image", "figure_bytes"])
def test_examples_run(name):
    scope = vars(pages).copy()
    for example in doctest.DocTestParser().get_examples(getattr(pages, name).__doc__):
        exec(compile(example.source, name, "exec"), scope)


@pytest.mark.parametrize("name", ["summary", "write_report"])
def test_examples_of_reports_run(name, tmp_path, monkeypatch):
    import tokenfield.report

    monkeypatch.chdir(tmp_path)
    for_package = vars(tokenfield.report)[name]
    scope = {}
    for example in doctest.DocTestParser().get_examples(for_package.__doc__):
        exec(compile(example.source, name, "exec"), scope)


def test_formulas_are_raised_and_lowered_and_nothing_else_is_html():
    assert pages.formula("c_k e^{k²t/β} < I_{n-k}(β)") == ("c<sub>k</sub> e<sup>k²t/β</sup> &lt; I<sub>n-k</sub>(β)")
    assert pages.formula("x^{<b>}") == "x<sup>&lt;b&gt;</sup>"
    assert pages.formula("e^{-2e^{-t}}") == "e<sup>-2e<sup>-t</sup></sup>"
    assert pages.formula("∂_t μ in R^d, <x_i,x_2n> at κ_c, β_*, λ_max") == (
        "∂<sub>t</sub> μ in R<sup>d</sup>, &lt;x<sub>i</sub>,x<sub>2n</sub>&gt; at κ<sub>c</sub>, β<sub>*</sub>, λ<sub>max</sub>"
    )
    assert pages.formula("t^-2, e^((1-ρ)β)/2, (1-p)^n, Σ^½") == (
        "t<sup>-2</sup>, e<sup>(1-ρ)β</sup>/2, (1-p)<sup>n</sup>, Σ<sup>½</sup>"
    )
    names = "tokenfield atlas --only one_cluster blow_up n_heads d_model max_position figure_3 __init__ save_at Q4_1"
    assert pages.formula(names) == names
    assert pages.paragraph("t^{-2}") == "<p>t<sup>-2</sup></p>"
