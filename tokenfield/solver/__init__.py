"""Time integration as pure functions: the methods, the time loop and `solve`."""

from .base import AbstractMethod as AbstractMethod
from .layers import Layers as Layers
from .pure import solve as solve
from .solution import Solution as Solution
