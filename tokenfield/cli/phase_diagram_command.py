"""`tokenfield phase-diagram`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .choices import Format
from .command_line import command_line
from .folders import REPORT, figure_file, open_folder, say_open, write_dataset, write_figure

if TYPE_CHECKING:
    import xarray

DATASET, FIGURE, RUNS = "phase_diagram.zarr", "phase_diagram.png", "runs.zarr"


def phase_diagram(
    context: typer.Context,
    d: Annotated[int, typer.Option(help="Dimension of the tokens.")] = 2,
    beta_max: Annotated[float, typer.Option(help="Largest inverse temperature.")] = 6.0,
    kappa_min: Annotated[
        float | None, typer.Option(help="Smallest inverse noise [below all curves].", show_default=False)
    ] = None,
    kappa_max: Annotated[
        float | None, typer.Option(help="Largest inverse noise [above all curves].", show_default=False)
    ] = None,
    attention: Annotated[
        str, typer.Option(help="unnormalized or softmax.", autocompletion=lambda: ["unnormalized", "softmax"])
    ] = "unnormalized",
    points: Annotated[int, typer.Option(help="Number of values of beta, and of kappa.")] = 60,
    runs: Annotated[
        int, typer.Option(help="Number of values of beta at which tokens are simulated (a minute or two); 0 for none.")
    ] = 5,
    seed: Annotated[int, typer.Option(help="Seed of these runs.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for report.html, {FIGURE}, {DATASET} and {RUNS} [phase-diagram; with --json, none].",
            show_default=False,
        ),
    ] = None,
    format: Format = "png",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a diagram in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines of the diagram as JSON.")] = False,
) -> None:
    """Draw where noisy tokens on the sphere are ordered: the critical kappa, the fold and the jump over beta, with runs of tokens.

    The noise is sqrt(2/kappa) dW; kappa is spaced logarithmically. Runs start in disorder and in order, at four kappa
    around the transition for each of a few beta.
    """
    folder = out if out is not None or as_json else Path("phase-diagram")
    from .._check import count, positive
    from ..theory.names import MOST_DIMENSION, kernel_name

    beta_max, points = positive("beta_max", beta_max), count("points", points, 2)
    runs, seed = count("runs", runs, 0), count("seed", seed, 0)
    d, attention = count("d", d, 2, MOST_DIMENSION), kernel_name(attention)
    least = None if kappa_min is None else positive("kappa_min", kappa_min)
    most = None if kappa_max is None else positive("kappa_max", kappa_max)
    context.with_resource(open_folder(folder, DATASET, "a diagram", overwrite))
    import numpy as np

    from ..theory.branches import fold
    from ..theory.noise import critical_kappa
    from ..theory.phases import phase_diagram as compute

    ends = fold(0.0, d, attention), fold(beta_max, d, attention), critical_kappa(beta_max, d, attention)
    least = 0.6 * min(ends) if least is None else least
    most = 1.5 * max(ends) if most is None else most
    if not least < most:
        raise ValueError(f"kappa_max must be above kappa_min = {least:.4g}, got {most:g}")
    diagram = compute(np.linspace(0.0, beta_max, points), np.geomspace(least, most, points), d, attention)
    numbers = summary(diagram)
    tokens = None
    if runs:
        from ..studies.noisy_order import noisy_order_study

        places = (np.arange(runs) + 0.5) / runs * beta_max
        tokens = noisy_order_study(places, d, attention, seed=seed)
        columns = {"beta": tokens["beta"], "kappa": tokens["kappa"], "order_parameter": tokens["order_parameter"]}
        numbers["runs"] = {name: values.values.tolist() for name, values in columns.items()}
        numbers["runs"]["left_out"] = json.loads(tokens.attrs["left_out"])
    if folder is not None:
        numbers["out"] = str(folder)
        from ..plotting.phase_diagram import phase_diagram_figure

        if tokens is not None:
            write_dataset(tokens, folder / RUNS)
        from ..report.phase_diagram import phase_diagram_story
        from ..report.story import write_story

        figure = phase_diagram_figure(diagram, tokens)
        write_figure(figure, figure_file(folder, FIGURE, format))
        write_story(phase_diagram_story(diagram, tokens, figure, command_line(), format), folder)
        write_dataset(diagram, folder / DATASET)
    if as_json:
        print(json.dumps(numbers, allow_nan=False))
    else:
        _print(numbers)


def summary(diagram: "xarray.Dataset") -> dict[str, Any]:
    """Return the lines, and the tricritical point (null for softmax, which has none)."""
    import numpy as np

    star = diagram.attrs["beta_star"], diagram.attrs["kappa_star"]
    finite = bool(np.isfinite(star).all())
    lines = {name: diagram[name].values.tolist() for name in ("beta", "critical_kappa", "fold", "equal")}
    names = json.loads(diagram.attrs["regions"])
    cells = {name: int((diagram["region"] == k).sum()) for k, name in enumerate(names)}
    return {
        "d": diagram.attrs["d"],
        "attention": diagram.attrs["attention"],
        "beta_star": star[0] if finite else None,
        "kappa_star": star[1] if finite else None,
        **lines,
        "cells": cells,
        "cells_not_computed": int(np.isnan(diagram["order_parameter"]).sum()),
    }


def _print(numbers: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    star = numbers["beta_star"]
    kind = "continuous for every beta" if star is None else f"continuous up to beta = {star:.7g}, first order above"
    table = Table(
        "beta", "fold", "equal free energy", "critical kappa", title=f"{numbers['attention']}, d = {numbers['d']}"
    )
    count = len(numbers["beta"])
    for i in sorted({round(k * (count - 1) / 10) for k in range(11)}):
        row = (numbers[name][i] for name in ("fold", "equal", "critical_kappa"))
        table.add_row(f"{numbers['beta'][i]:.4g}", *(f"{value:.7g}" for value in row))
    Console(markup=False).print(table)
    print(f"transition to order at the critical kappa: {kind}")
    if numbers["cells_not_computed"]:
        print(f"{numbers['cells_not_computed']} cells are too concentrated to be computed (gray)")
    if numbers.get("runs", {}).get("left_out"):
        beta = numbers["runs"]["left_out"][0]
        print(f"no runs from beta = {beta:g} on: the drift is so fast that they would need too many steps")
    if "out" in numbers:
        say_open(Path(numbers["out"]) / REPORT)
