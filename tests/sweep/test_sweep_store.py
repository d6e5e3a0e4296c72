"""The folder of a sweep: laid out at once, whole after any interruption, never mixed with another plan's."""

import concurrent.futures
import errno
import itertools
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from sweeps import PLAN, changed, same_bits

import tokenfield as tkf
from tokenfield._lock import alone_in
from tokenfield.results.saved import seal
from tokenfield.sweep import run, sizes, store, stored
from tokenfield.sweep.engines import in_process


@pytest.fixture(scope="module")
def whole():
    return tkf.sweep(PLAN).dataset


@pytest.fixture
def counted(monkeypatch):
    """The numbers of the batches that are run; after `most` of them comes Ctrl-C."""
    numbers, real = [], in_process.run_batch

    def run_batch(plan, number):
        if len(numbers) == run_batch.most:
            raise KeyboardInterrupt
        numbers.append(number)
        return real(plan, number)

    run_batch.most = -1
    monkeypatch.setattr(in_process, "run_batch", run_batch)
    monkeypatch.setattr(in_process, "available_cpus", lambda: 1)  # so that batches come in order
    return numbers, run_batch


def test_the_dataset_has_named_axes_and_says_what_it_holds(whole):
    assert whole["r"].dims == ("beta", "repeat")
    assert whole["above"].dims == ("beta", "repeat", "time_above")
    assert whole["above"].attrs["long_name"] == "fraction of pairs with cosine above 0.5"
    assert whole["aligned"].attrs["long_name"] == "time of order parameter 0.75"
    assert whole["time_above"].values.tolist() == [0.0, 0.4, 2.0]
    assert whole["beta"].values.tolist() == [1.0, 4.0, 9.0]
    assert {"tokenfield_version", "jax_version", "plan"} <= set(whole.attrs)
    label = store.label(tkf.sweep.read_plan(changed(record__above__threshold=0.0)), "above")
    assert label == "fraction of pairs with cosine above 0.0"


@pytest.mark.parametrize("shape", [(3, 4), (40, 50, 60), (5, 10**6), (2, 3, 100_000, 2)])
def test_files_are_small_and_hold_neighbors(shape):
    chunks = store.chunks(shape)
    assert 1 <= np.prod(chunks) <= max(store.CHUNK, 1)
    assert all(1 <= chunk <= size for chunk, size in zip(chunks, shape, strict=True))
    broken = [chunk < size for chunk, size in zip(chunks, shape, strict=True)]
    assert broken == sorted(broken, reverse=True)  # only first axes are cut


def test_an_interrupted_sweep_goes_on_with_what_is_left(whole, counted, tmp_path):
    numbers, run_batch = counted
    run_batch.most = 2
    with pytest.raises(KeyboardInterrupt):
        tkf.sweep(PLAN, tmp_path / "out")
    assert tkf.sweep.SweepResult.open(tmp_path / "out").counts == {"cells": 12, "done": 6, "failed": 0}
    run_batch.most = -1
    found = tkf.sweep(PLAN, tmp_path / "out", resume=True)
    assert numbers == [0, 1, 2, 3]
    assert same_bits(found.dataset, whole)
    assert same_bits(tkf.sweep.SweepResult.open(tmp_path / "out").dataset, whole)
    tkf.sweep(PLAN, tmp_path / "out", resume=True)
    assert numbers == [0, 1, 2, 3]  # nothing was left to do
    assert same_bits(tkf.sweep(PLAN, tmp_path / "new", resume=True).dataset, whole)  # nor is a beginning needed


def test_cells_that_are_done_are_never_written_again(whole, tmp_path, monkeypatch):
    """Their batch may be, for the sake of another cell, and may then even be lost."""
    tkf.sweep(PLAN, tmp_path / "out")
    status = zarr.open_group(tmp_path / "out" / store.DATASET, mode="r+")["status"]
    status[0, 1] = store.PENDING
    monkeypatch.setattr(in_process, "run_batch", lambda plan, number: [])
    found = tkf.sweep(PLAN, tmp_path / "out", resume=True)
    assert [(cell["beta"], cell["repeat"]) for cell in found.failed] == [(1.0, 1)]
    others = np.ones((3, 4), bool)
    others[0, 1] = False
    for name in ("r", "above", "aligned", "end_time", "status"):
        assert found.dataset[name].values[others].tobytes() == whole[name].values[others].tobytes()


def test_a_folder_of_this_or_another_plan(whole, tmp_path):
    out = tmp_path / "out"
    tkf.sweep(PLAN, out)
    with pytest.raises(ValueError, match=r"--out: .*out holds this sweep, 12 of 12 cells done: --resume continues"):
        tkf.sweep(PLAN, out)
    other = changed(run__t1=3.0, seed=1)
    with pytest.raises(ValueError, match=r"out holds another plan: run\.t1: 2\.0 → 3\.0; seed: 0 → 1\. Give another"):
        tkf.sweep(other, out, resume=True)
    assert same_bits(tkf.sweep.SweepResult.open(out).dataset, whole)
    renamed = tkf.sweep(changed(name="other", about="the same numbers"), out, resume=True)
    assert same_bits(renamed.dataset, whole)
    assert tkf.sweep(changed(repeats=1), out, overwrite=True).counts["cells"] == 3
    assert tkf.sweep.SweepResult.open(out).counts == {"cells": 3, "done": 3, "failed": 0}
    assert sorted(path.name for path in out.iterdir()) == ["plan.json", "sweep.zarr"]


