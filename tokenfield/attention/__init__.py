"""Attention kernels, one per file, behind one abstract class."""

from .base import AbstractAttention as AbstractAttention
from .base import AbstractGeneralHead as AbstractGeneralHead
from .base import AbstractHead as AbstractHead
from .base import AbstractPairwise as AbstractPairwise
from .hardmax import Hardmax as Hardmax
from .l2 import L2 as L2
from .linear import Linear as Linear
from .measure import Measure as Measure
from .multi_head import MultiHead as MultiHead
from .multi_head import heads_and_outputs as heads_and_outputs
from .positions import AbstractBias as AbstractBias
from .positions import AbstractMask as AbstractMask
from .positions import AbstractRotation as AbstractRotation
from .positions import ALiBi as ALiBi
from .positions import Bias as Bias
from .positions import RoPE as RoPE
from .positions import Sinks as Sinks
from .positions import Window as Window
from .relu import ReLU as ReLU
from .sigmoid import Sigmoid as Sigmoid
from .sinkhorn import Sinkhorn as Sinkhorn
from .softmax import Softmax as Softmax
from .unnormalized import Unnormalized as Unnormalized
