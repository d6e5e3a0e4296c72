"""What each workaround for XLA gains: the time of a case without it over the time with it, each in a process of its own.

`python -m benchmarks.workarounds NAME [without]` is such a process: it runs the case once for every line that it reads.
"""

import contextlib
import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tokenfield import _xla

from .timing import against

ROOT = Path(__file__).parent.parent
Call = Callable[[], object]


class Case(NamedTuple):
    """Something that a workaround makes faster.

    Attributes:
        what: the title of the case.
        make: imports what it needs, and returns the call to time.
        without: switches the workaround off, before `make`.
        begin: switches it on, if that is not the default.
    """

    what: str
    make: Callable[[], Call]
    without: Callable[[], object] = lambda: None
    begin: Callable[[], object] = lambda: None


def off(module: str) -> Callable[[], None]:
    """Switch off the workarounds of a module, as on other backends."""
    return lambda: setattr(importlib.import_module(module), "on_cpu", lambda: False)


def velocity(attention: str, n: int, d: int) -> Callable[[], Call]:
    def make() -> Call:
        import equinox as eqx
        import jax
        import jax.numpy as jnp

        import tokenfield as tkf
        from tokenfield.flows import segments

        state = tkf.uniform_sphere(n, d, seed=0)
        (segment,) = segments(state, tkf.Transformer(getattr(tkf, attention)(1.0), norm=tkf.PostLN()))
        y, compiled = segment.flow.pack(state), eqx.filter_jit(segment.flow.velocity)
        return lambda: jax.block_until_ready(compiled(jnp.zeros(()), y))

    return make


def run(t1: float, n: int, d: int, beta: float, fresh: bool = False, attention: str = "Softmax") -> Callable[[], Call]:
    """A run of `simulate`; with `fresh`, everything is compiled in every call."""

    def make() -> Call:
        import jax

        import tokenfield as tkf

        kernel = getattr(tkf, attention)(beta)
        state, model = tkf.uniform_sphere(n, d, seed=0), tkf.Transformer(kernel, norm=tkf.PostLN())

        def call() -> None:
            if fresh:
                jax.clear_caches()
            tkf.simulate(model, state, t1, save_at=2, progress=False)

        return call

    return make


def noisy(attention: str) -> Callable[[], Call]:
    def make() -> Call:
        import tokenfield as tkf

        from . import noise

        model = tkf.Transformer(getattr(tkf, attention)(1.0), norm=tkf.PostLN(), noise=tkf.SphereNoise(noise.KAPPA))
        start = tkf.uniform_sphere(noise.N, noise.D, seed=0)
        return lambda: noise.by_us(model, start, "euler", 1)

    return make


def members(d: int = 8) -> Call:
    """256 members of `figure3`."""
    import numpy as np

    import tokenfield as tkf
    from tokenfield.driver.observed import observe_many

    states = [tkf.uniform_sphere(32, d, seed=seed) for seed in range(256)]
    models = [tkf.Transformer(tkf.Softmax(beta), norm=tkf.PostLN()) for beta in np.linspace(0.1, 9.0, 256)]
    options = {"save_at": np.linspace(0, 30, 61), "rtol": 0.0075, "atol": 0.0075, "method": "bosh3", "width": 16}
    return lambda: observe_many(models, states, 30.0, tkf.order_parameter, **options)


def lipschitz_constant() -> Call:
    from . import lipschitz

    x, A, V = lipschitz.problem(1000)
    return lambda: lipschitz.by_us(x, A, V, 1e-2)


def new_shapes() -> Call:
    import itertools

    import jax
    import numpy as np

    from tokenfield._xla import arrays

    sizes = itertools.count(1)
    return lambda: [jax.block_until_ready(arrays.from_numpy(np.zeros(next(sizes)))) for _ in range(20)]


def plain_asarray() -> None:
    import jax.numpy as jnp

    from tokenfield._xla import arrays

    arrays.from_numpy = jnp.asarray


CASES = {
    "WIDE_VECTORS": Case(
        "run to T = 20 (256, 3), USA",
        run(20.0, 256, 3, 3.0, attention="Unnormalized"),
        _xla.WIDE_VECTORS.clear,
    ),
    "ONE_THREAD": Case("256 members (32, 8)", members, _xla.ONE_THREAD.clear),
    "LITTLE_OPTIMIZATION": Case("first run (32, 3)", run(1.0, 32, 3, 4.0, fresh=True), _xla.LITTLE_OPTIMIZATION.clear),
    "compile_quickly": Case("first run (32, 3)", run(1.0, 32, 3, 4.0, fresh=True), begin=_xla.compile_quickly),
    "one_thread_process": Case(
        "256 members (32, 8)", members, begin=lambda: os.environ.update(_xla.one_thread_process())
    ),
    "materialize": Case("local Lipschitz constant (1000, 64)", lipschitz_constant, off("tokenfield._xla.arrays")),
    "normal": Case("noisy tokens (256, 3)", noisy("Softmax"), off("tokenfield._xla.arrays")),
    "transposed_product": Case("velocity (1000, 3)", velocity("Linear", 1000, 3), off("tokenfield._xla.arrays")),
    "from_numpy": Case("20 arrays of new shapes", new_shapes, plain_asarray),
    "exp2": Case("velocity (4096, 3)", velocity("Softmax", 4096, 3), off("tokenfield._xla.exponential")),
    "exp": Case("noisy tokens (256, 3)", noisy("Unnormalized"), off("tokenfield._xla.exponential")),
    "Unrolled": Case("256 members (32, 32)", functools.partial(members, 32), off("tokenfield.solver.methods")),
}


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, time without the workaround over time with it)."""
    for name, case in CASES.items():
        with process(name) as ours, process(name, "without") as without:
            yield f"{case.what}, {name}", against(ours, {"without": without}, least=3)


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[Call]:
    """A process for one case: each call runs it once."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    command = [sys.executable, "-m", "benchmarks.workarounds", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None

        def call() -> None:
            running.stdin.write("\n")
            running.stdin.flush()
            if not running.stdout.readline():
                raise RuntimeError(f"{' '.join(command)} has ended")

        yield call
        running.stdin.close()


def main(name: str, without: bool) -> None:
    case = CASES[name]
    (case.without if without else case.begin)()
    call = case.make()
    for _ in sys.stdin:
        call()
        print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1], "without" in sys.argv[2:])
