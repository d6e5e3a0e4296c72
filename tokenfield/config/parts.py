"""Tables of a config that describe an object: a kind, and values for the parameters of its class."""

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from .. import attention, mlp, noise, normalization, spaces, states
from .._kinds import Named, find, found, parameters
from .plain import Table, check_table, make


class Part(BaseModel):
    """A table that describes an object of a family of classes. All keys but `kind` are parameters of the class."""

    model_config = ConfigDict(extra="allow")
    family: ClassVar[type[Named]]
    kind: str

    @model_validator(mode="before")
    @classmethod
    def _check(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        own = {key: value for key, value in data.items() if key in cls.model_fields and key != "kind"}
        rest = {key: value for key, value in data.items() if key not in own}
        checked = check_table(cls.family, rest, cls.model_fields["kind"].default)
        return {**own, **(checked if "kind" in data else {key: checked[key] for key in checked if key != "kind"})}

    @classmethod
    def keys(cls, kinds: Iterable[str] = ()) -> list[str]:
        """Return the keys that such a table can have; `kinds` are further classes whose keys are included."""
        every = [*found(cls.family).values(), *(find(cls.family, kind) for kind in kinds)]
        return list(dict.fromkeys([*cls.model_fields, *(key for each in every for key in parameters(each.maker()))]))

    @classmethod
    def takes(cls, kind: str) -> set[str]:
        """Return the keys that a class takes."""
        return {*cls.model_fields, *parameters(find(cls.family, kind).maker())}

    @property
    def options(self) -> Table:
        """The values that were given for parameters."""
        return dict(self.model_extra or {})

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value that was given for a parameter."""
        return self.options.get(key, default)

    @property
    def made_by(self) -> Any:
        """The class."""
        return find(self.family, self.kind)  # type: ignore[type-abstract]

    def make(self) -> Any:
        """Return the object."""
        return make(self.family, {"kind": self.kind, **self.options})


class AttentionPart(Part):
    family = attention.AbstractAttention
    kind: str = "softmax"


class NormPart(Part):
    family = normalization.AbstractNorm
    kind: str = "post"


class SpacePart(Part):
    family = spaces.AbstractSpace
    kind: str = "sphere"


class MLPPart(Part):
    family = mlp.MLP
    kind: str = "mlp"


class StatePart(Part):
    family = states.AbstractState
    kind: str = "tokens"

    def make_with(self, seed: int | None) -> Any:
        """Return the state, with another seed if one is given and it takes one."""
        own = {"seed": seed} if seed is not None and self.random else {}
        return make(self.family, {"kind": self.kind, **self.options, **own})

    @property
    def random(self) -> bool:
        """True if the state depends on a seed."""
        return "seed" in parameters(self.made_by.maker())


class NoisePart(Part):
    """Noise, with the seed of the run; the default kind is the noise of the space in which tokens move."""

    family = noise.AbstractNoise
    kind: str | None = None  # type: ignore[assignment]
    seed: int = 0

    def make_for(self, norm: normalization.AbstractNorm | None) -> Any:
        """Return the noise; by default Brownian motion in the space of the norm, or of the model if there is no norm."""
        usual: dict[type, type] = {spaces.Sphere: noise.SphereNoise, spaces.Euclidean: noise.EuclideanNoise}
        own = noise.BrownianNoise if norm is None else usual.get(type(norm.space), noise.BrownianNoise)
        kind = self.kind or own.kind  # type: ignore[attr-defined]
        return make(self.family, {"kind": kind, **self.options})
