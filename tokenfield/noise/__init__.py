"""Kinds of noise, one per file."""

from .anisotropic import AnisotropicNoise as AnisotropicNoise
from .base import AbstractNoise as AbstractNoise
from .brownian import BrownianNoise as BrownianNoise
from .common import CommonNoise as CommonNoise
from .euclidean import EuclideanNoise as EuclideanNoise
from .multiplicative import MultiplicativeNoise as MultiplicativeNoise
from .sphere import SphereNoise as SphereNoise
