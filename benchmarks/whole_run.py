"""A whole run to T = 15 beside SciPy's solve_ivp on the NumPy script, same tolerance, errors compared."""

from collections.abc import Iterator

import numpy as np
from scipy.integrate import solve_ivp

import tokenfield as tkf

from .timing import against
from .velocity import BETA, numpy_velocity

N, T = 1024, 15.0


def rows() -> Iterator[tuple[str, dict[str, float]]]:
    """(case, ratio of each rival's time to ours), after comparing their errors."""
    state = tkf.uniform_sphere(N, 3, seed=0)
    model = tkf.Transformer(tkf.Softmax(BETA), norm=tkf.PostLN())
    x0 = np.asarray(state.x)

    def ours(tolerance=1e-6):
        return np.asarray(tkf.simulate(model, state, T, rtol=tolerance, atol=1e-9, save_at=2, progress=False).final.x)

    def scipy(tolerance=1e-6):
        rate = lambda t, y: numpy_velocity(y.reshape(N, 3)).ravel()  # noqa: E731
        return solve_ivp(rate, (0, T), x0.ravel(), rtol=tolerance, atol=1e-9).y[:, -1].reshape(N, 3)

    exact = ours(1e-11)
    error = lambda x: float(np.abs(x - exact).max())  # noqa: E731
    theirs = error(scipy())
    print(f"  largest error at T = {T:g} with rtol 1e-6: tokenfield {error(ours()):.1e}, solve_ivp {theirs:.1e}")
    case = f"run to T = {T:g} (n = {N}, d = 3, beta = 9)"
    yield f"{case}, rtol 1e-6", against(ours, {"solve_ivp": scipy}, least=5)
    equal = max(rtol for rtol in (1e-6, 2e-6, 4e-6, 8e-6) if error(ours(rtol)) <= theirs)
    yield f"{case}, equal error", against(lambda: ours(equal), {"solve_ivp": scipy}, least=5)


def span_rows() -> Iterator[tuple[str, dict[str, float]]]:
    """d = 1024 with 32 tokens beside d = 32: the flow lives in the span of the tokens."""
    model = tkf.Transformer(tkf.Softmax(BETA), norm=tkf.PostLN())
    run = lambda d: tkf.simulate(model, starts[d], 5.0, save_at=2, progress=False)  # noqa: E731
    starts = {d: tkf.uniform_sphere(32, d, seed=0) for d in (1024, 32)}
    yield "run to T = 5, 32 tokens in R^1024", against(lambda: run(1024), {"in R^32": lambda: run(32)})
