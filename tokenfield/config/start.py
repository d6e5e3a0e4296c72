"""Tables of a config that describe initial tokens: a function that creates them, and values for its parameters."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from .._kinds import call, find_function, functions, name_of, named, parameters
from ..states import Tokens, equiangular_tokens, uniform_sphere
from ..states.samplers import sphere_points
from ..states.tokens import moved_to
from .array_file import read_arrays, read_matrix, read_vector
from .plain import Table, arguments, check_options, refuse_key


class StartPart(BaseModel):
    """Initial tokens: the name of a function that creates them, and values for its parameters."""

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
        """Return the keys that such a table can have; `kinds` are further functions whose keys are included."""
        every = [*functions("start").values(), *(find_function("start", kind) for kind in kinds)]
        return list(dict.fromkeys([*cls.model_fields, *(key for each in every for key in parameters(each))]))

    @classmethod
    def takes(cls, kind: str) -> set[str]:
        """Return the keys that may stay when the kind varies: all, because a start leaves out those that it does not use."""
        return set(cls.keys([kind]))

    @property
    def made_by(self) -> Any:
        """The function."""
        return find_function("start", self.kind)

    @property
    def options(self) -> Table:
        """Values for the parameters of the function: given values, its own defaults, or `usual` ones. None is left out."""
        given, values = self.model_extra or {}, {}
        for key, each in parameters(self.made_by).items():
            own = each.default is not None and each.default is not each.empty
            usual = each.default if own else self.usual.get(key)
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
        """True if the tokens depend on a seed."""
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
        """n and d, before any token is created; the sizes of a file are not known."""
        angles = self.options.get("angles")
        return (len(angles), 2) if isinstance(angles, list) else (self.n, self.d)

    def used(self) -> Table:
        """Return the kind and the keys that it uses, with their values."""
        own = {key: getattr(self, key) for key in ("weights", "positions") if getattr(self, key) is not None}
        return {"kind": self.kind, **self.options, **own}

    def make(self, seed: int | None = None, like: Any = None) -> Any:
        """Return the tokens, with another seed if one is given.

        Args:
            seed: the seed instead of that of the table.
            like: tokens of the same table for another seed; reusing them takes a tenth of the time.
        """
        function, options = self.made_by, self.options
        if seed is not None and self.random:
            options["seed"] = seed
        if like is not None and function is uniform_sphere:
            return moved_to(like, sphere_points(options["n"], options["d"], options["seed"]))
        made = call(f"a start of kind {self.kind}", function, arguments(function, options))
        own = {key: _vector(key, getattr(self, key)) for key in ("weights", "positions")}
        if all(value is None for value in own.values()):
            return made
        if not isinstance(made, Tokens):
            raise ValueError(f"weights and positions need tokens, got {type(made).__name__} from {self.kind}")
        given = {key: getattr(made, key) if value is None else value for key, value in own.items()}
        return Tokens(made.x, space=made.given_space, **given)


def _vector(name: str, value: list[float] | str | None) -> Any:
    return read_vector(name, value) if isinstance(value, str) else value


@named("start", "file")
def tokens_of_file(file: str) -> Tokens:
    """Return the tokens of a file: a matrix in .npy, .csv or text, or an .npz with x and optionally weights and positions.

    Args:
        file: the path of the file.
    """
    path = Path(file)
    if path.suffix != ".npz":
        return Tokens(read_matrix("tokens.file", path))
    arrays = read_arrays("tokens.file", path)
    unknown = [key for key in arrays if key not in ("x", "weights", "positions")]
    if unknown or "x" not in arrays:
        held = ", ".join(arrays) or "nothing"
        raise ValueError(f"tokens.file: {path} must hold x, and optionally weights and positions, got {held}")
    return Tokens(arrays["x"], arrays.get("weights"), arrays.get("positions"))
