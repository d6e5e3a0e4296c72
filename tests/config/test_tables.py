"""Every kind of every family can be given in a TOML file, and is the object that Python makes."""

import json
import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from commands import assert_one_line_error, tokenfield_here

import tokenfield as tkf
from tokenfield._kinds import found, functions, is_ours, kinds_in, names_in
from tokenfield.attention import AbstractAttention
from tokenfield.attention.positions import AbstractPositions
from tokenfield.config import build
from tokenfield.config.run import read, to_toml
from tokenfield.noise import AbstractNoise
from tokenfield.normalization import AbstractNorm, AbstractTokenMap
from tokenfield.spaces import AbstractSpace
from tokenfield.states import AbstractState, nearly_equiangular

ROOT = Path(__file__).parent.parent.parent
A, S = [[1.0, 0.5], [0.0, 2.0]], [[1.0, 0.0], [0.0, 0.2]]
CODE = """
import jax.numpy as jnp

def strength(x):
    return 1 + 0.5 * x[0]

def bias(s, tau):
    return jnp.cos(s - tau)

def bump(angle):
    return 2 + jnp.cos(angle)

def turning(t):
    return jnp.array([[jnp.cos(t), 0.0], [0.0, 1.0]])

def pair(angle: float = 1.0):
    import tokenfield as tkf
    return tkf.circle_tokens([0.0, angle])
"""


def bump(angle):
    return 2 + np.cos(angle)


