"""Figures show the numbers of the run: what is drawn is read back and compared with the observables."""

import doctest
import json

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from PIL import Image

import tokenfield as tkf
from tokenfield.normalization.base import AbstractGainNorm, Gain
from tokenfield.plotting import Sheet, animate, cosine_panel, energy_panel, overview, space_time, tokens_panel
from tokenfield.plotting.circle import unbroken, widest_gap
from tokenfield.plotting.cosines import pair_histogram, time_edges
from tokenfield.plotting.frames import final_clusters, read_frames, relative
from tokenfield.plotting.projection import principal_axes, view_of
from tokenfield.plotting.style import PALETTE
from tokenfield.plotting.time_axis import is_logarithmic
from tokenfield.plotting.token_paths import arcs
from tokenfield.results.datasets import to_table
from tokenfield.results.describe import describe

BETA = 4.0
POST = tkf.Transformer(tkf.Softmax(BETA), tkf.PostLN())


@pytest.fixture(scope="module")
def runs():
    free = tkf.Transformer(tkf.Softmax(1.0))
    return {
        1: tkf.layers(free, tkf.gaussian_tokens(10, 1, seed=0), 8, step=0.25),
        2: tkf.simulate(POST, tkf.circle_tokens([0.0, 0.5, 1.0, 1.2, 1.6]), 50.0, stop_when=tkf.one_cluster()),
        3: tkf.layers(POST, tkf.uniform_sphere(12, 3, seed=1), 8, step=0.4),
        5: tkf.layers(POST, tkf.uniform_sphere(12, 5, seed=1), 8, step=0.4),
    }


def made(x, times=None, model=POST, weights=None, events=(), log_unit=0.0):
    """A trajectory of given tokens (frames, n, d), without a simulation."""
    x = jnp.asarray(x, float)
    frames, n, _ = x.shape
    weights = jnp.full(n, 1 / n) if weights is None else jnp.asarray(weights)
    states = tkf.Tokens.__new__(tkf.Tokens)
    for name, value in (("x", x), ("weights", jnp.tile(weights, (frames, 1))), ("positions", jnp.ones((frames, n)))):
        object.__setattr__(states, name, value)
    record = {"config": json.dumps({"model": describe(model)}), "events": json.dumps(list(events))}
    numbers = {"log_time_unit": log_unit, "steps": 1, "rejected_steps": 0}
    times = np.arange(frames) if times is None else np.asarray(times)
    return tkf.Trajectory(to_table(states, times).assign_attrs(record | numbers))


def panel(draw, traj, **options):
    return draw(traj, Sheet().add_subplot(), **options)


def line(ax, label):
    return next(one for one in ax.lines if one.get_label() == label)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_energy_curve_is_the_normalized_energy_of_the_states(runs, d):
    ax = panel(energy_panel, runs[d])
    drawn = line(ax, "normalized energy")
    np.testing.assert_allclose(drawn.get_xdata(), runs[d].times, rtol=0)
    expected = [tkf.normalized_energy(state, BETA) for state in runs[d].states]
    np.testing.assert_allclose(drawn.get_ydata(), expected, rtol=1e-12)
    expected = [tkf.order_parameter(state) for state in runs[d].states]
    np.testing.assert_allclose(line(ax, "order parameter").get_ydata(), expected, rtol=1e-12)


def test_energy_at_beta_zero_is_the_centered_one(runs):
    x = runs[3].dataset["x"].values
    ax = panel(energy_panel, made(x, model=tkf.Transformer(tkf.Softmax(0.0), tkf.PostLN())))
    expected = [tkf.energy(state, 0.0) for state in runs[3].states]
    np.testing.assert_allclose(line(ax, "centered energy").get_ydata(), expected, rtol=1e-12)


def test_model_without_energy_has_order_and_rank(runs):
    traj = made(runs[3].dataset["x"].values, model=tkf.Transformer(tkf.L2(1.0), tkf.PostLN()))
    ax = panel(energy_panel, traj)
    assert [one.get_label() for one in ax.lines] == ["order parameter", "effective rank / 3"]
    expected = [tkf.effective_rank(state) / 3 for state in runs[3].states]
    np.testing.assert_allclose(line(ax, "effective rank / 3").get_ydata(), expected, rtol=1e-12)


