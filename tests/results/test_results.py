"""Saving and loading."""

import hashlib
import shutil

import numpy as np
import pytest

import tokenfield as tkf

MODEL = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN())


@pytest.fixture(scope="module")
def traj():
    state = tkf.Tokens(tkf.uniform_sphere(6, 3, seed=0).x, [0.1, 0.1, 0.2, 0.2, 0.2, 0.2], np.linspace(0, 1, 6))
    return tkf.simulate(MODEL, state, 3.0, save_at=[0.0, 0.5, 3.0], stop_when=tkf.order_above(0.9))


def test_round_trip(traj, tmp_path):
    loaded = tkf.load(traj.save(tmp_path / "run.zarr"))
    np.testing.assert_array_equal(loaded.dataset["x"], traj.dataset["x"])
    np.testing.assert_array_equal(loaded.times, traj.times)
    np.testing.assert_array_equal(loaded.final.weights, traj.final.weights)
    np.testing.assert_array_equal(loaded.final.positions, traj.final.positions)
    assert loaded.events == traj.events
    assert loaded.config == traj.config
    assert repr(loaded) == repr(traj)


def test_dataset_is_labeled(traj):
    assert traj.dataset["x"].dims == ("time", "token", "coordinate")
    assert dict(traj.dataset.sizes) == {"time": len(traj.times), "token": 6, "coordinate": 3}
    np.testing.assert_array_equal(traj.states[-1].x, traj.final.x)


def test_a_run_says_its_geometry_and_the_beta_of_its_energy(traj, tmp_path):
    loaded = tkf.load(traj.save(tmp_path / "run.zarr"))
    assert (loaded.space, loaded.energy_beta) == (tkf.Sphere(), 2.0)
    assert [model["attention"]["kind"] for model in loaded.models] == ["Softmax"]
    free = tkf.Transformer(tkf.Softmax(2.0))
    start = tkf.uniform_sphere(4, 3, seed=0)
    assert (tkf.simulate(free, start, 0.1).space, tkf.simulate(free, start, 0.1).energy_beta) == (tkf.Euclidean(), None)
    mixed = tkf.layers([MODEL, free], start, 2)
    assert (len(mixed.models), mixed.space, mixed.energy_beta) == (2, tkf.Euclidean(), None)
    alike = tkf.layers([MODEL, tkf.Transformer(tkf.Softmax(3.0), tkf.PreLN())], start, 2)
    assert (alike.space, alike.energy_beta) == (tkf.Sphere(), None)
    assert tkf.simulate(MODEL, tkf.Equiangular(0.1, n=4), 0.1).energy_beta is None


def test_existing_runs_are_not_overwritten_by_accident(traj, tmp_path):
    traj.save(tmp_path / "run.zarr")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        traj.save(tmp_path / "run.zarr")
    traj.save(tmp_path / "run.zarr", overwrite=True)


def test_missing_foreign_and_damaged_runs_are_refused(traj, tmp_path):
    with pytest.raises(FileNotFoundError, match="no saved run"):
        tkf.load(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="not a saved run, or it is damaged"):
        tkf.load(tmp_path / "folder")
    path = traj.save(tmp_path / "run.zarr")
    chunk = next(p for p in (path / "x" / "c").rglob("*") if p.is_file())
    truncated = chunk.read_bytes()[:-7]
    chunk.unlink()  # a missing chunk reads as fill values: the checksum notices
    with pytest.raises(ValueError, match="damaged"):
        tkf.load(path)
    chunk.write_bytes(truncated)
    with pytest.raises(ValueError, match="damaged"):
        tkf.load(path)
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("events", "message"),
    [(None, "damaged: it has no 'events'"), ("[", "damaged: Expecting value"), ("[3]", "damaged: ")],
)
def test_runs_without_events_are_refused(traj, tmp_path, events, message):
    changed = traj.dataset.assign_attrs({} if events is None else {"events": events})
    if events is None:
        del changed.attrs["events"]
    path = tkf.Trajectory(changed).save(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match=message):
        tkf.load(path)


def test_large_arrays_are_hashed_once_and_forgotten_with_them():
    import jax.numpy as jnp

    from tokenfield.results import digest

    numbers = np.arange(6.0).reshape(2, 3)
    expected = hashlib.sha256(numbers.tobytes()).hexdigest()
    array = jnp.asarray(numbers.T.copy()).T
    known = len(digest._remembered)
    assert digest.sha256(array) == digest.sha256(array) == digest.sha256(numbers.T.copy().T) == expected
    assert len(digest._remembered) == known + 1
    numbers[0, 0] = 7.0  # arrays of NumPy may change
    assert digest.sha256(numbers) == hashlib.sha256(numbers.tobytes()).hexdigest() != expected
    del array
    assert len(digest._remembered) == known
