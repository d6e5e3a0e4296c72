"""`tokenfield` as a separate process, and what every command promises."""

import subprocess
import sys


def tokenfield(*arguments, cwd=None, **options):
    command = [sys.executable, "-m", "tokenfield", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, **options)


def assert_one_line_error(result, message):
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr


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
