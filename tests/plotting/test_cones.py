"""Covariances in the cone, and ranks of their limits: exact coordinates, cases with known limits, figures that draw."""

import doctest

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.plotting.cones import COLORS, covariance_paths
from tokenfield.studies import gaussian_ranks as ranks
from tokenfield.studies.gaussian_cones import CASES, KERNELS, cone_attention, cone_starts
from tokenfield.theory.gaussian import gaussian_stationarity

rng = np.random.default_rng(0)
ROOTS = rng.standard_normal((50, 2, 2))
COVS = ROOTS @ np.swapaxes(ROOTS, 1, 2)


def test_coordinates_are_trace_and_determinant():
    x, y, z = tkf.plotting.cone_coordinates(COVS).T
    np.testing.assert_allclose(z, np.trace(COVS, axis1=1, axis2=2), rtol=1e-14)
    np.testing.assert_allclose(z**2 - x**2 - y**2, 4 * np.linalg.det(COVS), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose((z + np.hypot(x, y)) / 2, np.linalg.eigvalsh(COVS)[:, 1], rtol=1e-12)
    np.testing.assert_allclose(tkf.plotting.cone_coordinates([[0.7, 0.1], [0.1, 0.3]]), [0.4, 0.2, 1.0], rtol=1e-14)


def test_rank_one_is_the_surface():
    x, y, z = tkf.plotting.cone_coordinates(ROOTS[:, :, :1] * ROOTS[:, None, :, 0]).T
    np.testing.assert_allclose(np.hypot(x, y), z, rtol=1e-12)


def test_a_rotation_turns_the_cone_by_twice_its_angle():
    turn = lambda angle: np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])  # noqa: E731
    before, after = (tkf.plotting.cone_coordinates(S) for S in (COVS, turn(0.3) @ COVS @ turn(0.3).T))
    np.testing.assert_allclose(after[:, :2], before[:, :2] @ turn(0.6).T, atol=1e-12)


def test_coordinates_are_of_the_plane():
    with pytest.raises(ValueError, match=r"shape \(\.\.\., 2, 2\), got \(3, 3\)"):
        tkf.plotting.cone_coordinates(np.eye(3))


@pytest.mark.parametrize("quick", [True, False])
def test_starts_lie_on_the_slice_of_trace_one_inside_the_cone(quick):
    x, y, z = tkf.plotting.cone_coordinates(cone_starts(quick)).T
    np.testing.assert_allclose(z, 1, rtol=1e-14)
    assert np.hypot(x, y).max() < 0.9
    assert np.abs(y).min() > 0.1


@pytest.fixture(scope="module")
def runs():
    """A = diag(-1, 1) and V = I: c > 0 or not, everything blows up unless it starts on the axis of -1."""
    model = tkf.Transformer(tkf.Softmax(A=np.diag([-1.0, 1.0])))
    starts = [tkf.Gaussian(None, cov) for cov in ([[0.5, 0.3], [0.3, 0.5]], [[0.8, 0.0], [0.0, 0.0]])]
    return tkf.simulate_many(model, starts, t1=5.0, save_at=6)


def test_paths_end_where_the_run_ends(runs):
    blown, settled = covariance_paths(runs)
    assert len(settled) == 6
    np.testing.assert_allclose(settled[:, 0, 0], 0.8 / (1 + 1.6 * np.arange(6)), rtol=1e-5)
    assert len(blown) < 6
    assert np.trace(blown[-1]) > 1e6
    for one, other in zip(covariance_paths(list(runs)), (blown, settled), strict=True):
        np.testing.assert_array_equal(one, other)


def test_cone_plot_draws_the_paths_and_marks_a_blow_up(runs, tmp_path):
    ax = tkf.plotting.cone_plot(runs, normalized=True)
    colors = {line.get_color() for line in ax.lines}
    assert {COLORS["settles"], COLORS["blows up"]} <= colors
    path = next(line for line in ax.lines if line.get_color() == COLORS["settles"])
    np.testing.assert_allclose(path.get_xydata(), np.tile([1.0, 0.0], (6, 1)), atol=1e-12)
    ax.figure.savefig(tmp_path / "disc.png", dpi=50)
    ax = tkf.plotting.cone_plot([covariance_paths(runs)[1]])
    assert ax.name == "3d"
    ax.figure.savefig(tmp_path / "cone.png", dpi=50)
    assert (tmp_path / "cone.png").stat().st_size > 1000


