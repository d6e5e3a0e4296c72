"""Estimate the memory and time of a run before it starts. Imports no JAX.

A run that does not fit in memory raises an error. A run that only takes long prints a notice on standard error.
"""

from typing import Any

from ._cpus import available_cpus
from ._memory import bytes_text, free_memory
from ._quiet import say

STARTS = (
    3  # arrays of n d numbers for each run of a batch: its initial state (twice: as built and as passed on) and its end
)
STAGES = 20  # the same for each run in progress: stages of a step, states before and after it, XLA's temporaries
SUBLAYERS = 6  # the same for a run through layers
SAVED = 2  # the same for each saved state: as computed, and as read back
PAIRS = 2  # matrices of pairs of tokens for each run
WHOLE = (
    1024  # up to this many tokens, the matrix of pairs is formed as a whole; kernels with `whole_matrix` always do so
)
EXPONENTIAL = 20  # one exponential costs as much as this many products
WAVES = 1000  # isotropic attention on the circle and the 2-sphere needs at most about this many modes, for any number of tokens
PER_SECOND = 3e9  # double-precision products per second on one core, to within a factor of 3
EVALUATIONS = 6  # evaluations of the velocity per step
PRODUCT = 6  # cost of one product with the derivative and one with its transpose, in evaluations of attention
SHORTEST_BASIS = 24  # minimum number of vectors stored to compute singular values
UNITS = (86400, "days"), (3600, "hours"), (60, "min"), (1, "s")
LONG = 10.0  # seconds per step from which a notice is printed


def run_bytes(n: int, d: int, saved: int, *, stages: int = STAGES, uncut: bool = False) -> int:
    """Return the memory in bytes of a run of n tokens in R^d that saves `saved` states."""
    whole = n if uncut else min(n, WHOLE)
    return 8 * (n * d * (STARTS + stages + SAVED * saved) + PAIRS * whole**2)


def attention_work(n: int, d: int) -> float:
    """Return the cost of one evaluation of attention, in products; an exponential counts as several."""
    return float(n) * n * (d + EXPONENTIAL)


def refuse_run(n: int, d: int, saved: int, *, uncut: bool = False) -> None:
    """Raise ValueError with the estimate if a run does not fit in free memory."""
    without = run_bytes(n, d, 0, uncut=uncut)
    _refuse(run_bytes(n, d, saved, uncut=uncut), without, f"a run with n = {n}, d = {d}", saved, "save_at")


def refuse_layers(n: int, d: int, depth: int) -> None:
    """Raise ValueError if a stack of layers, which saves a state after each layer, does not fit in free memory."""
    without = run_bytes(n, d, 0, stages=SUBLAYERS)
    _refuse(run_bytes(n, d, depth + 1, stages=SUBLAYERS), without, f"layers with n = {n}, d = {d}", depth + 1, "depth")


def _refuse(needs: int, without: int, what: str, saved: int, argument: str) -> None:
    if needs <= 1e8 or needs <= (free := free_memory()):
        return
    blamed, advice = (argument, f"give a smaller {argument}") if without <= free else ("n, d", "use fewer tokens")
    need = f"{what} and {saved} saved states need about {bytes_text(needs)} of memory"
    raise ValueError(f"{blamed}: {need}, {bytes_text(free)} are free: {advice}")


def refuse_derivative(n: int, d: int, vectors: int) -> None:
    """Raise ValueError if the derivative at n tokens, with `vectors` vectors stored at once, does not fit in free memory."""
    needs = 8 * n * d * (vectors + STAGES)
    if needs > 1e8 and needs > (free := free_memory()):
        raise ValueError(
            f"n, d: the derivative at n = {n} tokens in R^{d} needs about {bytes_text(needs)} of memory, "
            f"{bytes_text(free)} are free: use fewer tokens"
        )


def announce(what: str, products: float, advice: str = "") -> None:
    """Print on standard error how long `what` takes, if that is long."""
    seconds = products / (PER_SECOND * available_cpus())
    if seconds > LONG:
        say(f"tokenfield: {what} takes about {seconds_text(seconds)} here{advice}")


def check_run(model: Any, state: Any, save_at: Any = None, progress: bool | None = None) -> None:
    """Raise ValueError if a run of tokens does not fit in memory; print a notice if a step takes long.

    Other states are small. Invalid arguments are left to the checks that name them.
    """
    shape: Any = getattr(getattr(state, "x", None), "shape", ())
    if len(shape) != 2:
        return
    n, d = shape
    isotropic = bool(getattr(getattr(model, "attention", None), "isotropic", False))
    inside = min(n, d) if isotropic else d  # the flow stays in the span of its tokens
    saved = 101 if save_at is None else save_at if isinstance(save_at, int) else _length(save_at)
    refuse_run(n, inside, saved)
    if progress is not False:
        seen = min(n, WAVES) if isotropic and d <= 3 else n
        advice = ", and a run takes many steps: use fewer tokens, or let it run; progress=True shows how far it is"
        announce(f"a step with n = {n}, d = {d}", EVALUATIONS * attention_work(n, inside) * seen / n, advice)


def check_stack(state: Any, depth: int, progress: bool | None = None) -> None:
    """Do the same as `check_run` for a stack of layers, which saves a state after each layer."""
    n, d = state.x.shape
    refuse_layers(n, d, depth)
    if progress is not False:
        announce(f"a layer with n = {n}, d = {d}", attention_work(n, d), f", and there are {depth} of them")


def check_derivative(n: int, d: int, vectors: int) -> None:
    """Do the same as `check_run` for singular values of a derivative at n tokens, with `vectors` vectors stored at once."""
    refuse_derivative(n, d, vectors)
    advice = ", and tens to hundreds of them are needed: use fewer tokens, or let it run"
    announce(f"a product with the derivative at n = {n} tokens in R^{d}", PRODUCT * attention_work(n, d), advice)


def seconds_text(seconds: float) -> str:
    """Return a duration as text with a unit, such as "20 min"."""
    size, unit = next(each for each in UNITS if seconds >= 2 * each[0] or each[0] == 1)
    number = seconds / size
    return f"{number:.2g} {unit}" if number < 10 else f"{number:.0f} {unit}"


def _length(values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        return 1
