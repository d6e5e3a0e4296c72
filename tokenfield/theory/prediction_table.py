"""The table of predictions: a sequence of rows, also indexed by key, with a text and an HTML representation."""

from collections.abc import Iterator, Sequence
from typing import overload

from .._explained import grid
from .._shown import did_you_mean, shown
from .prediction_rows import Prediction

NAMES = ("key", "prediction", "value", "formula", "applies")


class Predictions(Sequence[Prediction]):
    """Theoretical predictions, ordered by topic.

    Example:
        >>> import tokenfield as tkf
        >>> found = tkf.predict(n=32, d=64, beta=4.0)
        >>> found["first_clusters"].value, found.keys()[:3]
        (1, ['initial_velocity', 'terminal_law', 'terminal_rate'])
    """

    def __init__(self, rows: Sequence[Prediction], title: str):
        self._rows, self.title = tuple(rows), title

    @overload
    def __getitem__(self, key: int | str) -> Prediction: ...
    @overload
    def __getitem__(self, key: slice) -> "Predictions": ...
    def __getitem__(self, key: int | str | slice) -> "Prediction | Predictions":
        """Return the row with a key or an index; a slice gives a shorter table."""
        if isinstance(key, slice):
            return Predictions(self._rows[key], self.title)
        if isinstance(key, int):
            return self._rows[key]
        for row in self._rows:
            if row.key == key:
                return row
        raise KeyError(f"no prediction has the key {shown(key)}: {did_you_mean(key, self.keys(), 'keys')}")

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self._rows)

    def keys(self) -> list[str]:
        """Return the keys of all rows."""
        return [row.key for row in self._rows]

    @property
    def valid(self) -> "Predictions":
        """The predictions that apply."""
        return Predictions([row for row in self._rows if row.valid], self.title)

    def __repr__(self) -> str:
        lines = [
            f"{row.key:<24} {value_text(row):>14}  {'' if row.valid else 'does not apply: '}{row.name}" for row in self
        ]
        return "\n".join([f"Predictions({self.title})", *lines])

    def _repr_html_(self) -> str:
        return grid(self.title, NAMES, [cells(row) for row in self])


def value_text(row: Prediction) -> str:
    """Return the value of a row as text: a number to eight digits, or — if there is none."""
    return "—" if row.value is None else f"{row.value:.8g}" if isinstance(row.value, float) else str(row.value)


def cells(row: Prediction) -> tuple[str, ...]:
    """Return the cells of a row as text, in the order of `NAMES`."""
    applies = ("yes" if row.valid else "NO") + (f": {row.note}" if row.note else "")
    return row.key, row.name, value_text(row), f"{row.formula} ({row.section})", applies
