"""Numbers of tokenfield that the engine of the page must repeat: python golden.py numbers.json."""

import json
import sys
from pathlib import Path

import numpy as np

import tokenfield as tkf
from tokenfield.config import build
from tokenfield.config.run import RunConfig
from tokenfield.flows import segments
from tokenfield.states.samplers import sphere_points

A = {2: [[1.5, -0.4], [0.8, 2.0]], 3: [[1.5, -0.4, 0.2], [0.8, 2.0, -0.3], [0.1, 0.5, 1.0]]}
V = {2: [[1.0, 0.3], [-0.2, 0.8]], 3: [[1.0, 0.3, 0.0], [-0.2, 0.8, 0.1], [0.0, 0.4, 1.2]]}
PLAIN = {
    "softmax": {"beta": 4.0},
    "unnormalized": {"beta": 2.0},
    "l2": {"beta": 1.5},
    "sigmoid": {"beta": 3.0},
    "hardmax": {"rule": "others"},
}
NORMS = [
    {"kind": "post"},
    {"kind": "pre"},
    {"kind": "peri"},
    {"kind": "mix", "tau": 1.3},
    {"kind": "ngpt", "alpha": 0.7},
    {"kind": "sqrt"},
]
N, SEED = 9, 5
WEIGHTS = (np.arange(1, N + 1) / (N * (N + 1) / 2)).tolist()


def attentions(d: int) -> list[dict]:
    """Every kernel: isotropic; causal with V a number; with matrices A and V where it takes them."""
    found = []
    for kind, plain in PLAIN.items():
        found.append({"kind": kind, **plain})
        found.append({"kind": kind, **plain, "causal": True, "V": -0.6})
        general = {"beta": 1.5} if kind == "l2" else {"A": A[d]}
        found.append({"kind": kind, **general, "V": V[d]} | ({"rule": "self"} if kind == "hardmax" else {}))
    found.append({"kind": "softmax", "beta": -3.0})
    found.append({"kind": "softmax", "beta": 200.0})
    found.append({"kind": "unnormalized", "beta": 40.0})
    return found


def model(attention: dict, norm: dict):
    return build.model(RunConfig(attention=attention, norm=norm))


def tokens(d: int, weights: list[float] | None) -> tkf.Tokens:
    return tkf.Tokens(sphere_points(N, d, SEED), weights)


def velocity(attention: dict, norm: dict, d: int, t: float, weights: list[float] | None = None) -> dict:
    """dy/dt of directions, and of lengths where they evolve, at time t. Lengths are 1, 1.1, 1.2, …; 1 before tau."""
    state = tokens(d, weights)
    *_, last = parts = segments(state, model(attention, norm))
    flow = next((part for part in parts if t <= part.until), last).flow
    y = flow.pack(state)
    lengths = None if y.r is None else 1 + (0.1 if t > norm.get("tau", 0) else 0.0) * np.arange(N)
    y = y._replace(r=lengths)
    rate = flow.velocity(np.asarray(t), y)
    return {
        "attention": attention,
        "norm": norm,
        "d": d,
        "t": t,
        "weights": weights,
        "lengths": [] if lengths is None else lengths.tolist(),
        "theta": np.asarray(rate.theta).ravel().tolist(),
        "r": [] if rate.r is None else np.asarray(rate.r).tolist(),
    }


def velocities() -> list[dict]:
    found = [velocity(attention, {"kind": "post"}, d, 0.0, WEIGHTS) for d in (2, 3) for attention in attentions(d)]
    for norm in NORMS:
        for t in (0.5, 2.0):
            found.append(velocity({"kind": "softmax", "beta": 4.0}, norm, 3, t))
        found.append(velocity({"kind": "unnormalized", "beta": 2.0, "V": V[2]}, norm, 2, 0.5))
    return found


