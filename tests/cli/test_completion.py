"""Completion scripts: each shell that is here is asked for completions."""

import re
import shutil
import subprocess

import pytest
import typer
from commands import assert_one_line_error, tokenfield_here

from tokenfield.cli.app import app
from tokenfield.cli.completion_scripts import SCRIPTS
from tokenfield.cli.completion_tree import commands_of

ASK = {
    "bash": """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _tokenfield; printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "fish": "complete -C '{line}' | string split -f 1 \\t\n",
}
NORMS = {"peri", "post", "post_norm", "pre", "pre_norm", "projected"}


@pytest.fixture(scope="module")
def commands():
    return commands_of(typer.main.get_command(app))


@pytest.fixture(params=["bash", "fish"])
def ask(request, commands, tmp_path):
    """Return what a shell proposes for the last of some words."""
    shell = shutil.which(request.param)
    if shell is None:
        pytest.skip(f"{request.param} is not installed")

    def asked(*words):
        quoted = " ".join(f"'{word}'" for word in words)
        script = tmp_path / "script"
        script.write_text(
            SCRIPTS[request.param](commands) + ASK[request.param].format(words=quoted, line=" ".join(words))
        )
        done = subprocess.run([shell, script], capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return set(done.stdout.split())

    asked.shell = request.param
    return asked


def test_commands(ask, commands):
    assert {command.name for command in commands if not command.group} <= ask("tokenfield", "")
    assert ask("tokenfield", "si") == {"simulate"}


def test_flags(ask):
    assert ask("tokenfield", "simulate", "--qui") == {"--quiet"}
    assert {"--no-null", "--null", "--json", "--help"} <= ask("tokenfield", "probe", "--")


def test_values(ask):
    assert ask("tokenfield", "simulate", "--norm", "p") == NORMS
    assert ask("tokenfield", "norms", "--quick", "--format", "") == {"png", "pdf", "svg"}
    assert ask("tokenfield", "completion", "ba") == {"bash"}
    assert ask("tokenfield", "sweep", "st") == {"status"}
    assert ask("tokenfield", "sweep", "run", "--res") == {"--resume"}
    assert ask("tokenfield", "sweep", "status", "--") == {"--json", "--quiet", "--help"}
    assert ask("tokenfield", "sweep", "run", "fig") == {"figure3", "figure3-unnormalized"}
    assert ask("tokenfield", "sweep", "run", "--format", "p") == {"png", "pdf"}
    if ask.shell == "bash":  # which splits at =
        assert ask("tokenfield", "simulate", "--norm", "=", "p") == NORMS
        assert ask("tokenfield", "simulate", "--beta", "p") == set()


def test_the_script_of_zsh(commands, tmp_path):
    script = SCRIPTS["zsh"](commands)
    assert '        "simulate --norm") compadd -- mix ngpt none ' in script
    assert '            "phase-diagram") compadd -- --d --beta-max ' in script
    shell = shutil.which("zsh")
    if shell is None:
        pytest.skip("zsh is not installed")
    stand_in = 'compdef() { : }\ncompadd() { print -l -- "$@" }\n'
    asked = "words=(tokenfield simulate --norm p); CURRENT=4; _tokenfield\n"
    (tmp_path / "script").write_text(stand_in + script + asked)
    done = subprocess.run([shell, "-f", tmp_path / "script"], capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) >= NORMS


def test_scripts_hold_plain_words_and_are_printed(commands, capsys):
    for command in commands:
        for flag in (*command.flags, *command.arguments):
            assert all(re.fullmatch(r"[\w.-]+", value) for value in flag.values), flag
    assert tokenfield_here(capsys, "completion", "fish").stdout == SCRIPTS["fish"](commands)
    refused = tokenfield_here(capsys, "completion", "tcsh")
    assert_one_line_error(refused, "'bash|zsh|fish': 'tcsh' is not one of 'bash', 'zsh', 'fish'")


def test_values_are_those_of_the_help(capsys, commands):
    simulate = next(command for command in commands if command.name == "simulate")
    shown = tokenfield_here(capsys, "simulate", "--help").stdout
    for flag in simulate.flags:
        assert all(value in shown for value in flag.values), flag
    assert len([flag for flag in simulate.flags if flag.values]) >= 8
