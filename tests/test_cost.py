"""Requests that cannot fit are refused at once with the estimate; long ones say how long a step takes."""

import importlib
import time

import numpy as np
import pytest
from commands import assert_one_line_error, tokenfield, tokenfield_here

import tokenfield as tkf
from tokenfield import _cost, _memory
from tokenfield.states import samplers

MODEL = tkf.Transformer(tkf.Softmax(2.0), tkf.PostLN())
HUGE = {
    "simulate": (
        ["simulate", "--n", 100_000_000],
        "n, d: a run with n = 100000000, d = 3 and 101 saved states need about 540 GB of memory, 20 GB are free",
    ),
    "wide": (
        ["simulate", "--n", 2_000_000, "--d", 1000],
        "n, d: a run with n = 2000000, d = 1000 and 101 saved states need about 3.6 TB of memory, 20 GB are free",
    ),
    "saved": (
        ["simulate", "--n", 100_000, "--save-at", 100_000],
        "save_at: a run with n = 100000, d = 3 and 100000 saved states need about 480 GB of memory, 20 GB are free",
    ),
    "layers": (
        ["simulate", "--n", 1_000_000, "--depth", 1000],
        "depth: layers with n = 1000000, d = 3 and 1001 saved states need about 48.3 GB of memory, 20 GB are free",
    ),
    "lipschitz": (
        ["lipschitz", "--n", 2_000_000, "--d", 64],
        "n, d: the derivative at n = 2000000 tokens in R^64 needs about 45.1 GB of memory, 20 GB are free",
    ),
    "growth": (
        ["lipschitz", "--lengths", "8,2000000", "--d", 64],
        "n, d: the derivative at n = 2000000 tokens in R^64 needs about 45.1 GB of memory, 20 GB are free",
    ),
}


@pytest.fixture
def free(monkeypatch):
    """A machine with so many bytes of free memory."""

    def set_to(size):
        monkeypatch.setattr(_cost, "free_memory", lambda: size)
        monkeypatch.setattr(_memory, "free_memory", lambda: size)

    return set_to


@pytest.mark.parametrize("case", HUGE)
def test_what_cannot_fit_is_refused_before_anything_is_made(case, free, capsys, monkeypatch):
    def made(*_):
        raise AssertionError("tokens were made")

    arguments, message = HUGE[case]
    free(2e10)
    monkeypatch.setattr(samplers, "generator", made)
    monkeypatch.setattr("tokenfield.lipschitz.data_models.generator", made)
    assert_one_line_error(tokenfield_here(capsys, *arguments, "--json"), message)


def test_the_refusal_takes_no_time():
    begun = time.monotonic()
    result = tokenfield("simulate", "--n", 10**12, "--json")
    assert_one_line_error(
        result, "n, d: a run with n = 1000000000000, d = 3 and 101 saved states need about 5.4e+03 TB"
    )
    help_takes = time.monotonic()
    tokenfield("simulate", "--help")
    assert (help_takes - begun) < 2 + (time.monotonic() - help_takes)  # no more than to start a process


def test_the_estimate_counts_every_array(free):
    """100 tokens in R^3: 3 starts, 20 stages, 2 copies of 5 saved states; 2 matrices of 100 x 100."""
    assert _cost.run_bytes(100, 3, 5) == 8 * (300 * (3 + 20 + 2 * 5) + 2 * 100**2)
    assert _cost.run_bytes(5000, 3, 5) == 8 * (15_000 * 33 + 2 * 1024**2)
    assert _cost.run_bytes(5000, 3, 5, uncut=True) == 8 * (15_000 * 33 + 2 * 5000**2)
    needs = _cost.run_bytes(200_000, 3, 101)
    free(needs)
    _cost.refuse_run(200_000, 3, 101)  # what fits is not refused
    free(needs - 1)
    with pytest.raises(
        ValueError, match=r"^save_at: a run with n = 200000, d = 3 and 101 saved states need about 1\.1 GB"
    ):
        _cost.refuse_run(200_000, 3, 101)


def test_python_refuses_as_well(free):
    free(1.2e8)
    for sample in (tkf.uniform_sphere, tkf.hemisphere, tkf.gaussian_tokens):
        with pytest.raises(ValueError, match=r"n, d: .* need .* of memory, 120 MB are free"):
            sample(2_000_000, 3)
    free(3e8)
    tokens = tkf.uniform_sphere(1_000_000, 3)
    calls = {
        "n, d: a run with n = 1000000, d = 3": [
            lambda: tkf.simulate(MODEL, tokens, 1.0),
            lambda: tkf.simulate(MODEL, tokens, 1e9),
            lambda: tkf.simulate_many(MODEL, [tokens, tokens], 1.0),
        ],
        "depth: layers with n = 1000000, d = 3": [lambda: tkf.layers(MODEL, tokens, 30)],
        "n, d: the derivative at n = 1000000 tokens in R\\^3": [
            lambda: tkf.lipschitz.local(MODEL, tokens),
            lambda: tkf.lipschitz.network(MODEL, tokens, 2),
        ],
    }
    for message, kinds in calls.items():
        for call in kinds:
            with pytest.raises(ValueError, match=message):
                call()
    free(2e7)
    with pytest.raises(ValueError, match="x: 10000000 × 2 numbers need 160 MB of memory, 20 MB are free"):
        tkf.Tokens(np.broadcast_to(np.ones(2), (10_000_000, 2)))


def test_other_states_are_never_refused(free):
    free(1e3)
    assert tkf.simulate(MODEL, tkf.Equiangular(0.0, n=10**9), 0.1).times[-1] == 0.1


class Begun(Exception):
    """The run would begin now."""


def test_what_only_takes_long_says_so_and_begins(capsys, monkeypatch, free):
    def begin(*_, **__):
        raise Begun

    free(1e13)
    monkeypatch.setattr(_cost, "available_cpus", lambda: 2)
    monkeypatch.setattr(importlib.import_module("tokenfield.lipschitz.local"), "derivative", begin)
    with pytest.raises(Begun):
        tkf.lipschitz.local(tkf.Softmax(1.0), tkf.gaussian_tokens(200_000, 64))
    # 6 · 200000² · (64 + 20) products, 6e9 a second
    words = "a product with the derivative at n = 200000 tokens in R^64 takes about 56 min here, and tens to hundreds"
    assert words in capsys.readouterr().err
    monkeypatch.setattr("tokenfield.driver.continuous.reduction", begin)
    tokens = tkf.uniform_sphere(100_000, 16)
    for progress, count in [(None, 1), (True, 1), (False, 0)]:
        with pytest.raises(Begun):
            tkf.simulate(MODEL, tokens, 1.0, progress=progress)
        said = capsys.readouterr().err
        assert said.count("a step with n = 100000, d = 16 takes about 6 min here") == count
    with pytest.raises(Begun):
        tkf.simulate(MODEL, tkf.uniform_sphere(100_000, 3), 1.0)  # quick, by a series
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("tokenfield.driver.refining.integrate", begin)
    with pytest.raises(Begun):
        tkf.layers(MODEL, tokens, 12)
    assert "a layer with n = 100000, d = 16 takes about 60 s here, and there are 12" in capsys.readouterr().err


def test_times_have_units():
    found = [_cost.seconds_text(seconds) for seconds in (12.3, 119, 120, 7199, 7200, 86400 * 3, 86400 * 365)]
    assert found == ["12 s", "119 s", "2 min", "120 min", "2 hours", "3 days", "365 days"]
