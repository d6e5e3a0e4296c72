"""The verdict: its words and its numbers follow from the dataset, and turn with it."""

import re
from types import SimpleNamespace

import made_probe
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.probe.powers import with_powers
from tokenfield.probe.predicted import predict
from tokenfield.probe.verdict import verdict
from tokenfield.probe.wording import layer_labels

POST = SimpleNamespace(norm="post", causal=False)


def spoken(data, architecture=POST):
    return {sentence.topic: sentence.text for sentence in verdict(data, architecture)}


def with_cosines(*rho, **options):
    """Exactly these mean cosines in every text, and the prediction for them."""
    data = made_probe.dataset(**options)
    values = np.repeat(np.array(rho)[:, None], data.sizes["text"], axis=1)
    data = data.assign(mean_cosine=(("layer", "text"), values), mean_cosine_no_special=(("layer", "text"), values))
    return data.merge(predict(data, "post", causal=False))


def test_collapse_is_placed():
    assert "do not collapse" in spoken(with_cosines(0.1, 0.3, 0.6, 0.89, 0.5))["collapse"]
    assert "its largest value is 0.89, at layer 3" in spoken(with_cosines(0.1, 0.3, 0.6, 0.89, 0.5))["collapse"]
    text = spoken(with_cosines(0.1, 0.95, 0.6, 0.92, 0.97))["collapse"]
    assert "collapse: the mean cosine is at least 0.9 from layer 3 on" in text
    assert "from 0.10 at the embeddings to 0.97 after layer 4" in text
    text = spoken(with_cosines(0.1, 0.95, 0.93, 0.2, 0.3))["collapse"]
    assert "separate again" in text
    assert "at layers 1, 2 on the way (highest: 0.95 at layer 1)" in text
    assert "from layer 0 on" in spoken(with_cosines(0.91, 0.95, 0.93, 0.92, 0.99))["collapse"]


def test_the_final_norm_of_a_pre_norm_model_is_told_apart():
    """By what it does to the tokens: the rule of the architecture does not say whether there is one."""
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    streams = {"stream_norm": ("text", [8.0] * 3), "stream_cosine": ("text", [0.5] * 3)}
    assert all("final norm" not in text for text in spoken(data.assign(streams)).values())
    normed = data.assign({**streams, "stream_cosine": ("text", [0.9, 0.95, 1.0]), "stream_norm": ("text", [40.0] * 3)})
    found = spoken(normed)
    assert "is at least 0.9 from layer 4 on" in found["collapse"]
    assert "to 0.95 after layer 4. After the final norm it is 0.50." in found["collapse"]
    assert "after the final norm;" in found["clusters"]
    assert "after layer 4;" in spoken(data)["clusters"]
    assert layer_labels(normed) == ["0", "1", "2", "3", "4, after the final norm"]
    assert layer_labels(data) == ["0", "1", "2", "3", "4"]
    scales = np.array([0.1, 0.2, 0.3, 0.4, 0.2])[:, None, None] * np.ones((3, 1))
    energies = {"fixed_energy": (("layer", "text", "scale"), scales)}
    assert "falls at layer 4" in spoken(data.assign_coords(scale=[4.0]).assign(energies))["energy"]
    before = spoken(normed.assign_coords(scale=[4.0]).assign(energies))["energy"]
    assert "rises from layer to layer, from 0.1 to 0.4 at layer 3 (before the final norm), as along the flow" in before


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        ({}, "Without special tokens it ends at 0.40."),
        (
            {"stream_norm": 40.0, "stream_cosine": 0.95},
            "After the final norm it is 0.50. Without special tokens it is 0.40 there.",
        ),
    ],
)
def test_tokens_without_special_ones_are_compared_at_the_same_place(rest, sentence):
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5).assign({name: ("text", [value] * 3) for name, value in rest.items()})
    plain = data["mean_cosine_no_special"].copy()
    plain[-1] = 0.4
    text = spoken(data.assign(mean_cosine_no_special=plain))["collapse"]
    assert f" {sentence} " in f"{text} "


