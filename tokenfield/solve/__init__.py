"""Time integration: what a flow does, step by step."""

from .layers import layers as layers
from .run import SolverError as SolverError
from .simulate import simulate as simulate
from .stop import AbstractStopRule as AbstractStopRule
