"""How a Transformer moves each kind of state. Importing this registers them all."""

from . import density as density
from . import equiangular as equiangular
from . import gaussian as gaussian
from . import tokens as tokens
from .base import AbstractFlow as AbstractFlow
from .base import AbstractNoisyFlow as AbstractNoisyFlow
from .base import NoClosedEquation as NoClosedEquation
from .base import Segment as Segment
from .base import admit as admit
from .base import admit_all as admit_all
from .base import is_random as is_random
from .base import prepare as prepare
from .base import prepare_all as prepare_all
from .base import segments as segments
from .base import states_that_close as states_that_close
