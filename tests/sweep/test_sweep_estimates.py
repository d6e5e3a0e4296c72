"""What a dry run says: exact sizes, times without compiling, and refusals with the estimate."""

import shutil

import numpy as np
import pytest
from sweeps import PLAN, changed

import tokenfield as tkf
from tokenfield._cpus import available_cpus
from tokenfield.sweep import estimates, sizes, store
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.outcome import Outcome

NOISY = {
    "run": {"t1": 40.0, "dt": 0.1, "tokens": {"n": 300, "d": 3}},
    "axes": {"kappa": [1.0, 2.0]},
    "record": {"r": "order_parameter"},
}


def read(**keys):
    return tkf.sweep.read_plan(changed(**keys))


def largest(**keys):
    return sizes.largest(read(**keys))


def test_a_batch_holds_starts_stages_and_pairs():
    """6 tokens in 3 dimensions, three side by side: per cell 3 starts and 20 stages of 18 numbers, 2 matrices of 36."""
    assert largest() == (8 * 3 * (3 * 18 + 20 * 18 + 2 * 36), 3, 6, 3)


def test_cells_that_wait_for_their_turn_hold_starts_alone():
    """64 cells of which 16 run."""
    found = largest(batch=64, repeats=64)
    assert found == (8 * (64 * 3 * 18 + 16 * (20 * 18 + 2 * 36)), 64, 6, 3)


def test_states_are_counted_where_something_is_measured_afterwards():
    times = {"observable": "clusters", "times": [0.0, 0.5, 1.0, 2.0]}
    assert largest(record={"c": times}).bytes - largest().bytes == 8 * 3 * 4 * 2 * 18
    assert largest(record={"c": "clusters"}).bytes == largest().bytes


def test_a_flow_in_the_span_of_its_tokens_holds_less_than_layers():
    """One run: 3 starts of 6 x 50 numbers, 20 stages and 2 times its end of 6 x 6, pairs; layers keep 4 states of 6 x 50."""
    one = {"batch": 1, "record": {"r": "order_parameter"}}
    assert largest(run__tokens__d=50, **one).bytes == 8 * (3 * 300 + 20 * 36 + 2 * 36 + 2 * 36)
    layers = {"depth": 3, "tokens": {"n": 6, "d": 50}}
    assert largest(run=layers, **one).bytes == 8 * (3 * 300 + 20 * 300 + 2 * 36 + 2 * 4 * 300)


def test_the_reduction_to_one_cosine_holds_nothing_to_speak_of():
    assert largest(state="equiangular", repeats=1, run__tokens__n=10**9).bytes < 10_000


def test_pairs_are_cut_into_blocks_beyond_a_thousand_tokens():
    one = {"batch": 1, "record": {"r": "order_parameter"}, "run__tokens__n": 10_000}
    assert largest(**one).bytes == 8 * (3 * 30_000 + 20 * 30_000 + 2 * 1024**2 + 2 * 30_000)
    assert largest(run__attention={"kind": "sinkhorn"}, **one).bytes > 8 * 2 * 10_000**2


def test_the_largest_batch_of_an_axis_of_sizes_counts():
    assert largest(axes={"n": [4, 40, 6], "beta": [1.0, 2.0]})[1:] == (3, 40, 3)
    angles = {"tokens": {"kind": "circle", "angles": [0.0, 1.0]}, "t1": 1.0}
    assert largest(run=angles, repeats=1, record={"r": "order_parameter"})[2:] == (2, 2)


def test_memory_is_for_as_many_batches_as_run_at_once():
    plan = read()
    held = sizes.largest(plan).bytes
    for at_once, count in [(1, 1), (3, 3), (100, 4), (None, min(4, available_cpus()))]:
        found = tkf.sweep.estimate(plan, timed=False, at_once=at_once)
        assert found.runs == count * held
        assert found.memory == sizes.memory_of(plan) + count * held
        assert found.seconds is None


def test_runs_that_do_not_fit_are_refused_with_the_estimate(monkeypatch):
    monkeypatch.setattr(sizes, "free_memory", lambda: 2e10)
    one = {"run__tokens": {"n": 10**8, "d": 1024}, "run__stop_when": None, "record": {"r": "order_parameter"}}
    words = r"plan: a run with n = 100000000, d = 1024 needs about 20.5 TB of memory, 20 GB are free: use fewer tokens"
    for refused in (tkf.sweep, lambda plan: tkf.sweep.estimate(tkf.sweep.read_plan(plan))):
        with pytest.raises(ValueError, match=words):
            refused(changed(batch=1, **one))
    one |= {"run__tokens": {"n": 100, "d": 10**9}}
    with pytest.raises(ValueError, match=r"plan: a batch of 3 runs with n = 100, .* or a smaller batch"):
        tkf.sweep(changed(**one))


