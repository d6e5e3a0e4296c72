"""A run as plain data: what a TOML file or the flags of `tokenfield simulate` say, checked key by key."""

import difflib
import json
import math
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from .keys import put_key

Matrix = list[list[float]]


class Section(BaseModel):
    """A table of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class AttentionConfig(Section):
    kind: Literal["softmax", "l2", "sinkhorn", "unnormalized", "linear", "relu", "sigmoid", "hardmax", "multihead"] = (
        "softmax"
    )
    beta: float | None = None
    A: Matrix | None = None
    Q: Matrix | None = None
    K: Matrix | None = None
    V: float | Matrix | None = None
    causal: bool = False
    rule: Literal["self", "others"] | None = None
    tolerance: float | None = None
    log_unit: float | None = None
    heads: list["AttentionConfig"] | None = None
    outputs: list[float | Matrix] | None = None


class NormConfig(Section):
    kind: Literal["none", "rescaled", "post", "pre", "peri", "mix", "ngpt", "sqrt"] = "post"
    gain: float | list[float] | None = None
    tau: float | None = None
    alpha: float | None = None


class MLPConfig(Section):
    W1: Matrix
    W2: Matrix
    b1: list[float] | None = None
    b2: list[float] | None = None
    activation: Literal["tanh", "relu", "gelu"] = "tanh"


class NoiseConfig(Section):
    kappa: float
    kind: Literal["sphere", "common", "euclidean"] | None = None
    seed: int = 0


class TokensConfig(Section):
    kind: Literal["sphere", "gaussian", "hemisphere", "equiangular", "clusters", "circle", "file"] = "sphere"
    n: int = 256
    d: int = 3
    seed: int = 0
    rho: float = 0.0
    cov: float | Matrix | None = None
    k: int = 4
    spread: float = 0.1
    angles: list[float] | None = None
    file: str | None = None


class RunConfig(Section):
    t1: float | None = None
    depth: int | None = None
    step: float = 1.0
    save_at: int | list[float] | None = None
    rtol: float = 1e-6
    atol: float = 1e-9
    method: str | None = None
    merge_tolerance: float | None = None
    dt: float | None = None
    stop_when: str | None = None
    attention: AttentionConfig = AttentionConfig()
    norm: NormConfig = NormConfig()
    mlp: MLPConfig | None = None
    noise: NoiseConfig | None = None
    fisher_rao: float | None = None
    tokens: TokensConfig = TokensConfig()


SECTIONS: dict[str, type[Section]] = {
    "attention": AttentionConfig,
    "norm": NormConfig,
    "mlp": MLPConfig,
    "noise": NoiseConfig,
    "tokens": TokensConfig,
}


def read(path: Path | None, flags: dict[str, Any]) -> RunConfig:
    """The config of a TOML file, with flags (dotted keys such as "tokens.n") laid over it."""
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"no such file: {path}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not valid TOML: {error}") from None
    for key, value in flags.items():
        put_key(data, key, value, f"{{table}} must be a table in {path}, got {{found}}")
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error)) from None


def explain(error: ValidationError) -> str:
    """The first problem in one line, with the nearest key when one is unknown."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("float", "list[", "int")))
    if first["type"] == "extra_forbidden":
        section: Any = RunConfig
        for part in first["loc"][:-1]:
            section = SECTIONS.get(str(part), section)
        names = list(section.model_fields)
        near = difflib.get_close_matches(str(first["loc"][-1]), names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(names)}"
        return f"unknown key {key}: {hint}"
    return f"{key}: {first['msg']}, got {first['input']!r}"


def to_toml(config: RunConfig) -> str:
    """The config as TOML (numbers, strings, booleans and lists are written alike in JSON and TOML)."""
    data = config.model_dump(exclude_none=True)
    tables = {name: data.pop(name) for name in SECTIONS if name in data}
    lines = [f"{key} = {_value(value)}" for key, value in data.items()]
    for name, table in tables.items():
        heads = table.pop("heads", [])
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        for head in heads:
            lines += ["", f"[[{name}.heads]]", *(f"{key} = {json.dumps(value)}" for key, value in head.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """A number, text or list in TOML."""
    return "inf" if value == math.inf else json.dumps(value)
