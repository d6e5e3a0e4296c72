"""Densities on spheres: as weighted nodes of a quadrature that move (no noise), and as a series on the circle (with noise).

Without noise a measure is carried by the flow, so `∫ f dmu_t = ∫ f(x_t) dmu_0`, and a quadrature of smooth functions stays
one. With noise the law obeys `p' = p''/kappa - (p v)'` on the circle.
"""

import numpy as np
from scipy.integrate import solve_ivp

from ..draws import Case, Head


def circle_nodes(count):
    """Evenly spaced points and weights."""
    t = 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(t), np.sin(t)], 1), np.full(count, 1 / count)


def sphere_nodes(count):
    """Gauss–Legendre latitudes times even longitudes."""
    z, q = np.polynomial.legendre.leggauss(count)
    t = 2 * np.pi * np.arange(2 * count) / (2 * count)
    s = np.sqrt(1 - z**2)
    x = np.stack([s[:, None] * np.cos(t), s[:, None] * np.sin(t), z[:, None] * np.ones_like(t)], -1).reshape(-1, 3)
    return x, np.repeat(q / q.sum() / len(t), len(t))


def carried(kernel, beta, x, w, t1, v=1.0):
    """Nodes at time t1 under Post-LN."""
    case = Case("nodes", x, w, None, (Head(kernel, beta=beta, V=v),), norm="post")
    return Fast(case).end(t1)


class Fast:
    """The flow of many weighted tokens, in matrix form."""

    def __init__(self, case):
        self.case = case

    def velocity(self, t, y):
        case, head = self.case, self.case.heads[0]
        x = y.reshape(case.x.shape)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        k = np.exp(head.beta * (x @ x.T - (1 if head.kernel == "softmax" else 0))) * case.w
        out = head.V * (k @ x) / (k.sum(1, keepdims=True) if head.kernel == "softmax" else 1)
        return (out - x * (x * out).sum(1, keepdims=True)).ravel()

    def end(self, t1):
        run = solve_ivp(self.velocity, (0, t1), self.case.x.ravel(), method="DOP853", rtol=1e-10, atol=1e-12)
        x = run.y[:, -1].reshape(self.case.x.shape)
        return x / np.linalg.norm(x, axis=1, keepdims=True)


def carried_by(heads, x, w, t1):
    """Nodes at time t1 under Post-LN, for heads of any kernel (see `layers_of_states.pull`)."""
    from .layers_of_states import pull

    def f(_, y):
        y = y.reshape(x.shape)
        y = y / np.linalg.norm(y, axis=1, keepdims=True)
        out = pull(heads, y, y, w)
        return (out - y * (y * out).sum(1, keepdims=True)).ravel()

    y = solve_ivp(f, (0, t1), x.ravel(), method="DOP853", rtol=1e-9, atol=1e-11).y[:, -1].reshape(x.shape)
    return y / np.linalg.norm(y, axis=1, keepdims=True)


def moments(x, w):
    """First, second and third moments of weighted points."""
    first = w @ x
    second = np.einsum("i,ij,ik->jk", w, x, x)
    third = np.einsum("i,ij,ik,il->jkl", w, x, x, x)
    return np.concatenate([first, second.ravel(), third.ravel()])


def noisy_circle(kernel, beta, kappa, p, t1):
    """The density on an even grid at time t1, by its Fourier series; p at time 0, with mean 1."""
    count = len(p)
    t = 2 * np.pi * np.arange(count) / count
    k = np.fft.fftfreq(count, 1 / count)
    transform = np.fft.fft(np.exp(beta * np.cos(t))) / count
    slope = np.fft.fft(np.exp(beta * np.cos(t)) * -np.sin(t)) / count  # of e^{beta cos} sin(phi - theta), theta = t

    def f(_, p):
        q = np.fft.fft(p)
        pull = np.fft.ifft(q * slope).real
        v = pull / np.fft.ifft(q * transform).real if kernel == "softmax" else pull
        return np.fft.ifft(-1j * k * np.fft.fft(p * v) - k**2 / kappa * q).real

    return t, solve_ivp(f, (0, t1), p, method="LSODA", rtol=1e-11, atol=1e-12).y[:, -1]


def uneven_circle(beta, D, p, t1, sense):
    """As `noisy_circle` for softmax, with the diffusion D on the grid: `p' = (D p)'' - (p v)'`, or `(D p)'' - ½ (p D')'`."""
    t = 2 * np.pi * np.arange(len(p)) / len(p)
    k = np.fft.fftfreq(len(p), 1 / len(p))
    apart = t[:, None] - t
    kernel = np.exp(beta * np.cos(apart))
    slope = np.fft.ifft(1j * k * np.fft.fft(D)).real / 2 if sense == "stratonovich" else 0.0

    def f(_, p):
        v = -((kernel * np.sin(apart)) @ p) / (kernel @ p) + slope
        return np.fft.ifft(-1j * k * np.fft.fft(p * v) - k**2 * np.fft.fft(D * p)).real

    return solve_ivp(f, (0, t1), p, method="LSODA", rtol=1e-10, atol=1e-12).y[:, -1]
