"""Comparison of normalization rules in Transformers with random weights (the survey's Figure 4)."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, count
from .._jax import in_double
from .._kinds import call, find, is_ours, our_kinds, parameters
from .._memory import refuse_large
from .._shown import nearest, shown
from ..attention import Softmax
from ..driver.progress import Progress
from ..flows.layers import LayerFlow
from ..normalization import NGPT, AbstractSphereNorm, MixLN, PeriLN, PostLN, PreLN, SqrtScaling
from ..normalization.base import unit
from ..results.labels import with_labels
from ..results.provenance import provenance
from ..states import Tokens, uniform_sphere
from ..states.near_equal import nearly_equiangular
from ..theory.layer_curves import equiangular_layers
from ..theory.random_weights import LEAST_NOISY_DIMENSION, random_weight_layers
from ..transformer import Transformer

if TYPE_CHECKING:
    import xarray

RULES = tuple(rule.kind for rule in (PostLN, PreLN, MixLN, PeriLN, NGPT, SqrtScaling))
"""The rules of the survey's Figure 4."""
MOST_SEEDS = 10**6
LABELS = {
    "mean_cosine": "mean cosine of pairs of tokens",
    "recursion": "predicted mean cosine, random weights",
    "deviation": "predicted standard deviation of the mean cosine, random weights",
    "identity": "predicted mean cosine, identity weights",
    "rule": "normalization rule",
    "title": "name of the normalization rule",
}
CURVES = ("recursion", "deviation", "identity")


@in_double
def normalization_study(
    d: int = 512,
    n: int = 128,
    depth: int = 64,
    seeds: int | Sequence[int] = 24,
    beta: float | None = None,
    rules: Sequence[str | AbstractSphereNorm] = RULES,
    rho0: float = 0.0,
    tau: float | None = None,
    alpha: float = 1.0,
    precision: str = "float32",
    progress: bool | None = None,
    options: Mapping[str, Any] | None = None,
) -> "xarray.Dataset":
    """Return the mean cosine through layers with fresh Gaussian Q, K, V, for each normalization rule and seed (FORMULAS §7).

    Every layer has new (d, d) weights with entries N(0, 1/d), the same for all rules of a seed; they are drawn when
    needed and not stored. Layers are those of `tkf.layers`. The result also has two predictions: the random-weight
    recursion, and the equiangular curve with `Q = K = V = I`, which does not describe random weights.

    Args:
        d, n: dimension and number of tokens.
        depth: number of layers.
        seeds: number of seeds, or a list of seeds.
        beta: inverse temperature, sqrt(d) by default.
        rules: names such as "post", "module:Class" for a class of your own, or rules such as `PostLN()`.
        rho0: cosine at the start: uniform tokens for 0, else `nearly_equiangular`.
        tau: number of layers of Post-LN before Mix-LN switches to Pre-LN; a quarter of the depth by default.
        alpha: rate of nGPT.
        precision: float32 or float64, for the layers; weights are drawn in float32 either way.
        progress: show a progress bar; by default on a terminal only.
        options: parameters of other rules, by name; each is passed to the rules that have it.

    Returns:
        A dataset with `mean_cosine` (rule, seed, layer), and `recursion`, its `deviation` over seeds (0 for d < 32) and
        `identity` (rule, layer), which are NaN for a rule of your own that the recursion does not describe.

    Example:
        >>> from tokenfield.studies import normalization_study
        >>> normalization_study(d=32, n=8, depth=4, seeds=2)["mean_cosine"].mean("seed").sel(rule="post").values.round(2)
        array([-0.04,  0.07,  0.15,  0.26,  0.38])
    """
    import xarray

    d, n, depth = count("d", d, 2), count("n", n, 2), count("depth", depth)
    chosen = _seeds(seeds)
    refuse_large("d", 3, d, d)
    refuse_large("depth", len(rules) * len(chosen), depth + 1)
    beta = float(d) ** 0.5 if beta is None else float(as_float("beta", beta, 0))
    if not 0 <= rho0 < 1:
        raise ValueError(f"rho0 must lie in [0, 1), got {shown(rho0)}")
    if precision not in ("float32", "float64"):
        raise ValueError(f"precision must be float32 or float64, got {shown(precision)}")
    tau = depth / 4 if tau is None else tau
    norms = named_rules(rules, {"tau": tau, "alpha": alpha, **(options or {})})
    cosines = np.empty((len(norms), len(chosen), depth + 1))
    with Progress(progress, "running seeds", len(chosen), "seeds") as bar:
        for place, seed in enumerate(chosen):
            x = start(n, d, rho0, seed).x.astype(precision)
            cosines[:, place] = _run(tuple(norms.values()), jax.random.key(seed), x, jnp.asarray(beta, x.dtype), depth)
            bar.update(place + 1)
    curves = np.stack([_predicted(norm, n, beta, d, depth, rho0) for norm in norms.values()], axis=1)
    config = {"d": d, "n": n, "depth": depth, "beta": beta, "rho0": rho0, "tau": tau, "alpha": alpha}
    found = xarray.Dataset(
        {
            "mean_cosine": (("rule", "seed", "layer"), cosines),
            **{name: (("rule", "layer"), curve) for name, curve in zip(CURVES, curves, strict=True)},
        },
        coords={
            "rule": np.array(list(norms), dtype=object),
            "title": ("rule", np.array([norm.title or name for name, norm in norms.items()], dtype=object)),
            "seed": chosen,
            "layer": np.arange(depth + 1),
        },
        attrs={**provenance(), "study": "normalization", "precision": precision, "config": json.dumps(config)},
    )
    return with_labels(found, LABELS)


