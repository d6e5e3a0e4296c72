"""A Gaussian measure."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._check import as_float, is_concrete
from .._types import Matrix, Vector
from .base import AbstractState
from .samplers import gaussian_tokens
from .tokens import Tokens

TOLERANCE = 1e-10


class Gaussian(AbstractState):
    """The measure `N(mean, cov)` on R^d. Free flows of several kernels keep it Gaussian (FORMULAS §5).

    Args:
        mean: (d,) mean; None for 0.
        cov: (d, d) symmetric covariance with non-negative eigenvalues. It may be singular; derivatives of runs with respect
            to it in directions that raise its rank are then NaN in forward mode, and 0 in reverse mode.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.Gaussian([1.0, 0.0], [[0.7, 0.1], [0.1, 0.3]])
        Gaussian(mean=[1.0, 0.0], cov=[[0.7, 0.1], [0.1, 0.3]])
    """

    mean: Float[Array, "*batch d"]
    cov: Float[Array, "*batch d d"]
    kind: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian"

    def __init__(self, mean: Vector | None, cov: Matrix):
        self.cov = as_float("cov", cov, 2).astype(jnp.float64)
        d = self.cov.shape[0]
        if d == 0 or self.cov.shape != (d, d):
            raise ValueError(f"cov must be a square matrix, got shape {self.cov.shape}")
        self.mean = jnp.zeros(d) if mean is None else as_float("mean", mean, 1).astype(jnp.float64)
        if self.mean.shape != (d,):
            raise ValueError(f"mean must have shape ({d},) to match cov, got {self.mean.shape}")
        if is_concrete(self.cov):
            cov = np.asarray(self.cov)
            scale, skew = np.abs(cov).max(), np.abs(cov - cov.T).max()
            if skew > TOLERANCE * scale:
                raise ValueError(
                    f"cov must be symmetric, got entries that differ from those of its transpose by {skew:.3g}"
                )
            least = float(np.linalg.eigvalsh((cov + cov.T) / 2)[0])
            if least < -TOLERANCE * scale:
                raise ValueError(f"cov must have no negative eigenvalue, got {least:.3g}")

    @property
    def batch_shape(self):
        return self.mean.shape[:-1]

    @property
    def d(self) -> int:
        """Dimension."""
        return self.mean.shape[-1]

    def sample(self, n: int, seed: int = 0) -> Tokens:
        """Return n independent tokens of this law."""
        return gaussian_tokens(n, seed=seed, mean=self.mean, cov=self.cov)
