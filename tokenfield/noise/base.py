"""What noise is: a random force on every token, of strength `2/kappa`."""

import equinox as eqx
from jaxtyping import Array


class AbstractNoise(eqx.Module):
    """Noise of inverse temperature kappa."""

    kappa: eqx.AbstractVar[Array]
