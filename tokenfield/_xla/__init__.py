"""All workarounds for XLA on CPU, each with its reason, its gain, and the benchmark that shows whether it is still needed.

After an upgrade of JAX, check each one: remove it, run its line of `make bench` with and without it, and delete it if the
ratio stays the same. Otherwise set its `jax` to the new version; a test compares it with the installed version. On other
backends the workarounds are switched off (`on_cpu`, called while a program is traced) or ignored: options named `xla_cpu_…`
affect only the CPU compiler. Importing this module does not import JAX.
"""

import importlib.metadata
import importlib.util
import os
from typing import NamedTuple


class Workaround(NamedTuple):
    """Code that a better compiler would not need.

    Attributes:
        name: its location, as `module:name`.
        reason: what the compiler does without it.
        gain: the measured gain.
        benchmark: the line of `make bench` that shows the gain; "" if the gain is not the speed of a run.
        jax: the version of JAX with which it was measured.
        backend: the backend that it is for.
    """

    name: str
    reason: str
    gain: str
    benchmark: str
    jax: str = "0.10.2"
    backend: str = "cpu"


WIDE_VECTORS = {"xla_cpu_prefer_vector_width": 512}
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_parallel_codegen_split_count": 1}
LITTLE_OPTIMIZATION = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
}
COMPILE_QUICKLY = " ".join(f"--{name}={str(value).lower()}" for name, value in LITTLE_OPTIMIZATION.items())

WORKAROUNDS = (
    Workaround(
        "tokenfield._xla:WIDE_VECTORS",
        "LLVM prefers 256-bit vectors on processors that have 512-bit vectors",
        "runs are about 20 % faster on such processors, and equally fast on others",
        "run to T = 5",
    ),
    Workaround(
        "tokenfield._xla:ONE_THREAD",
        "the number of threads of a program, and how it is split for compilation, depend on the machine, and so do its last bits",
        "members of a batch have the same bits on 1 or 2 processors; workers that share a machine do not wait for "
        "each other's threads",
        "figure3, d = ",
    ),
    Workaround(
        "tokenfield._xla:COMPILE_QUICKLY",
        "small experiments spend most of their time in the compiler",
        "two runs of 32 tokens compile in 0.45 s instead of 2.8 s; results agree up to the last bit",
        "",
    ),
    Workaround(
        "tokenfield._xla:LITTLE_OPTIMIZATION",
        "programs that run once take as long to compile as those that step: the start of a run, and conversions of states",
        "they compile in a third of the time (the start of a run in 0.5 s instead of 1.7 s); the start of large states is "
        "optimized, because it evaluates the velocity twice",
        "time to first result, ",
    ),
    Workaround(
        "tokenfield._xla.arrays:materialize",
        "XLA recomputes an array in every loop that reads it, and folds a transpose back into the product that reads "
        "it (A^T B takes 2.5 times as long as A B in float64); optimization barriers do not stop it",
        "random numbers of a step are computed once instead of four times; products for Lipschitz constants run as A B "
        "(59 ms for 2048 x 2048 x 512 in one thread) instead of A^T B (152 ms)",
        "noisy tokens (",
    ),
    Workaround(
        "tokenfield._xla.arrays:from_numpy",
        "jnp.asarray without a dtype compiles a program for every shape",
        "saves the compilation, 10 ms for each new shape",
        "",
        backend="any",
    ),
    Workaround(
        "tokenfield._xla.exponential:exp2",
        "XLA's exponential handles all arguments; those of a normalized kernel are never positive, so a polynomial and the "
        "exponent bits suffice",
        "the velocity of 4096 tokens is 1.4 times as fast in R^3, and 1.1 times in R^64 (float64)",
        "velocity (",
    ),
    Workaround(
        "tokenfield._xla.exponential:exp",
        "the same, for arguments of both signs (unnormalized attention)",
        "noisy tokens under USA run at 5.05 times the speed of Diffrax, up from 4.8, together with a faster layout",
        "noisy tokens (",
    ),
    Workaround(
        "tokenfield.solver.stages:Unrolled",
        "Diffrax runs the Runge-Kutta stages in a loop in which each stage reads and writes the slopes of all stages",
        "256 members of 32 tokens in R^8 run 1.09 times as fast with bosh3",
        "figure3, d = ",
    ),
)


def on_cpu() -> bool:
    """Return True if JAX runs on a CPU. Call it while a program is traced, not at import, because it starts the backend."""
    import jax

    return jax.default_backend() == "cpu"


def compile_quickly() -> None:
    """Set `XLA_FLAGS` for little optimization, unless it is already set or JAX may use an accelerator.

    Call it before JAX starts its backend.
    """
    platforms = os.environ.get("JAX_PLATFORMS")
    if platforms == "cpu" or (not platforms and not _plugins()):
        os.environ.setdefault("XLA_FLAGS", COMPILE_QUICKLY)


def _plugins() -> bool:
    """Return True if a plugin for another backend is installed."""
    found = importlib.util.find_spec("jax_plugins") is not None or importlib.util.find_spec("libtpu") is not None
    return found or bool(importlib.metadata.entry_points(group="jax_plugins"))
