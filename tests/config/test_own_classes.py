"""A user's own kernel, norm, noise and observable: one short file each, as good as ours wherever ours can be named."""

import json
import sys
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
from tokenfield.attention import AbstractAttention
from tokenfield.config import build
from tokenfield.config.run import read, to_toml
from tokenfield.sweep.cells import Cells
from tokenfield.sweep.plan import read_plan
from tokenfield.theory.prediction import predict

KERNEL = '''
from typing import ClassVar
from tokenfield.attention import AbstractPairwise

class Power(AbstractPairwise):
    """`k(x, y) = <Ax, y>^power`."""

    power: float
    kind: ClassVar[str] = "power"
    title: ClassVar[str] = "power attention"

    def __init__(self, *, power: float = 2.0, **options):
        super().__init__(**options)
        self.power = power

    def phi(self, s):
        return s**self.power
'''
NORM = '''
from typing import ClassVar
import jax.numpy as jnp
from tokenfield.normalization import AbstractDirectionNorm, TerminalLaw, forever, unit

class Slower(AbstractDirectionNorm):
    """Post-LN with outputs divided by `(t + 1)^power`."""

    power: float
    kind: ClassVar[str] = "slower"
    title: ClassVar[str] = "Slower-LN"
    slowness: ClassVar[str] = "s = (t+1)^power"
    radial: ClassVar[bool] = False

    def speed(self, t, r, inner, length):
        return (t + 1.0) ** -self.power

    def growth(self, t, r, inner, length):
        return jnp.zeros_like(r)

    def layer(self, t, x, sublayer, h):
        return unit(x + h * sublayer(x) * (t + 1.0) ** -self.power)

    def terminal_law(self, scale):
        rate = 2 * scale / (1 - self.power)
        return TerminalLaw(f"exp(-{rate:.6g} t^{1 - self.power:g})", "stretched", rate)

    def radius(self, d):
        return jnp.ones(())

    def inputs(self, t, x):
        return x

    def segments(self):
        return forever(self)

    def check(self, d):
        pass
'''
NOISE = '''
from typing import ClassVar
import jax.numpy as jnp
from jaxtyping import Array
from tokenfield.noise import AbstractNoise
from tokenfield.spaces import Sphere

class Weaker(AbstractNoise):
    """Brownian motion on the sphere with `factor kappa` in place of kappa."""

    kappa: Array
    factor: float
    kind: ClassVar[str] = "weaker"
    space: ClassVar = Sphere

    def __init__(self, kappa: float, factor: float = 1.0):
        self.kappa, self.factor = jnp.asarray(kappa), factor

    def draws(self, n, d):
        return n, d

    def displacement(self, xi, x, h, space):
        return space.brownian(xi, x, 2 * h / (self.factor * self.kappa))

    def rate(self, x, space):
        return (x.shape[-1] - 1) / (self.factor * self.kappa)

    def check(self, d):
        pass
'''
SPACE = '''
from typing import ClassVar
import jax.numpy as jnp
import numpy as np
from tokenfield.spaces import AbstractBrownianSpace, Euclidean, Sphere

def split(method, *points):
    """The method of the circle in the first two coordinates, that of R^(d-2) in the others."""
    around = getattr(Sphere(), method)(*(x[..., :2] for x in points))
    return jnp.concatenate([around, getattr(Euclidean(), method)(*(x[..., 2:] for x in points))], -1)

class Cylinder(AbstractBrownianSpace):
    """A circle times R^(d-2)."""

    kind: ClassVar[str] = "cylinder"
    title: ClassVar[str] = "cylinder"

    def signs(self, d):
        return np.ones(d)

    def project(self, x):
        return split("project", x)

    def tangent(self, x, v):
        return split("tangent", x, v)

    def retract(self, x, v):
        return split("retract", x, v)

    def exp(self, x, v):
        return split("exp", x, v)

    def log(self, x, y):
        return split("log", x, y)

    def distance(self, x, y):
        return jnp.hypot(Sphere().distance(x[..., :2], y[..., :2]), Euclidean().distance(x[..., 2:], y[..., 2:]))

    def sample(self, xi):
        return self.project(xi)

    def chart(self, x):
        return x

    def check(self, d):
        if d < 2:
            raise ValueError(f"Cylinder needs d >= 2, got {d}")

    def brownian(self, xi, x, variance):
        step = Sphere().brownian(xi[..., :2], x[..., :2], variance)
        return jnp.concatenate([step, Euclidean().brownian(xi[..., 2:], x[..., 2:], variance)], -1)

    def spectral_gap(self, d):
        return 0.0
'''
OBSERVABLE = '''
import numpy as np
from tokenfield.observables import observable

@observable("moment {power} of the first coordinate")
def moment(state, power: float = 2.0):
    return state.weights @ state.x[:, 0] ** power

def widest(state, model, scale: float = 1.0):
    """In plain Python, with the model."""
    return scale * np.ptp(np.asarray(state.x)) * float(model.attention.power)
'''
FILES = {
    "own_kernel": KERNEL,
    "own_norm": NORM,
    "own_noise": NOISE,
    "own_space": SPACE,
    "own_observable": OBSERVABLE,
}
START = tkf.uniform_sphere(4, 6, seed=0)
TOML = """
t1 = 1.0
save_at = 3
[attention]
kind = "own_kernel:Power"
beta = 2.0
power = 1.0
[norm]
kind = "own_norm:Slower"
power = 0.5
[tokens]
n = 4
d = 6
[observe]
m3 = {observable = "own_observable:moment", power = 3.0}
wide = {observable = "own_observable:widest", scale = 10.0}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of the user, which are imported from it as the current one."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in FILES.items():
        assert len(text.strip().splitlines()) <= 60
        (folder / f"{name}.py").write_text(text)
    (folder / "run.toml").write_text(TOML)
    yield folder
    for name in FILES:
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


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
    assert mine["cosine"] == pytest.approx(ours["cosine"], abs=1e-6)
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
    assert "Other does not say its terminal law" in rows["terminal_law"].note


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


BAD = {
    "attention.kind: nothere:Power: there is no module nothere in the current folder or on sys.path": {
        "attention.kind": "nothere:Power"
    },
    "attention.kind: own_kernel:Powr: module own_kernel has no Powr: did you mean 'Power'?": {
        "attention.kind": "own_kernel:Powr"
    },
    "attention.kind: own_norm:Slower must be a class that derives from AbstractAttention": {
        "attention.kind": "own_norm:Slower"
    },
    "attention.kind: bad:NoPhi does not define phi, as every AbstractPairwise must": {"attention.kind": "bad:NoPhi"},
    "attention.kind: bad:Nothing does not define phi, as": {"attention.kind": "bad:Nothing"},
    "norm.kind: bad:HalfNorm does not define growth, inputs, layer, radial, radius, segments, speed": {
        "norm.kind": "bad:HalfNorm"
    },
    "attention.kind: broken:X: module broken cannot be imported: ZeroDivisionError": {"attention.kind": "broken:X"},
    "attention.kind: must be module:Name, such as my_module:MyClass, got 'a b:c'": {"attention.kind": "a b:c"},
    "unknown key attention.powr: did you mean power?": {"attention.kind": "own_kernel:Power", "attention.powr": 1.0},
    "attention.power: Input should be a valid number, unable to parse string as a number, got 'high'": {
        "attention.kind": "own_kernel:Power",
        "attention.power": "high",
    },
    "noise.g: own_noise:g: module own_noise has no g": {
        "noise.kind": "multiplicative",
        "noise.g": "own_noise:g",
        "noise.kappa": 1.0,
    },
    "observe.m: own_observable:momnt: module own_observable has no momnt: did you mean 'moment'?": {
        "observe.m": "own_observable:momnt"
    },
    "unknown key observe.m.powr: did you mean power?": {
        "observe.m": {"observable": "own_observable:moment", "powr": 1}
    },
    "observe.m: pairwise_cosines is not one number": {"observe.m": "pairwise_cosines"},
    "tokens.kind: must be one of circle, clusters,": {"tokens.kind": "spher"},
    "space.kind: must be one of euclidean, hyperbolic, sphere, torus or your own module:Class, got 'tours': did": {
        "space.kind": "tours"
    },
    "space: give space or norm, not both": {"space.kind": "torus", "norm.kind": "post"},
    "space.kind: bad:HalfSpace does not define chart, check, distance, exp, log, project, retract, sample, signs": {
        "space.kind": "bad:HalfSpace"
    },
}
BAD_FILE = """
from tokenfield.attention import AbstractPairwise
from tokenfield.normalization import AbstractDirectionNorm
from tokenfield.spaces import AbstractSpace
class HalfSpace(AbstractSpace):
    def tangent(self, x, v):
        return v
