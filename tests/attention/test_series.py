"""Sums by the kernel's series against the direct sum, and when they are used."""

import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.attention import Measure, series

RNG = np.random.default_rng(5)


def on_sphere(n, d):
    x = RNG.standard_normal((n, d))
    x[0], x[1] = np.eye(d)[-1], -np.eye(d)[-1]  # the poles, where longitude is not defined
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize(
    ("d", "beta"), [(d, b) for d in (2, 3) for b in (-3.0, 0.0, 1e-8, 1.0, 9.0, 81.0)] + [(2, 1000.0), (3, 1000.0)]
)
def test_series_against_the_direct_sum(d, beta):
    x = on_sphere(300, d)
    w = RNG.uniform(size=300) * (np.arange(300) % 7 > 0)
    w /= w.sum()
    modes = series.modes_needed(beta, d)
    c = jnp.asarray(series.kernel_waves(beta, d, modes))
    found = series.wave_sums(c, jnp.asarray(x), jnp.asarray(w))
    exact = np.exp(beta * (x @ x.T) - abs(beta)) @ (w[:, None] * np.c_[x, np.ones(300)])
    assert np.abs(np.asarray(found) - exact).max() < series.rounding(modes)
    assert series.rounding(modes) < 1.5e-14  # the bar is 1e-12


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(
    "head",
    [tkf.Softmax(9.0, V=-0.7), tkf.Unnormalized(2.0), tkf.Unnormalized(50.0), tkf.Unnormalized(2.0, log_unit=3.0)],
)
def test_velocity_is_that_of_the_head(head, d):
    n = 3000
    x, w = jnp.asarray(on_sphere(n, d)), jnp.full(n, 1 / n)
    modes = series.modes_needed(float(head.score.beta), d)
    quick = series.SeriesSum(head, d, modes)
    zero, positions = jnp.zeros(()), jnp.arange(n) / n
    direct = np.asarray(head.of_itself(zero, Measure(x, w, positions), True))
    assert (
        np.abs(np.asarray(quick.of_itself(zero, Measure(x, w, positions), True)) - direct).max()
        < 1e-12 * np.abs(direct).max()
    )


@pytest.mark.slow
def test_more_tokens_than_a_block_and_a_last_block_that_is_not_full():
    for n in (1023, 1024, 1025, 2500):
        x = on_sphere(n, 2)
        c = jnp.asarray(series.kernel_waves(4.0, 2, series.modes_needed(4.0, 2)))
        found = series.wave_sums(c, jnp.asarray(x), jnp.full(n, 1 / n))
        assert found.shape == (n, 3)
        assert np.abs(np.asarray(found)[:, :2] - np.exp(4 * (x @ x.T) - 4) @ x / n).max() < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
def test_runs_by_series_agree_with_direct_runs(d, monkeypatch):
    tokens, model = tkf.uniform_sphere(2000, d, seed=3), tkf.Transformer(tkf.Softmax(3.0), norm=tkf.PostLN())
    asked = []
    real = series.SeriesSum.__init__
    monkeypatch.setattr(series.SeriesSum, "__init__", lambda *a: (asked.append(a), real(*a))[1])
    monkeypatch.setitem(series.FEWEST, 3, 0.1)
    quick = tkf.simulate(model, tokens, 3.0, save_at=2)
    assert len(asked) == 1
    monkeypatch.setattr(series, "MODES", ())
    direct = tkf.simulate(model, tokens, 3.0, save_at=2)
    assert len(asked) == 1
    assert np.abs(np.asarray(quick.final.x) - np.asarray(direct.final.x)).max() < 1e-9
    assert quick.config == direct.config | {"reductions": ["series"]}
    assert direct.config["reductions"] == []


def uses_series(attention, x, w=None, tolerance=1e-6):
    w = np.full(len(x), 1 / len(x)) if w is None else w
    return isinstance(series.by_series(attention, x, w, tolerance), series.SeriesSum)


def test_used_only_where_it_is_right_and_quick():
    x = on_sphere(20_000, 2)
    assert uses_series(tkf.Softmax(9.0), x)
    assert uses_series(tkf.Unnormalized(9.0, V=2.0), x)
    assert not uses_series(tkf.Softmax(9.0), x[:100])
    assert not uses_series(tkf.Softmax(9.0, causal=True), x)
    assert not uses_series(tkf.Softmax(9.0, V=np.diag([1.0, 2.0])), x)
    assert not uses_series(tkf.Softmax(A=np.diag([1.0, 2.0])), x)
    assert not uses_series(tkf.Softmax(lambda t: 9.0 + t), x)
    assert not uses_series(tkf.Softmax(1e9), x)
    assert not uses_series(tkf.MultiHead([tkf.Softmax(9.0)]), x)
    assert not uses_series(tkf.Softmax(9.0), on_sphere(20_000, 4))
    light = np.where(np.arange(20_000) == 7, 1e-12, 1.0)
    assert not uses_series(tkf.Softmax(9.0), x, light / light.sum())
    assert uses_series(tkf.Unnormalized(9.0), x, light / light.sum())
    assert not uses_series(tkf.Softmax(9.0), x, tolerance=1e-12)
