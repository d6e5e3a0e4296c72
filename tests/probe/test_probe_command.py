"""`tokenfield probe` from the command line."""

import io
import json
import re
import shutil
from contextlib import redirect_stdout
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from commands import assert_help_without_jax, assert_one_line_error, tokenfield_here
from small_models import REACTIONS, as_pickle, config

from tokenfield.cli import main
from tokenfield.cli.probe_table import COLUMNS, print_layers
from tokenfield.probe.smiles import PIECES

pytest.importorskip("torch", reason='pip install -e ".[models]"')


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "reactions.txt"
    path.write_text("\n".join(REACTIONS) + "\n")
    return path


@pytest.fixture(scope="module")
def probed(folders, text, tmp_path_factory):
    """The folder of a quick probe with figures for the web, and the numbers it prints."""
    out, printed = tmp_path_factory.mktemp("probed") / "out", io.StringIO()
    flags = "--text", text, "--lines", "--format", "svg", "--out", out, "--json"
    with redirect_stdout(printed), pytest.raises(SystemExit, match="0"):
        main([str(each) for each in ("probe", folders("bert"), *flags)])
    return out, json.loads(printed.getvalue())


QUICK = ("--no-null", "--no-lipschitz")


def test_help_is_quick():
    assert_help_without_jax(["probe"], "Transformer")


@pytest.mark.slow
def test_a_folder_gets_report_figures_and_dataset(folders, text, probed, capsys):
    out, numbers = probed
    assert [row["layer"] for row in numbers["layers"]] == [0, 1, 2, 3]
    assert all({"mean_cosine", "mean_cosine_no_special"} <= set(row) for row in numbers["layers"])
    assert len(numbers["texts"]) == 3
    assert numbers["out"] == str(out)
    assert {"report.html", "probe.zarr", "theory.svg", "cosines.svg"} <= {path.name for path in out.iterdir()}
    from tokenfield.probe import ProbeResult

    loaded = ProbeResult.load(out)
    assert numbers["answer"] == loaded.answer
    groups = [json.loads(each) for each in loaded.dataset["groups"].values]
    words = {word for text in groups for group in text for word in group["words"]}
    assert words
    assert words <= {"[CLS]", "[SEP]", "[UNK]", *PIECES.findall(" ".join(REACTIONS))}
    assert (
        "Not measured: random weights (--null, in Python null=True) and Lipschitz constants (--lipschitz,"
        in numbers["more"]
    )
    rho = loaded.dataset["mean_cosine"].mean("text").values
    np.testing.assert_allclose([row["mean_cosine"] for row in numbers["layers"]], rho)
    again = tokenfield_here(capsys, "probe", folders("bert"), "--text", text, "--lines", "--out", out)
    assert_one_line_error(again, "holds a finished probe: give another folder, or --overwrite")


def test_the_report_says_how_to_read_the_data_again(probed, capsys, monkeypatch):
    out, numbers = probed
    page = (out / "report.html").read_text(encoding="utf-8")
    (snippet,) = (block for block in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL) if "ProbeResult" in block)
    monkeypatch.chdir(out)
    exec(unescape(re.sub(r"<[^>]*>", "", snippet)), {})
    answer, _, cosines = capsys.readouterr().out.partition("\n")
    assert answer == numbers["answer"]
    found = [float(value) for value in cosines.strip(" []\n").split()]
    np.testing.assert_allclose(found, [row["mean_cosine"] for row in numbers["layers"]], rtol=1e-6)
    assert {path.suffix for path in out.iterdir()} == {".html", ".zarr", ".svg"}
    assert (out / "theory.svg").read_bytes().startswith(b"<?xml")
    for name in re.findall(r'href="([^"#]*)"', page):
        assert (out / name).exists(), name


@pytest.mark.parametrize("normed", [False, True])
def test_the_table_fits_80_columns(capsys, monkeypatch, normed):
    monkeypatch.setenv("COLUMNS", "80")
    values = dict.fromkeys(COLUMNS, -0.98765) | {"effective_rank": 1234.5, "mean_length": 98765.4, "clusters": 1000.0}
    row = {"layer": 100, "after_final_norm": normed, **values}
    print_layers({"architecture": {"family": "llama"}, "norm": "pre-LN", "model": "a-model", "layers": [row]})
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "…" not in out
    *_, shown = (line for line in out.splitlines() if line.lstrip().startswith("100"))
    label = "100*" if normed else "100"
    assert shown.split() == [label, *["-0.988"] * 3, "1234", "1000", *["-0.988"] * 2, "98765", *["-0.988"] * 2]
    assert ("* after the final norm" in out) == normed


