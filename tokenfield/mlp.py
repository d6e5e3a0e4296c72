"""The token-wise multilayer perceptron."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._check import as_float, one_of
from ._kinds import Named
from ._types import Matrix, Vector

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
}


class MLP(Named, eqx.Module):
    """`x -> W_2 sigma(W_1 x + b_1) + b_2`, token by token (FORMULAS §2).

    With a gate it is `x -> W_2 (sigma(G x) ⊙ (W_1 x + b_1)) + b_2`: SwiGLU if sigma is "silu" (Shazeer 2020), as in Llama.

    Args:
        W1: (m, d) weights into the hidden layer.
        W2: (d, m) weights out of it.
        b1: (m,) biases of the hidden layer; 0 by default.
        b2: (d,) biases of the output; 0 by default.
        gate: (m, d) the matrix G.
        activation: "tanh", "relu", "gelu", "gelu_tanh" or "silu". "gelu" is `z Phi(z) = (z/2)(1 + erf(z/sqrt 2))`, PyTorch's
            default and BERT's; "gelu_tanh" is its approximation `(z/2)(1 + tanh(sqrt(2/pi)(z + 0.044715 z^3)))`, GPT-2's
            "gelu_new".

    Example:
        >>> import tokenfield as tkf
        >>> tkf.MLP(W1=[[1.0, 0.0]], W2=[[0.1], [0.2]], activation="tanh")
        MLP(W1=[[1.0, 0.0]], W2=[[0.1], [0.2]], b1=[0.0], b2=[0.0, 0.0])
    """

    W1: Float[Array, "m d"]
    b1: Float[Array, " m"]
    W2: Float[Array, "d m"]
    b2: Float[Array, " d"]
    gate: Float[Array, "m d"] | None
    activation: str = eqx.field(static=True)
    kind: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP"

    def __init__(
        self,
        W1: Matrix,
        W2: Matrix,
        b1: Vector | None = None,
        b2: Vector | None = None,
        activation: str = "tanh",
        gate: Matrix | None = None,
    ):
        self.W1, self.W2 = as_float("W1", W1, 2), as_float("W2", W2, 2)
        if self.W1.shape != self.W2.shape[::-1]:
            raise ValueError(f"W1 and W2 must have shapes (m, d) and (d, m), got {self.W1.shape} and {self.W2.shape}")
        m, d = self.W1.shape
        self.b1 = jnp.zeros(m) if b1 is None else as_float("b1", b1, 1)
        self.b2 = jnp.zeros(d) if b2 is None else as_float("b2", b2, 1)
        if self.b1.shape != (m,) or self.b2.shape != (d,):
            raise ValueError(f"b1 and b2 must have lengths {m} and {d}, got {self.b1.shape[0]} and {self.b2.shape[0]}")
        self.gate = None if gate is None else as_float("gate", gate, 2)
        if self.gate is not None and self.gate.shape != (m, d):
            raise ValueError(f"gate must have the shape of W1, {(m, d)}, got {self.gate.shape}")
        self.activation = one_of("activation", activation, ACTIVATIONS)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        inner, sigma = x @ self.W1.T + self.b1, ACTIVATIONS[self.activation]
        inner = sigma(inner) if self.gate is None else sigma(x @ self.gate.T) * inner
        return inner @ self.W2.T + self.b2

    def check(self, d: int) -> None:
        if self.W1.shape[1] != d:
            raise ValueError(f"W1 must have shape (m, {d}) for tokens in R^{d}, got {self.W1.shape}")