def test_clusters_are_counted_with_their_width():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    last = {
        "clusters": [3, 2, 1],
        "largest_cluster": [12, 14, 16],
        "single_tokens": [4, 5, 9],
        "cluster_cosine": [0.8, 0.7, 0.9],
    }
    for name, values in last.items():
        data[name] = data[name].astype(float)
        data[name][-1] = values
    text = spoken(data)["clusters"]
    assert (
        "2 clusters (largest: 50 % of the tokens, with cosines down to 0.70), 6 single tokens on average over texts"
        in text
    )
    one = spoken(data.isel(text=[2]))["clusters"]
    assert one.startswith("1 cluster (largest: 16 tokens, with cosines down to 0.90), 9 single tokens after layer 4;")
    data["clusters"][-1] = 0
    assert spoken(data)["clusters"] == "No two tokens have a cosine of 0.9 or more after layer 4."


def test_special_tokens_and_the_spread_over_texts_are_said_when_they_matter():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    assert "special" not in spoken(data)["collapse"]
    assert "between 0.50 and 0.50" in spoken(data)["collapse"]
    data["mean_cosine_no_special"] = data["mean_cosine"] - 0.1
    assert "Without special tokens it ends at 0.40" in spoken(data)["collapse"]
    assert "end between" not in spoken(data.isel(text=[0]))["collapse"]


def test_of_a_few_texts_all_are_within_the_range_that_is_said():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    data["mean_cosine"][-1] = [0.31, 0.42, 0.67]
    assert "The 3 texts end between 0.31 and 0.67." in spoken(data)["collapse"]
    windows = data.assign(text_number=("text", [1, 1, 2]))
    assert "The 3 windows end between" in spoken(windows)["collapse"]
    many = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5, texts=21)
    many["mean_cosine"][-1] = np.linspace(0, 1, 21)
    assert "Nine texts in ten end between 0.05 and 0.95." in spoken(many)["collapse"]


def test_numbers_below_zero_have_a_minus_and_zero_has_none():
    text = spoken(with_cosines(-0.01, -0.02, -0.02, -0.001, -0.001))["collapse"]
    assert "from −0.01 at the embeddings to 0.00" in text


@pytest.mark.parametrize(
    ("shift", "word"), [(-0.2, "closer together than"), (0.2, "further apart than"), (0.01, "about as much as")]
)
def test_random_weights_are_compared_from_their_own_start(shift, word):
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    for start in (0.0, 0.35, -0.4):  # where the random twin starts does not matter, nor where it ends
        data["null_mean_cosine"] = data["mean_cosine"] + start
        data["null_mean_cosine"][-1] += shift
        text = spoken(data)["random weights"]
        assert word in text
        assert f"from {0.1 + start:.2f} to {0.5 + start + shift:.2f} ({0.4 + shift:+.2f})".replace("-", "−") in text
        assert "the trained model from 0.10 to 0.50 (+0.40)" in text
        assert f"({-shift:+.2f})".replace("-", "−") in text


def test_speed_counts_layers_of_the_theory():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    curve = data["predicted_cosine"].values
    layer = int(np.searchsorted(curve, 0.5))
    place = layer - 1 + (0.5 - curve[layer - 1]) / (curve[layer] - curve[layer - 1])
    text = spoken(data)["speed"]
    assert f"as far as {place:.1f} theoretical layers: {place / 4:.2g} times the speed of theory" in text
    assert f"reaches {curve[-1]:.2f} after 4 layers" in text
    assert "a similar speed" in spoken(with_cosines(0.1, 0.2, 0.3, 0.4, float(curve[-1]) - 1e-6))["speed"]
    assert "no higher than it starts (−0.20)" in spoken(with_cosines(0.5, 0.2, 0.3, 0.4, 0.3))["speed"]
    almost = float(np.interp(0.7 * 4, np.arange(5), curve))
    assert (
        "as far as 2.8 theoretical layers: 0.7 times the speed of theory"
        in spoken(with_cosines(0.1, 0.2, 0.3, 0.4, almost))["speed"]
    )
    assert "ends above that, at 1.00" in spoken(with_cosines(0.1, 0.2, 0.3, 0.4, 0.9999))["speed"]


