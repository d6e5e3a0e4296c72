"""Kinds of noise, one a file."""

from .base import AbstractNoise as AbstractNoise
from .euclidean import EuclideanNoise as EuclideanNoise
from .sphere import SphereNoise as SphereNoise