def test_spread_on_the_line_is_the_standard_deviation(runs):
    drawn = panel(energy_panel, runs[1]).lines[0].get_ydata()
    np.testing.assert_allclose(drawn, runs[1].dataset["x"].values[..., 0].std(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("attention", "norm", "beta"),
    [
        (tkf.Softmax(2.0), tkf.PostLN(), 2.0),
        (tkf.Unnormalized(2.0), tkf.NGPT(), 2.0),
        (tkf.Softmax(0.0), tkf.PreLN(), 0.0),
        (tkf.Softmax(2.0), tkf.PostLN(gain=3.0), 2.0 * 9 * 3),
        (tkf.Softmax(2.0), tkf.PreLN(gain=[3.0, 3.0, 3.0]), 2.0 * 9 * 3),
        (tkf.Softmax(2.0), tkf.PreLN(gain=[3.0, 3.0, 1.0]), None),
        (tkf.Softmax(2.0), tkf.NoNorm(), None),
        (tkf.Softmax(2.0), tkf.Rescaled(), None),
        (tkf.Softmax(-2.0), tkf.PostLN(), None),
        (tkf.Softmax(2.0, causal=True), tkf.PostLN(), None),
        (tkf.Softmax(2.0, V=2.0), tkf.PostLN(), None),
        (tkf.Softmax(A=np.eye(3)), tkf.PostLN(), None),
        (tkf.Softmax(lambda t: 1 + t), tkf.PostLN(), None),
        (tkf.L2(2.0), tkf.PostLN(), None),
        (tkf.MultiHead([tkf.Softmax(2.0)]), tkf.PostLN(), None),
    ],
)
def test_beta_of_the_energy_is_read_from_the_record(attention, norm, beta):
    assert made(np.ones((1, 2, 3)), model=tkf.Transformer(attention, norm)).energy_beta == pytest.approx(beta)


class OwnNorm(AbstractGainNorm):  # a user's own
    gain: Gain
    speed = growth = layer = radius = inputs = segments = lambda self, *_: None


def test_neither_noise_nor_a_norm_of_your_own_changes_the_beta_of_the_energy():
    """Both may be recorded incompletely: a large matrix of noise by its hash, a class of your own by its name."""
    noise = tkf.AnisotropicNoise(1.0, np.eye(33))
    wide = made(np.ones((1, 2, 33)), model=tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN(), noise=noise))
    own = made(np.ones((1, 2, 3)), model=tkf.Transformer(tkf.Softmax(2.0), OwnNorm(Gain(3.0))))
    for run, beta in ((wide, 2.0), (own, 2.0 * 9 * 3)):
        with pytest.raises(ValueError, match="not"):
            run.model  # noqa: B018
        assert run.energy_beta == pytest.approx(beta)


def test_mlp_has_no_energy():
    mlp = tkf.MLP(W1=np.eye(3), W2=np.eye(3))
    assert made(np.ones((1, 2, 3)), model=tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN(), mlp)).energy_beta is None


def test_lengths_do_not_matter_under_a_radial_norm(runs):
    x = runs[3].dataset["x"].values
    longer = made(x * np.linspace(1, 2, x.shape[1])[:, None], model=tkf.Transformer(tkf.Softmax(BETA), tkf.PreLN()))
    expected = [tkf.normalized_energy(state, BETA) for state in runs[3].states]
    np.testing.assert_allclose(line(panel(energy_panel, longer), "normalized energy").get_ydata(), expected, rtol=1e-12)
    assert panel(tokens_panel, longer).get_title(loc="left") == "Directions on the sphere"


def test_pca_says_so_with_the_right_variance(runs):
    title = panel(tokens_panel, runs[5]).get_title(loc="left")
    pool = runs[5].dataset["x"].values.reshape(-1, 5)
    variances = np.sort(np.linalg.eigvalsh(np.cov(pool.T)))[::-1]
    share = variances[:2].sum() / variances.sum()
    assert 0.3 < share < 0.97
    assert f"PCA: {100 * share:.0f} % of the variance" in title
    axes, explained = principal_axes(runs[5].dataset["x"].values, np.full((len(runs[5].times), 12), 1 / 12), 2)
    np.testing.assert_allclose(explained, variances[:2] / variances.sum(), rtol=1e-10)
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
    ends = view_of(read_frames(runs[5])).points[-1]
    np.testing.assert_allclose(ends, np.asarray(runs[5].final.x) @ axes.T, atol=1e-12)


