"""Growth of the local constant with the number of tokens: data models, fit and known exponents."""

import importlib
import math

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.lipschitz import bounds, data_model, fit_power_law, growth, local

growth_module = importlib.import_module("tokenfield.lipschitz.growth")  # the attribute of this name is the function

D = 4
KINDS = ["sphere", "gaussian", "low_rank", "clustered", "correlated", "heavy_tailed"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_data_model_has_variance_one(kind):
    """`E |x|^2 = scale^2 d`, over many samples; same seed, same tokens."""
    draw = data_model(kind, D, scale=2.0, freedom=12.0)
    squares = [float((draw(200, seed).x ** 2).sum(1).mean()) for seed in range(200)]
    error = np.std(squares) / math.sqrt(len(squares))
    assert abs(np.mean(squares) - 4 * D) <= 4 * error + 1e-12
    assert (draw(9, 5).x == draw(9, 5).x).all()
    assert (draw(9, 5).x != draw(9, 6).x).any()


def test_what_the_data_models_say():
    assert np.linalg.matrix_rank(data_model("low_rank", 6, rank=2)(50, 0).x) == 2
    np.testing.assert_allclose(np.linalg.norm(data_model("sphere", 6)(50, 0).x, axis=1), math.sqrt(6))
    tight = np.asarray(data_model("clustered", D, clusters=3, spread=0.0)(50, 0).x)
    assert len(np.unique(tight.round(12), axis=0)) == 3
    x = np.asarray(data_model("correlated", D, correlation=0.9)(20_000, 0).x)
    assert (x[1:] * x[:-1]).mean() == pytest.approx(0.9, abs=0.05)
    assert (x[5:] * x[:-5]).mean() == pytest.approx(0.9**5, abs=0.05)
    # For Student's t with nu = 10 degrees of freedom, E|x|^4 / (E|x|^2)^2 = (1 + 2/d) (nu-2)/(nu-4).
    x = np.asarray(data_model("heavy_tailed", D, freedom=10.0)(400_000, 0).x)
    square = (x**2).sum(1)
    assert (square**2).mean() / square.mean() ** 2 == pytest.approx(1.5 * 8 / 6, rel=0.05)


def test_an_exact_power_law_is_recovered():
    n = np.array([2.0, 5.0, 11.0])
    law = fit_power_law(n, 3 * n**0.25)
    assert (law.power, law.factor) == (pytest.approx(0.25, rel=1e-12), pytest.approx(3, rel=1e-12))
    assert law.interval == pytest.approx((0.25, 0.25), abs=1e-10)
    np.testing.assert_allclose(law(n), 3 * n**0.25)
    assert fit_power_law([1.0, 4.0], [1.0, 2.0]).interval == (-math.inf, math.inf)


def test_the_confidence_interval_covers():
    """Scatter that grows with n: 95 % intervals hold the true power in about 95 % of 2000 experiments."""
    rng, n = np.random.default_rng(0), np.array([4.0, 8, 16, 32, 64])
    held = 0
    for _ in range(2000):
        noise = 0.05 * np.sqrt(n)[:, None] * rng.standard_normal((5, 6))
        low, high = fit_power_law(n, np.exp(noise) * (2 * n**0.3)[:, None]).interval
        held += low <= 0.3 <= high
    # Three standard deviations of a count of 2000 at 95 % are 29; HC3 errs on the wide side.
    assert 1900 - 29 <= held <= 1980


def test_averaging_does_not_grow():
    """A = 0: the constant is |V| for every n."""
    found = growth(tkf.Softmax(A=np.zeros((D, D)), V=-3.0), data_model("gaussian", D), (3, 6, 12), repeats=2)
    np.testing.assert_allclose(found.constants, 3, rtol=1e-12)
    assert abs(found.law.power) < 1e-12
    assert found.converged


def test_the_worst_tokens_grow_like_the_root():
    """Token 1 at -R u, the others at R u, R large: sqrt(n-1), so p is what is fitted to that."""
    R, A = 3.0, np.diag([-1.0, 0.5])
    worst = lambda n, seed: R * np.array([[-1.0, 0.0]] + (n - 1) * [[1.0, 0.0]])  # noqa: E731
    lengths = (8, 16, 32)
    found = growth(tkf.Softmax(A=A), worst, lengths, repeats=1)
    expected = [math.sqrt(n - 1) for n in lengths]
    assert (found.constants[:, 0] >= [bounds(A, None, R, n).lower for n in lengths]).all()
    assert found.law.power == pytest.approx(fit_power_law(lengths, expected).power, abs=0.03)
    assert 0.48 < found.law.power < 0.56


def test_growth_is_local_at_every_sample():
    attention, draw = tkf.Softmax(beta=0.5, causal=True), data_model("correlated", D)
    found = growth(attention, draw, (3, 6), repeats=2, seed=7, residual=True)
    for i, n in enumerate((3, 6)):
        for r in range(2):
            constant = local(attention, draw(n, 7 + 2 * i + r), residual=True).constant
            assert found.constants[i, r] == pytest.approx(constant, rel=1e-9)
    again = growth(attention, draw, (3, 6), repeats=2, seed=7, residual=True)
    assert (again.constants == found.constants).all()


def test_the_figure_shows_the_samples_and_the_law(tmp_path):
    draw = data_model("gaussian", D)
    found = growth(tkf.Softmax(beta=0.5), draw, (3, 6), repeats=2)
    from tokenfield.plotting import growth_figure

    sheet = growth_figure({"gaussian": found}, upper=2.0)
    samples, means, line, reference, upper, lower = sheet.axes[0].lines
    np.testing.assert_array_equal(samples.get_ydata(), found.constants.ravel())
    np.testing.assert_array_equal(samples.get_xdata(), [3, 3, 6, 6])
    np.testing.assert_allclose(means.get_ydata(), np.sqrt(found.constants.prod(1)))
    np.testing.assert_allclose(line.get_ydata(), found.law.factor * np.array([3, 6]) ** found.law.power)
    np.testing.assert_allclose(reference.get_ydata(), 2 * np.sqrt([3, 6]))
    np.testing.assert_allclose(upper.get_ydata(), [limit.sharp_upper for limit in found.bounds])
    np.testing.assert_allclose(lower.get_ydata(), [limit.lower for limit in found.bounds])
    assert f"{found.law.power:.2f}" in line.get_label()
    assert sheet.axes[0].get_xscale() == sheet.axes[0].get_yscale() == "log"
    found.plot().savefig(tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: data_model("uniform", 3), "kind must be one of sphere, .* got 'uniform'"),
        (lambda: data_model("low_rank", 3, rank=4), "rank must be at most d = 3, got 4"),
        (lambda: data_model("correlated", 3, correlation=1.0), r"correlation must lie in \(-1, 1\), got 1.0"),
        (lambda: data_model("clustered", 3, spread=2.0), r"spread must lie in \[0, 1\], got 2.0"),
        (lambda: data_model("heavy_tailed", 3, freedom=2.0), "freedom must be > 2 for a finite variance, got 2.0"),
        (lambda: growth(tkf.Softmax(), data_model("sphere", 3), (4, 4)), "lengths must hold at least two different"),
        (lambda: growth(tkf.Softmax(), "sphere", (4, 8)), r"sampler must be a function \(n, seed\) -> tokens"),
        (lambda: fit_power_law([1, 2], [1.0, 2.0, 3.0]), "n and y must have the same length, got 2 and 3"),
        (lambda: fit_power_law([1, 2], [1.0, -2.0]), "n and y must be > 0"),
        (lambda: fit_power_law([1, 2], [1.0, 2.0], confidence=95), r"confidence must lie in \(0, 1\), got 95"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_growth_that_was_cut_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    attention, data, path = tkf.Softmax(beta=1.0), data_model("gaussian", D), tmp_path / "growth.npz"
    options = {"lengths": (4, 8), "repeats": 3, "seed": 5}
    whole = growth(attention, data, **options)
    calls, real = [], growth_module.local

    def stopping(attention, x, **settings):
        calls.append(x.n)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(attention, x, **settings)

    monkeypatch.setattr(growth_module, "local", stopping)
    with pytest.raises(KeyboardInterrupt):
        growth(attention, data, **options, checkpoint=path)
    del calls[:]
    again = growth(attention, data, **options, checkpoint=path)
    np.testing.assert_array_equal(again.constants, whole.constants)
    assert calls == [8, 8]  # the two that were missing

    def other(n, seed):  # one sample differs, and not the first
        x = np.array(data(n, seed).x)
        x[-1, -1] += 1e-9 * (seed == 9)
        return x

    with pytest.raises(ValueError, match="belongs to another run"):
        growth(attention, other, **options, checkpoint=path)
    with pytest.raises(ValueError, match="belongs to another run"):
        growth(tkf.Softmax(beta=2.0), data, **options, checkpoint=path)


def test_bounds_at_the_radius_of_the_samples_are_drawn():
    found = growth(tkf.Softmax(beta=0.5, V=2.0), data_model("gaussian", D), (6, 12), repeats=2)
    longest = max(np.linalg.norm(data_model("gaussian", D)(12, 2 + r).x, axis=1).max() for r in range(2))
    assert found.radius[1] == pytest.approx(longest, rel=1e-14)
    exact = bounds(0.5, 2.0, longest, 12, d=D)
    assert found.bounds[1].sharp_upper == pytest.approx(exact.sharp_upper, rel=1e-12)
    assert (found.constants[1] < exact.sharp_upper).all()
    words = [text.get_text() for text in found.plot().legends[0].get_texts()]
    assert {"upper bound", "lower bound of the worst tokens"} <= set(words)
    assert growth(tkf.Sigmoid(beta=0.5), data_model("gaussian", D), (6, 12), repeats=1).bounds is None