def test_many_changes_are_cut_short(tmp_path):
    tkf.sweep(PLAN, tmp_path)
    keys = {f"run__{key}": 0.5 for key in ("rtol", "atol", "merge_tolerance", "fisher_rao")} | {
        "seed": 1,
        "batch": 2,
        "run__t1": 3.0,
    }
    with pytest.raises(ValueError, match=r"holds another plan: .* and 2 more\. Give another folder"):
        tkf.sweep(changed(**keys), tmp_path, resume=True)


def test_a_folder_made_with_other_versions(tmp_path):
    tkf.sweep(PLAN, tmp_path)
    zarr.open_group(tmp_path / store.DATASET, mode="r+").attrs["jax_version"] = "0.0.1"
    seal(tmp_path / store.DATASET, without=stored.results(tkf.sweep.read_plan(PLAN)))
    with pytest.raises(
        ValueError, match=r"made with other versions \(jax_version 0\.0\.1 → .*\), so bits would differ"
    ):
        tkf.sweep(PLAN, tmp_path, resume=True)


def test_large_runs_go_on_with_the_same_number_of_threads_only(tmp_path, monkeypatch):
    kept = {"repeats": 1, "record": {"r": "order_parameter"}}
    large = changed(run={"t1": 0.1, "tokens": {"n": 300, "d": 3}}, axes={"beta": [1.0]}, **kept)
    monkeypatch.setenv("NPROC", "3")
    for number, plan in enumerate((PLAN, large)):
        tkf.sweep(plan, tmp_path / str(number))
    monkeypatch.setenv("NPROC", "1")
    tkf.sweep(PLAN, tmp_path / "0", resume=True)  # small runs have the same bits
    with pytest.raises(
        ValueError, match=r"made with other threads \(threads 3 → 1\), so bits would differ: set NPROC=3"
    ):
        tkf.sweep(large, tmp_path / "1", resume=True)


def test_tokens_from_a_file_that_has_changed(tmp_path):
    file = tmp_path / "tokens.npy"
    np.save(file, np.eye(3))
    plan = changed(run__tokens={"kind": "file", "file": str(file)}, repeats=1, axes={"beta": [1.0]}, batch=1)
    tkf.sweep(plan, tmp_path / "out")
    np.save(file, np.eye(3))
    tkf.sweep(plan, tmp_path / "out", resume=True)
    np.save(file, -np.eye(3))
    with pytest.raises(ValueError, match="made from other data: a file that the plan names has changed"):
        tkf.sweep(plan, tmp_path / "out", resume=True)


def test_resume_and_overwrite_are_not_given_together(tmp_path):
    tkf.sweep(PLAN, tmp_path)
    with pytest.raises(ValueError, match="not both"):
        tkf.sweep(PLAN, tmp_path, resume=True, overwrite=True)


def test_places_where_no_sweep_can_be(tmp_path):
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match=r"--out: .*file is a file, not a folder"):
        tkf.sweep(PLAN, tmp_path / "file")
    with pytest.raises(ValueError, match=r"--out: cannot write to .*inside: Not a directory"):
        tkf.sweep(PLAN, tmp_path / "file" / "inside")
    with pytest.raises(ValueError, match=r"holds no sweep"):
        tkf.sweep.SweepResult.open(tmp_path)


def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir(mode=0o500)
    if os.geteuid() == 0:  # to whom nothing is locked

        def refuse(self, *arguments, **options):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ValueError, match=r"--out: cannot write to .*out: Permission denied$"):
        tkf.sweep(PLAN, tmp_path / "locked" / "out")


