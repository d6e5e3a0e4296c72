"""Runs of noisy tokens around the transition, from disordered and ordered starts, to compare with the phase diagram."""

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._check import count, positive
from .._shown import shown
from ..attention import Softmax, Unnormalized
from ..driver.ensemble import simulate_many
from ..driver.progress import Progress
from ..noise import SphereNoise
from ..normalization import PostLN
from ..results.labels import with_labels
from ..results.provenance import provenance
from ..states import Tokens, uniform_sphere
from ..theory.branches import fold
from ..theory.names import MOST_DIMENSION, kernel_name
from ..theory.noise import critical_kappa
from ..transformer import Transformer

if TYPE_CHECKING:
    import xarray

STARTS = ("uniform", "ordered")
LABELS = {
    "order_parameter": "order parameter",
    "kappa": "inverse noise",
    "beta": "inverse temperature",
    "start": "initial tokens",
}
STEP = 0.5  # step size, relative to 1/((1 + beta) |drift|), the time scale of the drift of coinciding tokens
RELAXATIONS = 16.0  # length of a run, relative to kappa/(d-1), the relaxation time of the noise alone
MOST_STEPS = 60_000
SAVED = 25


def noisy_order_study(
    betas: Sequence[float] | np.ndarray,
    d: int = 2,
    attention: str = "unnormalized",
    n: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> "xarray.Dataset":
    """Return the order parameter of noisy tokens at four inverse noises for each beta, from two starts.

    Tokens move by `dX = P drift dt + sqrt(2/kappa) dW`. Kappa is 3/4 of the fold, the geometric mean of the fold and kappa_c
    (or 0.87 kappa_c if they are the same), 1.25 and 2 times kappa_c. Starts are n uniform tokens, and n tokens within
    about 30 degrees of a point. All runs of a beta last 16 kappa/(d-1) for its largest kappa, with Heun steps of weak order 2.
    The order parameter `|mean of the tokens|` is averaged over the second half. In disorder it is about `n^{-1/2}`, not 0.

    Args:
        betas: inverse temperatures, >= 0. Those whose runs would take more than 60,000 steps are left out.
        d: dimension.
        attention: "unnormalized" or "softmax".
        n: number of tokens; by default 512 for d = 2 and 3, where sums are fast, else 128.
        seed: seed of the starts and the noise.
        progress: show a progress bar; by default on a terminal only.

    Returns:
        a dataset with `order_parameter` over beta, place (index of the four kappa) and start, and `kappa` over beta and place.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.studies.noisy_order_study([0.0, 1.0], d=2, n=16)["order_parameter"].sel(start="ordered").values
        array([[0.30539407, 0.45639537, 0.7164984 , 0.83692974],
               [0.40965958, 0.42351454, 0.70834927, 0.91038115]])
    """
    import xarray

    d, attention = count("d", d, 2, MOST_DIMENSION), kernel_name(attention)
    n = (512 if d <= 3 else 128) if n is None else count("n", n, 2)
    wanted = np.array([positive("betas", beta, or_zero=True) for beta in np.atleast_1d(np.asarray(betas, float))])
    if not len(wanted):
        raise ValueError(f"betas must hold at least one number, got {shown(betas)}")
    plans = [_plan(beta, d, attention) for beta in wanted]
    chosen = [k for k, (kappas, dt) in enumerate(plans) if RELAXATIONS * kappas.max() / (d - 1) <= MOST_STEPS * dt]
    m_1 = np.zeros((len(chosen), 4, 2))
    with Progress(progress, "running noisy tokens", max(len(chosen), 1), "temperatures") as bar:
        for row, k in enumerate(chosen):
            kappas, dt = plans[k]
            m_1[row] = _orders(wanted[k], kappas, dt, d, attention, n, seed + 1000 * k)
            bar.update(row + 1)
    config = {"d": d, "attention": attention, "n": n, "seed": seed, "relaxations": RELAXATIONS, "step": STEP}
    found = xarray.Dataset(
        {
            "order_parameter": (("beta", "place", "start"), m_1),
            "kappa": (("beta", "place"), np.array([plans[k][0] for k in chosen]).reshape(len(chosen), 4)),
        },
        {"beta": wanted[chosen], "start": ("start", np.array(STARTS, dtype=object))},
        {**provenance(), "config": json.dumps(config), "left_out": json.dumps(np.delete(wanted, chosen).tolist())},
    )
    return with_labels(found, LABELS)


def _plan(beta: float, d: int, attention: str) -> tuple[np.ndarray, float]:
    """Return the four kappa of a beta, and the step size of their runs."""
    low, high = fold(beta, d, attention), critical_kappa(beta, d, attention)
    middle = math.sqrt(low * high) if low < (1 - 1e-6) * high else 0.87 * high
    fastest = (1 + beta) * (math.exp(beta) if attention == "unnormalized" else 1.0)
    return np.array([0.75 * low, middle, 1.25 * high, 2 * high]), STEP / fastest


def _orders(beta, kappas, dt, d: int, attention: str, n: int, seed: int) -> np.ndarray:
    """Return (4, 2) order parameters, over kappa and the starts; every run takes as many steps as the longest."""
    head = Softmax(beta) if attention == "softmax" else Unnormalized(beta, log_unit=0.0)
    models = [Transformer(head, PostLN(), noise=SphereNoise(kappa)) for kappa in np.repeat(kappas, 2)]
    states = [(uniform_sphere if k % 2 == 0 else _cap)(n, d, seed=seed + k) for k in range(8)]
    t1 = RELAXATIONS * kappas.max() / (d - 1)
    times = np.linspace(t1 / 2, t1, SAVED)
    runs = simulate_many(models, states, t1, save_at=times, seeds=seed + np.arange(8), dt=dt, max_steps=2 * MOST_STEPS)
    means = np.linalg.norm(runs.dataset["x"].values.mean(axis=2), axis=-1)
    return means.mean(axis=1).reshape(4, 2)


def _cap(n: int, d: int, seed: int) -> Tokens:
    """Return tokens around the first axis, about half a radian wide."""
    x = 0.5 / math.sqrt(d - 1) * np.random.default_rng(seed).standard_normal((n, d)) + np.eye(d)[0]
    return Tokens(x / np.linalg.norm(x, axis=1, keepdims=True))
