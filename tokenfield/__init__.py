"""tokenfield: the dynamics of tokens in deep Transformers — simulate, predict, measure.

Names are imported on first use, so that `import tokenfield` (and `--help` on the command line) stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _jax as _jax
from ._lazy import lazy

if TYPE_CHECKING:
    from .attention import L2 as L2
    from .attention import ALiBi as ALiBi
    from .attention import Bias as Bias
    from .attention import Hardmax as Hardmax
    from .attention import Linear as Linear
    from .attention import MultiHead as MultiHead
    from .attention import ReLU as ReLU
    from .attention import RoPE as RoPE
    from .attention import Sigmoid as Sigmoid
    from .attention import Sinkhorn as Sinkhorn
    from .attention import Sinks as Sinks
    from .attention import Softmax as Softmax
    from .attention import Unnormalized as Unnormalized
    from .attention import Window as Window
    from .driver import SolverError as SolverError
    from .driver import layers as layers
    from .driver import simulate as simulate
    from .driver import simulate_many as simulate_many
    from .flows import NoClosedEquation as NoClosedEquation
    from .flows import velocity_field as velocity_field
    from .mlp import MLP as MLP
    from .noise import AnisotropicNoise as AnisotropicNoise
    from .noise import BrownianNoise as BrownianNoise
    from .noise import CommonNoise as CommonNoise
    from .noise import EuclideanNoise as EuclideanNoise
    from .noise import MultiplicativeNoise as MultiplicativeNoise
    from .noise import SphereNoise as SphereNoise
    from .normalization import NGPT as NGPT
    from .normalization import LayerNorm as LayerNorm
    from .normalization import MixLN as MixLN
    from .normalization import NoNorm as NoNorm
    from .normalization import PeriLN as PeriLN
    from .normalization import PostLN as PostLN
    from .normalization import PostNorm as PostNorm
    from .normalization import PreLN as PreLN
    from .normalization import PreNorm as PreNorm
    from .normalization import Projected as Projected
    from .normalization import Rescaled as Rescaled
    from .normalization import RMSNorm as RMSNorm
    from .normalization import SqrtScaling as SqrtScaling
    from .observables import at_most_clusters as at_most_clusters
    from .observables import attention_matrix as attention_matrix
    from .observables import clusters as clusters
    from .observables import cosine_above as cosine_above
    from .observables import effective_rank as effective_rank
    from .observables import energy as energy
    from .observables import energy_settled as energy_settled
    from .observables import fraction_above as fraction_above
    from .observables import kde_modes as kde_modes
    from .observables import leaders as leaders
    from .observables import mean_cosine as mean_cosine
    from .observables import mean_distance as mean_distance
    from .observables import mean_length as mean_length
    from .observables import metastable_states as metastable_states
    from .observables import normalized_energy as normalized_energy
    from .observables import one_cluster as one_cluster
    from .observables import order_above as order_above
    from .observables import order_parameter as order_parameter
    from .observables import pairwise_cosines as pairwise_cosines
    from .observables import renyi_centers as renyi_centers
    from .observables import smallest_cosine as smallest_cosine
    from .observables import soft_cluster_count as soft_cluster_count
    from .observables import wasserstein as wasserstein
    from .plotting.comparison import compare as compare
    from .probe.pretrained import Pretrained as Pretrained
    from .probe.pretrained import from_pretrained as from_pretrained
    from .results import Ensemble as Ensemble
    from .results import Event as Event
    from .results import Trajectory as Trajectory
    from .results import load as load
    from .solver import Layers as Layers
    from .solver import Solution as Solution
    from .solver import solve as solve
    from .spaces import Euclidean as Euclidean
    from .spaces import Hyperbolic as Hyperbolic
    from .spaces import Sphere as Sphere
    from .spaces import Torus as Torus
    from .states import CircleDensity as CircleDensity
    from .states import Equiangular as Equiangular
    from .states import Gaussian as Gaussian
    from .states import SphereDensity as SphereDensity
    from .states import Tokens as Tokens
    from .states import ZonalDensity as ZonalDensity
    from .states import circle_tokens as circle_tokens
    from .states import equiangular_tokens as equiangular_tokens
    from .states import gaussian_tokens as gaussian_tokens
    from .states import hemisphere as hemisphere
    from .states import nearly_equiangular as nearly_equiangular
    from .states import perturbed as perturbed
    from .states import separated_clusters as separated_clusters
    from .states import sinusoidal as sinusoidal
    from .states import tokens_in as tokens_in
    from .states import uniform_sphere as uniform_sphere
    from .theory.prediction import predict as predict
    from .transformer import Transformer as Transformer
    from .transformer import by_layer as by_layer

_HOMES = {
    "attention": "Softmax L2 Sinkhorn Unnormalized Linear ReLU Sigmoid Hardmax MultiHead RoPE ALiBi Bias Window Sinks",
    "normalization": "NoNorm Rescaled PostLN PreLN PeriLN MixLN NGPT SqrtScaling PreNorm PostNorm LayerNorm RMSNorm Projected",
    "spaces": "Sphere Euclidean Torus Hyperbolic",
    "mlp": "MLP",
    "transformer": "Transformer by_layer",
    "probe.pretrained": "from_pretrained Pretrained",
    "noise": "SphereNoise EuclideanNoise BrownianNoise CommonNoise AnisotropicNoise MultiplicativeNoise",
    "states": "Tokens Gaussian Equiangular CircleDensity SphereDensity ZonalDensity "
    "uniform_sphere gaussian_tokens hemisphere equiangular_tokens "
    "nearly_equiangular separated_clusters circle_tokens perturbed tokens_in sinusoidal",
    "flows": "NoClosedEquation velocity_field",
    "solver": "solve Solution Layers",
    "driver": "simulate simulate_many layers SolverError",
    "theory.prediction": "predict",
    "plotting.comparison": "compare",
    "results": "Trajectory Ensemble Event load",
    "observables": "energy normalized_energy order_parameter mean_cosine mean_length mean_distance pairwise_cosines "
    "smallest_cosine fraction_above clusters soft_cluster_count effective_rank "
    "wasserstein attention_matrix renyi_centers metastable_states leaders kde_modes one_cluster at_most_clusters "
    "order_above cosine_above energy_settled",
}
_PACKAGES = """spaces attention normalization noise states flows solver results driver observables theory lipschitz studies
clustering config spectral plotting report sweep probe atlas explorer cli"""

__all__, _get, _ = lazy(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("tokenfield")
    return import_module(f"{__name__}.{name}") if name in _PACKAGES.split() else _get(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES.split(), "__version__"])
