"""Normalization rules side by side in Transformers with random weights (the survey's Figure 4)."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, count
from .._jax import in_double
from .._shown import shown
from ..attention import Measure, Softmax
from ..normalization import NGPT, AbstractSphereNorm, MixLN, PeriLN, PostLN, PreLN, SqrtScaling
from ..normalization.base import unit
from ..results.provenance import provenance
from ..states import Tokens, uniform_sphere
from ..states.near_equal import nearly_equiangular
from ..theory.layer_curves import equiangular_layers
from ..theory.random_weights import LEAST_NOISY_DIMENSION, random_weight_layers

if TYPE_CHECKING:
    import xarray

RULES = ("post", "pre", "mix", "peri", "ngpt", "sqrt")


@in_double
def normalization_study(
    d: int = 512,
    n: int = 128,
    depth: int = 64,
    seeds: int | Sequence[int] = 24,
    beta: float | None = None,
    rules: Sequence[str] = RULES,
    rho0: float = 0.0,
    tau: float | None = None,
    alpha: float = 1.0,
    precision: str = "float32",
    progress: bool | None = None,
) -> "xarray.Dataset":
    """The mean cosine through layers with fresh Gaussian Q, K, V, for each normalization rule and seed (FORMULAS §7).

    Every layer has new (d, d) weights with entries N(0, 1/d), the same for all rules of a seed; they are drawn when
    needed and never kept. Layers are those of `tkf.layers`. Beside the runs stand two predictions: the random-weight
    recursion, and the equiangular curve with `Q = K = V = I`, which does not describe them.

    Args:
        d, n: dimension and number of tokens.
        depth: number of layers.
        seeds: how many, or which.
        beta: inverse temperature, sqrt(d) by default.
        rules: some of post, pre, mix, peri, ngpt, sqrt.
        rho0: cosine of the start: uniform tokens for 0, else `nearly_equiangular`.
        tau: layers of Post-LN before Mix-LN turns to Pre-LN; a quarter of the depth by default.
        alpha: rate of nGPT.
        precision: float32 or float64, of the layers; weights are drawn in float32 either way.
        progress: show a bar; by default on a terminal.

    Returns:
        A dataset with `cosine` (rule, seed, layer), and `recursion`, its `deviation` over seeds (0 for d < 32) and
        `identity` (rule, layer).

    Example:
        >>> from tokenfield.studies import normalization_study
        >>> normalization_study(d=32, n=8, depth=4, seeds=2)["cosine"].mean("seed")
    """
    import xarray

    d, n, depth = count("d", d, 2), count("n", n, 2), count("depth", depth)
    chosen = _seeds(seeds)
    beta = float(d) ** 0.5 if beta is None else float(as_float("beta", beta, 0))
    if not 0 <= rho0 < 1:
        raise ValueError(f"rho0 must lie in [0, 1), got {shown(rho0)}")
    if precision not in ("float32", "float64"):
        raise ValueError(f"precision must be float32 or float64, got {shown(precision)}")
    tau = depth / 4 if tau is None else tau
    norms = named_rules(rules, tau, alpha)
    cosines = np.empty((len(norms), len(chosen), depth + 1))
    with _bar(progress, len(chosen)) as advance:
        for place, seed in enumerate(chosen):
            x = start(n, d, rho0, seed).x.astype(precision)
            cosines[:, place] = _run(tuple(norms.values()), jax.random.key(seed), x, jnp.asarray(beta, x.dtype), depth)
            advance()
    noise = d >= LEAST_NOISY_DIMENSION
    recursion = [random_weight_layers(norm, n, beta, d, depth, rho0, noise=noise) for norm in norms.values()]
    identity = [equiangular_layers(norm, n, beta, depth, rho0).cosine for norm in norms.values()]
    config = {"d": d, "n": n, "depth": depth, "beta": beta, "rho0": rho0, "tau": tau, "alpha": alpha}
    return xarray.Dataset(
        {
            "cosine": (("rule", "seed", "layer"), cosines),
            "recursion": (("rule", "layer"), np.array([curve.cosine for curve in recursion])),
            "deviation": (("rule", "layer"), np.array([curve.deviation for curve in recursion])),
            "identity": (("rule", "layer"), np.array(identity)),
        },
        coords={"rule": np.array(list(norms), dtype=object), "seed": chosen, "layer": np.arange(depth + 1)},
        attrs={**provenance(), "study": "normalization", "precision": precision, "config": json.dumps(config)},
    )


def named_rules(rules: Sequence[str], tau: float, alpha: float) -> dict[str, AbstractSphereNorm]:
    """The rules by name, each once."""
    make: dict[str, Callable[[], AbstractSphereNorm]] = {
        "post": PostLN,
        "pre": PreLN,
        "mix": lambda: MixLN(tau),
        "peri": PeriLN,
        "ngpt": lambda: NGPT(alpha),
        "sqrt": SqrtScaling,
    }
    if isinstance(rules, str) or not rules or not set(rules) <= set(RULES):
        raise ValueError(f"rules must be some of {', '.join(RULES)}, got {shown(rules)}")
    return {name: make[name]() for name in dict.fromkeys(rules)}


def start(n: int, d: int, rho0: float, seed: int) -> Tokens:
    """The tokens of a seed before the first layer."""
    return nearly_equiangular(rho0, n, d, seed) if rho0 else uniform_sphere(n, d, seed)


def layer_weights(key: Array, layer: Array | int, d: int) -> tuple[Float[Array, "d d"], ...]:
    """Q, K, V of a layer: independent entries N(0, 1/d), drawn in float32."""
    draw = jax.random.normal(jax.random.fold_in(key, layer), (3, d, d), jnp.float32)
    return tuple(draw / jnp.sqrt(jnp.float32(d)))


@eqx.filter_jit
def _run(
    norms: tuple[AbstractSphereNorm, ...], key: Array, x: Float[Array, "n d"], beta: Array, depth: int
) -> Float[Array, "rules layers"]:
    """The mean cosine before and after each layer, under each rule."""

    def layer(tokens, index):
        weights = tuple(each.astype(x.dtype) for each in layer_weights(key, index, x.shape[1]))
        tokens = one_layer(norms, tokens, weights, beta, index.astype(x.dtype))
        return tokens, mean_cosines(tokens)

    tokens = jnp.stack([x] * len(norms))
    _, cosines = jax.lax.scan(layer, tokens, jnp.arange(depth))
    return jnp.concatenate([mean_cosines(tokens)[None], cosines]).T


def one_layer(
    norms: tuple[AbstractSphereNorm, ...],
    tokens: Float[Array, "rules n d"],
    weights: tuple[Float[Array, "d d"], ...],
    beta: Array,
    t: Float[Array, ""],
) -> Float[Array, "rules n d"]:
    """Each set of tokens after a layer under its rule, all with the same Q, K, V: as `tkf.layers` with step 1."""
    n = tokens.shape[1]
    Q, K, V = weights
    attention = Softmax(beta, Q=Q, K=K, V=V)
    w, positions = jnp.full(n, 1 / n, tokens.dtype), jnp.arange(1, n + 1) / n
    sublayer = lambda y: attention.of_itself(t, Measure(y, w, positions))  # noqa: E731
    after = [norm.layer(t, x, sublayer, 1.0) for norm, x in zip(norms, tokens, strict=True)]
    return jnp.stack([each.astype(tokens.dtype) for each in after])


def mean_cosines(x: Float[Array, "rules n d"]) -> Float[Array, " rules"]:
    """The mean cosine over pairs i ≠ j of each set of tokens: `(|sum theta|^2 - n) / (n (n-1))`."""
    n = x.shape[1]
    total = unit(x.astype(jnp.float64)).sum(axis=1)
    return ((total * total).sum(axis=-1) - n) / (n * (n - 1))


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, (int, np.integer)):
        return list(range(count("seeds", seeds)))
    chosen = [count("seeds", seed, 0) for seed in seeds]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must be a number or different whole numbers, got {shown(seeds)}")
    return chosen


@contextmanager
def _bar(show: bool | None, total: int) -> Iterator:
    """A function that advances a progress bar on standard error, or does nothing."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("seeds", total=total)
        yield lambda: bar.advance(task)
