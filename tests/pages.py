"""Pages of the documentation as programs: what they show is run, in order, in one folder.

- A `python` block is run; all blocks of a page share their names. An `output` block after it is what it prints.
- A block that begins with a comment such as `# powers.py` or `# plan.toml` is written to that file too.
- Lines of a `sh` block that begin with `tokenfield` are run: in this process, without workers and animations, and with fewer
  points where they would take minutes. What `make` and `pip install` name must exist.
"""

import contextlib
import io
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

import matplotlib
import pytest

from tokenfield.cli import main
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
            with pytest.raises(SystemExit) as end:
                main(cheaper(words[1:]))
            assert not end.value.code, line
        elif words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), line
        elif words[:2] == ["pip", "install"]:
            assert wrong_installs(line) == []


def wrong_installs(text: str) -> list[str]:
    """Commands `pip install` that do not install this clone as editable, with no extra or one that exists."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = "|".join(settings["project"]["optional-dependencies"])
    found = re.findall(r"pip install (?!--)[^`#\n]+", text)
    return [each for each in found if not re.match(rf'pip install -e (\.|"\.\[({extras})\]")(\s|$|\'| in )', each)]


def cheaper(words: list[str]) -> list[str]:
    """The same command, which takes seconds and ends by itself: small models, plans that are only checked, no servers."""
    command, text = words[0], " ".join(words)
    if command == "simulate":
        return [*words, "--no-animation"]
    if command == "phase-diagram":
        return [*words, "--runs", "0", "--points", "5"]
    if command == "explore" and "--export" not in words:
        return ["explore", "--help"]
    if words[:2] == ["sweep", "run"] and words[2].endswith(".toml"):
        return [*words, "--workers", "0"]
    if words[:2] == ["sweep", "run"] and words[2] in PLANS and "--dry-run" not in words:
        return [*re.sub(r"--scheduler \S+", "", text).split(), "--dry-run"]
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
