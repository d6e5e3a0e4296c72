"""The tables of a config that stand for an object: a kind, and values for the parameters of that class or function."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from .. import attention, mlp, noise, normalization, spaces, states
from .._kinds import Named, call, find, find_function, found, functions, name_of, named, parameters
from ..states import Tokens, equiangular_tokens, uniform_sphere
from ..states.samplers import sphere_points
from ..states.tokens import moved_to
from .array_file import read_arrays, read_matrix, read_vector
from .plain import Table, arguments, check_options, check_table, make, refuse_key


class Part(BaseModel):
    """A table that makes an object of a family of classes. Keys beside `kind` are parameters of the class."""

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
        """Return the keys that such a table can have, those of more classes included."""
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
        """True if a seed makes a difference."""
        return "seed" in parameters(self.made_by.maker())


class NoisePart(Part):
    """Noise, with the seed of the run; without a kind it is that of the space in which tokens move."""

    family = noise.AbstractNoise
    kind: str | None = None  # type: ignore[assignment]
    seed: int = 0

    def make_for(self, norm: normalization.AbstractNorm | None) -> Any:
        """Return the noise of the kind asked for; by default Brownian motion where this norm keeps tokens, or in a space."""
        usual: dict[type, type] = {spaces.Sphere: noise.SphereNoise, spaces.Euclidean: noise.EuclideanNoise}
        own = noise.BrownianNoise if norm is None else usual.get(type(norm.space), noise.BrownianNoise)
        kind = self.kind or own.kind  # type: ignore[attr-defined]
        return make(self.family, {"kind": kind, **self.options})


class StartPart(BaseModel):
    """Tokens at the start: the name of a function that makes them, and values for its parameters."""

    model_config = ConfigDict(extra="allow")
    kind: str = "sphere"
    weights: list[float] | str | None = None
    positions: list[float] | str | None = None
    usual: ClassVar[Table] = {"n": 256, "d": 3, "rho": 0.0, "k": 4}
    """Values of parameters that have no default of their own."""

    @model_validator(mode="before")
    @classmethod
    def _check(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        kind = data.get("kind", "sphere")
        try:
            function = find_function("start", kind)
        except ValueError as error:
            refuse_key("kind", kind, str(error))
        own = {key: value for key, value in data.items() if key in cls.model_fields}
        options = {key: value for key, value in data.items() if key not in own}
        named = {"kind": name_of(function, kind)} if "kind" in data else {}
        return {**own, **named, **check_options(function, options, functions("start").values())}

    @classmethod
    def keys(cls, kinds: Iterable[str] = ()) -> list[str]:
        """Return the keys that such a table can have, those of more functions included."""
        every = [*functions("start").values(), *(find_function("start", kind) for kind in kinds)]
        return list(dict.fromkeys([*cls.model_fields, *(key for each in every for key in parameters(each))]))

    @classmethod
    def takes(cls, kind: str) -> set[str]:
        """Return the keys that may stay when the kind is varied: all, as those that a start does not use are left out."""
        return set(cls.keys([kind]))

    @property
    def made_by(self) -> Any:
        """The function."""
        return find_function("start", self.kind)

    @property
    def options(self) -> Table:
        """Values for the parameters of the function: given, usual, or its own defaults; those that are None are left out."""
        given, values = self.model_extra or {}, {}
        for key, each in parameters(self.made_by).items():
            usual = self.usual.get(key) if each.default in (None, each.empty) else each.default
            if (value := given.get(key, usual)) is not None:
                values[key] = value
        if self.made_by is equiangular_tokens and "d" not in given:
            values["d"] = max(values["n"], values["d"])
        return values

    @property
    def unused(self) -> list[str]:
        """The keys that were given and that the function does not take."""
        return [key for key in self.model_extra or {} if key not in parameters(self.made_by)]

    def get(self, key: str) -> Any:
        """Return a value, whether or not the function takes it; None if there is none."""
        return self.options.get(key, (self.model_extra or {}).get(key, self.usual.get(key)))

    @property
    def random(self) -> bool:
        """True if a seed makes a difference."""
        return "seed" in parameters(self.made_by)

    @property
    def n(self) -> int:
        return self.get("n")

    @property
    def d(self) -> int:
        return self.get("d")

    @property
    def rho(self) -> float:
        return self.get("rho")

    @property
    def size(self) -> tuple[int, int]:
        """n and d, before any token is made; those of a file are not known."""
        angles = self.options.get("angles")
        return (len(angles), 2) if isinstance(angles, list) else (self.n, self.d)

    def used(self) -> Table:
        """The kind and the keys that it uses, with their values."""
        own = {key: getattr(self, key) for key in ("weights", "positions") if getattr(self, key) is not None}
        return {"kind": self.kind, **self.options, **own}

    def make(self, seed: int | None = None, like: Any = None) -> Any:
        """Return the tokens, with another seed if one is given.

        Args:
            seed: the seed instead of that of the table.
            like: tokens of the same table for some other seed, from which they can be made in a tenth of the time.
        """
        function, options = self.made_by, self.options
        if seed is not None and self.random:
            options["seed"] = seed
        if like is not None and function is uniform_sphere:
            return moved_to(like, sphere_points(options["n"], options["d"], options["seed"]))
        made = call(f"a start of kind {self.kind}", function, arguments(function, options))
        own = {key: _vector(f"tokens.{key}", getattr(self, key)) for key in ("weights", "positions")}
        if all(value is None for value in own.values()):
            return made
        given = {key: getattr(made, key) if value is None else value for key, value in own.items()}
        return Tokens(made.x, space=made.given_space, **given)


def _vector(name: str, value: list[float] | str | None) -> Any:
    return read_vector(name, value) if isinstance(value, str) else value


@named("start", "file")
def tokens_of_file(file: str) -> Tokens:
    """Return the tokens of a file: a matrix in .npy, .csv or text, or an .npz with x and perhaps weights and positions."""
    path = Path(file)
    if path.suffix != ".npz":
        return Tokens(read_matrix("tokens.file", path))
    arrays = read_arrays("tokens.file", path)
    unknown = [key for key in arrays if key not in ("x", "weights", "positions")]
    if unknown or "x" not in arrays:
        held = ", ".join(arrays) or "nothing"
        raise ValueError(f"tokens.file: {path} must hold x, and perhaps weights and positions, got {held}")
    return Tokens(arrays["x"], arrays.get("weights"), arrays.get("positions"))
