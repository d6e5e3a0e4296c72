"""What tests of noise share."""

import numpy as np

import tokenfield as tkf

STILL = tkf.Linear(beta=1.0, V=0.0)


def on_sphere(noise, attention=STILL, **parts):
    return tkf.Transformer(attention, norm=tkf.PostLN(), noise=noise, **parts)


def within(samples, exact, sigmas=3.0):
    """The mean of independent samples agrees with an exact value within its statistical error."""
    error = samples.std() / np.sqrt(samples.size)
    return abs(samples.mean() - exact) < sigmas * error
