"""Overlaid histograms of cosines: their bins against a plain count."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import tokenfield as tkf

MODEL = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PreLN())


def bars(ax):
    """Values and edges of the outlines."""
    return [(patch.get_data().values, patch.get_data().edges) for patch in ax.patches if not patch.get_fill()]


def test_bins_are_plain_counts_of_pairs():
    traj = tkf.layers(MODEL, tkf.uniform_sphere(24, 3, seed=0), depth=48)
    ax = tkf.plotting.cosine_histograms(traj).axes[0]
    assert [text.get_text().split(",")[0] for text in ax.get_legend().get_texts()] == [
        f"layer {k}" for k in (0, 5, 30, 48)
    ]
    for layer, (values, edges) in zip((0, 5, 30, 48), bars(ax), strict=True):
        x = np.asarray(traj.state(layer).x)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        pairs = [x[i] @ x[j] for i in range(24) for j in range(i)]
        for value, low, high in zip(values, edges[:-1], edges[1:], strict=True):
            inside = sum(low <= c < high or (high == 1 and c >= 1) for c in pairs)
            assert value * (high - low) * len(pairs) == pytest.approx(
                inside, abs=1.01
            )  # a cosine on an edge may go either way
        assert (values * np.diff(edges)).sum() == pytest.approx(1)


def test_a_probes_dataset_times_and_given_axes(tmp_path):
    import xarray

    counts = np.zeros((2, 4, 4))
    counts[:, :, 3] = 5
    counts[0, 0] = [1, 2, 3, 4]
    dataset = xarray.Dataset(
        {
            "cosine_histogram": (("text", "layer", "bin"), counts),
            "mean_cosine": (("text", "layer"), np.array([[0.0, 0.2, 0.4, 0.6], [0.2, 0.4, 0.6, 0.8]])),
            "bin_edges": ("edge", np.linspace(-1, 1, 5)),
        },
        coords={"layer": np.arange(4)},
    )
    ax = Figure().add_subplot()
    assert tkf.plotting.cosine_histograms(dataset, layers=[0, -1], ax=ax) is ax
    np.testing.assert_allclose(bars(ax)[0][0], np.array([1, 2, 3, 9]) / 15 / 0.5)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["layer 0, mean 0.10", "layer 3, mean 0.70"]
    traj = tkf.simulate(
        tkf.Transformer(tkf.Softmax(4.0), norm=tkf.PostLN()), tkf.uniform_sphere(8, 3, seed=0), 2.0, save_at=3
    )
    labels = tkf.plotting.cosine_histograms(traj).axes[0].get_legend().get_texts()
    assert labels[0].get_text().startswith("t = 0, mean")
    assert len(bars(tkf.plotting.cosine_histograms(traj, layers=2).axes[0])) == 1


def test_bad_input():
    traj = tkf.layers(MODEL, tkf.uniform_sphere(4, 3, seed=0), depth=2)
    with pytest.raises(ValueError, match="layers must be numbers from 0 to 2"):
        tkf.plotting.cosine_histograms(traj, layers=[7])
    for run in (tkf.layers(MODEL, tkf.uniform_sphere(1, 3, seed=0), 2), tkf.layers(MODEL, tkf.Equiangular(0.1, 4), 2)):
        with pytest.raises(ValueError, match="needs a run of at least two tokens"):
            tkf.plotting.cosine_histograms(run)
    with pytest.raises(ValueError, match="or the dataset of a probe, got 3"):
        tkf.plotting.cosine_histograms(3)
