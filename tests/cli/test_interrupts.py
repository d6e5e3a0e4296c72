"""Ctrl-C ends every command within three seconds, also while a compiled program computes or is compiled."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows sends no signal to one process")
LIMIT = 3.0

# What takes long, and when it does: after the line that says so, or so many seconds after the start.
LONG = ["--n", "150000", "--d", "32"]
COMMANDS = {
    "simulate": (["simulate", *LONG, "--save-at", "3", "--json"], "a step with n = 150000"),
    "layers": (["simulate", *LONG, "--depth", "2", "--json"], "a layer with n = 150000"),
    "lipschitz": (["lipschitz", "--n", "50000", "--d", "64", "--json"], "a product with the derivative at n = 50000"),
    "sweep": (["sweep", "run", "PLAN", "--out", "OUT", "--workers", "0"], "a layer with n = 150000"),
    "sweep in workers": (["sweep", "run", "PLAN", "--out", "OUT", "--workers", "2"], 8),
    "atlas": (["atlas", "--quick", "--out", "OUT", "--jobs", "1"], 8),
    "atlas in two jobs": (["atlas", "--quick", "--out", "OUT", "--jobs", "2"], 8),
    "probe": (["probe", "MODEL", "--text", "TEXT", "--full", "--out", "OUT"], 15),
    "norms": (["norms", "--out", "OUT"], 6),
    "phase-diagram": (["phase-diagram", "--runs", "5", "--out", "OUT"], 6),
    "phase-diagram, lines": (["phase-diagram", "--points", "2000", "--runs", "0", "--json"], 4),
    "predict": (["predict", "--A", "MATRIX", "--json"], 3),
    "explore": (["explore", "--no-browser", "--port", "0"], "open http://"),
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
    said, _ = process.communicate(timeout=60)
    return time.monotonic() - begun, said


def real_model():
    """The folder of SmolLM2, or a skipped test that says how to get it."""
    pytest.importorskip("transformers", reason='pip install -e ".[models]"')
    from tokenfield.probe.packages import model_path

    try:
        return model_path("smollm2")
    except ValueError as error:
        pytest.skip(str(error))


def start(command):
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_during_a_long_program(name, tmp_path):
    flags, when = COMMANDS[name]
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "text.txt").write_text("The tokens of a deep Transformer form clusters. " * 400)
    places = {"PLAN": tmp_path / "plan.toml", "OUT": tmp_path / "out", "TEXT": tmp_path / "text.txt"}
    if "MATRIX" in flags:
        places["MATRIX"] = tmp_path / "A.npy"
        np.save(places["MATRIX"], np.random.default_rng(0).standard_normal((3000, 3000)))
    if "MODEL" in flags:
        places["MODEL"] = real_model()
    process = start([sys.executable, "-m", "tokenfield", *(str(places.get(flag, flag)) for flag in flags)])
    if isinstance(when, str):
        while when not in (read := process.stdout.readline()):
            assert read, "the command ended before it was interrupted"
    time.sleep(2 if isinstance(when, str) else when)
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
    assert process.stdout.readline() == "begun\n"
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
    assert process.stdout.readline() == "begun\n"
    assert end(process)[1] == "kept\n"
    assert process.returncode == 130