@pytest.mark.slow
def test_a_dry_run_refuses_a_dataset_before_any_cell_is_made(monkeypatch):
    monkeypatch.setattr(sizes, "free_memory", lambda: 2e10)
    monkeypatch.setattr(estimates, "Cells", None)
    times = {"observable": "order_parameter", "times": {"linspace": [0, 2, 2000]}}
    plan = read(axes={"beta": {"linspace": [0, 1, 1_000_000]}}, repeats=1, record={"r": times})
    with pytest.raises(ValueError, match=r"plan: 1000000 cells need about 37.4 GB of memory, 20 GB are free"):
        tkf.sweep.estimate(plan)


@pytest.mark.parametrize("keys", [{}, {"axes": {"beta": {"linspace": [1, 2, 300]}}, "repeats": 40}])
def test_the_estimate_bounds_what_is_on_disk(tmp_path, keys):
    """Blocks of files and folders, as `du` counts them."""
    plan = read(**keys)
    cells = Cells(plan)
    made = store.create(plan, cells, tmp_path / "out")
    for name, values in made.arrays.items():
        if values.dtype.kind == "f":
            values[...] = np.random.default_rng(0).normal(size=values.shape)
        made._write(name, [np.unravel_index(k, cells.shape) for k in range(len(cells))])
    paths = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    taken = sum(-(-path.stat().st_size // 4096) * 4096 if path.is_file() else 4096 for path in paths)
    assert 0.5 * sizes.disk_of(plan) < taken <= sizes.disk_of(plan)


class Machine:
    """A clock, and runs that take 1 s, 10 s more to compile for each new end, and 0.1 s for each unit of time."""

    def __init__(self, monkeypatch, slow=0.1, fixed=1.0, fails=()):
        self.now, self.seen, self.slow, self.fixed, self.fails, self.runs = 0.0, set(), slow, fixed, fails, []
        monkeypatch.setattr(estimates.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(estimates, "run_cells", self.run)

    def run(self, plan, members, size, width):
        config = members[0].config
        length = config.depth or config.t1
        self.runs.append(config)
        self.now += self.fixed + self.slow * length * (config.tokens.n / 300) ** 2
        self.now += 10.0 * ((length, config.tokens.n) not in self.seen)
        self.seen.add((length, config.tokens.n))
        error = lambda cell: "ValueError: bad" if cell.config.noise and cell.config.noise.kappa in self.fails else ""  # noqa: E731
        return [Outcome({}, 1.0, error(cell)) for cell in members]


def test_time_excludes_compiling(monkeypatch):
    """Two batches of 1 s + 4 s, though every shorter end has a program of its own."""
    machine = Machine(monkeypatch)
    assert tkf.sweep.estimate(tkf.sweep.read_plan(NOISY)).seconds == pytest.approx(2 * 5.0)
    assert len(machine.seen) >= 2


def test_a_quick_batch_is_run_to_its_end(monkeypatch):
    machine = Machine(monkeypatch, slow=1e-4, fixed=1e-3)
    assert tkf.sweep.estimate(tkf.sweep.read_plan(NOISY)).seconds == pytest.approx(2 * 5e-3)
    assert machine.runs[-1].t1 == 40.0


def test_a_long_batch_is_not_run_to_its_end(monkeypatch):
    machine = Machine(monkeypatch, slow=100.0, fixed=0.0)
    assert tkf.sweep.estimate(tkf.sweep.read_plan(NOISY)).seconds == pytest.approx(2 * 4000.0, rel=0.3)
    assert machine.runs[-1].t1 == pytest.approx(0.4)


def test_layers_are_timed_by_whole_layers(monkeypatch):
    machine = Machine(monkeypatch)
    layers = changed(NOISY, run={"depth": 1000, "tokens": {"n": 300, "d": 3}}, axes={"beta": [1.0, 2.0]})
    assert tkf.sweep.estimate(tkf.sweep.read_plan(layers)).seconds == pytest.approx(2 * 101.0)
    assert {config.depth for config in machine.runs} == {10, 40}


def test_large_runs_are_tried_with_fewer_tokens(monkeypatch):
    """Time grows as the square of the tokens."""
    machine = Machine(monkeypatch, fixed=0.0, slow=1e-3)
    found = tkf.sweep.estimate(tkf.sweep.read_plan(changed(NOISY, run__tokens={"n": 30_000, "d": 3})))
    assert found.seconds == pytest.approx(2 * 40 * 1e-3 * 100**2)
    assert max(config.tokens.n for config in machine.runs) < 7000


def test_shapes_that_are_not_tried_are_taken_from_the_nearest(monkeypatch):
    machine = Machine(monkeypatch)
    monkeypatch.setattr(estimates, "TRIED", 0.0)
    plan = changed(NOISY, axes={"n": [300, 310], "kappa": [1.0]})
    assert tkf.sweep.estimate(tkf.sweep.read_plan(plan)).seconds == pytest.approx(10.0, rel=0.1)
    assert {config.tokens.n for config in machine.runs} == {310}


def test_the_step_of_a_run_with_noise_follows_from_all_of_its_time(monkeypatch):
    machine = Machine(monkeypatch)
    run = {"t1": 40.0, "tokens": {"n": 300, "d": 3}}
    tkf.sweep.estimate(tkf.sweep.read_plan(changed(NOISY, run=run, axes={"kappa": [1.0]})))
    assert len({config.dt for config in machine.runs}) == 1
    assert 0 < machine.runs[0].dt <= 0.4
    assert machine.runs[0].t1 < 40.0


def test_a_failing_first_cell_is_said_and_not_timed(monkeypatch):
    machine = Machine(monkeypatch, fails={1.0})
    found = tkf.sweep.estimate(tkf.sweep.read_plan(changed(NOISY, axes={"kappa": [1.0]})))
    assert found.failures == ("the first cell fails: ValueError: bad",)
    assert found.seconds is None
    assert len(machine.runs) == 1


@pytest.mark.slow
def test_a_failing_cell_is_named_and_the_others_are_timed():
    found = tkf.sweep.estimate(read(axes={"beta": [1.0, float("nan"), 9.0]}, batch=12))
    assert found.failures == ("the cell at beta = nan, repeat = 0 fails: ValueError: beta must be finite, got nan",)
    assert 0 < found.seconds < 60


def test_series_are_measured_in_the_shorter_time():
    """A flow is measured as often as before; layers where they still are."""
    plan = read(record={"r": {"observable": "order_parameter", "times": [0.0, 1.0, 2.0]}})
    shorter, members = estimates._shortened(plan, [Cells(plan)[0]], 0.5)
    assert shorter.record["r"].times.expanded() == [0.0, 0.5, 1.0]
    assert members[0].config.t1 == 1.0
    layers = read(
        run={"depth": 4, "tokens": {"n": 6, "d": 3}}, record={"r": plan.record["r"].model_dump(exclude_none=True)}
    )
    shorter, members = estimates._shortened(layers, [Cells(layers)[0]], 0.25)
    assert shorter.record["r"].times.expanded() == [0.0, 1.0]
    assert members[0].config.depth == 1


def test_a_dry_run_refuses_what_does_not_fit_on_the_disk(tmp_path, monkeypatch):
    from tokenfield.cli import sweep_run_command

    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 10**4, 10**4))
    with pytest.raises(ValueError, match=r"--out: 12 cells need up to \d+ kB on disk, 10 kB are free"):
        sweep_run_command._estimate(read(), tmp_path / "out", None, False)


def test_the_command_prints_failures_and_no_time(monkeypatch, capsys, tmp_path):
    from tokenfield.cli import sweep_run_command

    Machine(monkeypatch, fails={1.0})
    plan = tkf.sweep.read_plan(changed(NOISY, axes={"kappa": [1.0]}))
    sweep_run_command._estimate(plan, tmp_path / "out", 1, False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "the first cell fails: ValueError: bad",
        "no time estimate: every cell that was tried fails",
    ]
    assert " for runs, plus the memory of each process), up to " in lines[1]


def test_estimates_count_cells_batches_and_shapes():
    found = tkf.sweep.estimate(tkf.sweep.read_plan(PLAN))
    assert (found.cells, found.batches, found.shapes) == (12, 4, 1)
    assert sizes.size_of(tkf.sweep.read_plan(PLAN)) == 12 * (8 * (5 + 2) + 1 + sizes.TEXT)
    assert 0 < found.seconds < 60
    assert found.failures == ()
    with pytest.raises(ValueError, match="repeats: 4 repeats of a run in which nothing is random"):
        tkf.sweep.estimate(tkf.sweep.read_plan(changed(state="equiangular")))
