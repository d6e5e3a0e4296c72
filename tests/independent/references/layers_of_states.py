"""Layers on Gaussians, on densities as weighted nodes, and on tokens at equal angles, written out."""

import mpmath as mp
import numpy as np

from . import gaussians, theory
from .kernels import value_matrix


def gaussian_layer(heads, outputs, mean, cov, h):
    """`x <- x + h Gamma(x)` for an affine Gamma: the covariance is that of `(I + h G) x`."""
    d = len(mean)
    moved, turned = np.zeros(d), np.zeros((d, d))  # Gamma(mean), G cov
    for k, head in enumerate(heads):
        V = value_matrix(head, d)
        V = V if outputs is None else outputs[k] @ V
        c, BS, Bm = gaussians.affine(head, mean, cov)
        moved, turned = moved + V @ (c + Bm), turned + V @ BS
    G = turned @ np.linalg.inv(cov)
    T = np.eye(d) + h * G
    return mean + h * moved, T @ cov @ T.T


def pull(heads, x, y, w):
    """Attention at points x to weighted points y; heads are (phi of the cosine, divided by its integral?, factor)."""
    total = np.zeros_like(x)
    for phi, normalized, factor in heads:
        k = phi(x @ y.T) * w
        total += factor * (k @ y) / (k.sum(1, keepdims=True) if normalized else 1.0)
    return total


def nodes_layer(heads, x, w, h):
    """Weighted nodes after one layer under Post-LN."""
    z = x + h * pull(heads, x, x, w)
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def equal_angle_layer(cosine, n, beta, h):
    """The cosine after one layer with V = -1 of n tokens at equal angles, from the Gram matrix of its outputs (mpmath)."""
    rho, n, beta, h = (mp.mpf(each) for each in (cosine, n, beta, h))
    Z = mp.exp(beta) + (n - 1) * mp.exp(beta * rho)
    own, other = 1 - h * mp.exp(beta) / Z, -h * mp.exp(beta * rho) / Z
    square = own**2 + (n - 1) * other**2 + 2 * (n - 1) * own * other * rho + (n - 1) * (n - 2) * other**2 * rho
    inner = rho * own**2 + 2 * own * other * (1 + (n - 2) * rho) + other**2 * ((n - 2) + ((n - 1) ** 2 - (n - 2)) * rho)
    return inner / square


def wave_factor(k, beta, d, h, v, attention):
    """`1 + h v lambda_k/(1 + h v rho)`, by mpmath."""
    rho = theory.multiplier(1, beta, d) / (theory.multiplier(0, beta, d) if attention == "softmax" else 1)
    return 1 + mp.mpf(h) * v * theory.growth_rate(k, beta, d, attention) / (1 + mp.mpf(h) * v * rho)
