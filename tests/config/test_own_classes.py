"""A user's own kernel, norm, noise and observable: one short file each, as good as ours wherever ours can be named."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import velocity
from commands import assert_one_line_error, tokenfield_here

import tokenfield as tkf
from tokenfield._kinds import imported
from tokenfield.config import build
from tokenfield.config.run import read, to_toml
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.plan import read_plan
from tokenfield.theory.prediction import predict

pytestmark = pytest.mark.usefixtures("inside")
START = tkf.uniform_sphere(4, 6, seed=0)


@pytest.fixture(scope="module")
def expected(folder):
    """The final tokens by our own classes that do the same: powers 1 and 1/2 are `Linear` and `SqrtScaling`."""
    model = tkf.Transformer(tkf.Linear(2.0), tkf.SqrtScaling())
    return np.asarray(tkf.simulate(model, START, 1.0, save_at=3).final.x)


def test_in_python():
    Power, Slower = imported("own_kernel:Power"), imported("own_norm:Slower")
    x, t = np.asarray(START.x), 0.7
    A = np.array([sum((2.0 * a @ b) ** 3 * b for b in x) / 4 for a in x])
    across = A - (A * x).sum(1, keepdims=True) * x
    found = velocity(tkf.Transformer(Power(beta=2.0, power=3.0), Slower(0.8)), START, t)
    np.testing.assert_allclose(found, across * (t + 1) ** -0.8, rtol=0, atol=1e-13)
    noise, key = imported("own_noise:Weaker")(4.0, factor=0.5), jax.random.key(0)
    kick = tkf.SphereNoise(2.0).kick(key, START.x, jnp.asarray(0.1), tkf.Sphere())
    np.testing.assert_array_equal(noise.kick(key, START.x, jnp.asarray(0.1), tkf.Sphere()), kick)
    assert imported("own_observable:moment")(START, 3.0) == pytest.approx(np.mean(x[:, 0] ** 3), rel=1e-14)


def test_from_toml_and_by_flags(expected, capsys):
    flags = "--n 4 --d 6 --t1 1 --save-at 3 --attention own_kernel:Power --beta 2 --norm own_norm:Slower"
    sets = (
        "--set attention.power=1.0 --set norm.power=0.5 --observe own_observable:moment --observe own_observable:widest"
    )
    by_file, by_flags = (
        tokenfield_here(capsys, "simulate", *each.split(), "--json") for each in ("run.toml", f"{flags} {sets}")
    )
    assert by_file.returncode == by_flags.returncode == 0, by_file.stderr + by_flags.stderr
    by_file, by_flags = json.loads(by_file.stdout), json.loads(by_flags.stdout)
    wide = np.ptp(expected)
    assert by_file["observed"] == pytest.approx({"m3": np.mean(expected[:, 0] ** 3), "wide": 10 * wide}, rel=1e-9)
    assert by_flags["observed"] == pytest.approx({"moment": np.mean(expected[:, 0] ** 2), "widest": wide}, rel=1e-9)
    assert by_file["order_parameter"] == by_flags["order_parameter"]
    assert by_file["order_parameter"] == pytest.approx(np.linalg.norm(expected.mean(0)), rel=1e-9)
    assert by_file["cluster_metric"] == "cosine"  # of a norm that moves directions


def test_a_run_folder_and_its_report(expected, capsys):
    done = tokenfield_here(capsys, "simulate", "run.toml", "--no-animation", "--out", "made")
    assert done.returncode == 0, done.stderr
    traj = tkf.load("made/trajectory.zarr")
    np.testing.assert_allclose(traj.final.x, expected, rtol=0, atol=1e-9)
    assert isinstance(traj.space, tkf.Sphere)
    assert "Power" in Path("made/report.html").read_text(encoding="utf-8")
    assert to_toml(read(Path("made/config.toml"), {})) == Path("made/config.toml").read_text(encoding="utf-8")


def test_noise_by_flags(capsys):
    flags = "--n 4 --d 6 --t1 0.5 --save-at 3 --dt 0.1 --kappa 4 --noise-seed 3 --json"
    own_noise = "--noise own_noise:Weaker --set noise.factor=0.5"
    mine, ours = (
        tokenfield_here(capsys, "simulate", *f"{flags} {more}".split()) for more in (own_noise, "--set noise.kappa=2.0")
    )
    assert mine.returncode == 0, mine.stderr
    assert json.loads(mine.stdout)["order_parameter"] == json.loads(ours.stdout)["order_parameter"]


@pytest.mark.slow
def test_a_space_is_the_circle_where_it_has_no_other_coordinates(capsys):
    """In Python, from TOML, by flags and in a sweep; with noise, and saved."""
    Cylinder = imported("own_space:Cylinder")
    start = tkf.tokens_in(Cylinder(), 5, 2, seed=0)
    mine, circle = (
        tkf.simulate(tkf.Transformer(tkf.Softmax(2.0), space=space), tkf.Tokens(start.x), 1.0, save_at=3)
        for space in (Cylinder(), tkf.Sphere())
    )
    np.testing.assert_allclose(mine.final.x, circle.final.x, rtol=0, atol=1e-9)
    assert isinstance(tkf.load(mine.save("cylinder.zarr", overwrite=True)).final.space, Cylinder)
    Path("space.toml").write_text(
        't1 = 1.0\nsave_at = 3\nattention.beta = 2.0\ntokens = {n = 5, d = 2}\nspace.kind = "own_space:Cylinder"'
    )
    flags = "--n 5 --d 2 --t1 1 --save-at 3 --beta 2"
    runs = ("space.toml", f"{flags} --space own_space:Cylinder", f"{flags} --norm post")
    found = [json.loads(tokenfield_here(capsys, "simulate", *run.split(), "--json").stdout) for run in runs]
    order = [each["order_parameter"] for each in found]
    assert order == pytest.approx(3 * [np.linalg.norm(np.asarray(circle.final.x).mean(0))], rel=1e-8)
    run = {"t1": 0.3, "dt": 0.1, "noise": {"kappa": 4.0}, "tokens": {"n": 4, "d": 2}, "attention": {"beta": 2.0}}
    plan = {
        "axes": {"space": ["own_space:Cylinder", "sphere"]},
        "run": run,
        "record": {"R": "order_parameter"},
        "seeds": "shared",
    }
    swept = tkf.sweep(plan)
    assert swept.counts["failed"] == 0, swept.failed
    assert swept.dataset["R"].values[0] == pytest.approx(swept.dataset["R"].values[1], rel=1e-9)
    config = read(Path("space.toml"), {})
    Path("again.toml").write_text(to_toml(config))
    assert to_toml(read(Path("again.toml"), {})) == to_toml(config)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [{}, {"workers": 1}], ids=["here", "in a process"])
def test_in_a_sweep(engine, expected):
    plan = {
        "run": {"t1": 1.0, "attention": {"kind": "own_kernel:Power", "beta": 2.0}, "norm": {"kind": "own_norm:Slower"}},
        "axes": {"attention.power": [1.0, 2.0], "norm.power": [0.5, 0.8]},
        "repeats": 2,
        "record": {"m": {"observable": "own_observable:moment", "power": 3}, "w": "own_observable:widest"},
    }
    plan["run"]["tokens"] = {"n": 4, "d": 6}
    found = tkf.sweep(plan, **engine)
    assert found.counts["failed"] == 0, found.failed
    seed = int(found.dataset["seed_used"].values[0, 0, 1])
    model = tkf.Transformer(tkf.Linear(2.0), tkf.SqrtScaling())
    x = np.asarray(tkf.simulate(model, tkf.uniform_sphere(4, 6, seed), 1.0, save_at=3).final.x)
    assert float(found.dataset["m"][0, 0, 1]) == pytest.approx(np.mean(x[:, 0] ** 3), rel=1e-5)
    assert float(found.dataset["w"][0, 0, 1]) == pytest.approx(np.ptp(x), rel=1e-5)
    assert found.dataset["m"].attrs["long_name"] == "moment 3.0 of the first coordinate"
    assert len(np.unique(found.dataset["m"].values)) == 8


def test_cells_depend_on_the_files_that_they_name(folder):
    run = {"t1": 1.0, "attention": {"kind": "own_kernel:Power"}, "tokens": {"n": 4, "d": 3, "weights": "w.npy"}}
    plan = read_plan({"run": run, "axes": {"beta": [1.0]}, "record": {"m": "own_observable:moment"}})
    np.save("w.npy", np.full(4, 0.25))
    ids = [Cells(plan).ids()]
    for path in (folder / "own_kernel.py", folder / "own_observable.py", folder / "w.npy"):
        path.write_bytes(path.read_bytes() + b"# changed")
        ids.append(Cells(plan).ids())
    assert len({each for (each,) in ids}) == 4


def test_all_kinds_are_listed(capsys):
    done = tokenfield_here(capsys, "kinds", "own_kernel", "own_observable", "--json")
    listed = json.loads(done.stdout)
    (row,) = (row for row in listed["[attention], [cross]"] if row["kind"] == "power")
    assert (row["title"], row["parameters"][-1]) == ("power attention", "power")
    assert {"beta", "A", "V", "causal", "positions"} < set(row["parameters"])
    assert {"kind": "moment", "title": "moment {power} of the first coordinate", "parameters": ["power"]} in listed[
        "[observe], [record]"
    ]
    assert {"kind": "mix", "title": "Mix-LN", "parameters": ["tau"]} in listed["[norm], [mlp_norm], [cross_norm]"]
    done = tokenfield_here(capsys, "kinds")
    assert "clusters" in done.stdout
    assert_one_line_error(
        tokenfield_here(capsys, "kinds", "nothere"), "there is no module nothere in the current folder"
    )


@pytest.mark.slow
def test_noise_and_kinds_in_a_sweep():
    imported("own_noise:Weaker"), imported("own_observable:moment")  # known by their names, too, once they are imported
    plan = {
        "run": {"t1": 0.3, "dt": 0.1, "noise": {"kappa": 4.0, "factor": 0.5}, "tokens": {"n": 4, "d": 3}},
        "axes": {"noise.kind": ["weaker", "sphere"]},
        "record": {"m": "moment"},
        "seeds": "shared",
    }
    found = tkf.sweep(plan)
    assert found.counts["failed"] == 0, found.failed
    same = tkf.sweep({**plan, "axes": {"kappa": [2.0]}, "run": {**plan["run"], "noise": {}}})
    weaker, sphere = found.dataset["m"].values[:, 0]
    assert weaker == pytest.approx(float(same.dataset["m"].values[0, 0]), rel=1e-12)
    assert abs(weaker - sphere) > 1e-6


def test_predictions_and_the_study_of_norms(capsys):
    flags = "predict --n 8 --d 16 --beta 2 --norm own_norm:Slower --set norm.power=0.5 --json"
    done = tokenfield_here(capsys, *flags.split())
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout)
    rows = {row.key: row for row in predict(8, 16, 2.0, tkf.SqrtScaling())}
    for key in ("initial_velocity", "time_to_collapse", "terminal_rate"):
        assert numbers[key] == pytest.approx(rows[key].value, rel=1e-9)
    assert numbers["terminal_law"] == "exp(-4 t^0.5)"
    assert "s = (t+1)^power" in numbers["details"]["initial_velocity"]["formula"]
    flags = "norms --d 32 --n 6 --depth 3 --seeds 2 --rule own_norm:Slower --rule sqrt --set norm.power=0.5 --json"
    done = tokenfield_here(capsys, *flags.split())
    assert done.returncode == 0, done.stderr
    mine, ours = json.loads(done.stdout)["rules"].values()
    assert mine["mean_cosine"] == pytest.approx(ours["mean_cosine"], abs=1e-6)
    assert mine["recursion"] == pytest.approx(ours["recursion"], rel=1e-12)
    assert mine["identity"] == pytest.approx(ours["identity"], rel=1e-12)


def test_titles_in_the_figure_and_unknown_laws():
    from tokenfield.plotting.norms import norms_figure
    from tokenfield.studies import normalization_study

    Slower = imported("own_norm:Slower")

    class Other(Slower.__mro__[1]):
        """Its layer is not that of its speed: theory does not describe it."""

        radial = False
        speed, growth, radius, inputs = Slower.speed, Slower.growth, Slower.radius, Slower.inputs
        segments, check, power = Slower.segments, Slower.check, 0.5

        def layer(self, t, x, sublayer, h):
            return x

    study = normalization_study(d=32, n=4, depth=2, seeds=1, rules=[Slower(0.3), Other()])
    assert [ax.get_title(loc="left").split()[-1] for ax in norms_figure(study).axes] == ["Slower-LN", "Other"]
    assert np.isfinite(study["recursion"].sel(rule="slower")).all()
    assert np.isnan(study["recursion"].sel(rule="Other")).all()
    rows = {row.key: row for row in predict(8, 16, 2.0, Other())}
    assert rows["terminal_law"].value is None
    assert "Other does not define terminal_law" in rows["terminal_law"].note


def test_lipschitz_constant(capsys):
    flags = "lipschitz --n 4 --d 3 --json --attention"
    mine, ours = (
        tokenfield_here(capsys, *f"{flags} {kernel}".split())
        for kernel in ("own_kernel:Power --set attention.power=1.0", "linear")
    )
    assert mine.returncode == 0, mine.stderr
    assert json.loads(mine.stdout)["constant"] == pytest.approx(json.loads(ours.stdout)["constant"], rel=1e-6)


def test_configs_round_trip(tmp_path):
    config = read(Path("run.toml"), {})
    (tmp_path / "again.toml").write_text(to_toml(config))
    again = read(tmp_path / "again.toml", {})
    assert to_toml(again) == to_toml(config)
    assert eqx.tree_equal(build.model(again), build.model(config))
