"""A sweep as plain data: the contents of a plan file, checked key by key."""

import difflib
import itertools
import json
import math
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from .._shown import LONGEST_MESSAGE, cut, shown
from ..config.keys import put_key
from ..config.observed import Observed
from ..config.run import RunConfig, explain
from .checks import MOST_CELLS, check, numbers
from .parameters import GAMMA, for_its_kind, put, resolve

Value = float | int | str | bool
Theory = Annotated[
    Literal["equiangular", "critical_kappa", "first_clusters", "critical_gamma"],
    BeforeValidator(lambda name: name.replace("-", "_") if isinstance(name, str) else name),
]
KINDS = "give a list, linspace = [first, last, count] or logspace = [first, last, count]"


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")  # infinity and NaN survive JSON


class Spaced(Section):
    """Values of an axis: a list, `linspace = [first, last, count]`, or `logspace`, which is evenly spaced in the logarithm."""

    values: list[Value] | None = None
    linspace: tuple[float, float, int] | None = None
    logspace: tuple[float, float, int] | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_list(cls, data: Any) -> Any:
        if not isinstance(data, (list, dict, Spaced)):
            raise ValueError(f"{KINDS}, got {shown(data)}")
        if isinstance(data, dict):
            for kind in ("linspace", "logspace"):
                if kind in data and (not isinstance(data[kind], (list, tuple)) or len(data[kind]) != 3):
                    raise ValueError(f"{kind} must be [first, last, count], got {shown(data[kind])}")
        return {"values": data} if isinstance(data, list) else data

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind for kind in ("values", "linspace", "logspace") if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(KINDS)
        first, last, count = self.linspace or self.logspace or (0, 0, 0)
        if not (math.isfinite(first) and math.isfinite(last)):
            raise ValueError(f"the ends must be finite, got {first:g} and {last:g}")
        if count > MOST_CELLS:
            raise ValueError(f"{count} values are more than a sweep may have ({MOST_CELLS})")
        if not self.expanded():
            raise ValueError("must have at least one value")
        if self.logspace and min(self.logspace[:2]) <= 0:
            raise ValueError(f"logspace needs ends above 0, got {list(self.logspace[:2])}")
        if len(set(self.expanded())) != len(self.expanded()):
            raise ValueError("has a value twice")
        return self

    def expanded(self) -> list[Value]:
        if self.values is not None:
            return list(self.values)
        first, last, count = self.linspace or self.logspace or (0, 0, 0)
        if count < 1:
            return []
        ends = (np.linspace if self.linspace else np.geomspace) if first > 0 or self.linspace else np.linspace
        return [_whole(float(value)) for value in ends(first, last, count)]


def _whole(value: float) -> float:
    """Return a number, rounded if it is whole up to rounding errors."""
    return float(round(value)) if abs(value - round(value)) <= 1e-12 * abs(value) else value


class Recorded(Observed):
    """A number to save for each run: an observable at the end or at given times, or the time of an event."""

    times: Spaced | None = None
    event: str | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        if (self.observable is None) == (self.event is None):
            raise ValueError("give either an observable or an event")
        if self.event is None:
            self.check()
        elif self.times is not None or self.model_extra:
            raise ValueError("an event has no times, threshold or tol")
        return self


