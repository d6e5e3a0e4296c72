"""A dataset as the probe makes it, from tokens that are known: no model is needed."""

import json

import numpy as np
import xarray


def tokens(n, rho, d, rng):
    """n unit vectors about a common direction, with cosines about rho."""
    x = rng.standard_normal((n, d)) / np.sqrt(d)
    x[:, 0] += np.sqrt(rho / (1 - rho))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def dataset(depth=4, texts=3, heads=2, n=24, d=64, rho=(0.1, 0.3, 0.5, 0.7, 0.8), seed=0, lipschitz=True):
    """Cosines that rise from layer to layer as `rho` says; other numbers in a plausible range."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(-1, 1, 41)
    shape = (depth + 1, texts)
    lt, bht, bt = ("layer", "text"), ("block", "head", "text"), ("block", "text")
    made = {name: np.empty(shape) for name in ("mean_cosine", "std_cosine", "effective_rank", "normalized_energy")}
    histogram = np.empty((*shape, len(edges) - 1))
    lengths = n + 4 * np.arange(texts)
    for layer in range(depth + 1):
        for text, length in enumerate(lengths):
            x = tokens(length, rho[layer], d, rng)
            cosines = (x @ x.T)[~np.eye(length, dtype=bool)]
            made["mean_cosine"][layer, text], made["std_cosine"][layer, text] = cosines.mean(), cosines.std()
            histogram[layer, text] = np.histogram(cosines, edges)[0]
            made["normalized_energy"][layer, text] = np.exp(2.0 * (x @ x.T - 1)).mean()
            values = np.linalg.svd(x, compute_uv=False) ** 2
            share = values / values.sum()
            made["effective_rank"][layer, text] = np.exp(-(share * np.log(share)).sum())
    beta = rng.uniform(1, 6, (depth, heads, texts))
    gamma = beta / np.log(lengths)
    entropy = rng.uniform(0.5, 3, beta.shape)
    data = {
        **{name: (lt, value) for name, value in made.items()},
        "mean_cosine_no_special": (lt, made["mean_cosine"] - 0.03),
        "special_cosine": (lt, made["mean_cosine"] + 0.05),
        "cosine_histogram": (("layer", "text", "bin"), histogram),
        "bin_edges": ("edge", edges),
        "clusters": (lt, np.full(shape, 5)),
        "largest_cluster": (lt, np.full(shape, 9)),
        "single_tokens": (lt, np.full(shape, 7)),
        "cluster_cosine": (lt, np.full(shape, 0.83)),
        "mean_length": (lt, np.full(shape, 8.0)),
        "norm_std": (lt, np.full(shape, 0.5)),
        "null_mean_cosine": (lt, made["mean_cosine"] * 0.5),
        "entropy": (bht, entropy),
        "self_mass": (bht, rng.uniform(0, 0.3, beta.shape)),
        "first_mass": (bht, rng.uniform(0, 0.6, beta.shape)),
        "beta": (bht, beta),
        "gamma": (bht, gamma),
        "critical_gamma": (bt, 1 / (1 - made["mean_cosine"][:-1])),
        "r2gamma": (bht, rng.uniform(10, 1000, beta.shape)),
        "tokens": ("text", lengths),
        "text_excerpt": ("text", np.array([f"text <{k}> & more" for k in range(texts)], dtype=object)),
    }
    if lipschitz:
        sizes = np.array([8, 16, 32])
        growth = 3.0 * sizes[None, :, None] ** np.linspace(0.2, 0.5, depth)[:, None, None]
        data["lipschitz"] = (("block", "length", "sample"), growth * rng.uniform(0.95, 1.05, (depth, 3, 4)))
        data["lipschitz_worst"] = (("block", "length"), 7.0 * sizes**0.5 * np.ones((depth, 1)))
        data["lipschitz_upper"] = (("block", "length"), 50 * growth[:, :, 0])
    coords = {"layer": np.arange(depth + 1), "block": np.arange(depth), "head": np.arange(heads)}
    if lipschitz:
        coords["length"] = sizes
    attrs = {"notes": json.dumps(["made up"]), "model": "made-up", "tokenfield_version": "0"}
    return xarray.Dataset(data, coords=coords, attrs=attrs)
