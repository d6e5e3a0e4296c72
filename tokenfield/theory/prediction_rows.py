"""The rows of the table of predictions, by topic, with the range in which each formula holds."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..normalization import AbstractSphereNorm, PostLN
from .favored import which_law
from .modes import first_clusters
from .noise import beta_star, critical_kappa, transition
from .pairs import pair_merge_time

COLLAPSED = 0.999
WEAK = 10.0
"""A pair is metastable if the attraction between the clusters is at most 1/10 of that within: `e^{beta(1-rho)} >= 10`."""


class Prediction(NamedTuple):
    """One row of the table.

    Attributes:
        key: a short stable name.
        name: what is predicted.
        value: a number or a string; None if there is no value, with the reason in the note.
        formula: the formula for the value.
        section: the section of FORMULAS.
        valid: False if the formula does not apply here, with the reason in the note.
        note: reasons, facts, conditions.
    """

    key: str
    name: str
    value: float | int | str | None
    formula: str
    section: str
    valid: bool
    note: str


@dataclass(frozen=True)
class Case:
    """The model and the tokens of the predictions. A and V are None if they are `beta I` and I."""

    n: int
    d: int
    beta: float | None
    norm: AbstractSphereNorm
    attention: str
    A: np.ndarray | None
    V: np.ndarray | None
    R: float
    rho0: float
    angle: float
    kappa: float | None
    radius: float

    @property
    def softmax(self) -> bool:
        return self.attention == "softmax"

    @property
    def b(self) -> float:
        """beta; raise ValueError if there is none."""
        if self.beta is None:
            raise ValueError("needs beta: A is not beta I with beta >= 0")
        return self.beta

    def general(self) -> list[str]:
        """Return why this is not the isotropic model `A = beta I`, `V = I` without gain."""
        reasons = []
        if self.A is not None and (self.beta is None or not same(self.A, self.beta * np.eye(self.d))):
            reasons.append("holds for A = beta I, not for this A")
        if self.V is not None and not (self.V.shape == (self.d, self.d) and same(self.V, np.eye(self.d))):
            reasons.append("holds for V = I, not for this V")
        if not self.norm.isotropic:
            reasons.append("holds for a norm without gain")
        return reasons

    def only_post(self) -> list[str]:
        """Return why a formula for Post-LN does not apply."""
        return [] if isinstance(self.norm, PostLN) else [f"holds for Post-LN, not for {type(self.norm).__name__}"]

    def only_softmax(self) -> list[str]:
        return [] if self.softmax else ["holds for softmax attention"]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if two arrays are equal up to rounding."""
    return bool(np.abs(a - b).max() <= 1e-12 * max(np.abs(a).max(), np.abs(b).max()))


def row(
    key: str,
    name: str,
    formula: str,
    section: str,
    value: Callable[[], Any],
    problems: list[str],
    condition: str = "",
    fact: str = "",
) -> Prediction:
    """Return a row. A ValueError from `value` counts as a problem; the note gives the condition only if there is no problem."""
    try:
        found = value()
    except ValueError as error:
        found, problems = None, [*problems, str(error)]
    if isinstance(found, float) and math.isnan(found):
        found = None
    if isinstance(found, float) and math.isinf(found):
        fact = fact or "infinite"
    note = "; ".join(filter(None, [*problems, fact, "" if problems else condition]))
    return Prediction(key, name, found, formula, section, not problems, note)