CASES = {
    "attention": {
        "softmax": (
            'Q = "A.npy"\nK = "A.npy"\nq = [1, 2]\nV = "A.npy"',
            lambda: tkf.Softmax(Q=A, K=A, q=[1.0, 2.0], V=A),
        ),
        "l2": ("beta = 0.5\ncausal = true", lambda: tkf.L2(0.5, causal=True)),
        "linear": ('A = "A.csv"', lambda: tkf.Linear(A=A)),
        "relu": ('A = "all.npz:A"', lambda: tkf.ReLU(A=A)),
        "sigmoid": ("Q = [[1, 2]]\nK = [[0, 1]]", lambda: tkf.Sigmoid(Q=[[1.0, 2.0]], K=[[0.0, 1.0]])),
        "sinkhorn": ("max_iterations = 7", lambda: tkf.Sinkhorn(max_iterations=7)),
        "unnormalized": ("log_unit = 3", lambda: tkf.Unnormalized(log_unit=3.0)),
        "hardmax": ('rule = "others"', lambda: tkf.Hardmax(rule="others")),
        "multihead": (
            'heads = [{beta = 2.0}, {kind = "relu"}]\noutputs = [0.5, [[1.0, 0.0], [0.0, 1.0]]]\nbias = [0.1, 0.2]',
            lambda: tkf.MultiHead([tkf.Softmax(2.0), tkf.ReLU()], [0.5, np.eye(2)], bias=[0.1, 0.2]),
        ),
    },
    "norm": {
        "none": ("", tkf.NoNorm),
        "rescaled": ("", tkf.Rescaled),
        "post": ("gain = 2.0", lambda: tkf.PostLN(2.0)),
        "pre": ("gain = [1.0, 2.0]", lambda: tkf.PreLN([1.0, 2.0])),
        "peri": ('gain = "gain.csv"', lambda: tkf.PeriLN([1.0, 2.0])),
        "mix": ("tau = 1.5", lambda: tkf.MixLN(1.5)),
        "ngpt": ("alpha = 0.5", lambda: tkf.NGPT(0.5)),
        "sqrt": ("", tkf.SqrtScaling),
        "projected": ('space = {kind = "torus"}', lambda: tkf.Projected(tkf.Torus())),
        "pre_norm": ('map = {kind = "rms_norm", eps = 1e-3}', lambda: tkf.PreNorm(tkf.RMSNorm(eps=1e-3))),
        "post_norm": ('map = {kind = "layer_norm", bias = 0.5}', lambda: tkf.PostNorm(tkf.LayerNorm(bias=0.5))),
    },
    "noise": {
        "sphere": ("kappa = 4", lambda: tkf.SphereNoise(4.0)),
        "common": ("kappa = 4", lambda: tkf.CommonNoise(4.0)),
        "euclidean": ("kappa = 4", lambda: tkf.EuclideanNoise(4.0)),
        "brownian": ("kappa = 4", lambda: tkf.BrownianNoise(4.0)),
        "anisotropic": ("kappa = 4\nS = [[1, 0], [0, 0.2]]", lambda: tkf.AnisotropicNoise(4.0, S)),
        "multiplicative": (
            'kappa = 4\ng = "tables_code:strength"\nsense = "stratonovich"',
            lambda: tkf.MultiplicativeNoise(4.0, lambda x: 1 + 0.5 * x[0], "stratonovich"),
        ),
    },
    "space": {
        "sphere": ("", tkf.Sphere),
        "euclidean": ("", tkf.Euclidean),
        "torus": ("", tkf.Torus),
        "hyperbolic": ("", tkf.Hyperbolic),
    },
    "state": {
        "tokens": ("x = [[1, 0], [0, 1]]\nweights = [0.25, 0.75]", lambda: tkf.Tokens(np.eye(2), [0.25, 0.75])),
        "equiangular": ("rho = 0.1\nn = 8", lambda: tkf.Equiangular(0.1, 8)),
        "gaussian": ('cov = "A.npy"\nmean = [1, 0]', None),
        "circle_density": (
            'modes = 8\nfunction = "tables_code:bump"\nsize = 1e-3\nseed = 5',
            lambda: tkf.CircleDensity.from_function(bump, 8).perturbed(5, 1e-3),
        ),
        "sphere_density": ("modes = 4\nsize = 1e-3", lambda: tkf.SphereDensity.uniform(4).perturbed(0, 1e-3)),
        "zonal_density": ("coefficients = [1.0, 0.1]\nd = 5", lambda: tkf.ZonalDensity([1.0, 0.1], 5)),
    },
    "tokens": {
        "sphere": ("n = 3\nd = 2\nseed = 4", lambda: tkf.uniform_sphere(3, 2, 4)),
        "gaussian": ("n = 3\nmean = [1, 0]\nd = 2", lambda: tkf.gaussian_tokens(3, 2, mean=[1.0, 0.0])),
        "space": ('n = 3\nd = 4\nspace = {kind = "torus"}', lambda: tkf.tokens_in(tkf.Torus(), 3, 4)),
        "hemisphere": ("n = 3\nd = 2\nmargin = 0.5", lambda: tkf.hemisphere(3, 2, margin=0.5)),
        "equiangular": ("n = 3\nrho = 0.5\nradius = 2", lambda: tkf.equiangular_tokens(0.5, 3, radius=2.0)),
        "nearly_equiangular": ("n = 3\nrho = 0.5", lambda: nearly_equiangular(0.5, 3, 3)),
        "clusters": ("n = 5\nk = 2\nspread = 0.01", lambda: tkf.separated_clusters(5, 3, 2, 0.01)),
        "circle": ("angles = [0.0, 1.0]", lambda: tkf.circle_tokens([0.0, 1.0])),
        "file": ('file = "tokens.npz"', lambda: tkf.Tokens(np.eye(2), [0.25, 0.75], [0.0, 5.0])),
    },
}
BASES = {
    "attention": AbstractAttention,
    "norm": AbstractNorm,
    "noise": AbstractNoise,
    "space": AbstractSpace,
    "state": AbstractState,
}
PACKAGES = {"norm": "normalization", "state": "states", "space": "spaces"}
RULES = {
    "rope": ("theta = 100.0, halves = true", lambda: tkf.RoPE(100.0, halves=True)),
    "alibi": ("slope = 2.0", lambda: tkf.ALiBi(2.0)),
    "bias": ('b = "A.npy"', lambda: tkf.Bias(A)),
    "window": ("width = 0.25", lambda: tkf.Window(0.25)),
    "sinks": ("k = 4", lambda: tkf.Sinks(4)),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, with arrays in files of all kinds, and functions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tables_code.py").write_text(CODE)
    np.save("A.npy", A)
    np.savetxt("A.csv", A, delimiter=",")
    np.savez("all.npz", A=A, B=np.eye(3))
    np.savez("tokens.npz", x=np.eye(2), weights=[0.25, 0.75], positions=[0.0, 5.0])
    np.savetxt("gain.csv", [1.0, 2.0], delimiter=",")
    np.save("weights.npy", [0.25, 0.75])
    np.savetxt("positions.txt", [[0.0, 5.0]])
    return tmp_path


def written(folder, text):
    """The config of a TOML text, which is the same when it is written and read again."""
    (folder / "run.toml").write_text("t1 = 1.0\n" + text)
    config = read(folder / "run.toml", {})
    (folder / "again.toml").write_text(to_toml(config))
    assert to_toml(read(folder / "again.toml", {})) == to_toml(config)
    return config


def parts():
    return [(section, kind) for section, kinds in CASES.items() for kind in kinds]


def test_no_kind_is_left_out():
    for section, base in BASES.items():
        ours = [kind for kind, each in found(base).items() if is_ours(each)]
        assert sorted(CASES[section]) == ours
        assert kinds_in(PACKAGES.get(section, section), base.__name__) == ours  # as --help says
    starts = sorted(name for name, each in functions("start").items() if is_ours(each))
    assert sorted(CASES["tokens"]) == starts == sorted(names_in("states", "start") + names_in("config", "start"))
    assert sorted(RULES) == [kind for kind, each in found(AbstractPositions).items() if is_ours(each)]
    assert [kind for kind, each in found(AbstractTokenMap).items() if is_ours(each)] == ["layer_norm", "rms_norm"]


@pytest.mark.parametrize(("section", "kind"), parts())
def test_a_table_is_the_object(section, kind, folder):
    text, expected = CASES[section][kind]
    config = written(folder, f'[{section}]\nkind = "{kind}"\n{text}\n')
    if kind == "gaussian" and section == "state":
        np.save("A.npy", np.array([[1.0, 0.5], [0.5, 2.0]]))
        expected = lambda: tkf.Gaussian([1.0, 0.0], [[1.0, 0.5], [0.5, 2.0]])  # noqa: E731
    if section in ("state", "tokens"):
        assert eqx.tree_equal(build.start(config), expected())
        return
    made = getattr(build.model(config), section)
    if kind == "multiplicative":
        x, key, h = tkf.uniform_sphere(4, 2).x, jax.random.key(0), jnp.asarray(0.1)
        np.testing.assert_array_equal(*(each.kick(key, x, h, tkf.Sphere()) for each in (made, expected())))
    else:
        assert eqx.tree_equal(made, expected())


@pytest.mark.parametrize("kind", RULES)
def test_rules_for_positions(kind, folder):
    text, expected = RULES[kind]
    one = written(folder, f'[attention]\npositions = {{kind = "{kind}", {text}}}\n')
    two = written(
        folder, f'[attention]\ncausal = true\npositions = [{{kind = "{kind}", {text}}}, {{kind = "sinks", k = 2}}]'
    )
    assert eqx.tree_equal(one.attention.make(), tkf.Softmax(positions=expected()))
    assert eqx.tree_equal(two.attention.make(), tkf.Softmax(causal=True, positions=[expected(), tkf.Sinks(2)]))


def test_functions_of_positions_and_of_time(folder):
    text = '[attention]\nV = "tables_code:turning"\npositions = {kind = "bias", b = "tables_code:bias"}\n'
    head = written(folder, text).attention.make()
    assert float(head.positions[0].b(1.0, 0.5)) == pytest.approx(np.cos(0.5))
    np.testing.assert_allclose(head.value.V(2.0), [[np.cos(2.0), 0.0], [0.0, 1.0]])


def test_context_cross_attention_and_encoder(folder):
    text = """
    breakpoints = [0.5]
    [cross]
    beta = 3.0
    [context]
    n = 5
    d = 2
    seed = 1
    weights = [0.1, 0.2, 0.3, 0.2, 0.2]
    [cross_norm]
    kind = "pre"
    [mlp]
    W1 = [[1.0, 0.0]]
    W2 = [[1.0], [0.0]]
    activation = "silu"
    gate = [[0.0, 1.0]]
    [mlp_norm]
    kind = "none"
    [encoder.attention]
    beta = 4.0
    [encoder.norm]
    kind = "post"
    """
    x = tkf.uniform_sphere(5, 2, 1).x
    expected = tkf.Transformer(
        tkf.Softmax(),
        tkf.PostLN(),
        tkf.MLP([[1.0, 0.0]], [[1.0], [0.0]], activation="silu", gate=[[0.0, 1.0]]),
        breakpoints=[0.5],
        context=tkf.Tokens(x, [0.1, 0.2, 0.3, 0.2, 0.2]),
        cross=tkf.Softmax(3.0),
        encoder=tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN()),
        mlp_norm=tkf.NoNorm(),
        cross_norm=tkf.PreLN(),
    )
    assert eqx.tree_equal(build.model(written(folder, text)), expected)


