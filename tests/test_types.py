"""What a type checker says to a user."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GOOD = """
import jax.numpy as jnp, numpy as np, tokenfield as tkf
tkf.Softmax(9), tkf.Softmax(A=[[0.0, 1.0], [-1.0, 0.0]], V=-1.0), tkf.L2(Q=np.eye(2), K=lambda t: jnp.cos(t) * jnp.eye(2))
tkf.Transformer(tkf.Unnormalized(np.float64(2.0)), norm=tkf.MixLN(2), noise=None)
tkf.simulate(tkf.Transformer(tkf.Softmax(4.0), tkf.PostLN(gain=[1.0, 2.0])), tkf.Tokens([[1.0, 0.0]]), t1=1)
"""
BAD = """
import tokenfield as tkf
tkf.Softmax(beta="warm")
tkf.Hardmax(A="identity")
tkf.Tokens(x=object())
tkf.PostLN(gain={"a": 1})
tkf.MixLN("a")
tkf.simulate(tkf.Softmax(4.0), tkf.uniform_sphere(3, 2), t1=1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "lines"), [(GOOD, []), (BAD, [3, 4, 5, 6, 7, 8])], ids=["good", "bad"])
def test_the_type_checker_knows_what_constructors_take(code, lines, tmp_path):
    from mypy import api

    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    (tmp_path / "user.py").write_text(code)
    out, problem, _ = api.run([*config, str(tmp_path / "user.py")])
    assert not problem
    assert [int(line) for line in re.findall(r"user.py:(\d+): error", out)] == lines, out
