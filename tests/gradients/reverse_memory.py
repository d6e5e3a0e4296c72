"""Run as a program: reverse mode through at least 200 steps of n = 1000, d = 16; prints steps and MB as JSON.

XLA plans all memory of a program when it compiles it, for `max_steps` steps: that of the default method needs no run.
The run is one of Euler's method, which takes a sixth of the time.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp

import tokenfield as tkf

PROCESS = Path("/proc/self")


def program(start, **method):
    def number(beta, x):
        model = tkf.Transformer(tkf.Softmax(beta=beta), norm=tkf.PostLN())
        solution = tkf.solve(model, tkf.Tokens(x), 20.0, dt=0.1, **method)
        return solution.final.x[:, 0].mean(), solution.stats["steps"]

    gradient = jax.jit(jax.value_and_grad(number, (0, 1), has_aux=True))
    return gradient.lower(jnp.asarray(4.0), start.x).compile()


def megabytes(name):
    """The resident size of this process, VmRSS, or the largest one since it was last reset, VmHWM."""
    lines = (line.split() for line in (PROCESS / "status").read_text().splitlines())
    return next(int(line[1]) for line in lines if line[0] == f"{name}:") / 1024


def planned(compiled):
    """Megabytes that the program allocates, its results included."""
    plan = compiled.memory_analysis()
    return (plan.temp_size_in_bytes + plan.output_size_in_bytes) / 1024**2


def main():
    start = tkf.uniform_sphere(1000, 16, seed=0)
    by_default = planned(program(start))
    compiled = program(start, method="euler")

    jax.block_until_ready(jnp.linspace(0.0, 1.0, 1000) @ start.x)  # JAX itself is there
    (PROCESS / "clear_refs").write_text("5")  # the compiler has taken more than the run will: reset the largest size
    before = megabytes("VmRSS")
    (_, steps), slopes = compiled(jnp.asarray(4.0), start.x)
    finite = all(bool(jnp.isfinite(slope).all()) for slope in slopes)
    found = {"steps": int(steps), "finite": finite, "megabytes": megabytes("VmHWM") - before}
    print(json.dumps(found | {"planned": planned(compiled), "planned by default": by_default}))


if __name__ == "__main__":
    main()
