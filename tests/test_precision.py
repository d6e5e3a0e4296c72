"""Runs are in double precision or refused, and refused in processes in which they would hang."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from commands import assert_one_line_error, tokenfield

import tokenfield as tkf
from tokenfield.sweep.run_batch import run_batch

MODEL, NOISE = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN()), tkf.SphereNoise(4.0)
NOISY = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN(), noise=NOISE)
TOKENS, COV = tkf.uniform_sphere(4, 3, seed=0), np.eye(2)
PLAN = {"run": {"t1": 1.0, "tokens": {"n": 4, "d": 3}}, "axes": {"beta": [1.0]}, "record": {"r": "order_parameter"}}
SINGLE = "JAX is in single precision, and tokenfield needs double"

CALLS = {
    "Softmax": lambda: tkf.Softmax(2.0),
    "Tokens": lambda: tkf.Tokens(np.eye(3)),
    "uniform_sphere": lambda: tkf.uniform_sphere(4, 3, seed=0),
    "simulate": lambda: tkf.simulate(MODEL, TOKENS, 1.0),
    "simulate coarsened": lambda: tkf.simulate(MODEL, TOKENS, np.inf),
    "simulate noisy": lambda: tkf.simulate(NOISY, TOKENS, 1.0, seed=0),
    "simulate_many": lambda: tkf.simulate_many(MODEL, [TOKENS, TOKENS], 1.0),
    "layers": lambda: tkf.layers(MODEL, TOKENS, 2),
    "sweep": lambda: tkf.sweep(PLAN),
    "run_batch": lambda: run_batch(json.dumps(PLAN), 0),
    "probe": lambda: tkf.probe("nowhere", ["text"]),
    "local": lambda: tkf.lipschitz.local(MODEL, TOKENS),
    "adversarial": lambda: tkf.lipschitz.adversarial(MODEL.attention, 4, 1.0, d=2),
    "network": lambda: tkf.lipschitz.network(MODEL, TOKENS, 2),
    "lyapunov": lambda: tkf.lipschitz.lyapunov(MODEL, TOKENS, 1.0),
    "data_bounds": lambda: tkf.lipschitz.data_bounds(MODEL.attention, TOKENS),
    "growth": lambda: tkf.lipschitz.growth(MODEL.attention, lambda n, seed: TOKENS, (4, 8)),
    "energy": lambda: tkf.energy(TOKENS, MODEL),
    "attention_matrix": lambda: tkf.attention_matrix(TOKENS, MODEL),
    "order_parameter": lambda: tkf.order_parameter(TOKENS),
    "gaussian_stationarity": lambda: tkf.theory.gaussian_stationarity(MODEL.attention, COV),
    "normalization_study": lambda: tkf.studies.normalization_study(d=4, n=4, depth=1, seeds=1),
    "mean shift": lambda: tkf.clustering.MeanShift(bandwidth=1.0).fit(np.eye(3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_computed_in_single_precision(name):
    with jax.enable_x64(False), pytest.raises(ValueError, match=SINGLE):
        CALLS[name]()


def test_the_command_line_says_so():
    environment = {**os.environ, "JAX_ENABLE_X64": "0"}
    assert_one_line_error(tokenfield("simulate", "--n", 4, "--t1", 1, "--json", env=environment), SINGLE)


IMPORTED = """
import jax, jax.numpy as jnp
{before}
import tokenfield as tkf
print(jnp.ones(1).dtype)
{after}
try:
    tkf.uniform_sphere(4, 3, seed=0)
    print("runs")
except ValueError as error:
    print(error)
"""
OFF = 'jax.config.update("jax_enable_x64", False)'


@pytest.mark.parametrize(
    ("setting", "before", "after", "dtype", "runs"),
    [
        (None, "", "", "float64", True),
        (None, OFF, "", "float64", True),  # which is JAX's default: not told apart from a choice
        (None, "", OFF, "float64", False),
        ("0", "", "", "float32", False),
        ("1", "", "", "float64", True),
    ],
)
def test_importing_switches_to_64_bits_unless_the_environment_says_no(setting, before, after, dtype, runs):
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    environment |= {} if setting is None else {"JAX_ENABLE_X64": setting}
    code = IMPORTED.format(before=before, after=after)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    first, second = found.stdout.splitlines()
    assert first == dtype
    assert second == "runs" if runs else second.startswith(SINGLE)


def test_results_say_their_precision():
    traj = tkf.layers(MODEL, TOKENS, 1)
    assert traj.dataset.attrs["precision"] == str(traj.dataset["x"].dtype) == "float64"
    study = tkf.studies.normalization_study(d=4, n=4, depth=1, seeds=1)
    assert study.attrs["precision"] == "float32"  # which is what it is asked for by default


FORKED = """
import os
import tokenfield as tkf

model, tokens = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN()), tkf.uniform_sphere(4, 3, seed=0)

def in_child(function):
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)

in_child(lambda: tkf.layers(model, tokens, 1))
in_child(lambda: in_child(lambda: tkf.simulate(model, tokens, 1.0)))
tkf.Softmax(3.0)
print("parent runs on")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_process_refuses_rather_than_hangs():
    found = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120)
    lines = found.stdout.splitlines()
    assert len(lines) == 3, found.stderr
    assert all(line.startswith("this process was forked after JAX had started") for line in lines[:2])
    assert lines[2] == "parent runs on"
