"""A run as plain data: what a TOML file or the flags of `tokenfield simulate` say, checked key by key."""

import difflib
import json
import math
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from .._cost import UNCUT, refuse_layers, refuse_run
from .._shown import cut, shown
from .keys import put_key

Matrix = list[list[float]]

STARTS = {
    "sphere": ("n", "d", "seed"),
    "gaussian": ("n", "d", "seed", "cov"),
    "hemisphere": ("n", "d", "seed"),
    "equiangular": ("n", "d", "rho"),
    "clusters": ("n", "d", "k", "spread", "seed"),
    "circle": ("angles",),
    "file": ("file",),
}
"""The keys of `tokens` that each kind of start uses."""

FLOW = ("save_at", "rtol", "atol", "method", "merge_tolerance", "dt", "stop_when")
"""The keys of a run that layers have no use for."""


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
    tie: float | None = None
    tolerance: float | None = None
    max_iterations: int | None = None
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
    activation: Literal["tanh", "relu", "gelu", "gelu_tanh"] = "tanh"


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

    @property
    def dimension(self) -> int:
        """d, which for equiangular tokens is at least n unless it was given."""
        given = "d" in self.model_fields_set
        return max(self.n, self.d) if self.kind == "equiangular" and not given else self.d

    @property
    def size(self) -> tuple[int, int]:
        """n and d, before any token is made; those of a file are not known."""
        return (len(self.angles or []), 2) if self.kind == "circle" else (self.n, self.dimension)

    def used(self) -> dict[str, Any]:
        """The kind and the keys that it uses."""
        data = self.model_dump(exclude_none=True, include={"kind", *STARTS[self.kind]})
        return data | ({"d": self.dimension} if "d" in data else {})


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

    @property
    def in_span(self) -> bool:
        """True where no matrix and no layer takes tokens out of their span."""
        a = self.attention
        plain = not any(isinstance(matrix, list) for matrix in (a.A, a.Q, a.K, a.V, self.norm.gain))
        return plain and self.mlp is None and self.noise is None and self.depth is None and a.heads is None

    def refuse_large(self) -> None:
        """Raise a ValueError with the estimate if the run cannot fit in memory. Nothing is made for that."""
        n, d = self.tokens.size
        if self.depth is not None:
            refuse_layers(n, d, self.depth)
        else:
            saved = (
                101 if self.save_at is None else self.save_at if isinstance(self.save_at, int) else len(self.save_at)
            )
            uncut = self.attention.kind in UNCUT
            refuse_run(n, min(n, d) if self.in_span else d, saved, uncut=uncut)

    @model_validator(mode="after")
    def _used(self) -> Self:
        """Keys that were given and would do nothing are refused."""
        unused = [key for key in FLOW if key in self.model_fields_set]
        if self.depth is not None and self.t1 is None and unused:
            raise ValueError(f"{unused[0]}: layers take none: leave it out, or give t1 (the flow) in place of depth")
        if self.depth is None and "step" in self.model_fields_set:
            raise ValueError("step: is the step of discrete layers: give depth too, or dt for a fixed step of the flow")
        return self


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
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not valid TOML: {error}") from None
    for key, value in flags.items():
        put_key(data, key, value, f"{{table}} must be a table in {path}, got {{found}}")
    try:
        config = RunConfig.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error)) from None
    kind, taken = config.tokens.kind, STARTS[config.tokens.kind]
    for key in TokensConfig.model_fields:
        if key in config.tokens.model_fields_set and key not in ("kind", *taken):
            raise ValueError(f"tokens.{key}: a start of kind {kind} takes no {key}; it takes {', '.join(taken)}")
    return config


def explain(error: ValidationError) -> str:
    """The first problem in one line, with the nearest key when one is unknown."""
    first = error.errors()[0]
    key = cut(".".join(str(part) for part in first["loc"] if not str(part).startswith(("float", "list[", "int"))))
    if first["type"] == "extra_forbidden":
        section: Any = RunConfig
        for part in first["loc"][:-1]:
            section = SECTIONS.get(str(part), section)
        names = list(section.model_fields)
        near = difflib.get_close_matches(str(first["loc"][-1]), names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(names)}"
        return f"unknown key {key}: {hint}"
    if first["type"] == "value_error":
        return ": ".join(filter(None, [key, first["msg"].removeprefix("Value error, ")]))
    return f"{key}: {first['msg']}, got {shown(first['input'])}"


def to_toml(config: RunConfig) -> str:
    """The config as TOML (numbers, strings, booleans and lists are written alike in JSON and TOML): the keys that are in
    use, so that it can be read again."""
    data = config.model_dump(exclude_none=True, exclude={"step"} if config.depth is None else set(FLOW))
    data["tokens"] = config.tokens.used()
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
