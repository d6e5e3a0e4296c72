"""A velocity by the kernel's series, beside the direct sum of all pairs extrapolated from 4096 tokens."""

from collections.abc import Callable, Iterator
from time import perf_counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tokenfield as tkf
from tokenfield.attention.series import SeriesSum, by_series

FEW, BETA = 4096, 9.0
CASES = {"circle, n = 1,000,000": (1_000_000, 2), "sphere, n = 100,000": (100_000, 3)}


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs, after one that compiles."""
    jax.block_until_ready(function())
    times = []
    for _ in range(repeats):
        begun = perf_counter()
        jax.block_until_ready(function())
        times.append(perf_counter() - begun)
    return min(times)


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, time of the direct sum over ours); both are checked to agree on 4096 tokens."""
    head = tkf.Softmax(BETA)
    for case, (n, d) in CASES.items():
        quick = by_series(head, np.zeros((n, d)), np.full(n, 1 / n), 1e-6)
        assert isinstance(quick, SeriesSum)
        many, few = (tkf.uniform_sphere(count, d, seed=0) for count in (n, FEW))
        call = eqx.filter_jit(lambda attention, mu: attention.of_itself(jnp.zeros(()), mu, True))
        assert np.allclose(call(quick, few), call(head, few), rtol=0, atol=1e-12)
        ours = seconds(lambda call=call, quick=quick, many=many: call(quick, many), 5)
        direct = seconds(lambda call=call, few=few: call(head, few), 20) * (n / FEW) ** 2
        yield f"velocity by series, {case}, beta = {BETA:g}", {"direct sum": direct / ours}
