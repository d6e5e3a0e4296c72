"""Pages of the documentation as programs: what they show is run, in order, in one folder.

- A `python` block is run; all blocks of a page share their names. An `output` block after it is what it prints.
- A block that begins with a comment such as `# powers.py` or `# plan.toml` is written to that file too.
- Lines of a `sh` block that begin with `tokenfield` are run: in this process, without workers and animations, and with fewer
  points where they would take minutes. Servers are started and stopped. What `make` and `pip install` name must exist.
- Commands in running text and in tables name commands and flags that exist.
"""

import contextlib
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import matplotlib
import pytest
import typer

from tokenfield.cli import main
from tokenfield.cli.app import app
from tokenfield.probe.packages import english_text, model_path

ROOT = Path(__file__).parent.parent
PLANS = ("figure3",)
FILE = re.compile(r"# (\w+\.(?:py|toml))\n")
FENCE = re.compile(r"^(?P<ticks>```+)(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=ticks)$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    kind: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(each["kind"], each["text"], text[: each.start()].count("\n") + 1) for each in FENCE.finditer(text)]


def run(path: Path) -> list[tuple[Block, str]]:
    """Run a page in the current folder; return each `python` block with what it printed."""
    names: dict = {"__name__": "__main__"}
    printed = []
    for block in blocks(path.read_text(encoding="utf-8")):
        if file := FILE.match(block.text):
            Path(file[1]).write_text(block.text, encoding="utf-8")
        if block.kind == "python":
            said = io.StringIO()
            with contextlib.redirect_stdout(said), matplotlib.rc_context():
                exec(compile("\n" * block.line + block.text, str(path), "exec"), names)
            printed.append((block, said.getvalue()))
        elif block.kind == "sh":
            commands(block.text)
    return printed


def commands(text: str) -> None:
    """Run the lines that begin with `tokenfield`; check that `make` and `pip install` name what exists."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["tokenfield"]:
            assert unknown(words) == [], line
            with pytest.raises(SystemExit) as end, servers_that_stop():
                main(cheaper(words[1:]))
            assert not end.value.code, line
        elif words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), line
        elif words[:2] == ["pip", "install"]:
            assert wrong_installs(line) == []


def inline(text: str) -> list[list[str]]:
    """The words of the commands `tokenfield ...` in running text and in tables."""
    return [shlex.split(each) for each in re.findall(r"(?<!`)`(tokenfield [^`]+)`(?!`)", text)]


def unknown(words: list[str]) -> list[str]:
    """The words of a command that `tokenfield` does not know: a command, or flags."""
    command = typer.main.get_command(app)
    for word in words[1:3]:
        inner = getattr(command, "commands", None)
        if inner and not word.startswith("-"):
            if word not in inner:
                return [word]
            command = inner[word]
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help"}
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in flags]


@contextlib.contextmanager
def servers_that_stop() -> Iterator[None]:
    """Servers of the live page end as soon as they have started, and compile nothing."""
    if find_spec("uvicorn") is None:
        yield
        return
    import uvicorn

    start = uvicorn.Server.startup

    async def start_and_stop(server, sockets=None):
        await start(server, sockets)
        assert server.started
        server.should_exit = True

    with (
        mock.patch.object(uvicorn.Server, "startup", start_and_stop),
        mock.patch("tokenfield.explorer.serve._compile"),
    ):
        yield


def wrong_installs(text: str) -> list[str]:
    """Commands `pip install` that do not install this clone as editable, with no extra or one that exists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = "|".join(settings["project"]["optional-dependencies"])
    found = re.findall(r"pip install (?!--)[^`#\n]+", text)
    return [each for each in found if not re.match(rf'pip install -e (\.|"\.\[({extras})\]")(\s|$|\'| in )', each)]


def cheaper(words: list[str]) -> list[str]:
    """The same command, which takes seconds: small models, plans that are only checked, no windows of a browser."""
    command, text = words[0], " ".join(words)
    if command == "simulate":
        return [*words, "--no-animation"]
    if command == "phase-diagram":
        return [*words, "--runs", "0", "--points", "5"]
    if command == "explore" and "--export" not in words:
        if "runs/first" in words and not Path("runs/first").exists():
            commands("tokenfield simulate --n 8 --t1 1 --out runs/first")
        if "run.toml" in words:
            Path("run.toml").write_text("t1 = 1.0\n[tokens]\nn = 8\nd = 3\n", encoding="utf-8")
        return [*words, "--port", "0", "--no-browser"] if find_spec("uvicorn") else ["explore", "--help"]
    if words[:2] == ["sweep", "run"] and words[2].endswith(".toml"):
        return [*words, "--workers", "0"]
    if words[:2] == ["sweep", "run"] and words[2] in PLANS and "--dry-run" not in words:
        few = "--dry-run", "--set", "axes.d=[8]", "--set", "axes.beta=[1.0, 2.0]"
        return [*re.sub(r"--scheduler \S+", "", text).split(), *few]
    if command == "probe":
        Path(words[words.index("--text") + 1]).write_text(english_text()[:400], encoding="utf-8")
        return [*text.replace("path/to/model", str(model_path("minilm"))).split(), "--overwrite"]
    return words


def expected(path: Path) -> dict[int, str]:
    """What the `python` block at each line prints, according to the page."""
    found = blocks(path.read_text(encoding="utf-8"))
    pairs = zip(found, [*found[1:], Block("", "", 0)], strict=True)
    return {
        block.line: after.text if after.kind == "output" else "" for block, after in pairs if block.kind == "python"
    }
