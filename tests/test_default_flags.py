"""The core contracts in programs compiled as users compile them: with XLA's default flags, in a process of their own.

All other tests let XLA optimize little (see conftest.py), which changes the last bits and leaves out whole passes of the compiler.
"""

import os
import subprocess
import sys
from pathlib import Path

from cases import RULES

ROOT = Path(__file__).parent.parent
CONTRACTS = {
    "kernels": "tests/attention/test_kernels.py::test_agrees_with_naive_loops",
    "exponentials": "tests/attention/test_kernels.py::test_fast_exponential_is_right_to_rounding",
    "scores that are rounded twice": "tests/attention/test_extremes.py::test_tokens_far_apart_on_a_line",
    "speeds": "tests/normalization/test_norms.py::test_speed_and_growth_make_the_velocity",
    **{
        norm: f"tests/normalization/test_norms.py::test_velocity_agrees_with_naive_loops[softmax-{norm}]"
        for norm in RULES
    },
    "a run": "tests/flows/test_token_flows.py::test_usa_of_two_tokens_at_beta_zero_is_tanh",
    "bits of a run in chunks": "tests/driver/test_run_resume.py::test_chunks_do_not_change_a_bit",
    "gradients in both modes": "tests/gradients/test_densities.py::test_kuramoto_from_a_poisson_kernel",
}


def test_core_contracts_with_the_flags_of_users():
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    command = [sys.executable, "-m", "pytest", "--all", "-n", "0", "--tb", "short", "-rA", *CONTRACTS.values()]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    passed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("PASSED")]
    for contract, test in CONTRACTS.items():
        assert any(name.startswith(test) for name in passed), contract
    assert "skipped" not in done.stdout.splitlines()[-1]