def test_cone_plot_wants_gaussians():
    model = tkf.Transformer(tkf.Softmax(beta=1.0), tkf.PostLN())
    ensemble = tkf.simulate_many(model, [tkf.Equiangular(0.1, n=4)], t1=0.1, save_at=2)
    with pytest.raises(TypeError, match="runs of a Gaussian, got runs of Equiangular"):
        tkf.plotting.cone_plot(ensemble)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_attentions_of_a_case_are_what_they_say(case):
    """One switched head against the plain kernel; two heads against the sum over rows of Q, K, V."""
    root, S = 2**-0.5, COVS[0]
    plain = {
        "softmax": tkf.Softmax(root, Q=case.Q, K=case.K, V=case.V),
        "L2": tkf.L2(root, Q=case.Q, K=case.K, V=case.V),
        "Sinkhorn": tkf.Sinkhorn(Q=case.Q, K=case.K, V=case.V),
    }
    for kernel, attention in plain.items():
        expected = gaussian_stationarity(attention, S)
        assert gaussian_stationarity(cone_attention(case, kernel), S) == pytest.approx(expected, rel=1e-12)
    half = sum(np.outer(np.eye(2)[h], case.V[h]) @ S @ np.outer(case.K[h], case.Q[h]) @ S for h in range(2))
    expected = np.linalg.norm(half + half.T)
    assert gaussian_stationarity(cone_attention(case, KERNELS[3]), S) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def fixed(monkeypatch, A, V=None, copies=1):
    """Draws of `limit_ranks` replaced by given matrices, each several times with other starts."""
    A = np.tile(np.asarray(A, float), (copies, 1, 1))
    d, count = A.shape[-1], len(A)
    V = np.broadcast_to(np.eye(d), A.shape) if V is None else np.tile(np.asarray(V, float), (copies, 1, 1))
    roots = np.eye(d) + 0.3 * np.random.default_rng(1).standard_normal((count, d, d))

    class Made:
        def standard_normal(self, shape):
            return np.stack([A, V, roots])

    monkeypatch.setattr(ranks.np.random, "default_rng", lambda seed: Made())
    return d, count


@pytest.mark.slow
def test_ranks_of_known_limits(monkeypatch):
    """V = I: ker A of dimension 2, 1, 0 below 0 settle at that rank; a positive direction blows up along a line."""
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    A = [(turn * np.array(m)) @ turn.T for m in ([-1.0, 0, 0], [-1, -0.5, 0], [-1, -0.7, -0.5], [1, -0.5, -0.5])]
    found = ranks.limit_ranks(*fixed(monkeypatch, A, copies=6))
    assert found.kind.tolist() == 6 * ["settled", "settled", "settled", "diverged"]
    assert found.rank.tolist() == 6 * [2, 1, 0, 1]
    assert found.bound.tolist() == 6 * [2, 1, 0, 1]
    assert found.counts("settled").tolist() == [6, 6, 6, 0]


@pytest.mark.slow
def test_ranks_of_two_lines_and_of_a_rotation(monkeypatch):
    """V = -A = diag(-1, 1) has a limit of rank one, or 0 if c = 0; V = J only turns Sigma, which never settles."""
    d, count = fixed(monkeypatch, [np.diag([1.0, -1]), np.eye(2)], [np.diag([-1.0, 1]), [[0.0, -1], [1, 0]]], copies=10)
    found = ranks.limit_ranks(d, count, values="random", tol=0.1)
    assert found.kind.tolist() == 10 * ["settled", "unsettled"]
    assert set(found.rank[::2].tolist()) <= {0, 1}
    assert (found.rank[::2] == 1).sum() >= 8


def test_rank_arguments_are_checked():
    for wrong, name in (({"kernel": "relu"}, "kernel"), ({"values": "I"}, "values"), ({"tol": 2.0}, "tol")):
        with pytest.raises(ValueError, match=f"{name} must"):
            tkf.studies.limit_ranks(2, 3, **wrong)


def test_every_draw_is_in_the_histogram():
    found = tkf.studies.limit_ranks(2, draws=20, seed=0, values="random", tol=0.1)
    sheet = tkf.plotting.rank_histogram([[found]], values=("random",))
    (ax,) = sheet.axes
    assert sum(bar.get_height() for bar in ax.patches) == 20
    assert sum(found.counts(kind).sum() for kind in ("settled", "diverged", "unsettled")) == 20
    assert tkf.studies.limit_ranks(2, draws=20, seed=0, values="random", tol=0.1).rank.tolist() == found.rank.tolist()


@pytest.mark.parametrize("name", ["cone_coordinates", "cone_plot", "rank_histogram"])
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for example in doctest.DocTestParser().get_examples(getattr(tkf.plotting, name).__doc__):
        exec(compile(example.source, name, "exec"), scope)