def _predicted(
    norm: AbstractSphereNorm, n: int, beta: float, d: int, depth: int, rho0: float
) -> Float[np.ndarray, "curves layers"]:
    """Return the predicted curves; NaN for a user-defined rule that the recursions do not describe."""
    try:
        random = random_weight_layers(norm, n, beta, d, depth, rho0, noise=d >= LEAST_NOISY_DIMENSION)
        return np.stack([random.cosine, random.deviation, equiangular_layers(norm, n, beta, depth, rho0).cosine])
    except ValueError:
        if is_ours(type(norm)):
            raise
        return np.full((len(CURVES), depth + 1), np.nan)


def named_rules(rules: Sequence[str | AbstractSphereNorm], options: Mapping[str, Any]) -> dict[str, AbstractSphereNorm]:
    """Return the rules by name, without repetition, each with the options that it takes."""
    if isinstance(rules, str) or not rules:
        raise ValueError(f"rules must be some of {our_kinds(AbstractSphereNorm)}, got {shown(rules)}")
    makers = dict(_named_maker(rule) for rule in rules)
    taken = {"tau", "alpha"}.union(*(parameters(maker) for maker in makers.values()))
    for name in options:
        if name not in taken:
            raise ValueError(f"options: no rule of {', '.join(makers)} takes {shown(name)}{nearest(name, taken)}")
    return {
        name: call(name, maker, {key: options[key] for key in parameters(maker) if key in options})
        for name, maker in makers.items()
    }


def _named_maker(rule: str | AbstractSphereNorm) -> tuple[str, Callable[..., AbstractSphereNorm]]:
    """Return the name of a rule, and the function that makes it."""
    if isinstance(rule, AbstractSphereNorm):
        return rule.kind or type(rule).__name__, lambda: rule
    try:
        return rule, find(AbstractSphereNorm, rule)
    except ValueError as error:
        raise ValueError(f"rules: {error}") from None


def start(n: int, d: int, rho0: float, seed: int) -> Tokens:
    """Return the tokens before the first layer, for a seed."""
    return nearly_equiangular(rho0, n, d, seed) if rho0 else uniform_sphere(n, d, seed)


def layer_weights(key: Array, layer: Array | int, d: int) -> tuple[Float[Array, "d d"], ...]:
    """Return Q, K, V of a layer: independent entries N(0, 1/d), drawn in float32."""
    draw = jax.random.normal(jax.random.fold_in(key, layer), (3, d, d), jnp.float32)
    return tuple(draw / jnp.sqrt(jnp.float32(d)))


@eqx.filter_jit
def _run(
    norms: tuple[AbstractSphereNorm, ...], key: Array, x: Float[Array, "n d"], beta: Array, depth: int
) -> Float[Array, "rules layers"]:
    """Return the mean cosine before and after each layer, under each rule."""

    def layer(tokens, index):
        weights = tuple(each.astype(x.dtype) for each in layer_weights(key, index, x.shape[1]))
        tokens = one_layer(norms, tokens, weights, beta, index.astype(x.dtype))
        return tokens, mean_cosines(tokens)

    tokens = jnp.stack([x] * len(norms))
    # `Layers` would store the weights of all layers; this scan draws them once for all rules and stores none.
    _, cosines = jax.lax.scan(layer, tokens, jnp.arange(depth))
    return jnp.concatenate([mean_cosines(tokens)[None], cosines]).T


def one_layer(
    norms: tuple[AbstractSphereNorm, ...],
    tokens: Float[Array, "rules n d"],
    weights: tuple[Float[Array, "d d"], ...],
    beta: Array,
    t: Float[Array, ""],
) -> Float[Array, "rules n d"]:
    """Return each set of tokens after one layer of step 1 under its rule, all with the same Q, K, V."""
    n = tokens.shape[1]
    Q, K, V = weights
    attention = Softmax(beta, Q=Q, K=K, V=V)
    w, positions = jnp.full(n, 1 / n, tokens.dtype), jnp.arange(1, n + 1) / n
    flows = [LayerFlow(model=Transformer(attention, norm), weights=w, positions=positions) for norm in norms]
    after = [flow.layer(t, x, jnp.ones((), x.dtype))[0] for flow, x in zip(flows, tokens, strict=True)]
    return jnp.stack([each.astype(tokens.dtype) for each in after])


def mean_cosines(x: Float[Array, "rules n d"]) -> Float[Array, " rules"]:
    """Return the mean cosine over pairs i ≠ j of each set of tokens: `(|sum theta|^2 - n) / (n (n-1))`."""
    n = x.shape[1]
    total = unit(x.astype(jnp.float64)).sum(axis=1)
    return ((total * total).sum(axis=-1) - n) / (n * (n - 1))


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, (int, np.integer)):
        return list(range(count("seeds", seeds, most=MOST_SEEDS)))
    chosen = [count("seeds", seed, 0) for seed in seeds]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must be a number or different whole numbers, got {shown(seeds)}")
    return chosen
