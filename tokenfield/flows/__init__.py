"""The flow of each kind of state under a Transformer. Importing this package registers all of them."""

from . import density as density
from . import density_layers as density_layers
from . import equiangular as equiangular
from . import gaussian as gaussian
from . import tokens as tokens
from .base import AbstractFlow as AbstractFlow
from .base import AbstractNoisyFlow as AbstractNoisyFlow
from .base import AbstractRescaledFlow as AbstractRescaledFlow
from .base import AbstractSpectralFlow as AbstractSpectralFlow
from .base import Limits as Limits
from .base import NoClosedEquation as NoClosedEquation
from .base import Reduction as Reduction
from .base import Segment as Segment
from .base import admit as admit
from .base import admit_all as admit_all
from .base import is_random as is_random
from .base import reduced as reduced
from .base import reduced_all as reduced_all
from .base import segments as segments
from .base import states_that_close as states_that_close
from .density_modes import refined as refined
from .density_modes import with_most_modes as with_most_modes
from .field import velocity_field as velocity_field
