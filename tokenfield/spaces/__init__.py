"""Spaces in which tokens live, one per file."""

from .base import AbstractBrownianSpace as AbstractBrownianSpace
from .base import AbstractSpace as AbstractSpace
from .euclidean import Euclidean as Euclidean
from .hyperbolic import Hyperbolic as Hyperbolic
from .sphere import Sphere as Sphere
from .torus import Torus as Torus
