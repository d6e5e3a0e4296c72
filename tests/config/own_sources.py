"""Files as users write them: a kernel, a norm, a noise, a space and observables of their own, and a run with them."""

KERNEL = '''
from typing import ClassVar
from tokenfield.attention import AbstractPairwise

class Power(AbstractPairwise):
    """`k(x, y) = <Ax, y>^power`."""

    power: float
    kind: ClassVar[str] = "power"
    title: ClassVar[str] = "power attention"

    def __init__(self, *, power: float = 2.0, **options):
        super().__init__(**options)
        self.power = power

    def phi(self, s):
        return s**self.power
'''
NORM = '''
from typing import ClassVar
import jax.numpy as jnp
from tokenfield.normalization import AbstractDirectionNorm, TerminalLaw, forever, unit

class Slower(AbstractDirectionNorm):
    """Post-LN with outputs divided by `(t + 1)^power`."""

    power: float
    kind: ClassVar[str] = "slower"
    title: ClassVar[str] = "Slower-LN"
    slowness: ClassVar[str] = "s = (t+1)^power"
    radial: ClassVar[bool] = False

    def speed(self, t, r, inner, length):
        return (t + 1.0) ** -self.power

    def growth(self, t, r, inner, length):
        return jnp.zeros_like(r)

    def layer(self, t, x, sublayer, h):
        return unit(x + h * sublayer(x) * (t + 1.0) ** -self.power)

    def terminal_law(self, scale):
        rate = 2 * scale / (1 - self.power)
        return TerminalLaw(f"exp(-{rate:.6g} t^{1 - self.power:g})", "stretched", rate)

    def radius(self, d):
        return jnp.ones(())

    def inputs(self, t, x):
        return x

    def segments(self):
        return forever(self)

    def check(self, d):
        pass
'''
NOISE = '''
from typing import ClassVar
import jax.numpy as jnp
from jaxtyping import Array
from tokenfield.noise import AbstractNoise
from tokenfield.spaces import Sphere

class Weaker(AbstractNoise):
    """Brownian motion on the sphere with `factor kappa` in place of kappa."""

    kappa: Array
    factor: float
    kind: ClassVar[str] = "weaker"
    space: ClassVar = Sphere

    def __init__(self, kappa: float, factor: float = 1.0):
        self.kappa, self.factor = jnp.asarray(kappa), factor

    def draws(self, n, d):
        return n, d

    def displacement(self, xi, x, h, space):
        return space.brownian(xi, x, 2 * h / (self.factor * self.kappa))

    def rate(self, x, space):
        return (x.shape[-1] - 1) / (self.factor * self.kappa)

    def check(self, d):
        pass
'''
SPACE = '''
from typing import ClassVar
import jax.numpy as jnp
import numpy as np
from tokenfield.spaces import AbstractBrownianSpace, Euclidean, Sphere

def split(method, *points):
    """The method of the circle in the first two coordinates, that of R^(d-2) in the others."""
    around = getattr(Sphere(), method)(*(x[..., :2] for x in points))
    return jnp.concatenate([around, getattr(Euclidean(), method)(*(x[..., 2:] for x in points))], -1)

class Cylinder(AbstractBrownianSpace):
    """A circle times R^(d-2)."""

    kind: ClassVar[str] = "cylinder"
    title: ClassVar[str] = "cylinder"

    def signs(self, d):
        return np.ones(d)

    def project(self, x):
        return split("project", x)

    def tangent(self, x, v):
        return split("tangent", x, v)

    def retract(self, x, v):
        return split("retract", x, v)

    def exp(self, x, v):
        return split("exp", x, v)

    def log(self, x, y):
        return split("log", x, y)

    def distance(self, x, y):
        return jnp.hypot(Sphere().distance(x[..., :2], y[..., :2]), Euclidean().distance(x[..., 2:], y[..., 2:]))

    def sample(self, xi):
        return self.project(xi)

    def chart(self, x):
        return x

    def check(self, d):
        if d < 2:
            raise ValueError(f"Cylinder needs d >= 2, got {d}")

    def brownian(self, xi, x, variance):
        step = Sphere().brownian(xi[..., :2], x[..., :2], variance)
        return jnp.concatenate([step, Euclidean().brownian(xi[..., 2:], x[..., 2:], variance)], -1)

    def spectral_gap(self, d):
        return 0.0
'''
OBSERVABLE = '''
import numpy as np
from tokenfield.observables import observable

@observable("moment {power} of the first coordinate")
def moment(state, power: float = 2.0):
    return state.weights @ state.x[:, 0] ** power

def widest(state, model, scale: float = 1.0):
    """In plain Python, with the model."""
    return scale * np.ptp(np.asarray(state.x)) * float(model.attention.power)
'''
FILES = {
    "own_kernel": KERNEL,
    "own_norm": NORM,
    "own_noise": NOISE,
    "own_space": SPACE,
    "own_observable": OBSERVABLE,
}
TOML = """
t1 = 1.0
save_at = 3
[attention]
kind = "own_kernel:Power"
beta = 2.0
power = 1.0
[norm]
kind = "own_norm:Slower"
power = 0.5
[tokens]
n = 4
d = 6
[observe]
m3 = {observable = "own_observable:moment", power = 3.0}
wide = {observable = "own_observable:widest", scale = 10.0}
"""
