"""Workarounds for the compiler: all in one place, switched off on other backends, and measured with the JAX we test with."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenfield import _xla
from tokenfield._xla.arrays import from_numpy, materialize
from tokenfield._xla.exponential import exp, exp2

ROOT = Path(__file__).parents[1]
NEVER = jnp.zeros(()) > 1
NOT_RUNS = ("tokenfield._xla:COMPILE_QUICKLY", "tokenfield._xla.arrays:from_numpy")  # they make tests and starts faster
X = jnp.linspace(-700.0, 1.0, 99)
RTOL = 1022 * np.finfo(float).eps  # XLA computes 2^t as e^{t ln 2}, whose argument is rounded


@pytest.mark.parametrize("each", _xla.WORKAROUNDS, ids=lambda each: each.name)
def test_each_says_where_it_is_and_when_it_can_go(each):
    module, _, name = each.name.partition(":")
    assert hasattr(importlib.import_module(module), name)
    assert each.reason
    assert re.search(r"\d", each.gain), "a gain is a measured number"
    lines = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py"))
    assert each.benchmark or each.name in NOT_RUNS
    assert not each.benchmark or re.search(f"[\"']{re.escape(each.benchmark)}", lines)
    pinned = re.search(r"^jax==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert each.jax == pinned, "JAX has changed: run the benchmark with and without it, and see whether it can go"


def test_options_of_the_compiler_are_nowhere_else():
    paths = (ROOT / "tokenfield").rglob("*.py")
    found = {path.parent.name for path in paths if re.search(r"\bxla_(cpu|backend|gpu)_", path.read_text("utf-8"))}
    assert found == {"_xla"}


def test_nothing_private_of_jax_is_used_but_in_one_place():
    paths = [
        *(ROOT / "tokenfield").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.py"),
    ]
    word = "jax." + "_src"
    assert [path.name for path in paths if word in path.read_text("utf-8")] == ["_jax.py"]


def primitives(function, *arguments):
    """The names of the primitives that a function is traced to, in branches and inner functions too."""
    jax.clear_caches()  # what was traced for another backend
    return set(re.findall(r"= (\w+)", str(jax.make_jaxpr(function)(*arguments))))


@pytest.mark.parametrize(
    ("function", "primitive"),
    [
        (lambda x: materialize(x, NEVER), "cond"),
        (exp2, "bitcast_convert_type"),
        (exp, "bitcast_convert_type"),
    ],
    ids=["materialize", "exp2", "exp"],
)
def test_other_backends_do_without(function, primitive, monkeypatch):
    here = np.asarray(function(X))
    assert primitive in primitives(function, X)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert primitive not in primitives(function, X)
    np.testing.assert_allclose(np.asarray(function(X)), here, rtol=RTOL)
    jax.clear_caches()


def test_both_exponentials_are_clipped_alike_elsewhere(monkeypatch):
    far = jnp.asarray([-np.inf, -1e4, 710.0, np.inf])
    here = np.asarray(exp(far)), np.asarray(exp2(far[:2]))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()
    np.testing.assert_allclose(np.asarray(exp(far)), here[0], rtol=RTOL)
    np.testing.assert_allclose(np.asarray(exp2(far[:2])), here[1], rtol=RTOL)
    jax.clear_caches()


def test_arrays_keep_their_type_and_values():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = from_numpy(array)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("platforms", "plugins", "quick"),
    [(None, False, True), ("cpu", True, True), (None, True, False), ("cuda", True, False), ("cuda,cpu", False, False)],
)
def test_programs_are_compiled_quickly_on_cpus_only(platforms, plugins, quick, monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    if platforms is not None:
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.setattr(_xla, "_plugins", lambda: plugins)
    _xla.compile_quickly()
    assert (os.environ.get("XLA_FLAGS") == _xla.COMPILE_QUICKLY) == quick
    monkeypatch.setenv("XLA_FLAGS", "mine")
    _xla.compile_quickly()
    assert os.environ["XLA_FLAGS"] == "mine"


def test_importing_them_imports_no_jax():
    code = "import sys, tokenfield._xla, tokenfield.cli.atlas_command; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
