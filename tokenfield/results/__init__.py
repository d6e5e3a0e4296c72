"""Results of runs, labeled and with their provenance."""

from .describe import describe as describe
from .ensemble import Ensemble as Ensemble
from .provenance import provenance as provenance
from .rebuild import rebuilt as rebuilt
from .trajectory import Event as Event
from .trajectory import Trajectory as Trajectory
from .trajectory import load as load
