"""The driver: it checks arguments, runs in chunks with progress and checkpoints, batches ensembles, and builds datasets."""

from .continuous import simulate as simulate
from .discrete import layers as layers
from .ensemble import simulate_many as simulate_many
from .errors import SolverError as SolverError
