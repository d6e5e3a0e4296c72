"""Pictures of the vector field: arrows and colors are read back and compared with closed forms."""

import numpy as np
import pytest
from matplotlib.quiver import Quiver

import tokenfield as tkf
from tokenfield.plotting.field import ACROSS, ANGLES, FULL, LIMB, OUTSIDE
from tokenfield.plotting.projection import viewing_basis

STATIC = {"save_at": 2, "rtol": 1e-3, "atol": 1e-3}


def run(model, x, t1=0.1):
    return tkf.simulate(model, tkf.Tokens(x), t1, **STATIC)


def arrows(sheet):
    """Places, arrows and speeds of the picture."""
    (found,) = (one for one in sheet.axes[0].collections if isinstance(one, Quiver))
    return found.XY, np.stack([found.U, found.V], 1), np.asarray(found.get_array())


def check(places, drawn, speeds, velocities, step):
    """Colors are speeds; arrows point along the velocity, with one length but for slow ones."""
    exact = np.linalg.norm(velocities, axis=1)
    np.testing.assert_allclose(speeds, exact, rtol=0, atol=1e-12 * exact.max())
    lengths = 0.85 * step * np.minimum(1, exact / (FULL * exact.max()))
    np.testing.assert_allclose(drawn, velocities / exact[:, None] * lengths[:, None], rtol=0, atol=1e-12)


def test_circle():
    """Under beta = 0 every token is pulled to the mean m: the velocity at x is `m - <x, m> x`."""
    traj = run(tkf.Transformer(tkf.Unnormalized(0.0), tkf.PostLN()), tkf.circle_tokens([0.1, 0.8, 2.5]).x)
    sheet = traj.plot_field(0.0)
    places, drawn, speeds = arrows(sheet)
    angles = 2 * np.pi * np.arange(ANGLES) / ANGLES
    x, m = np.stack([np.cos(angles), np.sin(angles)], 1), np.asarray(traj.state(0).x).mean(0)
    np.testing.assert_allclose(places, OUTSIDE * x, atol=1e-15)
    check(places, drawn, speeds, m - (x @ m)[:, None] * x, 2 * np.pi / ANGLES)
    dots = np.concatenate([one.get_offsets() for one in sheet.axes[0].collections if not isinstance(one, Quiver)])
    np.testing.assert_allclose(dots, traj.state(0).x, atol=1e-15)
    assert "on the circle, $t = 0$" in sheet.axes[0].get_title(loc="left")


def test_plane_and_the_time_of_the_field():
    """Linear attention: `x' = M A x` with the second moment M of the tokens at that time."""
    A = np.array([[0.5, 0.2], [-0.4, 0.1]])
    traj = run(tkf.Transformer(tkf.Linear(A=A)), tkf.gaussian_tokens(6, 2, seed=0).x, 1.0)
    for t, k in ((None, 1), (0.7, 1), (0.2, 0)):  # the nearest saved state
        x = np.asarray(traj.state(k).x)
        places, drawn, speeds = arrows(traj.plot_field(t))
        step = np.ptp(places[:, 0]) / (ACROSS - 1)
        check(places, drawn, speeds, places @ A.T @ (x.T @ x) / 6, step)
        assert (places.min(0) < x.min(0)).all()
        assert (places.max(0) > x.max(0)).all()


def test_directions_on_the_sphere_turn_at_the_rate_of_a_token_of_mean_length():
    """Pre-LN with beta = 0: `x' = m`, the mean direction, so `theta' = P m / r`."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 3))
    traj = run(tkf.Transformer(tkf.Softmax(0.0), tkf.PreLN()), x)
    sheet = traj.plot_field(0.0)
    places, drawn, speeds = arrows(sheet)
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    directions = x / lengths
    m, basis = directions.mean(0), viewing_basis(directions[None], np.full(5, 1 / 5))
    depth = np.sqrt(1 - (places**2).sum(1))
    assert depth.min() > LIMB
    theta = np.concatenate([places, depth[:, None]], 1) @ basis
    velocity = (m - (theta @ m)[:, None] * theta) / lengths.mean()
    np.testing.assert_allclose(speeds, np.linalg.norm(velocity, axis=1), rtol=1e-12)
    fast = speeds > FULL * speeds.max()  # of full length, foreshortened
    along = (velocity / speeds[:, None]) @ basis[:2].T
    scale = np.sum(drawn[fast] * along[fast]) / np.sum(along[fast] ** 2)
    np.testing.assert_allclose(drawn[fast], scale * along[fast], rtol=0, atol=1e-12)
    assert scale > 0.05
    assert f"length {lengths.mean():.3g}" in sheet.axes[0].get_title(loc="left")


def test_a_loaded_run_knows_its_model(tmp_path):
    traj = run(
        tkf.Transformer(tkf.ReLU(2.0, power=2, normalized=True), tkf.PostLN()), tkf.uniform_sphere(5, 2, seed=0).x
    )
    again = tkf.load(traj.save(tmp_path / "run.zarr"))
    for found, expected in zip(arrows(again.plot_field(0.1)), arrows(traj.plot_field(0.1)), strict=True):
        np.testing.assert_array_equal(found, expected)
    traj.plot_field().savefig(tmp_path / "field.pdf")
    assert (tmp_path / "field.pdf").stat().st_size > 5000


def test_a_model_that_is_not_recorded_must_be_given():
    model = tkf.Transformer(tkf.Softmax(beta=lambda t: 1.0 + t), tkf.PostLN())
    traj = run(model, tkf.uniform_sphere(5, 2, seed=0).x)
    with pytest.raises(ValueError, match=r"model.attention.score.beta is a function, .* pass model="):
        traj.plot_field()
    fixed = tkf.Transformer(tkf.Softmax(beta=1.1), tkf.PostLN())
    for found, expected in zip(arrows(traj.plot_field(model=model)), arrows(traj.plot_field(model=fixed)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


POST, SHARP = (tkf.Transformer(tkf.Softmax(beta), tkf.PostLN()) for beta in (1.0, 2.0))
CIRCLE = run(POST, tkf.uniform_sphere(4, 2, seed=0).x)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CIRCLE.plot_field(0.2), "t must be within the run, from 0 to 0.1, got 0.2"),
        (lambda: CIRCLE.plot_field("now"), "t must be a finite number, got 'now'"),
        (lambda: CIRCLE.plot_field(model=tkf.Softmax()), "model must be a Transformer, got Softmax"),
        (lambda: run(POST, np.eye(4)).plot_field(), r"got tokens in the sphere of R\^4"),
        (lambda: run(tkf.Transformer(tkf.Softmax(1.0)), np.eye(3)).plot_field(), r"got tokens in R\^3"),
        (lambda: tkf.layers([POST, SHARP], tkf.Tokens(np.eye(2))).plot_field(), "this run has no single model"),
        (
            lambda: run(tkf.Transformer(tkf.Softmax(1.0), tkf.Rescaled()), np.eye(2)).plot_field(),
            "Rescaled.* has no velocity field of x",
        ),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_other_states_are_refused():
    traj = tkf.simulate(POST, tkf.Equiangular(0.1, 4), 0.1, save_at=2)
    with pytest.raises(TypeError, match="plot_field needs a run of Tokens, got a run of Equiangular"):
        traj.plot_field()
