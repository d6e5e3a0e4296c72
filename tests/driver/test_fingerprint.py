"""A checkpoint belongs to what a run computes: to the numbers and the functions in it, not to their names."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import FREE, KERNELS, RULES, tokens

import tokenfield as tkf
from tokenfield.attention import AbstractPairwise
from tokenfield.driver.checkpoint import CheckpointError
from tokenfield.driver.fingerprint import Program, fingerprint
from tokenfield.driver.smooth import right_hand_side
from tokenfield.flows import segments

SIZE = 4


class Rate:
    def __init__(self, c):
        self.c = c

    def at(self, t):
        return self.c * t

    __call__ = at


class Module(eqx.Module):
    c: jax.Array

    def __call__(self, t):
        return self.c * t


def closure(c):
    return lambda t: c * t


def array_in_closure(c):
    weights = np.full((SIZE, SIZE), 0.5)
    weights[-1, 0] = c
    return lambda t: (weights * t).sum()


def default_argument(c):
    def f(t, c=c):
        return c * t

    return f


def global_variable(c):
    return eval("lambda t: c * t", {"c": c})


def in_a_table(c):
    table = {"c": [c]}
    return lambda t: table["c"][0] * t


def partial(c):
    return functools.partial(lambda c, t: c * t, c)


def jitted(c):
    return jax.jit(lambda t: c * t)


def deep_inside(c):
    def body(k, s):
        return jax.lax.cond(s < 1e300, lambda s: s + c, lambda s: s, s)

    return lambda t: jax.lax.fori_loop(0, 3, body, t)


def with_its_own_derivative(c):
    f = jax.custom_jvp(lambda t: c * t)
    f.defjvp(lambda primals, tangents: (f(*primals), c * tangents[0]))
    return f


def of_a_random_key(c):
    return lambda t: c * jax.random.normal(jax.random.key(0)) * t


MAKERS = [
    closure,
    array_in_closure,
    default_argument,
    global_variable,
    in_a_table,
    lambda c: Rate(c).at,
    Rate,
    lambda c: Module(jnp.asarray(c)),
    partial,
    jitted,
    deep_inside,
    with_its_own_derivative,
    of_a_random_key,
]


def identity(function):
    return fingerprint(programs=[Program("A", lambda f, t: f(t), (function, jnp.zeros(())))]) + fingerprint(
        function if isinstance(function, eqx.Module) else None
    )


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: getattr(make, "__name__", "?"))
def test_functions_are_told_apart_by_what_they_compute(make):
    rng = np.random.default_rng(0)
    for c in rng.uniform(-3, 3, 5):
        other = rng.choice([np.nextafter(c, 9), -c, c + 1e-3])
        assert identity(make(c)) == identity(make(c))
        assert identity(make(c)) != identity(make(other))


def test_names_play_no_part():
    def first(t):
        return 2.0 * t

    def second(time):
        return 2.0 * time

    assert identity(first) == identity(second) == identity(lambda t: 2.0 * t)
    assert identity(jax.jit(first)) == identity(jax.jit(second))
    assert identity(first) != identity(lambda t: t * 2.0)
    assert identity(jnp.sin) != identity(jnp.cos)


def test_code_that_jax_does_not_see_is_refused():
    def called_back(t):
        return jax.pure_callback(lambda t: np.sin(t), jax.ShapeDtypeStruct((), float), t)

    def printed(t):
        jax.debug.print("t = {}", t)
        return 2.0 * t

    with pytest.raises(
        ValueError, match=r"^checkpoint: the A of this run cannot be fingerprinted, .*\(pure_callback\)"
    ):
        identity(called_back)
    assert identity(printed) == identity(lambda t: 2.0 * t)


def score(power):
    class Own(AbstractPairwise):
        """A user's kernel: in every edition of the script it has the same name."""

        def phi(self, s):
            return (1 + s) ** power

    return Own


TOKENS = tkf.uniform_sphere(SIZE, 3, seed=0)
PAIR = tkf.Softmax(2.0)


def simulated(model, **options):
    return lambda **kept: tkf.simulate(model, TOKENS, 0.1, save_at=2, **options, **kept)


def turned(c):
    return lambda t: jnp.eye(3) + c * t


def noisy(c):
    noise = tkf.MultiplicativeNoise(4.0, lambda x: 1 + c * x[0])
    return simulated(tkf.Transformer(PAIR, tkf.PostLN(), noise=noise), seed=0, dt=0.02)


def cut(c):
    return simulated(tkf.Transformer(PAIR, tkf.PostLN()), stop_when=lambda state: state.x[0, 0] > c)


RUNS = {
    "A": lambda c: simulated(tkf.Transformer(tkf.Softmax(A=turned(c)), tkf.PostLN())),
    "V": lambda c: simulated(tkf.Transformer(tkf.Softmax(V=turned(c)))),
    "alpha": lambda c: simulated(tkf.Transformer(PAIR, tkf.NGPT(lambda t: 1 + c * t))),
    "stop_when": cut,
    "g": noisy,
    "kernel": lambda c: simulated(tkf.Transformer(score(c)(beta=0.5), tkf.PostLN())),
    "layers": lambda c: (
        lambda **kept: tkf.layers(tkf.Transformer(tkf.Softmax(A=turned(c)), tkf.PostLN()), TOKENS, 2, **kept)
    ),
}


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("place", RUNS)
def test_no_run_goes_on_from_the_checkpoint_of_another(place, tmp_path):
    path = tmp_path / "run.npz"
    first = RUNS[place](2.0)(checkpoint=path)
    again = RUNS[place](2.0)(checkpoint=path)  # from the same code, made anew
    np.testing.assert_array_equal(again.dataset["x"], first.dataset["x"])
    with pytest.raises(CheckpointError, match="belongs to another run"):
        RUNS[place](3.0)(checkpoint=path)


def test_a_fingerprint_is_the_same_in_every_process():
    here = [identity(make(0.3)) for make in MAKERS]
    code = "import test_fingerprint as t\nfor make in t.MAKERS: print(t.identity(make(0.3)))"
    folder = Path(__file__).parent
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": f"{folder}:{folder.parent}:{folder.parents[1]}"},
    )
    assert found.stdout.split() == here


@pytest.mark.parametrize(("kernel", "rule"), [(kernel, "post") for kernel in KERNELS] + [("softmax", r) for r in RULES])
def test_every_model_has_a_fingerprint(kernel, rule):
    """None of ours calls back into Python; each has its own, the same whenever it is made."""

    def of(score):
        state = tokens(4, unit=rule not in FREE)
        model = tkf.Transformer(KERNELS[kernel].fast(score=score), RULES[rule])
        flows = [segment.flow for segment in segments(state, model)]
        return fingerprint(
            model,
            programs=[Program("model", right_hand_side, (flow, jnp.zeros(()), flow.pack(state))) for flow in flows],
        )

    constant = lambda M: M  # noqa: E731
    assert of(constant) == of(constant)
    if kernel not in ("multi-head", "sinkhorn"):
        growing = lambda c: lambda M: lambda t: M + c * t  # noqa: E731
        assert len({of(constant), of(growing(1.0)), of(growing(2.0))}) == 3
