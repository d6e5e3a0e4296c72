"""Observables by name, with values for the parameters of their functions."""

from collections.abc import Callable
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from .._kinds import find_function, functions, name_of, parameters
from .._shown import did_you_mean, shown
from ..observables.series import Labels, labels_of
from .plain import Table, arguments, check_options, refuse_key


class Observed(BaseModel):
    """An observable, by its name or as "module:function". Other keys are parameters of the function."""

    model_config = ConfigDict(extra="allow")
    observable: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_name(cls, data: Any) -> Any:
        if not isinstance(data, (str, dict, BaseModel)):
            raise ValueError(f"give the name of an observable or a table, got {shown(data)}")
        return {"observable": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.observable is None:
            raise ValueError("give the name of an observable")
        self.check()
        return self

    def check(self) -> None:
        """Replace the name by one that any process can import, and check the options; raise ValueError if one is wrong."""
        assert self.observable is not None
        known = numbers_by_name()
        if ":" not in self.observable and self.observable not in functions("observable"):
            hint = did_you_mean(self.observable, sorted(known), "known")
            raise ValueError(f"unknown observable {shown(self.observable)}: {hint}")
        function = self.function
        if labels_of(function).dims:
            raise ValueError(f"{self.observable} is not one number, so it cannot be saved")
        taken = options_of(function)
        for key, value in (self.model_extra or {}).items():
            if key not in taken and any(key in options_of(other) for other in known.values()):
                raise ValueError(f"{self.observable} takes no {key}")
            if key not in taken:
                names = [*taken, *(name for name in type(self).model_fields)]
                refuse_key(key, value, did_you_mean(key, names), "unknown_key")
        self.__pydantic_extra__ = check_options(function, self.model_extra or {})
        self.observable = name_of(function, self.observable)

    @property
    def function(self) -> Callable[..., Any]:
        """The observable as a function of a state."""
        assert self.observable is not None
        return find_function("observable", self.observable)

    @property
    def labels(self) -> Labels:
        """The labels that the observable declares."""
        return labels_of(self.function)

    @property
    def text(self) -> str:
        """What it measures, as text."""
        options = self.options | ({"model": None} if self.takes_model else {})
        return self.labels.text(self.function, None, **options)

    @property
    def takes_model(self) -> bool:
        """True if it depends on the model as well as on the state."""
        return "model" in parameters(self.function)

    @property
    def in_loop(self) -> bool:
        """True if it can be computed inside the compiled time loop."""
        plain = all(isinstance(value, (bool, int, float, str)) for value in self.options.values())
        return plain and self.labels.in_loop and not self.takes_model

    @property
    def options(self) -> Table:
        """Values for the parameters of the function."""
        return arguments(self.function, self.model_extra or {})

    def measure(self, state: Any, model: Any) -> float:
        """Return the number for a state and the model that moves it."""
        given = {"model": model} if self.takes_model else {}
        found = self.function(state, **given, **self.options)
        try:
            return float(found)
        except (TypeError, ValueError):
            raise ValueError(f"{self.observable} must give a number, got {shown(found)}") from None


def numbers_by_name() -> dict[str, Callable[..., Any]]:
    """Return the observables whose value is a single number, by name."""
    return {name: each for name, each in functions("observable").items() if not labels_of(each).dims}


def options_of(function: Callable[..., Any]) -> list[str]:
    """Return the parameters of an observable: those after the state, without the model."""
    return [key for key in list(parameters(function))[1:] if key != "model"]