def test_views_of_three_dimensions_are_rotations(runs):
    view = view_of(read_frames(runs[3]))
    np.testing.assert_allclose(view.basis @ view.basis.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(view.basis) == pytest.approx(1)
    np.testing.assert_allclose((view.points**2).sum(-1) + view.depth**2, 1, atol=1e-9)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_histogram_counts_the_pairwise_cosines(runs, d):
    histogram = pair_histogram(read_frames(runs[d], most=len(runs[d].times)))
    for k in (0, len(runs[d].times) // 2, -1):
        cosines = tkf.pairwise_cosines(runs[d].state(k))
        expected = np.histogram(cosines, histogram.edges)[0] / len(cosines)
        # A cosine of 1 to within rounding may fall on either side of an edge.
        np.testing.assert_allclose(np.cumsum(histogram.shares[k]), np.cumsum(expected), atol=1.01 / len(cosines))
        assert histogram.mean[k] == pytest.approx(tkf.mean_cosine(runs[d].state(k)), abs=1e-12)
    np.testing.assert_allclose(histogram.shares.sum(axis=1), 1, atol=1e-12)


def test_histogram_weighs_pairs():
    traj = made(np.array([[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]]), weights=[0.5, 0.3, 0.2])
    shares = pair_histogram(read_frames(traj), bins=4).shares[0]  # edges -1, -1/2, 0, 1/2, 1
    mass = np.array([0.5 * 0.2, 0.0, 0.5 * 0.3 + 0.3 * 0.2, 0.0])
    np.testing.assert_allclose(shares, mass / mass.sum(), atol=1e-12)


def test_distances_in_space_unless_the_tokens_grow():
    free = tkf.Transformer(tkf.Softmax(1.0))
    x = np.random.default_rng(0).standard_normal((2, 6, 3))
    assert pair_histogram(read_frames(made(x, model=free))).label == "pairwise distance"
    x[1] *= 1e200
    frames = read_frames(made(x, model=free))
    assert pair_histogram(frames).label == "pairwise cosine"
    np.testing.assert_allclose((relative(frames) ** 2).sum(-1).mean(1), 1, rtol=1e-12)
    assert "r.m.s." in view_of(frames).title


def test_heat_map_shows_the_histogram(runs):
    ax = panel(cosine_panel, runs[3])
    shares = pair_histogram(read_frames(runs[3])).shares
    np.testing.assert_allclose(ax.collections[0].get_array().filled(0).T, shares)
    edges = time_edges(np.array([0.0, 1.0, 4.0]))
    np.testing.assert_allclose(edges, [0.0, 0.5, 2.5, 4.0])


def test_large_runs_are_sampled_and_say_so():
    x = np.random.default_rng(0).standard_normal((2, 1100, 3))
    traj = made(x / np.linalg.norm(x, axis=-1, keepdims=True))
    assert "1024 of 1100 tokens" in panel(energy_panel, traj).get_title(loc="left")
    assert "1024 of 1100 tokens" in panel(cosine_panel, traj).get_title(loc="left")
    assert "of 1100" not in panel(tokens_panel, traj).get_title(loc="left")
    once, again = (read_frames(traj).sample(100) for _ in range(2))
    np.testing.assert_array_equal(once.x, again.x)
    np.testing.assert_allclose(once.weights.sum(axis=1), 1)


def test_colors_are_final_clusters():
    start = np.random.default_rng(0).standard_normal((7, 3))
    end = np.eye(3)[[0, 0, 0, 0, 1, 1, 2]]
    traj = made(np.stack([start / np.linalg.norm(start, axis=1, keepdims=True), end]))
    ax = panel(tokens_panel, traj)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["4", "2", "1 other"]
    marks = ax.collections[-1]  # one mark a cluster, its area growing with the mass
    colors = [matplotlib.colors.to_hex(color).upper() for color in marks.get_facecolors()]
    assert colors == [PALETTE[0], PALETTE[1]]
    assert marks.get_sizes()[0] > marks.get_sizes()[1]
    np.testing.assert_allclose(np.asarray(marks.get_offsets()), view_of(read_frames(traj)).points[-1, [0, 4]])


def test_growing_tokens_are_clustered_relative_to_their_size():
    far = np.array([[1.0, 0.0], [1.0, 1e-9], [0.0, 1.0]])
    traj = made(np.stack([far + 0.1 * np.eye(3, 2), 1e12 * far]), model=tkf.Transformer(tkf.Softmax(1.0)))
    groups, metric = final_clusters(read_frames(traj))
    assert (groups.sizes.tolist(), metric) == ([2, 1], "relative distance")


def test_events_are_dashed_lines_with_names(runs):
    (event,) = runs[2].events
    for draw, names in ((energy_panel, ["one cluster"]), (cosine_panel, [])):  # a name would cover cosines
        ax = panel(draw, runs[2])
        dashed = [one for one in ax.lines if one.is_dashed()]
        assert [one.get_xdata()[0] for one in dashed] == [event.time]
        assert [text.get_text() for text in ax.texts] == names


def test_time_axis_has_its_unit():
    plain = made(np.ones((2, 3, 2)))
    assert panel(energy_panel, plain).get_xlabel() == "time $t$"
    assert panel(energy_panel, tkf.layers(POST, tkf.uniform_sphere(3, 2), 2)).get_xlabel() == "layer"
    assert is_logarithmic(np.geomspace(1e-2, 1e5, 30))
    assert not is_logarithmic(np.linspace(0, 1e5, 30))
    ax = panel(energy_panel, made(np.ones((30, 2, 2)) / 2**0.5, times=np.geomspace(1e-2, 1e5, 30)))
    assert ax.get_xscale() == "log"


def ticks(ax):
    low, high = ax.get_xlim()
    found = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
    return {text.get_text(): at for at, text in found if low <= at <= high}


def test_long_times_are_shown_in_powers_of_ten():
    ten = np.log(10)
    spread = np.ones((30, 2, 2)) / 2**0.5
    ax = panel(energy_panel, made(spread, times=np.geomspace(1e-2, 1e5, 30), log_unit=5336.5 * ten))
    assert ax.get_xlabel() == r"$\log_{10} t$"
    assert list(ticks(ax)) == ["5336", "5338", "5340"]
    np.testing.assert_allclose(list(ticks(ax).values()), 10 ** np.array([-0.5, 1.5, 3.5]), rtol=1e-9)
    plain = panel(energy_panel, made(spread, times=np.geomspace(1, 1e305, 30)))
    assert (plain.get_xlabel(), list(ticks(plain))) == (r"$\log_{10} t$", ["0", "100", "200", "300"])
    even = panel(energy_panel, made(spread, times=np.linspace(0, 4, 30), log_unit=-21.7 * ten))
    assert even.get_xlabel() == "time $t$ (units of $10^{-22}$)"
    assert list(ticks(even)) == ["0", "2", "4", "6"]
    np.testing.assert_allclose(list(ticks(even).values()), np.array([0, 2, 4, 6]) / 10**0.3, rtol=1e-12)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_overview_draws_every_dimension_and_leaves_matplotlib_as_it_was(runs, d, tmp_path):
    import matplotlib.pyplot as plt

    before = dict(matplotlib.rcParams)
    sheet = overview(runs[d], title="a run")
    sheet.savefig(tmp_path / "run.png", dpi=60)
    sheet.savefig(tmp_path / "run.pdf")
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []
    assert sheet._repr_png_().startswith(b"\x89PNG")
    with Image.open(tmp_path / "run.png") as image:
        pixels = np.asarray(image.convert("L"))
    assert (pixels < 250).mean() > 0.02
    assert runs[d].plot().get_size_inches()[0] == sheet.get_size_inches()[0]


@pytest.mark.slow
def test_one_token_and_one_time_can_be_drawn(tmp_path):
    for x in (np.ones((1, 1, 1)), np.eye(3)[None, :1], np.eye(3)[None], np.zeros((2, 4, 3))):
        model = POST if x.any() and x.shape[2] > 1 else tkf.Transformer(tkf.Softmax(1.0))
        overview(made(x, model=model)).savefig(tmp_path / "x.png", dpi=40)
        animate(made(x, model=model), tmp_path / "x.gif")


def test_frames_end_before_the_first_that_is_not_finite():
    x = np.ones((4, 3, 2))
    x[2, 0, 0] = np.inf
    frames = read_frames(made(x, model=tkf.Transformer(tkf.Softmax(1.0))))
    assert frames.times.tolist() == [0, 1]
    assert len(read_frames(made(np.ones((200, 2, 2))), most=60).times) == 60


def test_other_states_are_refused(runs):
    other = tkf.Trajectory(runs[3].dataset.assign_attrs(state="Density"))
    with pytest.raises(TypeError, match="needs a run of Tokens, got a run of Density"):
        overview(other)


def test_paths_stay_on_the_sphere():
    x = np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0]]])
    path = arcs(read_frames(made(x))).x[:, 0]
    np.testing.assert_allclose(np.linalg.norm(path, axis=1), 1)
    assert len(path) == 15 + 1 + 1  # 90 degrees in pieces of 6, then a token at rest
    np.testing.assert_allclose(path[[0, 15, 16]], x[:, 0], atol=1e-12)
    assert np.linalg.norm(np.diff(path, axis=0), axis=1).max() < np.radians(12)


