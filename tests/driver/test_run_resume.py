"""Runs in chunks, interrupted or killed, go on to the same bits."""

import subprocess
import sys
import time

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.driver import single
from tokenfield.driver.checkpoint import CheckpointError

SA = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())


START = tkf.uniform_sphere(24, 3, seed=0)


def test_chunks_do_not_change_a_bit(monkeypatch):
    whole = tkf.simulate(SA, START, 20.0)
    monkeypatch.setattr(single, "CHUNK_SECONDS", 0.0)
    pieces = tkf.simulate(SA, START, 20.0)
    np.testing.assert_array_equal(whole.dataset["x"], pieces.dataset["x"])


@pytest.mark.parametrize("norm", [tkf.PostLN(), tkf.MixLN(5.0)])
def test_an_interrupted_run_resumes_to_the_same_bits(norm, tmp_path, monkeypatch):
    model, path = tkf.Transformer(tkf.Softmax(4.0), norm), tmp_path / "run.npz"
    whole = tkf.simulate(model, START, 20.0)
    real, calls = single.Single.advance, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(single, "CHUNK_SECONDS", 0.0)
    for _ in range(2):  # interrupt it twice
        calls.clear()
        monkeypatch.setattr(single.Single, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tkf.simulate(model, START, 20.0, checkpoint=path)
        assert path.exists()
    monkeypatch.setattr(single.Single, "advance", real)
    resumed = tkf.simulate(model, START, 20.0, checkpoint=path)
    np.testing.assert_array_equal(whole.dataset["x"], resumed.dataset["x"])
    again = tkf.simulate(model, START, 20.0, checkpoint=path)  # a finished run is read back
    np.testing.assert_array_equal(whole.dataset["x"], again.dataset["x"])


SCRIPT = """
import sys, numpy as np, tokenfield as tkf
from tokenfield.driver import single
single.CHUNK_SECONDS = 0.0
model = tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN())
start = tkf.uniform_sphere(24, 3, seed=0)
traj = tkf.simulate(model, start, 2000.0, rtol=0, atol=1e-11, method="tsit5", checkpoint=sys.argv[1], checkpoint_every=0.0)
np.save(sys.argv[2], traj.dataset["x"].values)
"""


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_bits(tmp_path):
    checkpoint, out = tmp_path / "run.npz", tmp_path / "out.npy"
    command = [sys.executable, "-c", SCRIPT, str(checkpoint)]
    process = subprocess.Popen([*command, str(out)])
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)
    process.kill()
    process.wait()
    assert not out.exists(), "the run ended before it was killed: make it longer"
    subprocess.run([*command, str(out)], check=True)
    fresh = tkf.simulate(SA, START, 2000.0, rtol=0, atol=1e-11, method="tsit5")  # in one go, and in another process
    np.testing.assert_array_equal(np.load(out), fresh.dataset["x"].values)


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    tkf.simulate(SA, START, 1.0, checkpoint=path)
    with pytest.raises(CheckpointError, match="another run"):
        tkf.simulate(SA, START, 2.0, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        tkf.simulate(SA, START, 1.0, checkpoint=path)
