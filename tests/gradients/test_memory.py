"""Reverse mode does not keep every step: 200 steps of n = 1000, d = 16 within 1 GB, in a process of their own.

A tape of all steps would hold an n x n matrix of 8 MB for each evaluation of the right-hand side: 1.6 GB for Euler's method,
about 10 GB for the default one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="the largest resident size can be reset on Linux only")
def test_reverse_mode_within_a_gigabyte():
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}  # compiled as users do
    program = Path(__file__).with_name("reverse_memory.py")
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["steps"] >= 200
    assert found["finite"]
    assert found["megabytes"] < 1000
    assert found["planned by default"] < 1000
    assert abs(found["megabytes"] - found["planned"]) < 50  # the plan is what a run takes