@pytest.mark.slow
def test_several_files_and_a_table(folders, text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other.txt"
    other.write_text("CC" * 200)
    ended = tokenfield_here(
        capsys, "probe", folders("albert"), "--text", text, other, "--iterations", 5, "--windows", 2, *QUICK
    )
    assert ended.returncode == 0, ended.stderr
    assert "albert, post-LN" in ended.stdout
    assert "note: the shared block is run 5 times; it was trained for 3" in ended.stdout
    assert "measured in 2 windows" in ended.stdout
    assert ended.stdout.splitlines()[-1] == f"open {Path('probe') / 'report.html'}"
    assert (tmp_path / "probe" / "report.html").exists()


def test_hidden_states_of_unsupported_attention_are_reported(folders, text, tmp_path, capsys):
    out = tmp_path / "out"
    ended = tokenfield_here(capsys, "probe", folders("distilbert"), "--text", text, "--lines", "--out", out)
    assert ended.returncode == 0, ended.stderr
    assert "note: attention of models of type distilbert is not supported (supported: albert, bert" in ended.stdout
    assert "only hidden states are measured" in (out / "report.html").read_text(encoding="utf-8")


def test_ctrl_c_says_what_is_kept(folders, text, tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tokenfield.probe.measure.stream", interrupted)
    ended = tokenfield_here(capsys, "probe", folders("bert"), "--text", text, "--out", tmp_path / "out", *QUICK)
    assert ended.returncode == 130
    assert "finished batches are saved in" in ended.stderr


@pytest.mark.slow
def test_overwrite_starts_afresh_after_another_run_was_killed(folders, text, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("tokenfield.probe.run.predict", lambda *_: 1 / 0)  # dies with its batches on disk
        assert tokenfield_here(capsys, "probe", folders("bert"), "--text", text, "--out", out, *QUICK).returncode == 1
    other = "probe", folders("bert"), "--text", text, "--lines", "--out", out, "--json", *QUICK
    assert_one_line_error(tokenfield_here(capsys, *other), "belongs to another run")
    assert tokenfield_here(capsys, *other, "--overwrite").returncode == 0


@pytest.mark.slow
def test_a_probe_killed_while_drawing_is_drawn_from_its_data(folders, text, tmp_path, capsys, monkeypatch):
    command = "probe", folders("bert"), "--text", text, "--full", "--out", tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("tokenfield.probe.page.figures", lambda *_: 1 / 0)  # dies with its dataset on disk
        assert tokenfield_here(capsys, *command).returncode == 1
    assert (tmp_path / "out" / "probe.zarr").exists()
    assert not (tmp_path / "out" / "report.html").exists()
    assert_one_line_error(tokenfield_here(capsys, *command, "--lines"), "belongs to another run")
    for part in ("measure.stream", "smoothness.layer_constant"):
        monkeypatch.setattr(f"tokenfield.probe.{part}", lambda *_, **__: 1 / 0)  # nothing is measured again
    ended = tokenfield_here(capsys, *command)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "out" / "report.html").exists()
    assert not (tmp_path / "out" / "probe.part").exists()
    assert_one_line_error(
        tokenfield_here(capsys, *command), "holds a finished probe: give another folder, or --overwrite"
    )


def test_a_pickle_is_warned_of(folders, text, tmp_path, capsys):
    folder = as_pickle(folders("bert"), tmp_path / "old")
    refused = tokenfield_here(capsys, "probe", folder, "--text", text, "--json")
    assert_one_line_error(refused, "--allow-pickle")
    ended = tokenfield_here(capsys, "probe", folder, "--text", text, "--json", "--allow-pickle", *QUICK)
    assert ended.returncode == 0
    assert ended.stderr.startswith("warning: pytorch_model.bin is a pickle")
    json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL"], "--text: give at least one text file"),
        (["MODEL", "--text", "none.txt"], "--text: cannot read none.txt"),
        (["MODEL", "--text", "EMPTY"], "is empty: give a file with some text"),
        (["FOLDER", "--text", "TEXT"], "is not a model folder"),
        (["no/such", "--text", "TEXT"], "neither a folder here nor a model in the local cache"),
        (["no/such", "--text", "TEXT"], "or use one of minilm, smollm2, albert, rxnfp (make models)"),
        (["T5", "--text", "TEXT"], "t5 is an encoder–decoder model"),
        (["CORRUPT", "--text", "TEXT"], "cannot be read, it may be damaged"),
        (["MODEL", "--text", "TEXT", "--iterations", "4"], "only a model with one shared block"),
        (["MODEL", "--text", "TEXT", "--max-tokens", "3"], "max_tokens must be at least 4"),
        (["MODEL", "--text", "TEXT", "--lengths", "8"], "--lengths must hold at least two different numbers"),
        (["MODEL", "--text", "TEXT", "--lengths", "a,b"], "--lengths must be whole numbers such as 8,16,32"),
        (["MODEL", "--text", "TEXT", "--windows", "0"], "--windows must be a whole number >= 1, got 0"),
        (["MODEL", "--text", "TEXT", "--out", f"{__file__}/out"], f"--out: cannot write to {Path(__file__) / 'out'}"),
        (["MODEL", "--text", "TEXT", "--batch", "0"], "batch must be a whole number >= 1"),
    ],
)
def test_bad_input_is_one_line_and_code_2(folders, text, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "t5"):
        (tmp_path / name).mkdir()
    (tmp_path / "t5" / "config.json").write_text(json.dumps(config("t5").to_dict()))
    (tmp_path / "t5" / "model.safetensors").write_bytes(b"")
    (tmp_path / "empty.txt").write_text("")
    shutil.copytree(folders("bert"), tmp_path / "corrupt")
    (tmp_path / "corrupt" / "model.safetensors").write_bytes(b"not tensors")
    places = {"MODEL": folders("bert"), "TEXT": text, "EMPTY": "empty.txt", "FOLDER": "./folder", "T5": "./t5"}
    places["CORRUPT"] = "./corrupt"
    ended = tokenfield_here(capsys, "probe", *(places.get(argument, argument) for argument in arguments), "--json")
    assert_one_line_error(ended, message)


def test_a_missing_extra_is_one_line(folders, text, capsys, monkeypatch):
    import sys

    path = folders("bert")
    monkeypatch.setitem(sys.modules, "transformers", None)
    ended = tokenfield_here(capsys, "probe", path, "--text", text, "--json")
    assert_one_line_error(ended, 'pip install -e ".[models]"')