def alibi() -> dict:
    attention = tkf.Softmax(beta=2.0, causal=True, positions=tkf.ALiBi(slope=3.0))
    state = tokens(3, None)
    (part,) = segments(state, tkf.Transformer(attention, norm=tkf.PostLN()))
    rate = part.flow.velocity(np.zeros(()), part.flow.pack(state)).theta
    return {"beta": 2.0, "slope": 3.0, "d": 3, "theta": np.asarray(rate).ravel().tolist()}


def trajectories() -> list[dict]:
    """Every kernel and every norm to T = 10."""
    cases = [
        ({"kind": "softmax", "beta": 4.0}, NORMS[0], 3),
        ({"kind": "unnormalized", "beta": 1.0, "V": V[3]}, NORMS[1], 3),
        ({"kind": "l2", "beta": 1.5}, NORMS[2], 2),
        ({"kind": "sigmoid", "A": A[3], "causal": True}, NORMS[3], 3),
        ({"kind": "hardmax", "A": A[2], "rule": "self"}, NORMS[4], 2),
        ({"kind": "softmax", "A": A[2], "V": V[2]}, NORMS[5], 2),
    ]
    found = []
    for attention, norm, d in cases:
        solution = tkf.solve(model(attention, norm), tokens(d, None), t1=10.0, rtol=1e-10, atol=1e-12)
        x = np.asarray(solution.final.x).ravel().tolist()
        found.append({"attention": attention, "norm": norm, "d": d, "x": x})
    return found


def observed() -> list[dict]:
    found = []
    for d, spread in ((2, 0.02), (3, 0.02), (3, 0.2)):
        state = tkf.separated_clusters(60, d, k=4, spread=spread, seed=2)
        groups = tkf.clusters(state)
        found.append(
            {
                "d": d,
                "spread": spread,
                "count": len(groups.sizes),
                "labels": groups.labels.tolist(),
                "order": float(tkf.order_parameter(state)),
                "cosine": float(tkf.mean_cosine(state)),
                "energy": float(tkf.normalized_energy(state, 6.0)),
            }
        )
    return found


def starts() -> list[dict]:
    made = [
        ({"kind": "sphere", "n": 700, "d": 3, "seed": 11}, tkf.uniform_sphere(700, 3, seed=11)),
        ({"kind": "sphere", "n": 5, "d": 2, "seed": 2**32 - 1}, tkf.uniform_sphere(5, 2, seed=2**32 - 1)),
        ({"kind": "hemisphere", "n": 20, "d": 3, "seed": 4}, tkf.hemisphere(20, 3, seed=4)),
        (
            {"kind": "clusters", "n": 30, "d": 3, "k": 4, "spread": 0.1, "seed": 3},
            tkf.separated_clusters(30, 3, 4, 0.1, 3),
        ),
        ({"kind": "circle", "angles": [0.1, 2.0, -1.0], "d": 2}, tkf.circle_tokens([0.1, 2.0, -1.0])),
    ]
    return [{"tokens": config, "x": np.asarray(state.x).ravel().tolist()} for config, state in made]


def kicks() -> list[dict]:
    rng = np.random.default_rng(0)
    found = []
    for d in (2, 3):
        x, xi = sphere_points(6, d, 1), rng.standard_normal((6, d))
        moved = x + np.asarray(tkf.Sphere().brownian(xi, x, 0.3))
        found.append({"d": d, "x": x.ravel().tolist(), "xi": xi.ravel().tolist(), "moved": moved.ravel().tolist()})
    return found


def norm_rule(norm: dict):
    return RunConfig(norm=norm).norm.make()


