"""Files of a sweep that are lost or changed are found and named, and --resume runs their cells again."""

import json
import shutil

import numpy as np
import pytest
import zarr
from commands import assert_one_line_error, tokenfield_here
from sweeps import PLAN, changed, same_bits

import tokenfield as tkf
from tokenfield.results.saved import seal
from tokenfield.sweep import store, stored

RESULTS = stored.results(tkf.sweep.read_plan(PLAN))


@pytest.fixture(scope="module")
def whole():
    return tkf.sweep(PLAN).dataset


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "out"
    tkf.sweep(PLAN, folder)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A finished sweep of twelve cells, three in a file."""
    monkeypatch.setattr(store, "CHUNK", 4)
    tkf.sweep(PLAN, tmp_path / "out")
    return tmp_path / "out"


def files(folder, name):
    return sorted(path for path in (folder / stored.DATASET / name / "c").rglob("*") if path.is_file())


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_results_that_are_lost_are_named_and_run_again(name, how, folder, whole, capsys):
    victim = files(folder, name)[-1]
    before = {path: path.read_bytes() for path in files(folder, name)[:-1]}
    if how == "missing":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    with pytest.raises(ValueError, match=rf"{victim} is {how}: (1|3|4) of 12 cells may be lost\. --resume runs them"):
        tkf.sweep.SweepResult.open(folder)
    for command in (["status", folder], ["figures", folder], ["export", folder, folder / "a.nc"]):
        assert_one_line_error(tokenfield_here(capsys, "sweep", *command), f"{victim} is {how}")
    with pytest.raises(ValueError, match=r"holds this sweep, .*--resume continues"):
        tkf.sweep(PLAN, folder)
    assert same_bits(tkf.sweep(PLAN, folder, resume=True).dataset, whole)
    assert same_bits(tkf.sweep.SweepResult.open(folder).dataset, whole)
    assert before == {path: path.read_bytes() for path in before}


def test_a_kill_while_lost_cells_are_run_again_loses_none(folder, whole, monkeypatch):
    """They wait on disk before any of their numbers is blank there."""
    files(folder, "r")[0].unlink()
    files(folder, "status")[-1].write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(store.Store, "put", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tkf.sweep(PLAN, folder, resume=True)
    found = tkf.sweep.SweepResult.open(folder).dataset
    done = found["status"].values == store.DONE
    assert 0 < done.sum() < 12
    for name in ("r", "above", "aligned", "end_time"):
        assert found[name].values[done].tobytes() == whole[name].values[done].tobytes()
    assert same_bits(tkf.sweep(PLAN, folder, resume=True).dataset, whole)


@pytest.mark.parametrize("name", ["id", "seed_used", "beta", "repeat", "time_above", "zarr.json", "r/zarr.json"])
def test_what_never_changes_is_sealed(name, made, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(made, folder)
    place = folder / stored.DATASET / name
    victim = place if place.suffix else files(folder, name)[0]
    victim.unlink()
    for call in (lambda: tkf.sweep.SweepResult.open(folder), lambda: tkf.sweep(PLAN, folder, resume=True)):
        with pytest.raises(ValueError, match=r"sweep\.zarr is damaged: .*Give another folder, or --overwrite"):
            call()
    assert tkf.sweep(changed(repeats=1), folder, overwrite=True).counts["done"] == 3


@pytest.mark.parametrize(("name", "value"), [("beta", 5.0), ("repeat", 7), ("time_above", 0.5)])
def test_axes_are_those_of_the_plan(name, value, made, tmp_path):
    """Even under a checksum that fits."""
    folder = tmp_path / "out"
    shutil.copytree(made, folder)
    zarr.open_group(folder / stored.DATASET, mode="r+")[name][1] = value
    seal(folder / stored.DATASET, without=RESULTS)
    for call in (lambda: tkf.sweep.SweepResult.open(folder), lambda: tkf.sweep(PLAN, folder, resume=True)):
        with pytest.raises(ValueError, match=r"damaged: its axes are not those of its plan"):
            call()


def test_sweeps_without_checksums_are_not_taken_for_checked_ones(made, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(made, folder)
    metadata = folder / stored.DATASET / "zarr.json"
    data = json.loads(metadata.read_text())
    del data["attributes"]["format"], data["attributes"]["checksum"]
    metadata.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"written by an older tokenfield, without checksums: xarray\.open_zarr reads"):
        tkf.sweep(PLAN, folder, resume=True)


def test_the_plan_for_people_is_not_what_counts(made, whole, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(made, folder)
    (folder / "plan.json").write_text("{}")
    assert same_bits(tkf.sweep(PLAN, folder, resume=True).dataset, whole)
    assert json.loads((folder / "plan.json").read_text())["name"] == "small"
    assert np.array_equal(tkf.sweep.SweepResult.open(folder).plan.shape, (3, 4))
