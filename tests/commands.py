"""`tokenfield` as a separate process, and what every command promises."""

import re
import subprocess
import sys
from typing import NamedTuple

import pytest

from tokenfield.cli import main


def tokenfield(*arguments, cwd=None, **options):
    command = [sys.executable, "-m", "tokenfield", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, **options)


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def tokenfield_here(capsys, *arguments) -> Ended:
    """The command in this process, which spares it the start."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return Ended(end.value.code, *capsys.readouterr())


def assert_one_line_error(result, message):
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr


def linked_files(folder) -> set[str]:
    """The files that the report in a folder links, which must exist."""
    page = re.sub(r"<script.*?</script>", "", (folder / "report.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    files = {each for each in re.findall(r'<a href="([^"#]*)"', page) if "://" not in each}
    missing = {each for each in files if not (folder / each).exists()}
    assert not missing
    return files


def assert_help_without_jax(arguments, word):
    code = f"""
import sys
sys.argv = ["tokenfield", *{list(arguments)!r}, "--help"]
from tokenfield.cli import main
try:
    main()
except SystemExit:
    pass
assert not {{"jax", "numpy"}} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert word in result.stdout
