"""What surrounds a command: no home folder, no such device, names of files that are no text or look like markup."""

import os

import pytest
from commands import assert_one_line_error, tokenfield, tokenfield_here

from tokenfield import _cache
from tokenfield._shown import LONGEST, cut, shown


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pwd")
def test_without_a_home_folder_nothing_is_cached(monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["no such user"])
    _cache.keep_compiled_code()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pwd")
def test_a_home_that_is_not_there_is_no_error(capsys, monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["no such user"])
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert tokenfield_here(capsys, "--version").returncode == 0
    ended = tokenfield_here(capsys, "probe", "~nobody-here/model", "--text", __file__, "--json")
    assert_one_line_error(ended, "model: there is no folder or file ~nobody-here/model")


@pytest.mark.parametrize("platform", ["cuda", "nonsense", "cuda,rocm"])
def test_a_device_that_is_not_here_is_said(platform):
    result = tokenfield("simulate", "--n", "4", "--json", env={**os.environ, "JAX_PLATFORMS": platform})
    assert_one_line_error(result, f"JAX_PLATFORMS={platform}: JAX finds no such device here: unset it")


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", ["x[/b]", "[bold]", "[link=a]", "\udcff", "a b"])
def test_names_of_folders_are_not_markup(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    options = ("--n", "4", "--t1", "1", "--save-at", "3", "--no-animation")
    ended = tokenfield_here(capsys, "simulate", *options, "--out", name)
    assert ended.returncode == 0, ended.stderr
    assert name[:3].encode(errors="backslashreplace").decode() in ended.stdout


def test_names_of_plans_are_not_markup(capsys):
    from tokenfield.driver.progress import Progress
    from tokenfield.sweep.progress import SweepProgress

    with SweepProgress(True, "x[/b]", 3) as bar:
        bar.update(1, 0)
    with Progress(True, "x[/b]", 3, "cells") as plain:
        plain.update(1)


@pytest.mark.parametrize(
    "arguments", [["simulate", "--method", "x" * 5000], ["predict", "--norm", "y" * 5000], ["sweep", "z" * 5000]]
)
def test_long_inputs_are_not_echoed(capsys, arguments):
    ended = tokenfield_here(capsys, *arguments)
    assert_one_line_error(ended, "…")
    assert len(ended.stderr) < 800


def test_what_is_quoted_is_one_short_line():
    for value in (10**5000, "a" * 10**6, ["b"] * 10**5, {"c": "d\n" * 500}):
        assert len(shown(value)) <= LONGEST
        assert "\n" not in shown(value)
    assert [shown("short"), shown(3.5), shown([1, 2])] == ["'short'", "3.5", "[1, 2]"]


def test_a_cut_keeps_both_ends():
    assert cut("abc" * 100, 20) == "abcabcabcabca…abcabc"
    assert len(cut("abc" * 100, 20)) == 20