def test_a_decoder_runs_from_toml(folder, capsys):
    (folder / "run.toml").write_text(
        "depth = 2\n[tokens]\nn = 3\nd = 2\n[context]\nn = 5\nd = 2\n[cross]\nbeta = 3.0\n"
    )
    done = tokenfield_here(capsys, "simulate", "run.toml", "--json")
    assert done.returncode == 0, done.stderr
    model = tkf.Transformer(
        tkf.Softmax(), tkf.PostLN(), cross=tkf.Softmax(3.0), context=tkf.uniform_sphere(5, 2, seed=0)
    )
    final = tkf.layers(model, tkf.uniform_sphere(3, 2, seed=0), 2).final
    assert json.loads(done.stdout)["order_parameter"] == pytest.approx(tkf.order_parameter(final), rel=1e-12)


def test_weights_and_positions_from_files(folder):
    own = 'weights = "weights.npy"\npositions = "positions.txt"'
    config = written(folder, f'[tokens]\nkind = "circle"\nangles = [0.0, 1.0]\n{own}')
    x = tkf.circle_tokens([0.0, 1.0]).x
    assert eqx.tree_equal(build.start(config), tkf.Tokens(x, [0.25, 0.75], [0.0, 5.0]))
    config = written(folder, f'[tokens]\nkind = "file"\nfile = "A.csv"\n{own}')
    assert eqx.tree_equal(build.start(config), tkf.Tokens(A, [0.25, 0.75], [0.0, 5.0]))
    config = written(folder, '[tokens]\nkind = "tables_code:pair"\nangle = 2.0\n')
    assert eqx.tree_equal(build.start(config), tkf.circle_tokens([0.0, 2.0]))