def theory() -> dict:
    t = tkf.theory
    both, dims = ("softmax", "unnormalized"), (2, 3)
    return {
        "multiplier": [
            [k, b, d, t.log_multiplier(k, b, d)] for k in (0, 1, 7) for b in (0.3, 9.0, 300.0) for d in dims
        ],
        "growth": [
            [b, d, kind, t.growth_rates(b, d, kind, 8).tolist()] for b in (0.0, 7.0) for d in dims for kind in both
        ],
        "first": [[b, d, t.first_clusters(b, d)] for b in (0.0, 5.0, 7.0, 100.0) for d in dims],
        "kappa": [[b, d, kind, t.critical_kappa(b, d, kind)] for b in (0.0, 1.0, 9.0) for d in dims for kind in both],
        "star": [[d, t.beta_star(d)] for d in dims],
        "merge": [
            [r, s, b, m, kind, t.pair_merge_time(r, s, b, m, kind, log=True)]
            for r, s, b in ((0.3, 0.99, 20.0), (-0.9, 0.5, 400.0), (0.1, 0.9, 0.0))
            for m in ((0.5, 0.5), (0.1, 0.6))
            for kind in both
        ],
        "collapse": [
            [n, b, norm, kind, t.time_to_cosine(0.999, n, b, norm_rule(norm), 0.1, kind)]
            for n, b, kind in ((32, 4.0, "softmax"), (3, 1.0, "unnormalized"))
            for norm in NORMS
        ],
        "layer": [[r, n, b, t.layer_contraction(r, n, b)] for r in (0.0, 0.5) for n, b in ((100, 9.21), (10**4, 18.4))],
        "gamma": [[r, t.critical_gamma(r)] for r in (0.0, 0.5, 0.9)],
        "order": [
            [b, kappa, d, kind, max(state.m_1 for state in t.stationary_states(b, kappa, d, kind, l_max=1))]
            for b, kappa, d, kind in (
                (0.0, 3.0, 2, "unnormalized"),
                (1.0, 2.5, 2, "unnormalized"),
                (1.0, 4.0, 3, "unnormalized"),
                (4.0, 9.0, 2, "softmax"),
                (4.0, 12.0, 3, "softmax"),
                (1.0, 1.0, 2, "unnormalized"),
            )
        ],
        "influence": [[12, 3.0, s, t.token_influence(12, 60000, 3.0 / 60000, slope=s).tolist()] for s in (0.0, 2.0)],
        "recency": [[s, 0.5, t.recency_ends(s, 0.5)] for s in (0.5, 2.0)],
    }


def equal_angles() -> list[dict]:
    """Order parameter and normalized energy of tokens at equal angles."""
    found = []
    for n, beta, rho in ((3, 1.0, 0.3), (8, 4.0, -0.1), (5, 9.0, 0.95)):
        state = tkf.Equiangular(rho, n).tokens()
        order, energy = float(tkf.order_parameter(state)), float(tkf.normalized_energy(state, beta))
        found.append({"n": n, "beta": beta, "rho": rho, "order": order, "energy": energy})
    return found


def uniform() -> list[dict]:
    """Of the uniform density: its energy, and the attention of a token of n = 10^6 to itself, by quadrature."""
    found = []
    for d, state in ((2, tkf.CircleDensity.uniform(64)), (3, tkf.SphereDensity.uniform(24))):
        for beta in (0.5, 7.0):
            angle = np.linspace(0, np.pi, 200_001)
            weight = np.sin(angle) ** (d - 2)
            mean = np.trapezoid(weight * np.exp(beta * (np.cos(angle) - 1)), angle) / np.trapezoid(weight, angle)
            energy = float(tkf.normalized_energy(state, beta))
            found.append({"d": d, "beta": beta, "energy": energy, "own": 1 / (1 + (10**6 - 1) * mean)})
    return found


def kuramoto() -> list[list[float]]:
    """[r0, t, r] of the wrapped Cauchy density, for which the formula is exact."""
    model, found = tkf.Transformer(tkf.Unnormalized(beta=0.0), norm=tkf.PostLN()), []
    for r0, t in ((0.1, 2.0), (0.3, 1.5)):
        start = tkf.CircleDensity.from_function(lambda a, r=r0: (1 - r * r) / (1 + r * r - 2 * r * np.cos(a)), 64)
        end = tkf.solve(model, start, t1=t, rtol=1e-10, atol=1e-12).final
        found.append([r0, t, float(tkf.order_parameter(end))])
    return found