def test_a_curve_that_rises_and_falls_has_no_single_speed():
    """It may fall by a tenth of what it rises."""
    text = spoken(with_cosines(0.1, 0.5, 0.2, 0.4, 0.3))["speed"]
    assert "rises by 0.60 and falls by 0.40 in total, so no single speed describes it" in text
    assert "times the speed of theory" not in text
    assert "similar" not in text
    assert "single" not in spoken(with_cosines(0.1, 0.3, 0.3, 0.29, 0.3))["speed"]
    assert "single" in spoken(with_cosines(0.1, 0.3, 0.3, 0.27, 0.3))["speed"]
    falling = with_cosines(0.1, 0.2, 0.25, 0.28, 0.3)
    falling["predicted_cosine"][2] = (
        falling["predicted_cosine"][1] - 0.01
    )  # a theory that does not rise has none either
    assert "no single speed" in spoken(falling)["speed"]


def test_a_final_norm_is_no_step_of_the_model():
    rho = 0.1, 0.2, 0.3, 0.4, 0.45
    plain = with_cosines(*rho)
    moved = plain.copy(deep=True).assign(stream_norm=("text", [40.0] * 3), stream_cosine=("text", [0.45] * 3))
    moved["mean_cosine"][-1] = 0.05
    assert spoken(moved)["speed"] == spoken(plain)["speed"]
    twins = {"null_stream_cosine": ("text", [0.2] * 3), "null_mean_cosine": (("layer", "text"), np.full((5, 3), 0.1))}
    assert (
        "from 0.10 to 0.20 (+0.10), the trained model from 0.10 to 0.45 (+0.35)"
        in spoken(moved.assign(twins))["random weights"]
    )


def test_where_model_and_theory_part_on_the_way_is_said():
    curve = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)["predicted_cosine"].values
    near = [*(curve[:-1] - 0.01), curve[-1] - 1e-6]
    assert "On the way" not in spoken(with_cosines(0.1, *near[1:]))["speed"]
    near[1:3] = 0.11, 0.12
    text = spoken(with_cosines(0.1, *near[1:]))["speed"]
    assert "a similar speed" in text
    assert f"at layer 2, where the model is at {near[2]:.2f} and theory at {curve[2]:.2f}" in text


def test_heads_above_the_threshold_are_counted():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    gamma = np.full((4, 2, 3), 1.0)
    gamma[2, 1] = 5.0
    data = data.assign(
        gamma=(("block", "head", "text"), gamma), critical_gamma=(("block", "text"), np.full((4, 3), 2.0))
    )
    text = spoken(data)["attention scale"]
    assert "in 1 of 8 heads. By theory heads below the threshold average over many tokens" in text
    assert "heads above it focus on few tokens" in text
    none, all_heads = (spoken(data.assign(gamma=data["gamma"] * 0 + g))["attention scale"] for g in (1.0, 5.0))
    assert "in 0 of 8 heads. By theory they average over many tokens and pull them together." in none
    assert "in 8 of 8 heads. By theory they focus on few tokens." in all_heads
    assert "focus" not in none
    assert "average" not in all_heads


def test_what_theory_puts_on_the_token_itself_is_held_against_the_heads():
    data = with_cosines(0.5, 0.5, 0.5, 0.5, 0.5)
    n = int(np.median(data["tokens"]))
    data["beta"] = data["beta"] * 0 + 2 * np.log(n - 1)  # so that e^b = (n-1) e^{b rho}: weight 1/2 on itself
    data["self_mass"] = data["self_mass"] * 0 + 0.125
    text = spoken(data)["attention scale"]
    assert (
        "puts 50 % of a head's weight on the token itself (median over blocks); measured heads put 12 % there" in text
    )
    data["self_mass"] = data["self_mass"] * 0 + 0.5
    assert "itself" not in spoken(data)["attention scale"]


