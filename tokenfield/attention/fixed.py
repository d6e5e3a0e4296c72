"""Attention to a measure that is given once and for all."""

from .base import AbstractAttention
from .measure import AtomicMeasure


class Fixed(AbstractAttention):
    """`x -> Gamma_mu(x)` for a given measure mu, whatever the tokens are: the field in which they move."""

    attention: AbstractAttention
    mu: AtomicMeasure

    def __call__(self, t, x, mu, positions=None):
        return self.attention(t, x, mu, positions)

    def of_itself(self, t, mu, unit=False):
        return self.attention(t, mu.x, self.mu, mu.positions)

    @property
    def heads(self):
        return self.attention.heads

    @property
    def isotropic(self):
        return False

    @property
    def log_unit(self):
        return self.attention.log_unit

    def check(self, d):
        self.attention.check(d)
