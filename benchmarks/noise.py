"""Noisy tokens on the sphere, beside Diffrax's SDE solver with the same drift and the same steps."""

from collections.abc import Iterator
from functools import partial

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np

import tokenfield as tkf
from tokenfield.flows import segments

from .timing import against

N, D, KAPPA, DT, T1 = 256, 3, 4.0, 0.005, 10.0  # 2000 steps
CASES = {"SA, beta = 1": tkf.Softmax(1.0), "USA, beta = 1": tkf.Unnormalized(1.0)}


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, Diffrax's time over ours) for a whole run in the same steps. Both are checked to forget their start alike."""
    start = tkf.uniform_sphere(N, D, seed=0)
    for case, attention in CASES.items():
        model = tkf.Transformer(attention, norm=tkf.PostLN(), noise=tkf.SphereNoise(KAPPA))
        paths = {"diffrax tree": True, "diffrax path": False}
        rivals = {name: partial(by_diffrax, model, start, 1, tree) for name, tree in paths.items()}
        order = lambda run: np.mean([np.linalg.norm(np.mean(run(seed), axis=0)) for seed in range(8)])  # noqa: E731
        theirs = order(lambda seed, model=model: by_diffrax(model, start, seed, tree=False))
        for method in ("euler", "heun"):
            run = partial(by_us, model, start, method)
            assert abs(order(run) - theirs) < 0.1
            yield f"noisy tokens ({N}, {D}), {case}, {method}", against(partial(run, 1), rivals)


def by_us(model: tkf.Transformer, start: tkf.Tokens, method: str, seed: int) -> jax.Array:
    options = {"dt": DT, "method": method, "save_at": [T1], "progress": False}
    return tkf.simulate(model, start, T1, seed=seed, **options).final.x


def by_diffrax(model: tkf.Transformer, start: tkf.Tokens, seed: int, tree: bool) -> jax.Array:
    drift = segments(start, eqx.tree_at(lambda m: m.noise, model, None))[0].flow
    return jax.block_until_ready(_solve(drift, start.x, jax.random.key(seed), tree))


@eqx.filter_jit
def _solve(flow, x, key, tree):
    """`dX = P drift dt + sqrt(2/kappa) P_X ∘ dB` by EulerHeun, which is made for Stratonovich equations."""
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    path = (
        diffrax.VirtualBrownianTree(0.0, T1, tol=DT / 2, shape=shape, key=key)
        if tree
        else diffrax.UnsafeBrownianPath(shape=shape, key=key)
    )

    def drift(t, x, args):
        return flow.velocity(t, flow.pack(tkf.Tokens(x))).theta

    def diffusion(t, x, args):
        u = x / jnp.linalg.norm(x, axis=-1, keepdims=True)
        push = lambda dB: (2 / KAPPA) ** 0.5 * (dB - (u * dB).sum(-1, keepdims=True) * u)  # noqa: E731
        return lineax.FunctionLinearOperator(push, shape)

    terms = diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(diffusion, path))
    adjoint = diffrax.DirectAdjoint() if not tree else diffrax.RecursiveCheckpointAdjoint()
    solution = diffrax.diffeqsolve(terms, diffrax.EulerHeun(), 0.0, T1, DT, x, max_steps=None, adjoint=adjoint)
    return solution.ys[-1]
