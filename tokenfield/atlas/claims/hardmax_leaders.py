"""Hardmax layers: leaders never move, and all other tokens converge to their convex hull."""

import numpy as np

import tokenfield as tkf
from tokenfield.attention import Measure

from ..claim import Claim, Evidence, at_most, equal

N, D, ALPHA, DEPTH = 60, 2, 0.5, 400


def layers(z: np.ndarray, rule: str, depth: int = DEPTH) -> np.ndarray:
    """Return tokens after each layer `z_i <- (z_i + alpha mean_{C_i} z_j)/(1 + alpha)` of rescaled hardmax attention."""
    import jax
    import jax.numpy as jnp

    attention = tkf.Hardmax(rule=rule)
    w, s, zero = jnp.full(len(z), 1 / len(z)), jnp.arange(1, len(z) + 1) / len(z), jnp.zeros(())

    def layer(z, _):
        z = (z + ALPHA * attention.of_itself(zero, Measure(z, w, s))) / (1 + ALPHA)
        return z, z

    return np.asarray(jax.lax.scan(layer, jnp.asarray(z), None, length=depth)[1])


def measure(quick: bool) -> Evidence:
    seeds = range(3 if quick else 20)
    still, far, found = 0.0, 0.0, []
    for seed in seeds:
        z = np.asarray(tkf.gaussian_tokens(N, D, seed=seed).x)
        lead = tkf.leaders(tkf.Tokens(z))
        path = layers(z, "self")
        still = max(still, np.abs(path[-1][lead] - z[lead]).max())
        hull = np.array([_distance_to_hull(point, z[lead]) for point in path[-1]])
        far = max(far, hull.max())
        found.append(len(lead))
        if seed == 0:
            shown = z, lead, path
    checks = [
        at_most("rule self: largest displacement of a leader (scores within 1e-9 count as ties)", 1e-8, still),
        at_most("rule self: largest distance of a final token from the hull of the leaders", 1e-6, far),
    ]
    z = np.array(shown[0])
    z[1] = z[0] = z[shown[1][0]]  # three tokens at the position of a leader
    lead = tkf.leaders(tkf.Tokens(z))
    checks.append(equal("tokens at the position of a leader are leaders too", True, {0, 1} <= set(lead.tolist())))
    stay = layers(z, "self", 50)[-1]
    checks.append(at_most("coincident leaders, rule self: displacement", 1e-8, np.abs(stay[lead] - z[lead]).max()))
    leave = layers(z, "others", 1)[-1]
    checks.append(
        equal(
            "coincident leaders, rule others: they attend to other tokens and move",
            True,
            bool(np.abs(leave[lead] - z[lead]).max() > 1e-3),
        )
    )
    together = np.abs(layers(z, "others", 50)[-1][[0, 1]] - layers(z, "others", 50)[-1][shown[1][0]]).max()
    checks.append(at_most("coincident tokens stay together under rule others", 1e-12, together))
    near = np.array([[1.0, 0.0], [1.0, 1e-12], [-0.5, 0.2]])
    checks.append(
        equal("positions equal within the tolerance count as one", [0, 1, 2], tkf.leaders(tkf.Tokens(near)).tolist())
    )
    return Evidence(tuple(checks), draw(*shown), CAPTION)


def _distance_to_hull(point: np.ndarray, corners: np.ndarray) -> float:
    """Return the distance from a point to the convex hull of the corners, by non-negative least squares."""
    from scipy.optimize import nnls

    large = 1e4  # weight of the condition that the coefficients sum to 1
    A = np.vstack([corners.T, large * np.ones(len(corners))])
    weights = nnls(A, np.append(point, large))[0]
    return float(np.linalg.norm(corners.T @ weights - point))


CAPTION = f"{N} Gaussian tokens in the plane under {DEPTH} hardmax layers. Leaders (large dots) do not move; the others approach."


def draw(z, lead, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    ax = figure.subplots()
    every = np.concatenate([z[None], path])
    ax.plot(every[..., 0], every[..., 1], color="#9a9a9a", lw=0.5)
    ax.plot(*z.T, "o", ms=3, color="#0072B2", label="start")
    ax.plot(*path[-1].T, "x", ms=5, color="#D55E00", label="end")
    ax.plot(*z[lead].T, "o", ms=9, mfc="none", color="#000000", label="leaders")
    ax.set(xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
    ax.legend(frameon=False, fontsize=8)
    return figure


CLAIM = Claim(
    id="hardmax_leaders",
    section="Metastability",
    title="Hardmax: leaders never move and attract the other tokens",
    statement="Let z_i ← (z_i + α m_i)/(1+α), where m_i is the mean of the z_j in C_i, the tokens that maximize "
    "<z_i, z_j> (j = i allowed). A token "
    "with C_i = {i}, a leader, never moves, and all tokens end in the convex hull of the leaders. If instead C_i excludes tokens "
    "at the same position as i, leaders move too.",
    source="Alcalde, Fantuzzi, Zuazua 2025; Rigollet, The mean-field dynamics of Transformers, §5.2 (whose footnote attributes "
    "the second rule to the first paper)",
    measure=measure,
)
