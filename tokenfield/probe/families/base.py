"""The interface of a family of architectures."""

import abc
from typing import Any, ClassVar, NamedTuple

import numpy as np


class HeadWeights(NamedTuple):
    """The attention of one block, `sum_h O_h sum_j p^h_ij (V_h x_j + v_h) + o` (Vaswani et al. 2017).

    `p^h_ij` is the softmax over j of `scaling <R_i (Q_h x_i + q_h), R_j (K_h x_j + k_h)>`, with R_i the rotation by
    position i (Su et al. 2021), or the identity. Shared key-value heads are repeated, so all arrays have H heads.

    Attributes:
        Q, K, V: (H, k, d) maps; q, k, v: (H, k) their biases.
        O: (H, d, k) output maps; o: (d,) their bias.
        scaling: 1/sqrt(k), usually.
        frequencies: (k/2,) angles per position of the rotary embedding, or None.
        causal: token i attends to tokens j <= i only.
        window: token i attends to tokens j > i - window only; None for no window.
    """

    Q: np.ndarray
    q: np.ndarray
    K: np.ndarray
    k: np.ndarray
    V: np.ndarray
    v: np.ndarray
    O: np.ndarray  # noqa: E741
    o: np.ndarray
    scaling: float
    frequencies: np.ndarray | None = None
    causal: bool = False
    window: int | None = None


class BlockWeights(NamedTuple):
    """The rest of a block, as its modules: the norm of the attention, that of the MLP, and the MLP's linear maps.

    Attributes:
        attention_norm, mlp_norm: LayerNorm or RMSNorm modules.
        inner, outer: (weight, bias) of the MLP's maps, (m, d) and (d, m).
        activation: the name of the activation in the model's config.
        gate: (m, d) weight of the gate, or None.
    """

    attention_norm: Any
    mlp_norm: Any
    inner: tuple[np.ndarray, np.ndarray]
    outer: tuple[np.ndarray, np.ndarray]
    activation: str
    gate: np.ndarray | None = None


class AbstractFamily(abc.ABC):
    """One layout of modules. These methods hide the differences between architectures."""

    model_types: ClassVar[tuple[str, ...]]
    norm: ClassVar[str]
    rms: ClassVar[bool] = False
    rotary: ClassVar[bool] = False

    @abc.abstractmethod
    def causal(self, config: Any) -> bool:
        """Return True if tokens attend only to themselves and earlier tokens."""

    @abc.abstractmethod
    def blocks(self, model: Any) -> list[Any]:
        """Return the blocks in the order in which they are run; a shared block occurs once per layer."""

    @abc.abstractmethod
    def attention(self, block: Any) -> Any:
        """Return the module whose first input is the input of attention."""

    @abc.abstractmethod
    def projection(self, block: Any) -> Any:
        """Return the module whose output is the output of attention, before residual and norm."""

    @abc.abstractmethod
    def weights(self, model: Any, block: Any) -> HeadWeights:
        """Return the real Q, K, V, O of a block, in float64."""

    @abc.abstractmethod
    def block(self, model: Any, block: Any) -> BlockWeights:
        """Return the norms and the MLP of a block, in float64."""

    @abc.abstractmethod
    def embedded(self, model: Any, ids: Any) -> Any:
        """Return the input (1, n, d) of the first block for token ids (1, n)."""

    @abc.abstractmethod
    def final(self, model: Any) -> Any | None:
        """Return the norm after the last block, or None."""

    def supports(self, config: Any) -> tuple[bool, str]:
        """Return whether attention is supported, and the reason if it is not."""
        return True, ""

    def shared(self, config: Any) -> bool:
        """Return True if one block is used for all layers."""
        return False

    def lost_positions(self, config: Any) -> int:
        """Return the number of entries of the position table that no token can use."""
        return 0


def array(parameter: Any) -> np.ndarray:
    """Return a parameter of the model as float64."""
    return parameter.detach().cpu().double().numpy()


def linear(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix (out, in) and the bias (out,) of a linear layer."""
    W = array(layer.weight)
    return W, np.zeros(len(W)) if layer.bias is None else array(layer.bias)


def by_heads(W: np.ndarray, b: np.ndarray, heads: int, repeats: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return (H k, d) as (H, k, d), each head `repeats` times if several queries share it; the bias likewise."""
    split = W.reshape(heads, -1, W.shape[1]), b.reshape(heads, -1)
    return np.repeat(split[0], repeats, axis=0), np.repeat(split[1], repeats, axis=0)


def output_by_heads(W: np.ndarray, heads: int) -> np.ndarray:
    """Return (d, H k) as (H, d, k)."""
    return W.reshape(len(W), heads, -1).transpose(1, 0, 2)
