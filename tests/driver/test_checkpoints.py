"""Runs of every kind that are cut go on to the same bits."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.driver import single
from tokenfield.driver.checkpoint import Checkpointer, CheckpointError

CIRCLE = tkf.uniform_sphere(64, 2, seed=0)
SA = tkf.Transformer(tkf.Softmax(16.0), tkf.PostLN())
NOISY = tkf.Transformer(tkf.Unnormalized(1.0), tkf.PostLN(), noise=tkf.SphereNoise(4.0))
PIECES = tkf.Transformer(tkf.Unnormalized(1.0), tkf.PostLN(), noise=tkf.SphereNoise(4.0), breakpoints=[0.2, 0.5])
MIXED = tkf.Transformer(tkf.Softmax(1.0), tkf.MixLN(2.0))
STARTS = [tkf.uniform_sphere(8, 3, seed=k) for k in range(40)]
MEAN_FIELD = tkf.Transformer(tkf.Softmax(1.0), tkf.PostLN())
DENSITY = tkf.CircleDensity.from_function(lambda angle: 1 + 0.3 * np.cos(angle), 16)
RUNS = {
    "collapse and waits": lambda **kept: tkf.simulate(SA, CIRCLE, np.inf, **kept),
    "waits": lambda **kept: tkf.simulate(SA, tkf.uniform_sphere(9, 2, seed=1), 1e6, save_at=30, **kept),
    "noise": lambda **kept: tkf.simulate(NOISY, CIRCLE, 1.0, seed=1, dt=0.01, **kept),
    "noise in segments": lambda **kept: tkf.simulate(
        PIECES, CIRCLE, 1.0, seed=1, dt=0.01, save_at=[0, 0.1, 0.9], **kept
    ),
    "layers": lambda **kept: tkf.layers(SA, CIRCLE, depth=100, **kept),
    "layers of a density": lambda **kept: tkf.layers(MEAN_FIELD, DENSITY, depth=9, step=0.3, **kept),
    "a density that is refined": lambda **kept: tkf.simulate(MEAN_FIELD, DENSITY, 4.0, save_at=9, rtol=1e-12, **kept),
    "an ensemble": lambda **kept: tkf.simulate_many(
        MIXED, STARTS, 20.0, save_at=5, stop_when=tkf.one_cluster(), rtol=0, atol=1e-12, **kept
    ),
    "a noisy ensemble": lambda **kept: tkf.simulate_many(NOISY, STARTS, 1.0, seeds=range(40), dt=0.004, **kept),
}


def assert_same_bits(one, other):
    for name in one.dataset.variables:
        np.testing.assert_array_equal(one.dataset[name], other.dataset[name])
    assert one.events == other.events
    assert one.dataset.attrs["steps"] == other.dataset.attrs["steps"]


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_is_cut_goes_on_to_the_same_bits(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(single, "CHUNK_SECONDS", 0.0)  # few steps at a time
    run, path = RUNS[kind], tmp_path / "run.npz"
    whole, asked = run(), []

    def cut(self):
        asked.append(1)
        if len(asked) > 2:
            raise KeyboardInterrupt
        return False

    for _ in range(3):
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Checkpointer, "due", cut)
            with pytest.raises(KeyboardInterrupt):
                run(checkpoint=path)
        assert path.exists()
    assert_same_bits(run(checkpoint=path), whole)
    assert_same_bits(run(checkpoint=path, checkpoint_every=0.0), whole)  # a finished run is read back


@pytest.mark.parametrize("kind", ["waits", "noise", "layers"])
def test_a_checkpoint_of_another_run_is_refused(kind, tmp_path):
    path = tmp_path / "run.npz"
    tkf.simulate(SA, CIRCLE, 1.0, checkpoint=path)
    with pytest.raises(CheckpointError, match="another run"):
        RUNS[kind](checkpoint=path)


@pytest.mark.parametrize(
    "run", [lambda: tkf.simulate(SA, CIRCLE, 1.0, checkpoint=7), lambda: RUNS["an ensemble"](checkpoint=7)]
)
def test_a_checkpoint_is_a_path(run):
    with pytest.raises(ValueError, match="checkpoint must be the path of a file or a folder, got 7"):
        run()
