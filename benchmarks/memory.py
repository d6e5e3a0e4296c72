"""Working memory of one velocity at n = 20,000, d = 3, where the dense matrix would take 3.2 GB."""

import jax
import jax.numpy as jnp

import tokenfield as tkf
from tokenfield.flows import segments


def extra_megabytes() -> float:
    """What the compiled program allocates beside its input, in MB."""
    state = tkf.uniform_sphere(20_000, 3, seed=0)
    (segment,) = segments(state, tkf.Transformer(tkf.Softmax(9.0), norm=tkf.PostLN()))
    flow = segment.flow
    velocity = jax.jit(lambda y: flow.velocity(jnp.zeros(()), y).theta)
    sizes = velocity.lower(flow.pack(state)).compile().memory_analysis()
    return (sizes.temp_size_in_bytes + sizes.output_size_in_bytes) / 1e6
