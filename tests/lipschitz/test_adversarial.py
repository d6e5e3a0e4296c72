"""The worst tokens: the explicit ones, and what the search makes of them."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.lipschitz import adversarial, local

DIAGONAL = np.diag([-1.0, 0.5])


@pytest.mark.parametrize(("causal", "explicit"), [(False, 2.34185), (True, 2.41953)])
def test_the_search_goes_beyond_the_explicit_tokens(causal, explicit):
    attention = tkf.Softmax(A=DIAGONAL, causal=causal)
    found = adversarial(attention, 5, 1.5)
    assert found.explicit_constant == pytest.approx(explicit, abs=5e-6)
    np.testing.assert_allclose(np.abs(found.explicit), [[1.5, 0]] * 5, atol=1e-12)
    assert found.constant == local(attention, found.x).constant
    assert found.constant > 1.4 * explicit
    assert found.bounds.lower < found.constant < found.bounds.sharp_upper
    assert np.linalg.norm(found.x, axis=1).max() <= 1.5 * (1 + 1e-12)
    again = adversarial(attention, 5, 1.5)
    assert (again.x == found.x).all()


def test_tokens_of_half_length_for_a_positive_matrix():
    """A = 8 I: others at R u/2 see the first at R u."""
    found = adversarial(tkf.Softmax(beta=8.0), 4, 1.0, starts=1, steps=1)
    np.testing.assert_allclose(np.linalg.norm(found.explicit, axis=1), [1, 0.5, 0.5, 0.5], rtol=1e-12)
    assert found.constant >= found.explicit_constant >= found.bounds.lower * (1 - 1e-12)


@pytest.mark.parametrize(
    "attention",
    [
        tkf.L2(beta=1.0),
        tkf.MultiHead([tkf.Softmax(A=np.diag([1.0, -2.0, 0.5])), tkf.Sigmoid(beta=2.0)]),
        tkf.Linear(A=np.diag([1.0, -2.0, 0.5])),
        tkf.Softmax(A=np.zeros((2, 2)), V=np.diag([2.0, 1.0])),
    ],
)
def test_other_kernels(attention):
    found = adversarial(attention, 4, 1.2, starts=3, steps=60)
    assert np.linalg.norm(found.x, axis=1).max() <= 1.2 * (1 + 1e-12)
    values = [value for value in (found.explicit_constant, *found.found) if value is not None]
    assert found.constant == max(values)
    rng = np.random.default_rng(1)
    for _ in range(5):
        x = rng.standard_normal(found.x.shape)
        x *= 1.2 * rng.uniform() / np.linalg.norm(x, axis=1, keepdims=True)
        assert local(attention, x).constant <= found.constant * (1 + 1e-9)
    if isinstance(attention, tkf.L2):
        assert found.explicit is None
        assert found.bounds is None


def test_linear_attention_has_a_known_maximum():
    """d = 1, `f_i = a x_i mean(x^2)`: D = a mean(x^2) I + (2a/n) x x^T is largest with all tokens at R, 3aR^2."""
    found = adversarial(tkf.Linear(A=[[2.0]]), 3, 1.5, starts=3, steps=200)
    assert found.constant == pytest.approx(3 * 2 * 1.5**2, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: adversarial("softmax", 3, 1.0), "attention must be an attention .* got 'softmax'"),
        (lambda: adversarial(tkf.Softmax(), 1, 1.0), "n must be a whole number >= 2, got 1"),
        (lambda: adversarial(tkf.Softmax(), 3, 0.0), "R must be finite and > 0, got 0.0"),
        (lambda: adversarial(tkf.Softmax(), 3, np.nan), "R must be finite and > 0, got nan"),
        (lambda: adversarial(tkf.Softmax(A=np.eye(3)), 3, 1.0, d=2), "d must be 3, the width of A, got 2"),
    ],
)
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
