"""Naive reference: the same mathematics as the package, in plain NumPy loops over tokens.

Slow on purpose, and short enough to be checked by eye against FORMULAS 0, 1, 2, 7 and 9.
The contract tests compare the fast code with it.

Conventions: `x` is (n, d); `w` is (n,), positive, of sum 1; `s` is (n,), positions in [0, 1]. Under
`causal=True` token i sees token j iff `s[j] <= s[i]`; without `s`, token i (from 0) is at (i+1)/n.
Attention matrices hold `P_ij = w_j k(x_i, x_j)`, zero where j is hidden from i, and `Gamma_i = sum_j P_ij V x_j`.
"""

from .attention import attend as attend
from .attention import cauchy as cauchy
from .attention import cauchy_matrix as cauchy_matrix
from .attention import hardmax as hardmax
from .attention import hardmax_matrix as hardmax_matrix
from .attention import l2 as l2
from .attention import l2_matrix as l2_matrix
from .attention import l2_scores as l2_scores
from .attention import linear as linear
from .attention import linear_matrix as linear_matrix
from .attention import mlp as mlp
from .attention import multi_head as multi_head
from .attention import normalized_rows as normalized_rows
from .attention import over_their_sum as over_their_sum
from .attention import plain_rows as plain_rows
from .attention import relu as relu
from .attention import relu_matrix as relu_matrix
from .attention import scores as scores
from .attention import sees as sees
from .attention import sigmoid as sigmoid
from .attention import sigmoid_matrix as sigmoid_matrix
from .attention import sinkhorn as sinkhorn
from .attention import sinkhorn_matrix as sinkhorn_matrix
from .attention import softmax as softmax
from .attention import softmax_matrix as softmax_matrix
from .attention import tangent as tangent
from .attention import unit as unit
from .attention import units as units
from .attention import unnormalized as unnormalized
from .attention import unnormalized_matrix as unnormalized_matrix
from .norms import NORMS as NORMS
from .norms import layer as layer
from .norms import reads as reads
from .norms import rescaled as rescaled
from .norms import rescaled_general as rescaled_general
from .norms import velocity as velocity
from .observables import clusters as clusters
from .observables import energy as energy
from .observables import energy_without_constant as energy_without_constant
from .observables import normalized_energy as normalized_energy
from .observables import order_parameter as order_parameter
