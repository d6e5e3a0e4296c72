"""Workarounds for the compiler: all in one place, switched off on other backends, and measured with the JAX we test with."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.workarounds import CASES
from tokenfield import _xla
from tokenfield._xla.arrays import from_numpy, materialize, normal, transposed_product
from tokenfield._xla.compilation import compiled
from tokenfield._xla.exponential import exp, exp2
from tokenfield.solver.methods import runge_kutta, with_unrolled_stages
from tokenfield.solver.stages import Unrolled

ROOT = Path(__file__).parents[1]
NEVER = jnp.zeros(()) > 1
X = jnp.linspace(-700.0, 1.0, 99)
RTOL = 1022 * np.finfo(float).eps  # XLA computes 2^t as e^{t ln 2}, whose argument is rounded


@pytest.mark.parametrize("each", _xla.WORKAROUNDS, ids=lambda each: each.name)
def test_each_says_where_it_is_and_when_it_can_go(each):
    module, _, name = each.name.partition(":")
    assert hasattr(importlib.import_module(module), name)
    assert each.reason
    assert re.search(r"\d", each.gain), "a gain is a measured number"
    file, _, test = each.shown_by.partition("::")
    assert each.shown_by in CASES or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
    pinned = re.search(r"^jax==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert each.jax == pinned, "JAX has changed: run the benchmark with and without it, and see whether it can go"


def test_every_line_of_the_benchmark_is_that_of_a_workaround():
    assert set(CASES) <= {each.shown_by for each in _xla.WORKAROUNDS}


def test_options_of_the_compiler_are_nowhere_else():
    paths = (ROOT / "tokenfield").rglob("*.py")
    word = r"\bxla_(cpu|backend|gpu)_|\bcompiler_options\b"
    assert {path.parent.name for path in paths if re.search(word, path.read_text("utf-8"))} == {"_xla"}


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


def has_primitive(primitive, function, *arguments):
    return lambda patch: primitive in primitives(function, *arguments)


def has_options(options):
    """Whether a program is compiled with these options."""

    def on(patch):
        seen = []
        patch.setattr(eqx, "filter_jit", lambda function, compiler_options: seen.append(compiler_options) or function)
        compiled(lambda: None, options)()
        assert seen in ([options], [None])
        return seen == [options]

    return on


def quick(patch):
    patch.delenv("XLA_FLAGS", raising=False)
    _xla.compile_quickly()
    return "XLA_FLAGS" in os.environ


ON = {
    "WIDE_VECTORS": has_options(_xla.WIDE_VECTORS),
    "ONE_THREAD": has_options(_xla.ONE_THREAD),
    "LITTLE_OPTIMIZATION": has_options(_xla.LITTLE_OPTIMIZATION),
    "compile_quickly": quick,
    "one_thread_process": lambda patch: _xla.one_thread_process() == {"NPROC": "1"},
    "materialize": has_primitive("cond", lambda x: materialize(x, NEVER), X),
    "normal": has_primitive("cond", lambda key: normal(key, (3, 2), float, NEVER), jax.random.key(0)),
    "transposed_product": has_primitive("pad", transposed_product, jnp.ones((3, 2)), jnp.ones((3, 3))),
    "exp2": has_primitive("bitcast_convert_type", exp2, X),
    "exp": has_primitive("bitcast_convert_type", exp, X),
    "Unrolled": lambda patch: isinstance(with_unrolled_stages(runge_kutta("tsit5")).stages, Unrolled),
}


@pytest.mark.parametrize("name", [each.name.partition(":")[2] for each in _xla.WORKAROUNDS if each.backend == "cpu"])
def test_other_backends_do_without(name, monkeypatch):
    """Whether JAX is installed for another backend is asked before it starts, and which one there is while it traces."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert ON[name](monkeypatch)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not ON[name](monkeypatch)
    jax.clear_caches()


@pytest.mark.parametrize(
    "function",
    [
        exp2,
        exp,
        lambda x: materialize(x, NEVER),
        lambda x: normal(jax.random.key(0), (99,), float, NEVER) + x,
        lambda x: transposed_product(x.reshape(33, 3), jnp.diag(x[:33])),
    ],
    ids=["exp2", "exp", "materialize", "normal", "transposed_product"],
)
def test_other_backends_compute_the_same(function, monkeypatch):
    here = np.asarray(function(X))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    jax.clear_caches()
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
