"""Run as a program: reverse mode through at least 200 steps of n = 1000, d = 16; prints steps and MB as JSON."""

import json
import resource

import jax
import jax.numpy as jnp

import tokenfield as tkf

MB = 1024  # of ru_maxrss on Linux, in kB


def main():
    start = tkf.uniform_sphere(1000, 16, seed=0)

    def number(beta, x):
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        solution = tkf.solve(model, tkf.Tokens(x), 20.0, dt=0.1)
        return solution.final.x[:, 0].mean(), solution.stats["steps"]

    jax.block_until_ready(jnp.linspace(0.0, 1.0, 1000) @ start.x)  # JAX itself is there
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB
    (_, steps), slopes = jax.jit(jax.value_and_grad(number, (0, 1), has_aux=True))(jnp.asarray(4.0), start.x)
    finite = all(bool(jnp.isfinite(slope).all()) for slope in slopes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB
    print(json.dumps({"steps": int(steps), "megabytes": peak - before, "finite": finite}))


if __name__ == "__main__":
    main()