def test_clusters_noise_and_files_by_flags(capsys):
    def order(flags):
        done = tokenfield_here(capsys, "simulate", *f"--depth 1 --beta 0 {flags} --json".split())
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["order_parameter"]

    def expected(start):
        return tkf.order_parameter(tkf.layers(tkf.Transformer(tkf.Softmax(0.0), tkf.PostLN()), start, 1).final)

    start = tkf.separated_clusters(6, 3, 3, 0.2, seed=2)
    assert order("--tokens clusters --n 6 --k 3 --spread 0.2 --seed 2") == pytest.approx(expected(start), rel=1e-12)
    start = tkf.Tokens(np.eye(2), [0.25, 0.75], [0.0, 5.0])
    assert order("--file tokens.npz") == pytest.approx(expected(start), rel=1e-12)
    np.save("eye.npy", np.eye(2))
    flags = "--file eye.npy --weights weights.npy --positions positions.txt"
    assert order(flags) == pytest.approx(expected(start), rel=1e-12)


def test_tokens_of_the_space_of_the_model(folder):
    """They need no space of their own, whether or not their kind is given; and other tokens keep theirs."""
    named, unnamed, other = (
        written(folder, f'{tokens}\n[space]\nkind = "{kind}"\n')
        for kind, tokens in (
            ("torus", '[tokens]\nkind = "space"\nn = 3'),
            ("torus", "[tokens]\nn = 3"),
            ("hyperbolic", '[tokens]\nkind = "space"\nn = 3\nd = 4\nspace = {kind = "torus"}'),
        )
    )
    start = build.start(named)
    assert start.space == tkf.Torus()
    assert start.d == tkf.Torus.usual_d
    np.testing.assert_array_equal(start.x, build.start(unnamed).x)
    assert build.start(other).space == tkf.Torus()


def test_states_by_flags(capsys):
    flags = "--state equiangular --n 8 --rho 0.1 --t1 2 --observe mean_cosine --json"
    done = tokenfield_here(capsys, "simulate", *flags.split())
    assert done.returncode == 0, done.stderr
    run = tkf.simulate(tkf.Transformer(tkf.Softmax(), tkf.PostLN()), tkf.Equiangular(0.1, 8), 2.0)
    numbers = json.loads(done.stdout)
    assert numbers["state"] == "Equiangular"
    assert numbers["observed"]["mean_cosine"] == numbers["mean_cosine"] == pytest.approx(float(run.final.rho), rel=1e-9)


