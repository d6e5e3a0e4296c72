"""A run as plain data, from a TOML file or the flags of `tokenfield simulate`, checked key by key."""

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from .._cost import refuse_layers, refuse_run
from .._kinds import find, parameters
from .._shown import cut, did_you_mean, shown
from ..attention import AbstractAttention
from .keys import put_key
from .observed import Observed
from .parts import AttentionPart, MLPPart, NoisePart, NormPart, Part, SpacePart, StatePart
from .start import StartPart

UNION = re.compile(
    r"float|int|str|bool|(list\[|dict\[|function-).*", re.DOTALL
)  # pydantic's names of members of a union
FLOW = ("save_at", "rtol", "atol", "method", "merge_tolerance", "dt", "stop_when")
"""The keys of a run that layers do not use."""


class Section(BaseModel):
    """A table of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class ModelConfig(Section):
    """A Transformer: the tables and numbers of its constructor."""

    attention: AttentionPart = AttentionPart()
    norm: NormPart = NormPart()
    space: SpacePart | None = None
    mlp: MLPPart | None = None
    noise: NoisePart | None = None
    fisher_rao: float | None = None
    breakpoints: list[float] = []
    context: StartPart | None = None
    cross: AttentionPart | None = None
    encoder: "ModelConfig | None" = None
    mlp_norm: NormPart | None = None
    cross_norm: NormPart | None = None

    @property
    def parts(self) -> dict[str, Part | StartPart | None]:
        """The parts that are built from their own table alone."""
        return {
            "attention": self.attention,
            "norm": self.norm if self.space is None else None,
            "space": self.space,
            "mlp": self.mlp,
            "context": self.context,
            "cross": self.cross,
            "mlp_norm": self.mlp_norm,
            "cross_norm": self.cross_norm,
        }

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.space is not None and "norm" in self.model_fields_set:
            raise ValueError("space: give space or norm, not both: a norm has a space of its own")
        return self


class RunConfig(ModelConfig):
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
    tokens: StartPart = StartPart()
    state: StatePart | None = None
    observe: dict[str, Observed] = {}

    @property
    def in_span(self) -> bool:
        """True if no matrix and no layer takes tokens out of their span."""
        given = [*self.attention.options.values(), *self.norm.options.values()]
        plain = not any(isinstance(value, (list, dict, str)) for value in given)
        return plain and self.depth is None and not (self.mlp or self.noise or self.context)

    @property
    def whole_matrix(self) -> bool:
        """True if attention forms the matrix of all pairs of tokens."""
        heads = [find(AbstractAttention, head["kind"]) for head in self.attention.options.get("heads", ())]
        return any(kind.whole_matrix for kind in (self.attention.made_by, *heads))

    def refuse_large(self) -> None:
        """Raise a ValueError with an estimate if the run cannot fit in memory, before anything is allocated."""
        if self.state is not None:
            return  # it is small
        n, d = self.tokens.size
        if self.depth is not None:
            refuse_layers(n, d, self.depth)
        else:
            saved = (
                101 if self.save_at is None else self.save_at if isinstance(self.save_at, int) else len(self.save_at)
            )
            refuse_run(n, min(n, d) if self.in_span else d, saved, uncut=self.whole_matrix)

    @model_validator(mode="after")
    def _used(self) -> Self:
        """Raise ValueError for keys that were given and would have no effect."""
        unused = [key for key in FLOW if key in self.model_fields_set]
        if self.depth is not None and self.t1 is None and unused:
            raise ValueError(f"{unused[0]}: layers do not use it: leave it out, or give t1 (the flow) instead of depth")
        if self.depth is None and "step" in self.model_fields_set:
            raise ValueError(
                "step: applies only to discrete layers: give depth too, or use dt for a fixed step of the flow"
            )
        if self.state is not None and "tokens" in self.model_fields_set:
            raise ValueError("tokens: give tokens or state, not both")
        in_space = "kind" not in self.tokens.model_fields_set or self.tokens.kind == "space"
        if self.space is not None and in_space:
            given = {"d": self.space.made_by.usual_d, **self.tokens.model_dump(exclude_unset=True)}
            self.tokens = StartPart(
                **{"kind": "space", "space": {"kind": self.space.kind, **self.space.options}} | given
            )
        return self


SECTIONS: dict[str, type[Part] | type[StartPart]] = {
    "attention": AttentionPart,
    "norm": NormPart,
    "space": SpacePart,
    "mlp": MLPPart,
    "noise": NoisePart,
    "tokens": StartPart,
    "state": StatePart,
    "context": StartPart,
    "cross": AttentionPart,
    "mlp_norm": NormPart,
    "cross_norm": NormPart,
}
"""The tables that name a class or a function."""


def read(path: Path | None, flags: dict[str, Any]) -> RunConfig:
    """Return the config of a TOML file; flags (dotted keys such as "tokens.n") override it."""
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
    for name, start in (("tokens", config.tokens), ("context", config.context)):
        if start is not None and start.unused:
            key, taken = start.unused[0], ", ".join(parameters(start.made_by))
            raise ValueError(f"{name}.{key}: a start of kind {start.kind} takes no {key}; it takes {taken}")
    return config


def explain(error: ValidationError) -> str:
    """Return the first problem in one line, with the nearest key when one is unknown."""
    first = error.errors()[0]
    key = cut(".".join(str(part) for part in first["loc"] if not UNION.fullmatch(str(part))))
    if first["type"] == "unknown_key":
        return f"unknown key {key}: {first['msg']}"
    if first["type"] == "extra_forbidden":
        section: Any = RunConfig if len(first["loc"]) == 1 else ModelConfig
        return f"unknown key {key}: {did_you_mean(first['loc'][-1], section.model_fields)}"
    if first["type"] == "value_error":
        return ": ".join(filter(None, [key, first["msg"].removeprefix("Value error, ")]))
    return f"{key}: {first['msg']}, got {shown(first['input'])}"


def to_toml(config: RunConfig) -> str:
    """Return the config as TOML that can be read again, with only the keys that are in use."""
    data = config.model_dump(exclude_none=True, exclude={"step"} if config.depth is None else set(FLOW))
    data |= {"tokens": config.tokens.used()} if config.state is None else {}
    unused = {"tokens": config.state is not None, "norm": config.space is not None}
    for name in ("breakpoints", "observe", *unused):
        if not data[name] or unused.get(name):
            del data[name]
    tables = {name: data.pop(name) for name in list(data) if isinstance(data[name], dict)}
    lines = [f"{key} = {_value(value)}" for key, value in data.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)
