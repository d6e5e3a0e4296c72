"""The driver: it checks arguments, runs in chunks with progress and checkpoints, batches ensembles, and builds datasets."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .continuous import simulate as simulate
    from .discrete import layers as layers
    from .ensemble import simulate_many as simulate_many
    from .errors import SolverError as SolverError

_HOMES = {
    "continuous": "simulate",
    "discrete": "layers",
    "ensemble": "simulate_many",
    "errors": "SolverError",
}
__all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