def test_animation_has_all_frames_and_true_colors(tmp_path):
    rng = np.random.default_rng(0)
    start, end = rng.standard_normal((256, 3)), rng.standard_normal((256, 3)) * 0.02 + np.eye(3)[np.arange(256) % 3]
    part = np.linspace(0, 1, 30)[:, None, None]
    x = (1 - part) * start + part * end
    x[-1] = np.eye(3)[np.arange(256) % 3]
    path = animate(made(x / np.linalg.norm(x, axis=-1, keepdims=True)), tmp_path / "new" / "run.gif", fps=25)
    assert path.stat().st_size < 30 / 100 * 3e6
    with Image.open(path) as image:
        assert image.n_frames == 30
        assert image.info["duration"] == 40
        image.seek(29)
        last = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert tuple(last[-1]) == (255, 255, 255)
    shown = {tuple(color) for color in last}
    for color in PALETTE[:3]:
        assert tuple(int(color[k : k + 2], 16) for k in (1, 3, 5)) in shown
    assert Image.open(animate(made(x), tmp_path / "few.gif", frames=4)).n_frames == 4


def test_animation_refuses_what_it_cannot_write(runs, tmp_path):
    with pytest.raises(ValueError, match=r'path must end in "\.gif", "\.mp4" or "\.html"'):
        animate(runs[3], tmp_path / "run.avi")
    with pytest.raises(ValueError, match="fps must be"):
        animate(runs[3], tmp_path / "run.gif", fps=0)


