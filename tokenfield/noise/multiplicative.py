"""Noise whose strength depends on the position of the token."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._check import one_of, positive_number
from .._shown import shown
from .._types import Number
from ..spaces import Sphere
from ..spaces.sphere import along_great_circle
from .base import AbstractNoise

SENSES = ("ito", "stratonovich")


class MultiplicativeNoise(AbstractNoise):
    """`dX_i = P(drift) dt + sqrt(2/kappa) g(X_i) dW_i` on the sphere, g a function of a token, W_i independent.

    In the sense of Itô (the default) the generator of the noise is `(g²/kappa) Δ`. In the sense of Stratonovich it is
    `(1/kappa) (g² Δ + g <∇g, ∇>)`, with the additional drift `(1/kappa) g ∇g`, computed by a Heun corrector. Without drift the
    stationary density is proportional to `1/g²` for Itô, and on the circle to `1/g` for Stratonovich. For tokens under `PostLN`.

    Args:
        kappa: inverse strength.
        g: a function from a unit vector of shape (d,) to a number, in `jax.numpy`.
        sense: "ito" or "stratonovich".

    Example:
        >>> import tokenfield as tkf
        >>> noise = tkf.MultiplicativeNoise(kappa=4.0, g=lambda x: 1 + 0.5 * x[0])
        >>> model = tkf.Transformer(tkf.Softmax(beta=1.0), norm=tkf.PostLN(), noise=noise)
        >>> tkf.simulate(model, tkf.uniform_sphere(16, 2, seed=0), t1=1.0, seed=1)
        Trajectory(time 101, coordinate 2, token 16; until t = 1; events: none)
    """

    kappa: Array
    g: Callable
    sense: str = eqx.field(static=True)
    kind: ClassVar[str] = "multiplicative"
    title: ClassVar[str] = "multiplicative noise"
    space: ClassVar = Sphere

    def __init__(self, kappa: Number, g: Callable[[Array], Array], sense: str = "ito"):
        self.kappa = positive_number("kappa", kappa)
        if not callable(g):
            raise ValueError(f"g must be a function of a token, such as lambda x: 1 + 0.5 * x[0], got {shown(g)}")
        self.g, self.sense = g, one_of("sense", sense, SENSES)

    def draws(self, n, d):
        return n, d

    def displacement(self, xi, x, h, space):
        step = jnp.sqrt(2 * h / self.kappa) * space.tangent(x, xi)
        strength = jax.vmap(self.g)
        g = strength(x)[:, None]
        if self.sense == "stratonovich":
            g = (g + strength(x + along_great_circle(x, g * step))[:, None]) / 2
        return along_great_circle(x, g * step)

    def rate(self, x, space):
        return (x.shape[-1] - 1) * (jax.vmap(self.g)(x) ** 2).max() / self.kappa

    def check(self, d):
        shape = jax.eval_shape(self.g, jnp.zeros(d)).shape
        if shape != ():
            raise ValueError(f"g must give a number for a token of shape ({d},), got shape {shape}")
