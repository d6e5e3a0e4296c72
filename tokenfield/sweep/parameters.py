"""Names of parameters that a plan can vary, and where they stand in the config of a run."""

import difflib
import math
from typing import Any

from .._shown import cut, shown
from ..config.keys import put_key
from ..config.run import SECTIONS, RunConfig

SHORT = {
    "attention": "attention.kind",
    "beta": "attention.beta",
    "norm": "norm.kind",
    "alpha": "norm.alpha",
    "tau": "norm.tau",
    "kappa": "noise.kappa",
    "start": "tokens.kind",
    "n": "tokens.n",
    "d": "tokens.d",
    "rho": "tokens.rho",
    "k": "tokens.k",
    "spread": "tokens.spread",
}
GAMMA = "gamma"
"""Not a key of a config: `beta = gamma log n`, the scale of long contexts (FORMULAS §7)."""


def known() -> list[str]:
    """All names an axis may have."""
    dotted = [f"{section}.{key}" for section, table in SECTIONS.items() for key in table.model_fields]
    plain = [key for key in RunConfig.model_fields if key not in SECTIONS and key != "save_at"]
    return [*SHORT, GAMMA, *plain, *dotted]


def resolve(name: str) -> str:
    """The dotted key of a parameter; a ValueError with the nearest name for one that is not known."""
    if name in SHORT:
        return SHORT[name]
    if name in known():
        return name
    near = difflib.get_close_matches(name, known(), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join([*SHORT, GAMMA])}, or a key such as norm.gain"
    raise ValueError(f"axes.{cut(name)}: unknown parameter: {hint}")


def put(data: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The plain data of a run with parameters set; `gamma` sets beta once n is known."""
    data = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    for name, value in values.items():
        if name != GAMMA:
            put_key(data, resolve(name), value, "run.{table}: must be a table, got {found}")
    if GAMMA in values:
        tokens, attention = data.get("tokens", {}), data.setdefault("attention", {})
        if isinstance(tokens, dict) and isinstance(attention, dict):  # other things are refused with the rest
            n = tokens.get("n", RunConfig.model_fields["tokens"].default.n)
            if not isinstance(n, (int, float)) or not n >= 1:
                raise ValueError(f"run.tokens.n: must be a whole number >= 1, got {shown(n)}")
            attention["beta"] = values[GAMMA] * math.log(n)
    return data
