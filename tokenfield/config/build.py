"""Build the objects of a run from its config."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from .._kinds import call
from .._shown import shown
from ..transformer import Transformer
from .keys import assignment
from .plain import arguments
from .run import SECTIONS, ModelConfig, RunConfig, explain
from .start import StartPart

RULES = "one-cluster, clusters<=K, order>=R, cosine>=RHO, energy-settled, energy-settled<=RATE"
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"


def model(config: ModelConfig) -> Transformer:
    """Return the Transformer of a config."""
    made: dict[str, Any] = {name: None if part is None else part.make() for name, part in config.parts.items()}
    noise = None if config.noise is None else config.noise.make_for(made["norm"])
    encoder = None if config.encoder is None else model(config.encoder)
    return Transformer(
        **made, noise=noise, encoder=encoder, breakpoints=config.breakpoints, fisher_rao=config.fisher_rao
    )


def start(config: RunConfig, seed: int | None = None, like: Any = None) -> Any:
    """Return the initial state of a run; for `seed` and `like`, see `tokens`."""
    return tokens(config.tokens, seed, like) if config.state is None else config.state.make_with(seed)


def tokens(part: StartPart, seed: int | None = None, like: Any = None) -> Any:
    """Return the initial tokens, with another seed if one is given; `like` are tokens of the same table for another seed."""
    return part.make(seed, like)


def from_flags(section: str, kind: str, flags: Mapping[str, Any], sets: Sequence[str] = ()) -> Any:
    """Return the object of a section from flags of the command line.

    Args:
        section: such as "norm".
        kind: the kind of the object, or "module:Class".
        flags: values for its parameters; those that are None were not given.
        sets: texts such as "norm.power=3".
    """
    data = {"kind": kind, **set_keys(section, sets)}
    try:
        part = SECTIONS[section].model_validate(data)
    except ValidationError as error:
        message = explain(error)
        if message.startswith("kind: "):
            raise ValueError(f"--{section} {message.removeprefix('kind: ')}") from None
        unknown = "unknown key " if message.startswith("unknown key ") else ""
        raise ValueError(f"--set: {unknown}{section}.{message.removeprefix(unknown)}") from None
    maker = part.made_by.maker()
    given = {key: value for key, value in flags.items() if value is not None}
    return call(kind, maker, {**arguments(maker, part.options), **given})


def set_keys(section: str, sets: Sequence[str]) -> dict[str, Any]:
    """Return the keys of one section from texts such as "norm.power=3"."""
    data = {}
    for text in sets:
        key, value = assignment(text)
        head, _, rest = key.partition(".")
        if head != section or not rest:
            raise ValueError(f"--set {key}: must be a key of {section}, such as {section}.power=3")
        data[rest] = value
    return data


def stop_rule(text: str | None) -> Any:
    """Return a stop rule from its name."""
    if text is None:
        return None
    from .. import observables

    rule = text.replace(" ", "").lower()
    if rule == "one-cluster":
        return observables.one_cluster()
    if rule == "energy-settled":
        return observables.energy_settled()
    if found := re.fullmatch(rf"energy-settled<=({NUMBER})", rule):
        return observables.energy_settled(float(found[1]))
    if found := re.fullmatch(r"clusters<=(\d+)", rule):
        return observables.at_most_clusters(int(found[1]))
    if found := re.fullmatch(rf"order>=({NUMBER})", rule):
        if not 0 < float(found[1]) <= 1:
            raise ValueError(f"stop_when: R of order>=R must lie in (0, 1], got {shown(text)}")
        return observables.order_above(float(found[1]))
    if found := re.fullmatch(rf"cosine>=(-?{NUMBER})", rule):
        return observables.cosine_above(float(found[1]))
    raise ValueError(f"stop_when must be one of {RULES}, got {shown(text)}")
