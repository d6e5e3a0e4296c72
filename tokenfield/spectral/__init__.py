"""Functions on spheres as sums of harmonics: the circle, the 2-sphere, and zonal functions in any dimension."""

from .base import AbstractHarmonics as AbstractHarmonics
from .circle import CircleHarmonics as CircleHarmonics
from .multipliers import Multipliers as Multipliers
from .multipliers import kernel_multipliers as kernel_multipliers
from .multipliers import multipliers as multipliers
from .multipliers import scaled_multipliers as scaled_multipliers
from .sphere import SphereHarmonics as SphereHarmonics
from .zonal import ZonalHarmonics as ZonalHarmonics
