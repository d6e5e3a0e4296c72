"""Time integration: what a flow does, step by step."""

from .continuous import simulate as simulate
from .discrete import layers as layers
from .ensemble import simulate_many as simulate_many
from .run import SolverError as SolverError
from .stop import AbstractStopRule as AbstractStopRule