def equiangular(case: Case) -> Iterator[Prediction]:
    from .equiangular import initial_velocity, terminal_law, time_to_cosine

    n, attention, norm, rho0 = case.n, case.attention, case.norm, case.rho0
    alone = ["one token has no angle"] if n == 1 else []
    crowded = [f"{n} tokens at equal angles need d >= {n}, here d = {case.d}"] if case.d < n else []
    problems, last = [*case.general(), *alone, *crowded], [*case.general(), *alone]
    exact = "exact for equal angles; approximate for independent random tokens, better as d grows"
    fixed = norm.radius(case.d)
    r0 = case.radius if fixed is None else float(fixed)

    def velocity() -> float | None:
        return None if alone else initial_velocity(n, case.b, norm, attention, rho0, r0)

    name = f"contraction speed rho'(0) at rho = {rho0:g}"
    Z = "Z = e^beta + (n-1) e^(beta rho)" if case.softmax else "Z = n"
    formula = f"(2/s) e^(beta rho) (1-rho) (1+(n-1) rho)/Z, {norm.slowness}, {Z}"
    yield row("initial_velocity", name, formula, "§7", velocity, problems, exact)

    law, fact = None, ""
    try:
        law = None if alone or case.beta is None else terminal_law(n, case.beta, norm, attention)
    except ValueError as error:
        last = [*last, str(error)]
    if law is not None and math.isinf(law.rate):
        law, fact = None, "the rate contains e^beta, beyond double range"
    elif law is not None and math.isnan(law.rate):
        fact = "the rate changes with time"
    once, meaning = (
        "once all tokens are in one cluster",
        "the constant called rate in e^(-rate t), t^(-rate) or e^(-rate sqrt t)",
    )
    yield row("terminal_law", "1 - rho at late times", "by norm", "§7", lambda: law and law.text, last, once, fact)
    yield row("terminal_rate", "decay rate of 1 - rho", meaning, "§7", lambda: law and law.rate, last, once, fact)

    def collapse() -> float | None:
        if alone:
            return None
        return 0.0 if rho0 >= COLLAPSED else time_to_cosine(COLLAPSED, n, case.b, norm, rho0, attention, r0)

    name = f"time from rho = {rho0:g} to {COLLAPSED:g}"
    fact = "infinite: the balanced state is stationary" if n > 1 and 1 + (n - 1) * rho0 <= 1e-12 else ""
    yield row("time_to_collapse", name, "∫ d rho / rho'", "§7", collapse, problems, exact, fact)


def modes(case: Case) -> Iterator[Prediction]:
    problems, condition = case.general(), "for many tokens that start spread evenly"
    if case.d > 2:
        problems.append(f"counts clusters on the circle; for d = {case.d} it is the degree of the first harmonic")
    if case.beta is not None:
        k = first_clusters(case.beta, case.d)
        needed = math.comb(k + case.d - 1, case.d - 1) + math.comb(k + case.d - 2, case.d - 1)
        if needed > case.n:  # the number of spherical harmonics up to degree k
            problems.append(f"{case.n} tokens are too few to show mode {k}")
    # At the uniform measure PA = 0, so a norm multiplies all linear rates by the same factor and k_max does not change.
    name, formula = "number of first clusters k_max", "argmax_k k(k+d-2) w_k"
    value = lambda: first_clusters(case.b, case.d)  # noqa: E731
    yield row("first_clusters", name, formula, "§8", value, problems, condition)


def pair(case: Case) -> Iterator[Prediction]:
    rho0 = math.cos(math.radians(case.angle))
    problems, fact = [*case.general(), *case.only_post()], ""
    if case.n == 1:
        problems.append("a pair needs two tokens")
    if case.beta is not None and case.beta * (1 - rho0) < math.log(WEAK):
        problems.append(f"not metastable: e^(beta(1-rho)) = {math.exp(case.beta * (1 - rho0)):.3g} is below {WEAK:g}")

    def log_lifetime(b: float) -> float:
        # The energy of the pair is (1 + e^{-b(1-rho)})/2; the lifetime ends halfway from its initial value to 1.
        gap = -math.log1p(math.expm1(-b * (1 - rho0)) / 2) / b if b > 0 else (1 - rho0) / 2
        return pair_merge_time(rho0, 1 - gap, b, attention=case.attention, log=True)

    if case.beta is not None and abs(log_lifetime(case.beta)) > 700:
        fact = f"e^{log_lifetime(case.beta):.8g}, beyond double range"

    def lifetime() -> float | None:
        return None if fact else math.exp(log_lifetime(case.b))

    F = "m_j/(m_i E+m_j) + m_i/(m_j E+m_i), E = e^(beta(1-rho))" if case.softmax else "(m_i+m_j) e^(beta rho)"
    name, formula = f"lifetime of a pair at {case.angle:g} degrees", f"∫ d rho / ((1-rho^2) F), F = {F}"
    condition = "two clusters of mass 1/2, until the energy is halfway to that of one cluster"
    yield row("pair_lifetime", name, formula, "§9", lifetime, problems, condition, fact)


