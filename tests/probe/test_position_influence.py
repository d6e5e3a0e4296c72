"""The influence of positions in real models: torch's gradients, the shares and their fit."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='pip install -e ".[models]"')

from small_models import REACTIONS  # noqa: E402

import tokenfield as tkf  # noqa: E402
from tokenfield.atlas.claims.real_positions import beside_torch, fit_checks, shape_checks  # noqa: E402
from tokenfield.probe import PositionInfluence, position_influence  # noqa: E402
from tokenfield.theory import token_influence  # noqa: E402


@pytest.mark.slow
def test_gradients_are_those_of_torch(folders):
    """Llama: rotary positions, shared keys, gated MLP, the final norm after all layers; two texts, cut to the shorter one."""
    pre = tkf.from_pretrained(folders("llama"))
    texts = [REACTIONS[0], REACTIONS[2]]
    found = position_influence(pre, texts, tokens=10, depths=(1, 3), directions=2)
    assert found.size.shape == (2, 2, 10)
    assert beside_torch(pre, texts[0], found.size[0, 1], 2) < 1e-4
    assert beside_torch(pre, texts[1], found.size[1, 1], 2) < 1e-4
    assert beside_torch(pre, texts[0], found.size[0, 0], 2) > 1e-2  # another depth
    assert len(found.plot().axes) == 2
    assert position_influence(pre, REACTIONS[1], directions=2).depths.tolist() == [1, 2, 3]


def test_shares_and_fits_of_known_layers():
    """Two texts with layers by positions alone, one of them ten times as long: shares, fits and the position lost."""
    n, L, alpha, slope = 64, 6, 0.2, 1.2
    row = token_influence(n, L, alpha, slope=slope)
    found = PositionInfluence(np.array([L]), np.stack([row, 10 * row])[:, None])
    np.testing.assert_allclose(found.share[0], row, rtol=1e-12)
    assert (found.fit()[0].alpha, found.fit()[0].slope) == pytest.approx((alpha, slope), rel=1e-6)
    assert found.fit(slope=0.0)[0].slope == 0
    assert found.lost[0] == pytest.approx((np.argmin(row[:-1]) + 1) / n, abs=0.06)
    drawn = {line.get_label(): line.get_ydata() for line in found.plot().axes[0].lines}
    np.testing.assert_allclose(drawn["measured"], n * row[:-1], rtol=1e-12)
    np.testing.assert_allclose(drawn[r"theory, $\lambda$ fitted"], n * row[:-1], rtol=1e-5)
    np.testing.assert_allclose(drawn["the last token itself"], n * row[-1:], rtol=1e-12)
    noise = np.exp(np.random.default_rng(0).normal(0, 0.5, n))
    opposed = PositionInfluence(np.array([L]), np.stack([row * noise, row / noise])[:, None])
    np.testing.assert_allclose(opposed.share[0], row, rtol=1e-12)
    assert [check.what for check in (*shape_checks(found), *fit_checks(found)) if "6 layers" in check.what]


def test_bad_input(folders):
    pre = tkf.from_pretrained(folders("gpt2"))
    for options, words in (
        ({"pre": "path"}, "pre must be a model from from_pretrained"),
        ({"pre": tkf.from_pretrained(folders("bert"))}, "pre must be causal"),
        ({"texts": []}, "texts must hold at least one text"),
        ({"texts": "CCO"}, "texts must each have at least 8 tokens, got one with 5"),
        ({"depths": [4]}, "depths must be at most 3, got 4"),
        ({"tokens": 2}, "tokens must be a whole number >= 8"),
    ):
        with pytest.raises(ValueError, match=words):
            position_influence(**({"pre": pre, "texts": REACTIONS[0]} | options))
