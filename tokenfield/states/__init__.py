"""Representations of the measure, one per file."""

from .base import AbstractState as AbstractState
from .circle_density import CircleDensity as CircleDensity
from .density import AbstractDensity as AbstractDensity
from .encodings import sinusoidal as sinusoidal
from .equiangular import Equiangular as Equiangular
from .gaussian import Gaussian as Gaussian
from .near_equal import nearly_equiangular as nearly_equiangular
from .samplers import circle_tokens as circle_tokens
from .samplers import equiangular_tokens as equiangular_tokens
from .samplers import gaussian_tokens as gaussian_tokens
from .samplers import hemisphere as hemisphere
from .samplers import perturbed as perturbed
from .samplers import separated_clusters as separated_clusters
from .samplers import tokens_in as tokens_in
from .samplers import uniform_sphere as uniform_sphere
from .sphere_density import SphereDensity as SphereDensity
from .tokens import Tokens as Tokens
from .zonal_density import ZonalDensity as ZonalDensity
