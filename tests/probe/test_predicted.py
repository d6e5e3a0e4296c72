"""The equiangular prediction: against tokens run through `layers`, the flow, random rotations and closed forms."""

import made_probe
import numpy as np
import pytest
from scipy.stats import ortho_group

import tokenfield as tkf
from tokenfield.probe.gram_layers import gram_layers
from tokenfield.probe.predicted import (
    RULES,
    flow_cosines,
    layer_cosines,
    measured_start,
    other_norms,
    predict,
    rotated_cosines,
)
from tokenfield.theory.layer_curves import equiangular_layers

BETAS, N, RHO = [0.5, 3.0, 1.5], 7, 0.2


def through_layers(rule, causal):
    models = [tkf.Transformer(tkf.Softmax(beta, causal=causal), norm=rule) for beta in BETAS]
    run = tkf.layers(models, tkf.equiangular_tokens(RHO, N))
    return np.array([tkf.mean_cosine(state) for state in run.states])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_prediction_is_what_layers_do_to_tokens_at_equal_angles(name, causal):
    rule = RULES[name]()
    expected = through_layers(rule, causal)
    np.testing.assert_allclose(layer_cosines(rule, RHO, N, BETAS, causal), expected, atol=1e-12)
    np.testing.assert_allclose(gram_layers(rule, RHO, N, BETAS, causal=causal), expected, atol=1e-12)


def test_one_beta_for_all_is_the_curve_of_the_theory():
    for rule in (tkf.PostLN(), tkf.PreLN(), tkf.PeriLN()):
        expected = equiangular_layers(rule, 32, 2.0, 5, 0.1).cosine
        np.testing.assert_allclose(layer_cosines(rule, 0.1, 32, [2.0] * 5), expected, atol=1e-14)


@pytest.mark.parametrize("name", RULES)
def test_rotated_values_without_a_mask_are_one_cosine(name):
    rule = RULES[name]()
    np.testing.assert_allclose(
        rotated_cosines(rule, RHO, N, BETAS), gram_layers(rule, RHO, N, BETAS, rotated=True), atol=1e-13
    )


@pytest.mark.parametrize("causal", [False, True])
def test_rotated_values_are_what_random_rotations_do(causal):
    """Tokens in many more dimensions than there are of them; each layer's average rotated by a random rotation."""
    d, rng = 600, np.random.default_rng(0)
    x = np.zeros((N, d))
    x[:, :N] = np.asarray(tkf.equiangular_tokens(RHO, N).x)
    found = [RHO]
    for beta in BETAS:
        theta = x / np.linalg.norm(x, axis=1, keepdims=True)
        P = np.exp(beta * theta @ theta.T) * (np.tri(N) if causal else 1)
        P /= P.sum(1, keepdims=True)
        x = x + P @ theta @ ortho_group.rvs(d, random_state=rng).T
        theta = x / np.linalg.norm(x, axis=1, keepdims=True)
        found.append(((theta @ theta.T).sum() - N) / (N * (N - 1)))
    np.testing.assert_allclose(rotated_cosines(tkf.PreLN(), RHO, N, BETAS, causal), found, atol=0.03)
    kept = layer_cosines(tkf.PreLN(), RHO, N, BETAS, causal)
    assert np.abs(kept[1:] - found[1:]).min() > 0.06  # so the tolerance tells the two apart


@pytest.mark.slow
def test_flow_is_the_limit_of_small_layers():
    """At one beta, 64 layers of step 1/64 for each block; and the time to a cosine."""
    for causal in (False, True):
        flow = flow_cosines(tkf.PreLN(), RHO, N, np.full(3, 2.0), causal)
        fine = gram_layers(tkf.PreLN(), RHO, N, [2.0] * 192, causal=causal, step=1 / 64)[::64]
        finer = gram_layers(tkf.PreLN(), RHO, N, [2.0] * 384, causal=causal, step=1 / 128)[::128]
        np.testing.assert_allclose(flow, 2 * finer - fine, atol=2e-5)
    post = flow_cosines(tkf.PostLN(), RHO, N, np.full(3, 2.0))
    for block, rho in enumerate(post[1:], 1):
        assert tkf.theory.time_to_cosine(float(rho), N, 2.0, "post", RHO) == pytest.approx(block, abs=1e-5)


def test_start_is_read_from_the_dataset():
    data = made_probe.dataset()
    start = measured_start(data)
    assert start.rho0 == pytest.approx(float(data["mean_cosine"].values[0].mean()), rel=1e-14)
    assert start.n == int(np.median(data["tokens"]))
    beta = data["beta"].values  # block, head, text
    np.testing.assert_allclose(start.betas, [np.median(each) for each in beta])
    found = predict(data, "post", causal=False)
    assert set(found) == {"predicted_cosine", "predicted_cosine_rotated", "predicted_cosine_flow"}
    assert all(found[name].sizes == {"layer": data.sizes["layer"]} for name in found)
    np.testing.assert_allclose(found["predicted_cosine"], layer_cosines(tkf.PostLN(), start.rho0, start.n, start.betas))
    assert found.attrs["predicted_norm"] == "Post-LN"
    assert set(other_norms(data, "post", causal=False)) == {"Pre-LN", "Peri-LN"}


def test_nothing_is_predicted_where_beta_or_the_rule_is_unknown():
    data = made_probe.dataset()
    assert not predict(data, "deep", causal=False)
    assert not predict(data.drop_vars("beta"), "post", causal=False)
    assert not predict(data.assign(beta=data["beta"] * np.nan), "post", causal=False)
    assert other_norms(data.drop_vars("beta"), "post", causal=False) == {}