def gaussians() -> list[dict]:
    """Gaussians of softmax attention without a norm, at time t: of the closed form, and of the flow."""
    found = []
    for A, V, cov, t in (
        ([[0.0, 1.0], [-2.0, -1.0]], 1.0, [[0.7, 0.1], [0.1, 0.3]], 0.6),
        ([[-1.0, 0.2], [0.2, 0.0]], 0.5, [[0.7, 0.1], [0.1, 0.3]], 2.0),
        ([[-1.0, 0.0], [0.0, 0.0]], 1.0, [[0.7, 0.1], [0.1, 0.3]], 0.5),
    ):
        attention, mean = tkf.Softmax(A=A, V=V), [0.5, 0.2]
        end = tkf.solve(tkf.Transformer(attention), tkf.Gaussian(mean, cov), t1=t, rtol=1e-11, atol=1e-13).final
        blowup = tkf.theory.gaussian_blowup_time(A, V, cov)
        given = {"A": A, "v": V, "mean": mean, "cov": cov, "t": t, "blowup": blowup if np.isfinite(blowup) else None}
        covs = [np.asarray(tkf.theory.gaussian_closed_form(A, V, cov, t)), np.asarray(end.cov)]
        found.append(given | {"covs": [each.ravel().tolist() for each in covs], "end": np.asarray(end.mean).tolist()})
    limit = tkf.theory.gaussian_limit([[-1.0, 0.0], [0.0, 0.0]], None, [[0.7, 0.1], [0.1, 0.3]])
    found[-1]["limit"] = np.asarray(limit).ravel().tolist()
    return found


def own_attention() -> dict:
    """Attention of three weighted points to themselves, from the definition."""
    x, masses, beta = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]]), np.array([0.5, 0.3, 0.2]), 2.5
    cosines = x @ x.T
    rows = masses * np.exp(beta * cosines)
    own = np.diag(rows / rows.sum(axis=1, keepdims=True))
    return {"masses": masses.tolist(), "cosines": cosines.tolist(), "beta": beta, "own": own.tolist()}


def changed() -> list[dict]:
    """Three tokens at right angles under beta = 4 until time 1, then under beta = 1: when their cosine is 0.999."""
    found = []
    for norm in ({"kind": "post"}, {"kind": "pre"}, {"kind": "sqrt"}):
        rule, t = norm_rule(norm), tkf.theory
        first = tkf.solve(
            tkf.Transformer(tkf.Softmax(beta=4.0), norm=rule), tkf.Equiangular(0.0, 3), t1=1.0, rtol=1e-11, atol=1e-13
        ).final
        rho = float(first.rho)
        if norm["kind"] == "sqrt":  # in the time 2 sqrt(t+1) it is Post-LN
            post = t.time_to_cosine(0.999, 3, 1.0, "post", rho)
            end = (np.sqrt(2.0) + post / 2) ** 2 - 1
        else:
            end = 1 + t.time_to_cosine(0.999, 3, 1.0, rule, rho, radius=float(first.radius))
        found.append({"norm": norm, "rho": rho, "end": float(end)})
    return found


def pair_lifetimes() -> list[list[float]]:
    """The lifetime of a pair in `tokenfield predict`: until the energy is halfway to that of one cluster."""
    found = []
    for beta in (9.0, 20.0):
        rows = {row.key: row.value for row in tkf.theory.predict(n=2, d=2, beta=beta, angle=90.0)}
        found.append([beta, rows["pair_lifetime"]])
    return found


if __name__ == "__main__":
    numbers = {
        "n": N,
        "seed": SEED,
        "velocities": velocities(),
        "alibi": alibi(),
        "trajectories": trajectories(),
        "observed": observed(),
        "starts": starts(),
        "kicks": kicks(),
        "theory": theory(),
        "lifetimes": pair_lifetimes(),
        "equal": equal_angles(),
        "uniform": uniform(),
        "kuramoto": kuramoto(),
        "own": own_attention(),
        "gaussians": gaussians(),
        "changed": changed(),
    }
    Path(sys.argv[1]).write_text(json.dumps(numbers))
