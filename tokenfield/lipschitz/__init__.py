"""Lipschitz constants of attention: local constants at given tokens, and bounds for tokens in a ball."""

from ..theory.ball_bounds import Bounds as Bounds
from ..theory.gap import score_gap as score_gap
from .adversarial import Adversarial as Adversarial
from .adversarial import adversarial as adversarial
from .bounds import bounds as bounds
from .data import DataBounds as DataBounds
from .data import data_bounds as data_bounds
from .data_models import data_model as data_model
from .growth import Growth as Growth
from .growth import PowerLaw as PowerLaw
from .growth import fit_power_law as fit_power_law
from .growth import growth as growth
from .influence import influence as influence
from .local import LocalConstant as LocalConstant
from .local import local as local
from .lyapunov import Exponents as Exponents
from .lyapunov import lyapunov as lyapunov
from .network import NetworkConstant as NetworkConstant
from .network import network as network
from .sequences import correlation_by_distance as correlation_by_distance
from .sequences import sequence_model as sequence_model

__all__ = [
    "Adversarial",
    "Bounds",
    "DataBounds",
    "Exponents",
    "Growth",
    "LocalConstant",
    "NetworkConstant",
    "PowerLaw",
    "adversarial",
    "bounds",
    "correlation_by_distance",
    "data_bounds",
    "data_model",
    "fit_power_law",
    "growth",
    "influence",
    "local",
    "lyapunov",
    "network",
    "score_gap",
    "sequence_model",
]
