"""Measured from a state."""

from . import reduced as reduced
from .clustering import Clusters as Clusters
from .clustering import clusters as clusters
from .interaction import energy as energy
from .interaction import normalized_energy as normalized_energy
from .kernel_density import kde_modes as kde_modes
from .leading import leaders as leaders
from .matrix import attention_matrix as attention_matrix
from .metastable import MetastableState as MetastableState
from .metastable import metastable_states as metastable_states
from .order import mean_cosine as mean_cosine
from .order import order_parameter as order_parameter
from .order import pairwise_cosines as pairwise_cosines
from .rank import effective_rank as effective_rank
from .renyi import renyi_centres as renyi_centres
from .stopping import at_most_clusters as at_most_clusters
from .stopping import cosine_above as cosine_above
from .stopping import energy_settled as energy_settled
from .stopping import one_cluster as one_cluster
from .stopping import order_above as order_above
from .transport import wasserstein as wasserstein
