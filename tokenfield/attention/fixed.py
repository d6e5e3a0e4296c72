"""Attention to a fixed measure."""

from .base import AbstractAttention
from .measure import AtomicMeasure


class Fixed(AbstractAttention):
    """`x -> Gamma_mu(x)` for a fixed measure mu, which does not depend on the tokens."""

    attention: AbstractAttention
    mu: AtomicMeasure

    def __call__(self, t, x, mu, positions=None):
        return self.attention(t, x, self.mu, positions)

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
