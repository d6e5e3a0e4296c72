"""Statistics of heads against loops over rows, and heads whose beta is known."""

import math

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.probe.families import HeadWeights

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from tokenfield.probe import scores as module  # noqa: E402
from tokenfield.probe.scores import attention_rows, head_statistics, lower_bound_gamma  # noqa: E402


def some_head(heads=3, shared=1, n=11, k=4, d=6, seed=0):
    rng = np.random.default_rng(seed)
    make = lambda *shape: torch.as_tensor(rng.standard_normal(shape))  # noqa: E731
    return make(n, d) + 0.5, make(heads, n, k), make(heads // shared, n, k)


def naive(x, q, k, scaling, causal):
    """Row by row, in plain loops."""
    x, q, k = x.numpy(), q.numpy(), k.numpy()
    n = len(x)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    entropy = own = first = ss = sc = cc = 0.0
    for i in range(n):
        seen = range(i + 1) if causal else range(n)
        s = np.array([scaling * float(q[i] @ k[j]) for j in seen])
        c = np.array([float(u[i] @ u[j]) for j in seen])
        p = np.exp(s) / np.exp(s).sum()
        entropy -= float((p * np.log(p)).sum())
        own += p[i]
        first += p[0] if i > 0 else 0.0
        ss, sc, cc = ss + s.var(), sc + ((s - s.mean()) * (c - c.mean())).mean(), cc + c.var()
    return {
        "entropy": entropy / n,
        "self_mass": own / n,
        "first_mass": first / (n - 1),
        "beta": math.sqrt(ss / cc),
        "beta_slope": sc / cc,
        "gamma": math.sqrt(ss / cc) / math.log(n),
    }


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("entries", [1 << 22, 70])
def test_numbers_are_those_of_loops_over_rows(monkeypatch, causal, entries):
    monkeypatch.setattr(module, "ENTRIES", entries)
    x, q, k = some_head(heads=4, shared=2)
    found = head_statistics(x, q, k, 0.7, causal, None, np.arange(4.0))
    for head in range(4):
        for name, value in naive(x, q[head], k[head // 2], 0.7, causal).items():
            assert found[name][head] == pytest.approx(value, rel=1e-10), name
    longest = np.linalg.norm(x.numpy(), axis=1).max()
    np.testing.assert_allclose(found["r2gamma"], longest**2 * np.arange(4.0))
    rho = tkf.mean_cosine(tkf.Tokens(x.numpy()))
    assert found["input_cosine"] == pytest.approx(rho, rel=1e-10)
    assert found["critical_gamma"] == pytest.approx(1 / (1 - rho), rel=1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_an_isotropic_head_gives_its_own_beta(causal):
    beta = 7.5
    u = torch.as_tensor(np.array(tkf.uniform_sphere(30, 5, seed=1).x))
    bias = torch.as_tensor(np.random.default_rng(0).standard_normal((30, 1)))
    q = torch.cat([beta * u, bias], 1)[None]  # a constant in each row of scores changes no softmax
    k = torch.cat([u, torch.ones(30, 1, dtype=u.dtype)], 1)[None]
    found = head_statistics(3 * u, q, k, 1.0, causal, None, np.zeros(1))
    assert found["beta"][0] == pytest.approx(beta, rel=1e-12)
    assert found["beta_slope"][0] == pytest.approx(beta, rel=1e-12)
    assert found["gamma"][0] == pytest.approx(beta / math.log(30), rel=1e-12)
    away = head_statistics(3 * u, -q, k, 1.0, causal, None, np.zeros(1))
    assert away["beta_slope"][0] == pytest.approx(-beta, rel=1e-12)
    assert away["beta"][0] == pytest.approx(beta, rel=1e-12)


def test_equal_angles_at_the_critical_scale_put_half_of_the_mass_on_self():
    """beta = log(n-1)/(1-rho): e^beta = (n-1) e^{beta rho}, so self weighs as much as all others (FORMULAS §12)."""
    n, rho = 40, 0.25
    u = torch.as_tensor(np.array(tkf.equiangular_tokens(rho, n).x))
    beta = math.log(n - 1) / (1 - rho)
    found = head_statistics(u, beta * u[None], u[None], 1.0, False, None, np.zeros(1))
    assert found["self_mass"][0] == pytest.approx(0.5, rel=1e-9)
    assert found["gamma"][0] == pytest.approx(found["critical_gamma"] * math.log(n - 1) / math.log(n), rel=1e-9)
    others = 0.5 / (n - 1)
    assert found["entropy"][0] == pytest.approx(-0.5 * math.log(0.5) - 0.5 * math.log(others), rel=1e-9)


def test_tokens_that_are_all_alike_have_no_beta():
    x, q, k = some_head()
    found = head_statistics(torch.ones_like(x), q, k, 1.0, False, None, np.zeros(3))
    assert np.isnan(found["beta"]).all()
    assert np.isnan(found["gamma"]).all()
    assert np.isfinite(found["entropy"]).all()


def test_rows_sum_to_one_and_see_what_they_may():
    _, q, k = some_head(heads=2, n=9)
    for causal, window in ((False, None), (True, None), (True, 3)):
        p = torch.cat(list(attention_rows(q, k, 1.0, causal, window)), 1).numpy()
        np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
        i, j = np.indices((9, 9))
        hidden = ((j > i) & causal) | ((j <= i - (window or 99)) & causal)
        assert (p[:, hidden] == 0).all()
        assert (p[:, ~hidden] > 0).all()


def head_of(A, k):
    """Maps Q, K of k rows with K^T Q = A."""
    left, values, right = np.linalg.svd(A)
    Q, K = right[:k] * np.sqrt(values[:k, None]), (left[:, :k] * np.sqrt(values[:k])).T
    none = np.zeros((1, k))
    return HeadWeights(Q[None], none, K[None], none, Q[None], none, Q.T[None], np.zeros(len(A)), 1.0)


def test_gamma_of_the_lower_bound_is_read_from_real_eigenvalues():
    d = 5
    assert lower_bound_gamma(head_of(np.diag([-1.0, 0.5, 0, 0, 0]), 2))[0] == pytest.approx(1.0)
    assert lower_bound_gamma(head_of(np.diag([4.0, 3.0, 0, 0, 0]), 2))[0] == pytest.approx(0.5)
    turn = np.zeros((d, d))
    turn[0, 1], turn[1, 0] = -2.0, 2.0  # eigenvalues ±2i, and 0
    assert lower_bound_gamma(head_of(turn, 2))[0] == 0.0
    rng = np.random.default_rng(0)
    A = rng.standard_normal((d, 3)) @ rng.standard_normal((3, d))
    values = np.linalg.eigvals(A)
    real = values.real[np.abs(values.imag) < 1e-9]
    assert lower_bound_gamma(head_of(A, 3))[0] == pytest.approx(max(-real.min(), real.max() / 8), rel=1e-8)