def test_space_time_draws_angles_without_cutting_a_cluster():
    angles = np.array([[3.0, -3.1, 0.0], [3.1, 3.1, 0.1]])  # two tokens that meet near pi, from both sides
    x = np.stack([np.cos(angles), np.sin(angles)], -1)
    (ax,) = space_time(made(x)).axes
    lines = [one.vertices for one in ax.collections[0].get_paths()]
    assert len(lines) == 3
    np.testing.assert_allclose(lines[0][:, 1], [3.0, 3.1], atol=1e-12)
    np.testing.assert_allclose(lines[1][:, 1], [2 * np.pi - 3.1, 3.1], atol=1e-12)
    (turned,) = space_time(made(np.stack([np.cos(angles + np.pi), np.sin(angles + np.pi)], -1))).axes
    written = {"0": 0.0, r"$\pi/2$": 0.5, r"$\pi$": 1.0, r"$3\pi/2$": 1.5}  # in units of pi
    for each in (ax, turned):
        labels = [written[label.get_text()] for label in each.get_yticklabels()]
        np.testing.assert_allclose(np.mod(each.get_yticks() / np.pi, 2), labels, atol=1e-12)
    assert widest_gap(np.array([0.0, 1.0])) == pytest.approx((1 + 2 * np.pi) / 2 - 2 * np.pi)
    assert [len(part) for part in unbroken(np.arange(4.0), np.array([0.1, 0.0, 6.2, 6.1]))] == [2, 2]


def test_space_time_needs_the_plane(runs):
    with pytest.raises(ValueError, match="needs d = 2, got d = 3"):
        space_time(runs[3])


@pytest.mark.parametrize("draw", [overview, animate, space_time, tokens_panel, energy_panel, cosine_panel])
def test_examples_run(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for example in doctest.DocTestParser().get_examples(draw.__doc__):
        exec(compile(example.source, draw.__name__, "exec"), scope)