def test_two_sweeps_in_one_folder(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(1) as thread, alone_in(tmp_path):
        other = thread.submit(tkf.sweep, PLAN, tmp_path)
        with pytest.raises(ValueError, match=r"--out: another sweep is writing to "):
            other.result()
    tkf.sweep(changed(repeats=1), tmp_path)


@pytest.mark.parametrize("leftover", [".part-12-00c0ffee-sweep.zarr", "plan.json"])
def test_what_a_kill_leaves_before_the_first_cell_is_no_hindrance(leftover, whole, tmp_path):
    tkf.sweep(changed(repeats=1), tmp_path / "other")
    (tmp_path / "out").mkdir()
    source = tmp_path / "other" / ("plan.json" if leftover == "plan.json" else "sweep.zarr")
    (shutil.copy if source.is_file() else shutil.copytree)(source, tmp_path / "out" / leftover)
    assert same_bits(tkf.sweep(PLAN, tmp_path / "out", resume=True).dataset, whole)
    assert same_bits(tkf.sweep.SweepResult.open(tmp_path / "out").dataset, whole)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["plan.json", "sweep.zarr"]


@pytest.mark.parametrize("name", [".old-sweep.zarr", "sweep.zarr"])
def test_a_sweep_that_was_to_be_replaced_is_still_there(name, whole, tmp_path):
    """A kill while a new layout took its place left it under another name; nobody replaces it without being asked to."""
    tkf.sweep(PLAN, tmp_path)
    (tmp_path / "sweep.zarr").rename(tmp_path / name)
    (tmp_path / "plan.json").unlink()
    assert same_bits(tkf.sweep.SweepResult.open(tmp_path).dataset, whole)
    with pytest.raises(ValueError, match="holds another plan"):
        tkf.sweep(changed(repeats=1), tmp_path, resume=True)
    assert same_bits(tkf.sweep(PLAN, tmp_path, resume=True).dataset, whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "sweep.zarr"]


def test_a_plan_that_does_not_fit_is_refused_with_the_estimate(tmp_path, monkeypatch):
    big = changed(axes={"beta": {"linspace": [1, 2, 100_000]}})
    with monkeypatch.context() as patch:
        patch.setattr(sizes, "free_memory", lambda: 1e8)
        words = r"plan: 400000 cells need about \d+ MB of memory, 100 MB are free: use fewer cells"
        with pytest.raises(ValueError, match=words):
            tkf.sweep(big)
    with monkeypatch.context() as patch:
        patch.setattr(sizes, "free_memory", lambda: 1e12)
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 10**6, 10**6))
        words = r"--out: 400000 cells need up to [\d.]+ MB on disk, 1 MB are free: use fewer cells or times"
        with pytest.raises(ValueError, match=words):
            tkf.sweep(big, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep").exists()
    assert sizes.free_memory() > 1e6


def test_the_estimate_bounds_the_memory_of_configs():
    import tracemalloc

    plan = tkf.sweep.read_plan(changed(axes={"beta": {"linspace": [1, 2, 400]}}))
    tracemalloc.start()
    try:
        cells = [run.Cells(plan) for _ in range(2)]
        assert all(len(each.configs) == 400 for each in cells)
        assert tracemalloc.get_traced_memory()[0] < 1.2 * sizes.memory_of(plan)
    finally:
        tracemalloc.stop()


def full_after(monkeypatch, writes):
    """A disk that has room for so many files."""
    from zarr.storage import _local

    count, real = itertools.count(), _local._put

    def put(*arguments, **options):
        if next(count) >= writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **options)

    monkeypatch.setattr(_local, "_put", put)


@pytest.mark.parametrize("writes", [0, 3, 22, 28, 33, 48, 53])
def test_a_full_disk_loses_nothing(writes, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        full_after(patch, writes)
        with pytest.raises(ValueError, match=r"--out: cannot write to .*: No space left on device; --resume continues"):
            tkf.sweep(PLAN, tmp_path)
    if stored.holds_sweep(tmp_path):
        assert tkf.sweep.SweepResult.open(tmp_path).counts["done"] < 12
    else:
        assert not list(tmp_path.iterdir())
    assert same_bits(tkf.sweep(PLAN, tmp_path, resume=True).dataset, whole)


def test_a_disk_that_is_really_full(whole, tmp_path):
    size = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(tmp_path)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(size, capture_output=True).returncode:
        pytest.skip("only root can make a small disk")
    try:
        (tmp_path / "ballast").write_bytes(b"x" * 270_000)
        with pytest.raises(ValueError, match=r"--out: .*(No space left on device|on disk)"):
            tkf.sweep(PLAN, tmp_path / "out")
        (tmp_path / "ballast").unlink()
        assert same_bits(tkf.sweep(PLAN, tmp_path / "out", resume=True).dataset, whole)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_netcdf_and_back(whole, tmp_path):
    pytest.importorskip("netCDF4")
    plan = changed(
        axes={"norm": ["post", "pre"], "norm.gain": [1.0]}, repeats=1, batch=1, run__t1=0.1, record={"r": "energy"}
    )
    found = tkf.sweep(plan)
    found.to_netcdf(tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4") as back:
        assert same_bits(back.load(), found.dataset)
        assert back.attrs["plan"] == found.dataset.attrs["plan"]
    with pytest.raises(ValueError, match=r"cannot write .*a\.nc: there is no folder .*nowhere"):
        found.to_netcdf(tmp_path / "nowhere" / "a.nc")


def test_netcdf_that_is_not_installed_names_the_extra(whole, monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "netCDF4", None)
    with pytest.raises(ValueError, match=r'NetCDF needs netCDF4: pip install -e "\.\[netcdf\]"'):
        tkf.sweep.SweepResult(whole).to_netcdf(tmp_path / "a.nc")


def test_means_are_over_repeats(whole):
    found = tkf.sweep.SweepResult(whole)
    assert found.mean("r").values == pytest.approx(whole["r"].values.sum(1) / 4, rel=1e-15)
    assert found.mean("r").attrs["long_name"] == "order parameter"
    assert repr(found) == "SweepResult(small: beta 3 × repeat 4; 12 of 12 cells done, 0 failed)"
