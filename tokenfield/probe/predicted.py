"""Predictions of theory for the angles between tokens in an architecture, from the measured initial cosine."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..attention import Softmax
from ..driver import simulate
from ..normalization import AbstractSphereNorm, PeriLN, PostLN, PreLN
from ..observables import mean_cosine
from ..states import Equiangular, equiangular_tokens
from ..theory.layer_curves import current, equiangular_layers, relative_step
from ..theory.long_context import mixed_cosine, mixed_length, softmax_weights
from ..transformer import Transformer
from .gram_layers import gram_layers

if TYPE_CHECKING:
    import xarray

RULES: dict[str, type[AbstractSphereNorm]] = {rule.kind: rule for rule in (PostLN, PreLN, PeriLN)}
MOST_CAUSAL = 256  # tokens under a causal mask, where the cost of a layer is n^3
MOST_CAUSAL_FLOW = 96


class Schedule(eqx.Module):
    """beta(t): the value of block l at time l + 1/2, with linear interpolation."""

    values: Array

    def __call__(self, t: Array) -> Array:
        return jnp.interp(t, jnp.arange(len(self.values)) + 0.5, self.values)


def layer_cosines(norm: AbstractSphereNorm, rho0: float, n: int, betas: Any, causal: bool = False) -> np.ndarray:
    """Return (depth + 1,) cosines: one layer of step 1 with V = I for each block, at the block's own beta (FORMULAS §7).

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.probe.predicted import layer_cosines
        >>> layer_cosines(tkf.PostLN(), 0.2, 64, [1.0, 2.0, 4.0])
        array([0.2       , 0.50200333, 0.79484116, 0.93732304])
    """
    if causal:
        return gram_layers(norm, rho0, min(n, MOST_CAUSAL), betas, causal=True)
    cosines, radius = [rho0], 1.0
    for beta in betas:
        one = equiangular_layers(norm, n, float(beta), 1, cosines[-1], radius)
        cosines.append(float(one.cosine[1]))
        radius = float(one.radius[1])
    return np.array(cosines)


def rotated_cosines(norm: AbstractSphereNorm, rho0: float, n: int, betas: Any, causal: bool = False) -> np.ndarray:
    """Return `layer_cosines` for values rotated by a random orthogonal matrix: the added vector is orthogonal to every token.

    `rho+ = (rho + c^2 <A_i,A_j>) / (1 + c^2 |A_i|^2)`, the recursion for random weights (FORMULAS §7) at given scores.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.probe.predicted import rotated_cosines
        >>> rotated_cosines(tkf.PreLN(), 0.2, 64, [1.0, 2.0, 4.0])
        array([0.2       , 0.34012456, 0.48769959, 0.60957715])
    """
    if causal:
        return gram_layers(norm, rho0, min(n, MOST_CAUSAL), betas, causal=True, rotated=True)
    cosines, r = [rho0], 1.0
    for layer, beta in enumerate(betas):
        rho, rule = cosines[-1], current(norm, float(layer))
        w = softmax_weights(*(np.asarray(float(value)) for value in (rho, n, beta)))
        square = float(mixed_length(w.excess, w.other, rho, n))
        c2 = float(relative_step(rule, float(layer), r, 1.0)) ** 2 / (square if rule.scale_free else 1.0)
        grown = 1 + c2 * square
        cosines.append((rho + c2 * square * mixed_cosine(w.excess, w.other, rho, n)) / grown)
        r = r * grown**0.5 if rule.radial else r
    return np.array(cosines)


def flow_cosines(norm: AbstractSphereNorm, rho0: float, n: int, betas: Any, causal: bool = False) -> np.ndarray:
    """Return the cosines of the flow of the same rule at times 0, 1, …, depth, with beta interpolated between blocks.

    Without a mask this is the flow of one cosine; with a mask, that of at most 96 tokens.

    Example:
        >>> import tokenfield as tkf
        >>> from tokenfield.probe.predicted import flow_cosines
        >>> flow_cosines(tkf.PostLN(), 0.2, 64, [1.0, 2.0])
        array([0.2       , 0.65440939, 0.93298931])
    """
    depth = len(betas)
    model = Transformer(Softmax(beta=Schedule(jnp.asarray(betas, float)), causal=causal), norm=norm)
    options: dict[str, Any] = {"save_at": np.arange(depth + 1.0), "progress": False}
    if not causal:
        return simulate(model, Equiangular(rho0, n), float(depth), **options).dataset["rho"].values
    run = simulate(model, equiangular_tokens(rho0, min(n, MOST_CAUSAL_FLOW)), float(depth), **options)
    return np.array([mean_cosine(state) for state in run.states])


class Start(eqx.Module):
    """The measured input of the prediction: cosine at the embedding output, number of tokens, beta of each block."""

    rho0: float
    n: int
    betas: np.ndarray


def measured_start(dataset: "xarray.Dataset") -> Start | None:
    """Return the mean over texts of the cosine of all tokens at layer 0, the median number of tokens, and the median beta over
    heads and texts of each block; None if beta was not measured."""
    if "beta" not in dataset:
        return None
    betas = dataset["beta"].median(("head", "text")).values
    n = int(np.median(dataset["tokens"].values))
    rho0 = float(dataset["mean_cosine"].isel(layer=0).mean("text"))
    if n < 2 or not np.isfinite(betas).all() or not np.isfinite(rho0):
        return None
    return Start(max(rho0, -1 / (n - 1)), n, betas)


def predict(dataset: "xarray.Dataset", norm: str, causal: bool) -> "xarray.Dataset":
    """Return the equiangular prediction for a probed model (FORMULAS §7), without fitted constants.

    Real tokens are replaced by n equiangular tokens with the mean cosine measured at the embedding output, and each block
    by a layer of its norm rule with the median beta over its heads. In this model one number represents
    all angles. Three choices remain:

    - *Step.* One block is one layer, h = 1, as it is in the model itself: `x <- N(x + A)`. A block's MLP acts on each token by
      itself; theory leaves it out.
    - *Value scale.* V = I: attention adds an average of the tokens themselves. By the norm rule, a direction becomes
      `N(theta + c A)`; c = h under Post-LN and h/r under Pre-LN. With V = v I this would be c v, so 1 stands for an
      attention whose output is as long as the average that it takes; for Pre-LN the unit of length is that of the values, and
      r = 1 at the embedding. `predicted_cosine`.
    - *Direction of the values.* V = I adds to each token the common part of the tokens. A real V rotates it. At the other extreme,
      the average is rotated by a random matrix, so that it is orthogonal to all tokens: `predicted_cosine_rotated`. Neither
      is a bound: a bias of the values, for example, adds the same vector to all tokens.

    The continuous version, in which block l is the time from l to l + 1 of the rule's flow, is `predicted_cosine_flow`;
    since `h = 1` is not small, its distance from `predicted_cosine` shows how much the step matters.

    A causal mask gives each token its own angle: then all n tokens (at most 256, or 96 for the flow) are followed.

    Args:
        dataset: a dataset of the probe, with `mean_cosine`, `tokens` and `beta`.
        norm: "post", "pre" or "peri".
        causal: the model's mask.

    Returns:
        A dataset with the three curves over `layer`, and the start in its attributes; empty if the norm has another rule
        or beta is not known.

    Example:
        >>> from tokenfield.probe.predicted import predict
        >>> predict(result.dataset, "post", causal=False)  # doctest: +SKIP
    """
    import xarray

    start = measured_start(dataset)
    if start is None or norm not in RULES:
        return xarray.Dataset()
    rule = RULES[norm]()
    curves = {"": layer_cosines, "_rotated": rotated_cosines, "_flow": flow_cosines}
    made = {name: curve(rule, start.rho0, start.n, start.betas, causal) for name, curve in curves.items()}
    attributes = {"predicted_norm": RULES[norm].title, "predicted_rho0": start.rho0, "predicted_n": start.n}
    return xarray.Dataset(
        {f"predicted_cosine{name}": ("layer", curve) for name, curve in made.items()}, attrs=attributes
    )


def other_norms(dataset: "xarray.Dataset", norm: str, causal: bool) -> dict[str, np.ndarray]:
    """Return `layer_cosines` from the same start under the rules that the model does not follow, by their titles.

    Example:
        >>> from tokenfield.probe.predicted import other_norms
        >>> other_norms(result.dataset, "post", causal=False)["Pre-LN"]  # doctest: +SKIP
    """
    start = measured_start(dataset)
    if start is None:
        return {}
    rules = {rule.title: rule() for name, rule in RULES.items() if name != norm}
    return {title: layer_cosines(rule, start.rho0, start.n, start.betas, causal) for title, rule in rules.items()}