def noise(case: Case) -> Iterator[Prediction]:
    problems, fact, side = [*case.general(), *case.only_post()], "", ""
    if case.beta is not None:
        unit = 0.0 if case.softmax else case.beta
        logarithm = math.log(critical_kappa(case.beta, case.d, case.attention, log_unit=unit)) - unit
        if abs(logarithm) > 700:
            fact = f"e^{logarithm:.8g}, beyond double range"
        if case.kappa is not None:
            side = f"kappa = {case.kappa:g} is {which_law(case.b, case.d, case.attention, case.kappa, logarithm, not problems)}"

    def threshold() -> float | None:
        return None if fact else critical_kappa(case.b, case.d, case.attention)

    formula, facts = "beta w_0/w_1" if case.softmax else "beta/w_1", "; ".join(filter(None, [fact, side]))
    condition = "for noise sqrt(2/kappa) dW and many tokens"
    yield row("critical_kappa", "critical inverse noise", formula, "§10", threshold, problems, condition, facts)

    formula, outside = "I_(d/2+1)/I_(d/2) = 1/d at beta_*", list(problems)
    if case.softmax:
        criterion = "d + q > (q-1)(d-1)R/(1-R), q = w_0/w_1, R = w_2/w_1: for every beta"
        outside.append("holds for unnormalized attention; under softmax the transition is continuous at every beta")
    else:
        criterion = "continuous iff beta <= beta_*"
    name, star = "beta_*, the largest beta with a continuous transition", lambda: beta_star(case.d)
    yield row("beta_star", name, formula, "§10", star, outside, fact="continuous up to it, first order above")
    name, kind = "kind of transition at the critical kappa", lambda: transition(case.b, case.d, case.attention)
    yield row("transition", name, criterion, "§10", kind, problems)


def long_context(case: Case) -> Iterator[Prediction]:
    from .long_context import critical_gamma

    rho, fact = case.rho0, ""
    alone = ["log n = 0 for one token"] if case.n == 1 else []
    problems = [*case.general(), *case.only_softmax()]
    if rho == 0:
        problems.append("at rho = 0 itself the threshold is 1/2")
    elif rho < 0:
        problems.append("holds for rho > 0: many tokens cannot have equal angles above 90 degrees")
    elif case.n > 1 and case.beta is not None:
        gamma = case.beta / math.log(case.n)
        side = (
            "below it: one layer merges the tokens" if gamma < 1 / (1 - rho) else "not below it: the tokens stay apart"
        )
        fact = f"gamma = {gamma:.4g} is {side}"
    name, limit = f"critical gamma at rho = {rho:g}", "one layer, equal angles, n → ∞"
    yield row("critical_gamma", name, "1/(1-rho)", "§7", lambda: critical_gamma(rho), problems, limit, fact)

    def used() -> float | None:
        return None if alone else case.b / math.log(case.n)

    yield row("gamma", "gamma of this model", "beta/log n", "§7", used, [*case.general(), *alone])


def lipschitz(case: Case) -> Iterator[Prediction]:
    from .ball_bounds import ball_bounds

    found = ball_bounds(case.b if case.A is None else case.A, case.V, case.R, case.n, d=case.d)
    lower = "max(|V|, sqrt(n-1)/(1 + (n-1) e^(-R^2 g)) max_(e⊥Au) |Ve|), g = max_u |Au| - <u,Au>"
    lines = {
        "sharp_upper": ("Lipschitz constant, upper bound", "|V| (sqrt(n) (1+|A|R^2) + |A|R^2)"),
        "lower": ("Lipschitz constant, lower bound", lower),
        "mean_field": ("Lipschitz constant in W_p, for any n", "|V| (1+3|A|R^2) e^(2|A|R^2)"),
    }
    condition = f"for attention alone, tokens within R = {case.R:g}"
    for field, (name, formula) in lines.items():
        fact = "; ".join(note for note in found.notes if note.startswith(field))
        if field == "mean_field" and math.isinf(found.mean_field):
            fact = f"e^{found.log_mean_field:.8g}, beyond double range"
        value = partial(getattr, found, field)
        yield row(
            f"lipschitz_{field}",
            name,
            formula,
            "§6",
            value,
            case.only_softmax(),
            condition,
            fact,
        )


TOPICS = (equiangular, modes, pair, noise, long_context, lipschitz)
