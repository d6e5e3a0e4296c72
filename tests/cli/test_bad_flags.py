"""Bad flags, files and tokens on the command line are one line that names them."""

from pathlib import Path

import numpy as np
import pytest
from commands import assert_one_line_error, tokenfield, tokenfield_here

SMALL = ["--n", "12", "--t1", "1", "--save-at", "5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--n", "0"], "n must be a whole number >= 1, got 0"),
        (["simulate", "--d", "1"], "d must be a whole number >= 2, got 1"),
        (["simulate", "--t1", "0"], "t1 must be finite and > 0"),
        (["simulate", "--t1", "-3"], "t1 must be finite and > 0"),
        (["simulate", "--bta", "3"], "--beta"),
        (["simulate", "--beta", "warm"], "--beta"),
        (["simulate", "--attention", "softmx"], "softmx"),
        (["simulate", "--norm", "mix"], "mix needs tau"),
        (["simulate", "--norm", "post", "--tau", "1"], "post takes no tau"),
        (["simulate", "--stop-when", "never"], "stop_when must be one of"),
        (["simulate", "--stop-when", "energy-settled<=."], "stop_when must be one of"),
        (["simulate", "--tokens", "gaussian"], "keeps tokens on the sphere of radius 1"),
        (["simulate", "--stop-when", "order>=2"], "stop_when: R of order>=R must lie in (0, 1], got 'order>=2'"),
        (["simulate", "--t1", "1", "--depth", "2"], "not both"),
        (
            ["simulate", "--depth", "3", "--stop-when", "one-cluster"],
            "stop_when: layers do not use it: leave it out, or give t1",
        ),
        (["simulate", "--depth", "3", "--rtol", "1e-6"], "rtol: layers do not use it"),
        (["simulate", "--depth", "3", "--atol", "1e-6"], "atol: layers do not use it"),
        (["simulate", "--depth", "3", "--method", "tsit5"], "method: layers do not use it"),
        (["simulate", "--depth", "3", "--save-at", "5"], "save_at: layers do not use it"),
        (["simulate", "--step", "0.5"], "step: applies only to discrete layers: give depth too"),
        (["simulate", "--rho", "0.5"], "tokens.rho: a start of kind sphere takes no rho; it takes n, d, seed"),
        (["simulate", "--file", "x.npy", "--n", "3"], "tokens.n: a start of kind file takes no n; it takes file"),
        (["simulate", "--tokens", "equiangular", "--n", "10", "--d", "3"], "d must be at least n = 10, got 3"),
        (["simulate", "--seed", "-1"], "seed must be a whole number >= 0, got -1"),
        (["simulate", "--out", ""], "--out must not be empty"),
        (["simulate", "--out="], "--out must not be empty"),
        (["simulate", "."], "cannot read .: Is a directory"),
        (["simulate", "missing.toml"], "no such file: missing.toml"),
        (["simulate", "--file", "missing.npy"], "no such file"),
        (["simulate", "--out", f"{__file__}/run"], f"cannot write to {Path(__file__) / 'run'}"),
        (["simulate", "--kappa", "-1"], "kappa must be finite and > 0, got -1.0"),
        (["simulate", "--noise-seed", "1"], "sphere needs kappa"),
        (["simulate", "--fisher-rao", "1"], "fisher_rao needs Unnormalized"),
        (["simulat"], "simulat"),
        (["atlas", "--only", "one_clustr"], "did you mean one_cluster?"),
    ],
)
def test_bad_input_is_one_line_and_a_non_zero_code(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert_one_line_error(tokenfield_here(capsys, *arguments), message)


def test_bad_input_in_a_process_of_its_own(tmp_path):
    assert_one_line_error(tokenfield("simulate", "--n", 0, cwd=tmp_path), "n must be a whole number >= 1, got 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t2 = 1.0", "unknown key t2: did you mean t1?"),
        ("[attention]\nbta = 1.0", "unknown key attention.bta: did you mean beta?"),
        ("[tokns]\nn = 3", "unknown key tokns: did you mean tokens?"),
        ("t1 = 'long'", "t1: "),
        ("[norm]\nkind = 'pst'", "norm.kind: "),
        ("[attention]\nA = [[1.0, 0.0]]", "A must have shape (3, 3)"),
        ("[attention]\nA = [[1.0, 0.0], [1.0]]", "A must be"),
        ("t1 = = 3", "not valid TOML"),
        ("t1 = nan", "t1 must be"),
        ("attention = 3\n", "attention: "),
        ("depth = 3\nstop_when = 'one-cluster'", "stop_when: layers do not use it"),
        ("step = 0.5", "step: applies only to discrete layers"),
        ("[tokens]\nrho = 0.5", "tokens.rho: a start of kind sphere takes no rho"),
        ("[tokens]\nkind = 'equiangular'\nn = 10\nd = 3", "d must be at least n = 10, got 3"),
        ("[attention]\ntie = 1e-6", "softmax takes no tie"),
        ("[attention]\nmax_iterations = 3", "softmax takes no max_iterations"),
        ("[attention]\nkind = 'sinkhorn'\nmax_iterations = 0", "max_iterations must be a whole number >= 1, got 0"),
        ("[attention]\nkind = 'multihead'\ntie = 1e-6\n[[attention.heads]]", "multihead takes no tie"),
    ],
)
def test_bad_files_name_the_key(text, message, tmp_path, capsys):
    (tmp_path / "run.toml").write_text(text)
    assert_one_line_error(tokenfield_here(capsys, "simulate", tmp_path / "run.toml"), message)


def test_files_that_are_not_text_are_named(tmp_path, capsys):
    (tmp_path / "config.toml").write_bytes(b"t1 = \xff")
    result = tokenfield_here(capsys, "simulate", tmp_path / "config.toml")
    assert_one_line_error(result, f"{tmp_path / 'config.toml'} is not valid TOML")
    result = tokenfield_here(capsys, "simulate", *SMALL, "--out", tmp_path)
    assert_one_line_error(result, f"--out: {tmp_path} holds another run")


def test_bad_token_files(tmp_path, capsys):
    np.save(tmp_path / "nan.npy", np.full((2, 3), np.nan))
    np.save(tmp_path / "long.npy", 2 * np.eye(3))
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}]), allow_pickle=True)
    (tmp_path / "words.csv").write_text("a,b\n")
    (tmp_path / "empty.npy").touch()
    (tmp_path / "empty.csv").touch()
    for name, message in (
        ("nan.npy", "x must be finite"),
        ("long.npy", "token 0 has length 2"),
        ("pickle.npy", "not a matrix of numbers"),
        ("words.csv", "not a matrix of numbers"),
        ("empty.npy", "empty.npy is not a matrix of numbers: No data left in file"),
        ("empty.csv", "empty.csv must hold a matrix, got shape (0, 1)"),
    ):
        assert_one_line_error(tokenfield_here(capsys, "simulate", "--file", tmp_path / name), message)
