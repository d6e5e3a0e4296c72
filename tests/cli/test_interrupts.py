"""Ctrl-C ends every command within three seconds, also while a compiled program computes or is compiled."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")
LIMIT = 3.0

# What runs long inside of one compiled program, and the line on standard error after which it does.
LONG = ["--n", "150000", "--d", "32"]
COMMANDS = {
    "simulate": (["simulate", *LONG, "--save-at", "3", "--json"], "a step with n = 150000"),
    "layers": (["simulate", *LONG, "--depth", "2", "--json"], "a layer with n = 150000"),
    "lipschitz": (["lipschitz", "--n", "50000", "--d", "64", "--json"], "a product with the derivative at n = 50000"),
    "sweep": (["sweep", "run", "PLAN", "--out", "OUT", "--workers", "0"], "a layer with n = 150000"),
    "atlas": (["atlas", "--quick", "--out", "OUT", "--jobs", "1"], None),
}
PLAN = """
axes.beta = [1.0, 2.0]
record.r = "order_parameter"
[run]
depth = 2
tokens = { n = 150000, d = 32 }
"""


def end(process, group=False):
    """Seconds from Ctrl-C to the end, and what was said."""
    begun = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    return time.monotonic() - begun, said


def start(command):
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_during_a_long_program(name, tmp_path):
    flags, line = COMMANDS[name]
    (tmp_path / "plan.toml").write_text(PLAN)
    places = {"PLAN": str(tmp_path / "plan.toml"), "OUT": str(tmp_path / "out")}
    process = start([sys.executable, "-m", "tokenfield", *(places.get(flag, flag) for flag in flags)])
    while line is not None:
        read = process.stderr.readline()
        assert read, "the command ended before it was interrupted"
        if line in read:
            break
    time.sleep(2 if line else 6)
    assert process.poll() is None
    seconds, said = end(process, group=True)  # as a terminal does
    assert process.returncode == 130, said
    assert seconds < LIMIT, said
    assert said.splitlines()[-1].startswith("tokenfield: interrupted"), said
    assert "Traceback" not in said


BLOCKED = """
import hashlib, sys, time
from pathlib import Path
from tokenfield.cli.interrupts import resumable_from, listen

listen()
checkpoint = Path(sys.argv[1])
with resumable_from(checkpoint):
    print("begun", file=sys.stderr, flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000_000)  # holds no lock and answers no signal, as a compiler does
"""


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_code_that_answers_no_signal_is_ended(kept, tmp_path):
    if kept:
        (tmp_path / "run.npz").touch()
    process = start([sys.executable, "-c", BLOCKED, str(tmp_path / "run.npz")])
    assert process.stderr.readline() == "begun\n"
    time.sleep(1)  # until the blocking call has begun: before it, Python raises KeyboardInterrupt
    seconds, said = end(process)
    assert process.returncode == 130
    assert seconds < LIMIT
    hint = f"; saved in {tmp_path / 'run.npz'}: run the same command again to continue" if kept else ""
    assert said == f"tokenfield: interrupted{hint}\n"


PYTHON = """
import sys, time
from tokenfield.cli.interrupts import listen

listen()
try:
    print("begun", file=sys.stderr, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(3)  # to keep what was done
    print("kept", file=sys.stderr)
    sys.exit(130)
"""


@pytest.mark.slow
def test_code_that_answers_may_take_its_time():
    process = start([sys.executable, "-c", PYTHON])
    assert process.stderr.readline() == "begun\n"
    assert end(process)[1] == "kept\n"
    assert process.returncode == 130