@pytest.mark.slow
def test_a_density_with_noise_writes_its_folder(folder, capsys):
    flags = "--state circle_density --set state.size=0.01 --set state.modes=8 --kappa 2.5 --t1 0.5 --save-at 3"
    done = tokenfield_here(capsys, "simulate", *flags.split(), "--attention", "unnormalized", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (folder / "run").iterdir()} == {
        "trajectory.zarr", "config.toml", "overview.png", "report.html",
    }  # fmt: skip
    model = tkf.Transformer(tkf.Unnormalized(), tkf.PostLN(), noise=tkf.SphereNoise(2.5))
    run = tkf.simulate(model, tkf.CircleDensity.uniform(8).perturbed(0, 0.01), 0.5, save_at=3)
    np.testing.assert_allclose(tkf.load("run/trajectory.zarr").final.coefficients, run.final.coefficients, atol=1e-9)


def test_states_in_a_sweep():
    run = {"t1": 1.0, "norm": {"kind": "none"}, "state": {"kind": "gaussian", "cov": [[0.5, 0.1], [0.1, 0.3]]}}
    found = tkf.sweep({"run": run, "axes": {"beta": [-1.0, 0.5]}, "record": {"rank": "effective_rank"}})
    for k, beta in enumerate((-1.0, 0.5)):
        final = tkf.simulate(tkf.Transformer(tkf.Softmax(beta)), tkf.Gaussian(None, run["state"]["cov"]), 1.0).final
        assert float(found.dataset["rank"][k, 0]) == pytest.approx(tkf.effective_rank(final), rel=1e-9)


def test_the_examples_of_the_documentation(folder):
    text = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    toml, code = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("toml", "python"))
    (folder / "run.toml").write_text(toml, encoding="utf-8")
    config = read(folder / "run.toml", {"tokens.k": 5})
    assert eqx.tree_equal(build.start(config), tkf.separated_clusters(64, 3, 5, 0.05))
    assert eqx.tree_equal(build.model(config).norm, tkf.MixLN(1.5))
    (folder / "docs_example.py").write_text(code)
    made = read(None, {"attention.kind": "docs_example:Power", "attention.power": 3.0}).attention.make()
    assert float(made.phi(jnp.asarray(2.0))) == 8.0


BAD = {
    '[attention]\nA = "none.npy"': "A: no such file: none.npy",
    '[attention]\nA = "all.npz"': "A: all.npz holds A, B: give one of them, such as all.npz:A",
    '[attention]\nA = "all.npz:C"': "A: all.npz holds A, B",
    '[attention]\nA = "words"': "attention.A: Input should be a valid list, got 'words'",
    '[attention]\nV = "tables_code:nothing"': "attention.V: tables_code:nothing: module tables_code has no nothing",
    '[attention]\npositions = {kind = "bias", b = "tables_code:nothing"}': "tables_code has no nothing",
    '[attention]\npositions = {kind = "rpe"}': "attention.positions.kind: must be one of alibi, bias, rope",
    '[attention]\npositions = [{kind = "rope", thta = 1}]': "unknown key attention.positions.0.thta: did you mean theta?",
    '[norm]\ngain = "A.npy"': "gain: A.npy must hold a vector, got shape (2, 2)",
    '[norm]\nkind = "pre_norm"\nmap = 3': "norm.map: must be a table such as {kind = 'layer_norm'}, got 3",
    '[tokens]\nfile = "x.npy"': "tokens.file: a start of kind sphere takes no file; it takes n, d, seed",
    '[tokens]\nkind = "file"\nfile = "all.npz"': "tokens.file: all.npz must hold x, and optionally weights and positions",
    '[tokens]\nweights = "gain.csv"': "weights must have one entry for each of the 256 tokens, got (2,)",
    '[noise]\nkind = "anisotropic"\nkappa = 1.0': "anisotropic needs S",
    '[noise]\nkind = "multiplicative"\nkappa = 1.0\ng = 3': "noise.g: must be a function, given as module:function, got 3",
    '[state]\nkind = "gaussian"': "gaussian needs cov",
    '[state]\nkind = "gaussian"\ncov = [[1.0]]\n[tokens]\nn = 3': "tokens: give tokens or state, not both",
    "[cross]\nbeta = 1.0": "cross needs a context",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_errors_are_one_line(text, folder, capsys):
    (folder / "run.toml").write_text(text)
    assert_one_line_error(tokenfield_here(capsys, "simulate", "run.toml"), BAD[text])
