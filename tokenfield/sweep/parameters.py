"""Names of parameters that a plan can vary, and their keys in the config of a run."""

import contextlib
import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .._shown import cut, shown
from ..config.keys import put_key
from ..config.run import SECTIONS, RunConfig
from ..config.start import StartPart

SHORT = {
    "attention": "attention.kind",
    "beta": "attention.beta",
    "norm": "norm.kind",
    "space": "space.kind",
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


def known(run: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return all names that an axis may have, given the tables of a run and the values along all axes."""
    plain = [
        key for key in RunConfig.model_fields if key not in SECTIONS and key not in ("save_at", "observe", "encoder")
    ]
    dotted = []
    for section, part in SECTIONS.items():
        table = run.get(section)
        kinds = [table.get("kind")] if isinstance(table, Mapping) else []
        for name, values in axes.items():
            kinds += values if resolve(name) == f"{section}.kind" else []
        own = [kind for kind in kinds if isinstance(kind, str) and ":" in kind]
        dotted += [f"{section}.{key}" for key in part.keys(own)]
    return [*SHORT, GAMMA, *plain, *dotted]


def check_name(name: str, names: Sequence[str]) -> None:
    """Raise a ValueError with the nearest name unless an axis may have this one."""
    if name in names or name.startswith("encoder."):
        return
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join([*SHORT, GAMMA])}, or a key such as norm.gain"
    raise ValueError(f"axes.{cut(name)}: unknown parameter: {hint}")


def resolve(name: str) -> str:
    """Return the dotted key of a parameter."""
    return SHORT.get(name, name)


def for_its_kind(data: dict[str, Any], axes: Mapping[str, Sequence[Any]]) -> None:
    """Leave out values that only other kinds on the axis take, if the kind of a table is an axis."""
    for name, kinds in axes.items():
        section, _, key = resolve(name).partition(".")
        if key == "kind" and section in SECTIONS and isinstance(data.get(section), dict):
            part, table = SECTIONS[section], data[section]
            with contextlib.suppress(ValueError):  # an unknown kind: validation reports it later
                taken = part.takes(table["kind"])
                others = {each for kind in kinds for each in part.takes(kind)}
                data[section] = {each: value for each, value in table.items() if each in taken or each not in others}


def put(data: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the plain data of a run with parameters set; `gamma` sets beta once n is known."""
    data = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    for name, value in values.items():
        if name != GAMMA:
            put_key(data, resolve(name), value, "run.{table}: must be a table, got {found}")
    if GAMMA in values:
        tokens, attention = data.get("tokens", {}), data.setdefault("attention", {})
        if isinstance(tokens, dict) and isinstance(attention, dict):  # validation reports other values later
            n = tokens.get("n", StartPart.usual["n"])
            if not isinstance(n, (int, float)) or not n >= 1:
                raise ValueError(f"run.tokens.n: must be a whole number >= 1, got {shown(n)}")
            attention["beta"] = values[GAMMA] * math.log(n)
    return data
