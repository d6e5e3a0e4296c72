"""Peak memory of one velocity at n = 20,000, d = 3, where the dense matrix would take 3.2 GB."""

import subprocess
import sys

SCRIPT = """
import resource, jax.numpy as jnp, jax, tokenfield as tkf
from tokenfield.flows import segments
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def run(n):
    state = tkf.uniform_sphere(n, 3, seed=0)
    (segment,) = segments(state, tkf.Transformer(tkf.Softmax(9.0), norm=tkf.PostLN()))
    jax.jit(segment.flow.velocity)(jnp.zeros(()), segment.flow.pack(state)).theta.block_until_ready()
run(800); before = peak(); run(20_000); print(peak() - before)
"""


def extra_megabytes() -> float:
    """Growth of the peak of a fresh process, in MB."""
    return float(subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True).stdout)