class Nothing(AbstractPairwise):
    pass
class NoPhi(AbstractPairwise):
    exponential = True
class HalfNorm(AbstractDirectionNorm):
    def check(self, d):
        pass
"""


@pytest.mark.parametrize("message", BAD)
def test_errors_are_one_line(message, folder):
    (folder / "bad.py").write_text(BAD_FILE)
    (folder / "broken.py").write_text("1 / 0")
    with pytest.raises(ValueError, match=r".") as error:
        read(None, {"t1": 1.0, **BAD[message]})
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_errors_on_the_command_line(capsys):
    result = tokenfield_here(capsys, "simulate", "--attention", "own_kernel:Pow")
    assert_one_line_error(result, "attention.kind: own_kernel:Pow: module own_kernel has no Pow")
    result = tokenfield_here(capsys, "lipschitz", "--attention", "own_kernel:Pow")
    assert_one_line_error(result, "--attention own_kernel:Pow: module own_kernel has no Pow")
    result = tokenfield_here(capsys, "predict", "--norm", "own_norm:Slower", "--set", "norm.pwer=1")
    assert_one_line_error(result, "--set: unknown key norm.pwer: did you mean power?")
    result = tokenfield_here(capsys, "norms", "--json", "--rule", "own_norm:Slower", "--set", "norm.pwer=1")
    assert_one_line_error(result, "options: no rule of own_norm:Slower takes 'pwer': did you mean 'power'?")


def test_a_kind_that_two_classes_claim_is_refused():
    Power = imported("own_kernel:Power")
    assert read(None, {"attention.kind": "power"}).attention.kind == "own_kernel:Power"
    other = type("Power", (Power.__mro__[1],), {"kind": "power", "phi": lambda self, s: s})
    with pytest.raises(ValueError, match=r"attention\.kind: 'power' is the name of .*own_kernel:Power"):
        read(None, {"attention.kind": "power"})
    assert issubclass(other, AbstractAttention)
    del other