class Plan(Section):
    """A base run, the axes along which it is varied, and the quantities that are saved for each run.

    Attributes:
        name: its name in figures and folders; by default, the name of the file.
        about: a sentence about it, for reports.
        state: "tokens", or "equiangular" for the reduction to one cosine.
        run: the base run, with the keys and tables of a run.
        axes: the parameters that are varied, by a short name or a dotted key, each with its values; the last varies fastest.
        repeats: number of independent starts at every point.
        seed: the seed from which the seeds of all cells are made.
        seeds: "independent" gives every cell its own seed; "shared" gives repeat r the same seed at all points.
        record: the quantities saved for each run, under names of your choice.
        batch: number of cells that run side by side; chosen by default.
        theory: a curve to draw over the figures: "equiangular", "critical_kappa", "first_clusters" or "critical_gamma".

    Example:
        >>> import tokenfield as tkf
        >>> run = {"t1": 5.0, "tokens": {"n": 16, "d": 3}}
        >>> tkf.sweep.Plan(run=run, axes={"beta": [1.0, 4.0]}, record={"r": "order_parameter"}).shape
        (2, 1)
    """

    name: str = "sweep"
    about: str = ""
    state: Literal["tokens", "equiangular"] = "tokens"
    run: dict[str, Any] = {}
    axes: dict[str, Spaced]
    repeats: int = 1
    seed: int = 0
    seeds: Literal["independent", "shared"] = "independent"
    record: dict[str, Recorded]
    batch: int | None = None
    theory: Theory | None = None

    def __init__(self, **data: Any):
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise ValueError(cut(_explain(error), LONGEST_MESSAGE)) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check(self)
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis, repeats last."""
        return (*(len(axis.expanded()) for axis in self.axes.values()), self.repeats)

    @property
    def count(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    def values(self) -> dict[str, list[Value]]:
        """Return the values along each axis."""
        return {name: axis.expanded() for name, axis in self.axes.items()}

    def points(self) -> list[tuple[Value, ...]]:
        """Return the values at all points of the grid, without repeats, the last axis fastest."""
        return list(itertools.product(*(axis.expanded() for axis in self.axes.values())))

    def config(self, values: Mapping[str, Value]) -> RunConfig:
        """Return the config of a run at one point of the grid."""
        data = put(self.run, dict(values))
        for_its_kind(data, self.values())
        try:
            config = RunConfig.model_validate(data)
        except ValidationError as error:
            raise ValueError(_where(explain(error), values)) from None
        problem = numbers(config)
        if problem:
            raise ValueError(_where(problem, values))
        if (config.t1 is None) == (config.depth is None):
            raise ValueError("run: give either t1 (a flow) or depth (layers)")
        return config

    def canonical(self) -> dict[str, Any]:
        """Return everything that determines the result, as JSON."""
        return json.loads(self.model_dump_json(exclude_none=True, exclude={"name", "about", "theory"}))


def ready() -> list[str]:
    """Return the names of the plans that are part of the package."""
    return sorted(path.name.removesuffix(".toml") for path in files(__package__).joinpath("plans").iterdir())


def read_plan(source: str | Path | Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Plan:
    """Return a plan from a TOML file, the name of a plan of the package, or a table; `overrides` replace dotted keys."""
    if isinstance(source, Mapping):
        data = json.loads(json.dumps(source, default=lambda value: value.tolist()))  # arrays as lists
    else:
        path = Path(source)
        if not path.is_file() and str(source) in ready():
            written = files(__package__).joinpath("plans", f"{source}.toml").read_bytes()
        elif path.is_file():
            written = path.read_bytes()
        else:
            near = difflib.get_close_matches(str(source), ready(), n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"no such plan: {source} ({hint}ready plans: {', '.join(ready())})")
        try:
            data = tomllib.loads(written.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{source} is not valid TOML: {error}") from None
        data.setdefault("name", path.stem)
    for key, value in (overrides or {}).items():
        put_key(data, key, value, f"--set {key}: {{table}} is not a table of the plan")
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        raise ValueError(cut(_explain(error), LONGEST_MESSAGE)) from None


def _explain(error: ValidationError) -> str:
    """Return the first problem in one line, with the nearest key when one is unknown."""
    first = error.errors()[0]
    key = cut(".".join(str(part) for part in first["loc"] if part not in ("float", "int", "str", "bool")))
    if first["type"] == "unknown_key":
        return f"unknown key {key}: {first['msg']}"
    if first["type"] == "extra_forbidden":
        sections: dict[str, type[BaseModel]] = {"axes": Spaced, "record": Recorded}
        names = list(
            sections.get(str(first["loc"][0]), Plan).model_fields if len(first["loc"]) > 1 else Plan.model_fields
        )
        near = difflib.get_close_matches(str(first["loc"][-1]), names, n=1, cutoff=0.5)
        return f"unknown key {key}: " + (f"did you mean {near[0]}?" if near else f"known keys: {', '.join(names)}")
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{key}: {message}" if key else message
    return f"{key}: {message}, got {shown(first['input'])}" if first["type"] != "missing" else f"{key}: is missing"


def _where(message: str, values: Mapping[str, Value]) -> str:
    """Return a message about a key of a run, with the name of that key in the plan."""
    unknown, key = "unknown key ", message.partition(":")[0]
    for name in values:
        if name != GAMMA and resolve(name) == key:
            return f"axes.{name}{message.removeprefix(key)}"
    return f"{unknown}run.{message.removeprefix(unknown)}" if message.startswith(unknown) else f"run.{message}"


def differences(old: Any, new: Any, key: str = "") -> list[str]:
    """Return the differences between two plans, each as "key: old → new"."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(name for name in new if name not in old)]
        pairs = ((f"{key}.{name}" if key else name, old.get(name), new.get(name)) for name in keys)
        return [line for name, a, b in pairs for line in differences(a, b, name)]
    if json.dumps(old) == json.dumps(new):  # NaN too
        return []
    show = lambda value: "nothing" if value is None else json.dumps(value)  # noqa: E731
    return [f"{key}: {show(old)} → {show(new)}"]
