"""Make a model and a state from a config: the only module of the explorer that uses `tokenfield.config`."""

import re
from typing import Any, NamedTuple

import numpy as np

from .._shown import shown
from ..config import build
from ..config.run import RunConfig, read, to_toml
from ..driver.choice import reduction
from ..normalization import AbstractSphereNorm
from ..states import Tokens
from ..transformer import Transformer

MOST_TOKENS, MOST_DIRECT, MOST_NUMBERS = 100_000, 20_000, 2_000_000
MOST_MODES, MOST_EQUIANGULAR, MOST_DIMENSIONS = 512, 256, 64
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
SHORT = {
    "beta": ("attention", "beta"),
    "kind": ("attention", "kind"),
    "causal": ("attention", "causal"),
    "A": ("attention", "A"),
    "V": ("attention", "V"),
    "rule": ("attention", "rule"),
    "kappa": ("noise", "kappa"),
    "norm": ("norm", "kind"),
    "tau": ("norm", "tau"),
    "alpha": ("norm", "alpha"),
}
"""Short names of keys in a message "set"."""


class Setup(NamedTuple):
    """A run: the config as data and as checked, the model, and the initial state."""

    data: dict[str, Any]
    config: RunConfig
    model: Transformer
    state: Any


def set_up(data: dict[str, Any], state: Any = None) -> Setup:
    """Return the run of a config.

    Args:
        data: tables of a run file; `tokens` may contain `x` and `weights` directly.
        state: the state to start from instead of that of the config.
    """
    data = _without_none(data)
    if isinstance(data.get("noise"), dict) and "kappa" not in data["noise"]:
        del data["noise"]
    if isinstance(data.get("attention"), dict) and data["attention"].get("kind") == "hardmax":
        data["attention"].pop(
            "beta", None
        )  # hardmax is the limit of large beta; the page keeps beta for the other kernels
    given = _own_tokens(data.get("tokens"))
    _refuse_large(data.get("state"))
    config = read(None, {key: value for key, value in data.items() if key != "tokens" or given is None})
    if state is None and given is None and config.state is None:
        _refuse_many(*config.tokens.size)
    if config.context is not None:
        _refuse_many(*config.context.size)
    model = build.model(config)
    if state is None:
        state = build.start(config) if given is None else _on_sphere(given, model)
    if isinstance(state, Tokens):
        _refuse_many(state.n, state.d)  # the size of a file is not known before
    refuse_slow(model, state)
    return Setup(data, config, model, state)


def as_toml(setup: Setup) -> str:
    """Return the run as a run file; tokens placed by hand are its state."""
    tokens = setup.data.get("tokens")
    if not isinstance(tokens, dict) or "x" not in tokens:
        return to_toml(setup.config)
    state = {"kind": "tokens"} | {key: tokens[key] for key in ("x", "weights") if key in tokens}
    return to_toml(read(None, {key: value for key, value in setup.data.items() if key != "tokens"} | {"state": state}))


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    """Return tables without the keys that are None, for which the page wants the defaults."""
    plain = {key: _without_none(value) if isinstance(value, dict) else value for key, value in data.items()}
    return {key: value for key, value in plain.items() if value is not None}


def refuse_names(value: Any, key: str = "config") -> None:
    """Raise ValueError for strings that are not plain names: a page must not choose files or modules of this machine."""
    if isinstance(value, str):
        if not NAME.fullmatch(value) or value == "file":
            raise ValueError(
                f"{key}: must be the name of a built-in kind (files and modules are not allowed here), got {shown(value)}"
            )
    elif isinstance(value, dict):
        for name, each in value.items():
            refuse_names(each, name if key == "config" else f"{key}.{name}")
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, str | dict | list):
                refuse_names(each, key)


def patched(data: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return a config with a patch: short names such as `beta`, or whole tables, which replace those of the config."""
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    for key, value in patch.items():
        if key in SHORT and not isinstance(value, dict):
            table, name = SHORT[key]
            if not isinstance(result.get(table), dict):
                result[table] = {}
            result[table][name] = value
            if key == "norm":
                result[table] = {name: value}  # parameters of the old norm would raise an error
        else:
            result[key] = value
    return result


def _own_tokens(table: Any) -> Tokens | None:
    if not isinstance(table, dict) or "x" not in table:
        return None
    if unknown := [key for key in table if key not in ("x", "weights", "kind", "n", "d", "seed")]:
        raise ValueError(f"tokens.{unknown[0]}: tokens given by x take weights only")
    x = table["x"]
    if not isinstance(x, list) or not x or not isinstance(x[0], list):
        raise ValueError(f"tokens.x must be a list of points, got {shown(x)}")
    _refuse_many(len(x), len(x[0]))
    return Tokens(x, table.get("weights"))


def _on_sphere(tokens: Tokens, model: Transformer) -> Tokens:
    """Return tokens that were placed by hand (in single precision) with exactly the lengths that the norm fixes."""
    radius = model.norm.radius(tokens.d) if isinstance(model.norm, AbstractSphereNorm) else None
    lengths = np.linalg.norm(tokens.x, axis=1, keepdims=True)
    if radius is None or not lengths.all():
        return tokens
    return Tokens(tokens.x / lengths * radius, tokens.weights)


def _refuse_large(table: Any) -> None:
    """Raise ValueError for a state other than tokens that has more numbers than can be shown live."""
    for key, most in (("modes", MOST_MODES), ("n", MOST_EQUIANGULAR), ("d", MOST_DIMENSIONS)):
        value = table.get(key, 1) if isinstance(table, dict) else 1
        if not isinstance(value, int) or value > most:
            raise ValueError(f"state.{key} must be a whole number of at most {most}, got {shown(value)}")


def _refuse_many(n: int, d: int) -> None:
    if n > MOST_TOKENS or n * d > MOST_NUMBERS:
        raise ValueError(
            f"tokens: at most {MOST_TOKENS} tokens and {MOST_NUMBERS} numbers can be shown live, got n = {n}, d = {d}"
        )


def refuse_slow(model: Transformer, state: Any) -> None:
    """Raise ValueError if a velocity needs too many pairs of tokens to run live."""
    if not isinstance(state, Tokens) or state.n <= MOST_DIRECT:
        return
    if "series" not in reduction(state, model, 1e-6).names:
        raise ValueError(
            f"tokens.n must be at most {MOST_DIRECT} for this model, which has no series for its sums, got {state.n}"
        )