def test_log_n_scale_is_a_layer_at_the_measured_cosines():
    data = with_cosines(0.5, 0.5, 0.5, 0.5, 0.5)
    n = int(np.median(data["tokens"]))
    data["beta"] = data["beta"] * 0 + 2 * np.log(n)
    text = spoken(data)["log n"]
    found = [float(share) for share in re.findall(r"([\d.]+) %", text)]
    np.testing.assert_allclose(found, [100 * share for share in _remaining(n)], atol=0.5)
    assert f"= {2 * np.log(n):.3g} (median" in text  # gamma = 2 is critical at rho = 1/2


def _remaining(n):
    """1 - rho left of 1/2 after one Post-LN layer of real tokens, at beta = 2 log n; 16 n tokens; and with log 16n."""
    beta = 2 * np.log(n)
    for size, b in ((n, beta), (16 * n, beta), (16 * n, 2 * np.log(16 * n))):
        run = tkf.layers(tkf.Transformer(tkf.Softmax(b), tkf.PostLN()), tkf.equiangular_tokens(0.5, size), 1)
        yield 2 * (1 - tkf.mean_cosine(run.final))


def test_another_norm_is_a_prediction_under_that_norm():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    text = spoken(data)["another norm"]
    betas = data["beta"].median(("head", "text")).values
    models = [tkf.Transformer(tkf.Softmax(b), norm=tkf.PreLN()) for b in betas]
    n = int(np.median(data["tokens"]))
    pre = 1 - tkf.mean_cosine(tkf.layers(models, tkf.equiangular_tokens(0.1, n)).final)
    assert f"{pre:.2g} under Pre-LN" in text
    assert "Peri-LN" in text


def test_energy_says_where_it_falls_at_one_scale_for_all_layers():
    """Along the flow beta is fixed: at a layer's own beta the energy may also fall because beta rises."""
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5).assign_coords(scale=[1.0, 4.0, 16.0])
    up = np.array([0.1, 0.2, 0.3, 0.4, 0.5])[:, None] * np.ones(3)
    down = up[[0, 2, 1, 3, 2]]

    def energy(fixed, own):
        scales = np.stack([down, fixed, down], axis=-1)
        return spoken(
            data.assign(fixed_energy=(("layer", "text", "scale"), scales), normalized_energy=(("layer", "text"), own))
        )["energy"]

    text = energy(up, down)
    assert (
        "At β = 4 in all layers the normalized energy rises from layer to layer, from 0.1 to 0.5 at layer 4, as along the flow"
        in text
    )
    assert "own β it goes from 0.1 to 0.3." in text
    assert "goes from 0.1 to 0.3 at layer 4, but falls at layers 2, 4: along the flow it never does" in energy(down, up)
    assert "own β" not in energy(up, up * np.nan)


def test_smoothness_gives_the_powers():
    data = with_powers(with_cosines(0.1, 0.2, 0.3, 0.4, 0.5))
    low, high = float(data["lipschitz_power"].min()), float(data["lipschitz_power"].max())
    text = spoken(data)["smoothness"]
    assert f"p between {low:.2f} and {high:.2f} over the blocks" in text
    assert "n = 8 to 32" in text
    assert "For one head at its worst tokens, no longer than these, the power is 0.50" in text
    assert "its worst tokens" not in spoken(data.drop_vars("lipschitz_worst"))["smoothness"]
    assert "its worst tokens" not in spoken(data.assign(lipschitz_worst=data["lipschitz_worst"] * np.nan))["smoothness"]


def test_heads_in_the_quoted_range_are_a_share_of_those_measured():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    values = np.full((4, 2, 3), np.nan)
    values[0], values[1] = 500.0, 5000.0
    text = spoken(data.assign(r2gamma=(("block", "head", "text"), values)))["worst case"]
    assert "50 % of heads lie in the range 10² to 10³" in text


def test_what_was_not_measured_is_not_spoken_of():
    data = with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)
    measured = ["beta", "gamma", "critical_gamma", "r2gamma", "null_mean_cosine", "normalized_energy"]
    measured += ["single_tokens"]
    bare = data.drop_vars([*measured, *[name for name in data if name.startswith("predicted")]])
    assert set(spoken(bare)) == {"collapse"}
