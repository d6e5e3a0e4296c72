"""Six behaviors of a covariance in the plane, each shown by one choice of Q, K, V under four kernels."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..attention import L2, MultiHead, Sinkhorn, Softmax
from ..driver import simulate_many
from ..results import Ensemble
from ..states import Gaussian
from ..transformer import Transformer

KERNELS = ("softmax", "L2", "Sinkhorn", "multi-head")
LARGE = 5.0  # starts have trace 1; a run that ends with a trace above this, without blowing up, counts as growing
TIMES = 240


class Case(NamedTuple):
    """A behavior, matrices that show it, and the outcome for each of `KERNELS`."""

    name: str
    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    t1: float
    outcomes: tuple[str, str, str, str]
    formula: str
    normalized: bool = False
    view: tuple[float, float] = (14, -62)
    hurry: float = 1.0  # V is multiplied by this for starts with c < 0, which only rescales their time


def _rows(*rows: tuple[float, float]) -> np.ndarray:
    return np.array(rows, float)


EYE = np.eye(2)
q = np.array([0.40632365, 0.91372922])
NARROW = np.stack([q, 0 * q])  # a head of width 1
TURN = _rows((1, -1), (1, 1)) / np.sqrt(2)
DIAGONAL = r"\mathrm{diag}"
# The edges of the sets of limits, as covariances of trace 1.
ALONG = np.outer([q[1], -q[0]], [q[1], -q[0]])  # the line orthogonal to q
TARGETS = {
    "to a line": (ALONG,),
    "to a plane": (ALONG, np.diag([0.0, 1.0])),
    "to two lines": (_rows((1, 1), (1, 1)) / 2, _rows((1, -1), (-1, 1)) / 2),
}

# Why each case behaves as it does, for softmax with A = K^T Q (times are up to the factor 1/sqrt 2 in A):
#   zero       Sigma' = -2 Sigma^2.
#   line       A = -q q^T. The limits are those of FORMULAS §5: multiples of u u^T, u orthogonal to q. With two heads
#              only the first row of V has a score, which is the next case.
#   plane      x_2 is constant and x_1' = -(Sigma q)_1 <q, x>, until x_1 and <q, x> are uncorrelated.
#   two lines  A = diag(1, -1), V = -A: c is constant, a' = -2(a^2 - c^2), b' = -2(b^2 - c^2), so a, b tend to |c|.
#   blow-up    A is positive definite.
#   mixed      x_2 is constant and x_1' = c x_1, so c' = c^2: a blow-up at 1/c_0 if c_0 > 0, else x_1 tends to 0.
# For heads of width 1, `B Sigma` is proportional to `Sigma k q^T Sigma` for all three kernels: the same curve at different speeds.
CASES = (
    Case("to zero", EYE, -EYE, EYE, 1e5, ("to zero",) * 4, "$Q=I,$\n$K=-I,$\n$V=I$"),
    Case("to a line", NARROW, -NARROW, EYE, 3e3, (*("to a line",) * 3, "to a plane"), "$Q=q,$\n$K=-q,$\n$V=I$"),
    Case(
        "to a plane",
        NARROW,
        -NARROW,
        np.diag([1.0, 0]),
        3e3,
        ("to a plane",) * 4,
        f"$Q=q,$\n$K=-q,$\n$V={DIAGONAL}(1,0)$",
    ),
    Case(
        "to two lines",
        TURN,
        TURN @ np.diag([1.0, -1]),
        np.diag([-1.0, 1]),
        3e2,
        ("to two lines",) * 4,
        f"$K^{{\\!\\top}}\\!Q={DIAGONAL}(1,-1),$\n$V={DIAGONAL}(-1,1)$",
        view=(14, -25),
    ),
    Case(
        "blow-up",
        _rows((1, 0.5), (0.5, 1)),
        EYE,
        EYE,
        9.0,
        ("blows up", r"grows like $e^{3t}$", r"grows like $e^{2t}$", "blows up"),
        "$Q=\\left(^{1}_{.5}\\ ^{.5}_{1}\\right),$\n$K=I,$\n$V=I$",
        normalized=True,
    ),
    Case(
        "mixed",
        _rows((1, 0), (0, 0)),
        _rows((0, 1), (0, 0)),
        np.diag([1.0, 0]),
        24.0,
        (*("to a line, or blows up",) * 2, "to a line, or grows", "to a line, or blows up"),
        f"$Q=e_1^{{\\top}},$\n$K=e_2^{{\\top}},$\n$V={DIAGONAL}(1,0)$",
        normalized=True,
        hurry=30.0,
    ),
)


def cone_starts(quick: bool = False) -> np.ndarray:
    """Return (m, 2, 2) covariances of trace 1, on rings around I/2; none of them diagonal."""
    rings = ((0.4, 4), (0.85, 8)) if quick else ((0.3, 6), (0.6, 12), (0.85, 18))
    points = [(r, 2 * np.pi * (k + 0.42) / count) for r, count in rings for k in range(count)]
    x, y = np.array([(r * np.cos(angle), r * np.sin(angle)) for r, angle in points]).T
    return np.stack([np.stack([1 + x, y], -1), np.stack([y, 1 - x], -1)], -2) / 2


class _Held(eqx.Module):
    """A constant as a function of time, which hides from Sinkhorn that A is symmetric: it would compile another program."""

    value: Array

    def __call__(self, t):
        return self.value


def cone_attention(case: Case, kernel: str, speed: float = 1.0) -> MultiHead:
    """Return the attention of a case under a kernel.

    Softmax and L2 use `K^T Q/sqrt(2)`, Sinkhorn `K^T Q`, and multi-head two softmax heads of width 1 (the rows of Q, K, V).
    All kernels are heads of one attention, in which the others are switched off: one compiled program serves every kernel.
    """
    on = speed * np.array([name == kernel for name in KERNELS], float)
    whole: dict[str, Any] = {"Q": case.Q, "K": case.K, "V": case.V}
    root = 1 / np.sqrt(2)
    rows: list[dict[str, Any]] = [{name: value[h : h + 1] for name, value in whole.items()} for h in range(2)]
    sinkhorn = Sinkhorn(A=_Held(jnp.asarray(case.K.T @ case.Q)), V=case.V)
    heads = [Softmax(root, **whole), L2(root, **whole), sinkhorn, *(Softmax(1.0, **row) for row in rows)]
    return MultiHead(heads, [*on[:3], *(on[3] * EYE[:, h : h + 1] for h in range(2))])


def run_case(case: Case, starts: np.ndarray) -> Ensemble:
    """Return the runs of all starts under all kernels: members are ordered by kernel, then by start."""
    speeds = np.where(starts[:, 0, 1] < 0, case.hurry, 1.0)
    models = [Transformer(cone_attention(case, kernel, speed)) for kernel in KERNELS for speed in speeds]
    states = [Gaussian(None, start) for start in starts] * len(KERNELS)
    times = 2 * np.sinh(np.linspace(0, np.arcsinh(case.t1 / 2), TIMES))  # evenly spaced at first, then geometric
    times[-1] = case.t1
    return simulate_many(models, states, case.t1, save_at=times, rtol=1e-10, atol=1e-13, progress=False)


def cone_study(quick: bool = False) -> list[Ensemble]:
    """Return the runs of six choices of Q, K, V under softmax, L2, Sinkhorn and multi-head attention (FORMULAS §5).

    The states are covariances in the plane. There is one ensemble for each choice, for `tkf.plotting.cone_figure`.

    Args:
        quick: start from 12 covariances instead of 36.

    Example:
        >>> import tokenfield as tkf
        >>> found = tkf.studies.cone_study(quick=True)  # doctest: +SKIP
        >>> tkf.plotting.cone_figure(found).savefig("cones.pdf")  # doctest: +SKIP
    """
    starts = cone_starts(quick)
    return [run_case(case, starts) for case in CASES]


def outcomes(run: Ensemble) -> np.ndarray:
    """Return "blows up", "grows" or "settles" for each member."""
    blown = np.array([any(event.kind == "blow_up" for event in events) for events in run.events])
    large = np.trace(run.dataset["end_cov"].values, axis1=1, axis2=2) > LARGE
    return np.where(blown, "blows up", np.where(large, "grows", "settles"))
