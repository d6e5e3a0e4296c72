"""Normalization rules, one per file: speed factor, radial equation, discrete layer."""

from .base import AbstractDirectionNorm as AbstractDirectionNorm
from .base import AbstractGainNorm as AbstractGainNorm
from .base import AbstractNorm as AbstractNorm
from .base import AbstractSphereNorm as AbstractSphereNorm
from .base import TerminalLaw as TerminalLaw
from .base import forever as forever
from .base import unit as unit
from .mix_ln import MixLN as MixLN
from .ngpt import NGPT as NGPT
from .no_norm import NoNorm as NoNorm
from .peri_ln import PeriLN as PeriLN
from .post_ln import PostLN as PostLN
from .pre_ln import PreLN as PreLN
from .projected import Projected as Projected
from .real import AbstractTokenMap as AbstractTokenMap
from .real import LayerNorm as LayerNorm
from .real import PostNorm as PostNorm
from .real import PreNorm as PreNorm
from .real import RMSNorm as RMSNorm
from .rescaled import Rescaled as Rescaled
from .sqrt_scaling import SqrtScaling as SqrtScaling
