"""The layers of a probed model as a table for the terminal, at most 80 columns wide."""

from collections.abc import Callable
from typing import Any, NamedTuple


def _cosine(value: float) -> str:
    return f"{value:.3f}"


def _number(value: float) -> str:
    """Format with three digits, and all digits before the decimal point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


class Column(NamedTuple):
    """A column: its heading, its meaning (empty if the heading is enough), and the format of values."""

    head: str
    meaning: str
    write: Callable[[float], str]


COLUMNS = {
    "mean_cosine": Column("cosine", "mean cosine", _cosine),
    "mean_cosine_no_special": Column("plain", "mean cosine without special tokens", _cosine),
    "std_cosine": Column("std", "std of cosines", _cosine),
    "effective_rank": Column("rank", "effective rank", _number),
    "clusters": Column("clusters", "", _number),
    "largest_cluster": Column("largest", "tokens in the largest cluster", _number),
    "single_tokens": Column("single", "single tokens", _number),
    "mean_length": Column("length", "mean length", _number),
    "null_mean_cosine": Column("random", "mean cosine with random weights", _cosine),
    "predicted_cosine": Column("theory", "predicted mean cosine", _cosine),
}
FINAL = "*"


def print_layers(numbers: dict[str, Any]) -> None:
    """Print one row for each hidden state, and the meaning of the columns below the table.

    Args:
        numbers: `ProbeResult.summary()`.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows = numbers["layers"]
    shown = {name: each for name, each in COLUMNS.items() if any(row.get(name) is not None for row in rows)}
    title = f"{numbers['architecture']['family']}, {numbers['norm']}: {numbers['model']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for head in ("layer", *(each.head for each in shown.values())):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        label = f"{row['layer']}{FINAL if row['after_final_norm'] else ''}"
        table.add_row(label, *("" if row[name] is None else each.write(row[name]) for name, each in shown.items()))
    console = Console(markup=False, highlight=False)
    console.print(table)
    meanings = [f"{each.head}: {each.meaning}" for each in shown.values() if each.meaning]
    if any(row["after_final_norm"] for row in rows):
        meanings.insert(0, f"{FINAL} after the final norm")
    console.print("; ".join(meanings) + ".", style="dim")
    console.print()
