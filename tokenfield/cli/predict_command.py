"""`tokenfield predict`."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from .choices import flag, kind_flag


def predict(
    n: Annotated[int, flag("Number of tokens [256].")] = 256,
    d: Annotated[int | None, flag("Dimension [that of A or V, or 3].")] = None,
    beta: Annotated[float | None, flag("Inverse temperature [1; with --A, none].")] = None,
    norm: Annotated[str, kind_flag("Normalization rule [post]", "normalization", "AbstractSphereNorm")] = "post",
    attention: Annotated[
        str, flag("Attention kernel: softmax or unnormalized [softmax].", values=["softmax", "unnormalized"])
    ] = "softmax",
    A: Annotated[Path | None, flag("Score matrix, a .npy, .csv or text file [beta I].", "--A")] = None,
    V: Annotated[Path | None, flag("Value matrix, a .npy, .csv or text file [I].", "--V")] = None,
    radius: Annotated[
        float,
        flag(
            "Length of the tokens: initial length under pre and peri, largest length for Lipschitz bounds [1].",
            "--radius",
            "--R",
        ),
    ] = 1.0,
    rho0: Annotated[float, flag("Initial cosine between tokens [0].", "--rho0")] = 0.0,
    angle: Annotated[float, flag("Degrees between the clusters of a metastable pair [90].")] = 90.0,
    kappa: Annotated[float | None, flag("Inverse noise, compared with the critical one.")] = None,
    tau: Annotated[float | None, flag("Time at which Mix-LN switches from Post-LN to Pre-LN.")] = None,
    alpha: Annotated[float | None, flag("Rate of nGPT [1].")] = None,
    sets: Annotated[list[str] | None, flag("A parameter of the norm, e.g. norm.power=3.", "--set")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list predictions that do not apply, with the reason.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the predictions as JSON.")] = False,
) -> None:
    """Print what theory predicts, without simulating: speeds, rates, clusters, lifetimes, thresholds, bounds.

    The last line names predictions that do not apply; --all lists them too, with the reason.
    """
    from ..theory.prediction import predict as rows_of

    scores, values = _matrix("A", A), _matrix("V", V)
    if d is None:
        given = scores if scores is not None else values
        d = 3 if given is None else given.shape[1]
    if beta is None and scores is None:
        beta = 1.0
    options: dict[str, Any] = {
        "rho0": rho0,
        "angle": angle,
        "kappa": kappa,
        "radius": radius,
        "alpha": alpha,
        "tau": tau,
    }
    rule: Any = norm
    if sets or ":" in norm:
        from ..config.build import from_flags

        rule = from_flags("norm", norm, {"alpha": alpha, "tau": tau}, sets or ())
        options |= {"alpha": None, "tau": None}
    rows = rows_of(n, d, beta, rule, attention, A=scores, V=values, **options)
    if not as_json:
        title = f"{attention}, {norm}, n = {n}, d = {d}, beta = {'none' if beta is None else f'{beta:g}'}"
        _print(rows, title, everything)
        return
    files = {"A": A and str(A), "V": V and str(V)}
    inputs = {
        "n": n,
        "d": d,
        "beta": beta,
        "norm": norm,
        "attention": attention,
        **files,
        **options,
        "alpha": alpha,
        "tau": tau,
    }
    inputs |= {"set": sets} if sets else {}
    details = {row.key: {k: v for k, v in row._asdict().items() if k not in ("key", "value")} for row in rows}
    numbers = {row.key: _plain(row.value) for row in rows}
    print(json.dumps({**numbers, "details": details, "inputs": inputs}, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent: infinity becomes null, and the note of the row says so."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _matrix(name: str, path: Path | None) -> Any:
    from ..config.array_file import read_matrix

    return None if path is None else read_matrix(f"--{name}", path)


def _print(rows: Iterable[Any], title: str, everything: bool) -> None:
    """Print the predictions that apply as a table; the others below it, or in one line."""
    from rich.console import Console
    from rich.table import Table

    from ..theory.prediction_table import NAMES, cells

    table = Table(*NAMES[1:], title=title, show_lines=True)
    rows = list(rows)
    others = [row for row in rows if not row.valid]
    for row in [*(row for row in rows if row.valid), *(others if everything else ())]:
        table.add_row(*cells(row)[1:])
    Console(markup=False).print(table)
    if others and not everything:
        print(f"{len(others)} more do not apply here (--all shows why): {', '.join(row.key for row in others)}")
