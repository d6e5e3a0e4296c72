"""All workarounds for XLA and JAX, each with its reason, its gain, and the benchmark or test that shows whether it is still needed.

After an upgrade of JAX, check each one: run its line of `make bench`, which is the time of a case without the workaround over
the time with it, and delete the workaround if the ratio is 1. Otherwise set its `jax` to the new version; a test compares it
with the installed version. On other backends those for the CPU are switched off: `on_cpu` is asked while a program is traced, or
before it is compiled. Importing this module does not import JAX.
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
        shown_by: its name in `benchmarks/workarounds.py`, or the test that fails without it.
        jax: the version of JAX with which it was measured.
        backend: the backend that it is for.
    """

    name: str
    reason: str
    gain: str
    shown_by: str
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
        "runs are 1.6 times as fast on such processors with kernels that XLA does not fuse with their products, such as "
        "unnormalized attention",
        "WIDE_VECTORS",
    ),
    Workaround(
        "tokenfield._xla:ONE_THREAD",
        "the number of threads of a program, and how it is split for compilation, depend on the machine, and so do its last bits",
        "members of a batch have the same bits on 1 or 2 processors; workers that share a machine do not wait for "
        "each other's threads",
        "ONE_THREAD",
    ),
    Workaround(
        "tokenfield._xla:one_thread_process",
        "XLA moves the small parts of one program from thread to thread",
        "workers that run batches of small members take 1.5 times as long with two threads as with one",
        "one_thread_process",
    ),
    Workaround(
        "tokenfield._xla:compile_quickly",
        "small experiments spend most of their time in the compiler",
        "two runs of 32 tokens compile in 0.45 s instead of 2.8 s; results agree up to the last bit",
        "compile_quickly",
    ),
    Workaround(
        "tokenfield._xla:LITTLE_OPTIMIZATION",
        "programs that run once take as long to compile as those that step: the start of a run, and conversions of states",
        "they compile in a third of the time (the start of a run in 0.5 s instead of 1.7 s); the start of large states is "
        "optimized, because it evaluates the velocity twice",
        "LITTLE_OPTIMIZATION",
    ),
    Workaround(
        "tokenfield._xla.programs:bounded",
        "JAX keeps every compiled program until the process ends",
        "a process that runs ever new functions of time keeps at most 400 programs, 1.5 GB, instead of 15 MB more for each",
        "tests/driver/test_programs.py::test_programs_of_functions_of_time_are_not_kept_for_ever",
        backend="any",
    ),
    Workaround(
        "tokenfield._xla.arrays:materialize",
        "XLA recomputes an array in every loop that reads it, and folds a transpose back into the product that reads "
        "it (A^T B takes 2.5 times as long as A B in float64); optimization barriers do not stop it",
        "products for Lipschitz constants run as A B (59 ms for 2048 x 2048 x 512 in one thread) instead of A^T B (152 ms)",
        "materialize",
    ),
    Workaround(
        "tokenfield._xla.arrays:normal",
        "XLA computes random numbers again in every loop that reads them, and those of a matrix at half the speed of those of "
        "a vector",
        "random numbers of a step are computed 1 time instead of 4, and twice as fast",
        "normal",
    ),
    Workaround(
        "tokenfield._xla.arrays:transposed_product",
        "XLA folds a transpose into the product that reads it, and computes A^T B slowly",
        "the velocity of 1000 tokens in R^3 is 1.4 times as fast under unnormalized attention, and 2.7 times under linear",
        "transposed_product",
    ),
    Workaround(
        "tokenfield._xla.arrays:from_numpy",
        "jnp.asarray without a dtype compiles a program for every shape",
        "saves the compilation, 10 ms for each new shape",
        "from_numpy",
        backend="any",
    ),
    Workaround(
        "tokenfield._xla.exponential:exp2",
        "XLA's exponential handles all arguments; those of a normalized kernel are never positive, so a polynomial and the "
        "exponent bits suffice",
        "the velocity of 4096 tokens is 1.4 times as fast in R^3, and 1.1 times in R^64 (float64)",
        "exp2",
    ),
    Workaround(
        "tokenfield._xla.exponential:exp",
        "the same, for arguments of both signs (unnormalized attention)",
        "noisy tokens under USA run at 5.05 times the speed of Diffrax, up from 4.8, together with a faster layout",
        "exp",
    ),
    Workaround(
        "tokenfield._xla.rounding:as_product_of_pairs",
        "a product of single numbers is fused with what reads it, and rounded differently in each place",
        "softmax of tokens on a line is right for scores beyond 1e18, where it would be NaN or the wrong token",
        "tests/attention/test_extremes.py::test_tokens_far_apart_on_a_line",
        backend="any",
    ),
    Workaround(
        "tokenfield.solver.stages:Unrolled",
        "Diffrax runs the Runge-Kutta stages in a loop in which each stage reads and writes the slopes of all stages",
        "256 members of 32 tokens in R^32 run 1.14 times as fast with bosh3",
        "Unrolled",
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
    if _only_cpu():
        os.environ.setdefault("XLA_FLAGS", COMPILE_QUICKLY)


def one_thread_process() -> dict[str, str]:
    """Return the environment variables of a process in which XLA has one thread; none if JAX may use an accelerator."""
    return {"NPROC": "1"} if _only_cpu() else {}  # read by XLA when it starts its threads


def _only_cpu() -> bool:
    """Return True if JAX cannot use anything but a CPU, without starting its backend."""
    platforms = os.environ.get("JAX_PLATFORMS")
    return platforms == "cpu" or (not platforms and not _plugins())


def _plugins() -> bool:
    """Return True if a plugin for another backend is installed."""
    found = importlib.util.find_spec("jax_plugins") is not None or importlib.util.find_spec("libtpu") is not None
    return found or bool(importlib.metadata.entry_points(group="jax_plugins"))
