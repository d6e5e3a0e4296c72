"""`tokenfield norms`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .choices import Format, kind_flag
from .command_line import command_line
from .folders import REPORT, figure_file, open_folder, say_open, write_dataset, write_figure

if TYPE_CHECKING:
    import xarray

DATASET, FIGURE = "norms.zarr", "norms.png"
FULL = {"d": 512, "n": 128, "depth": 64, "seeds": 24}
QUICK = {"d": 128, "n": 32, "depth": 24, "seeds": 6}


def norms(
    context: typer.Context,
    d: Annotated[int | None, typer.Option(help="Dimension [512].", show_default=False)] = None,
    n: Annotated[int | None, typer.Option(help="Number of tokens [128].", show_default=False)] = None,
    depth: Annotated[int | None, typer.Option(help="Number of layers [64].", show_default=False)] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds [24].", show_default=False)] = None,
    beta: Annotated[float | None, typer.Option(help="Inverse temperature [sqrt(d)].", show_default=False)] = None,
    rho: Annotated[float, typer.Option(help="Initial mean cosine.")] = 0.0,
    tau: Annotated[
        float | None, typer.Option(help="Number of Post-LN layers of Mix-LN [a quarter].", show_default=False)
    ] = None,
    alpha: Annotated[float, typer.Option(help="Rate of nGPT.")] = 1.0,
    rule: Annotated[
        list[str] | None,
        kind_flag("Only this rule (may be repeated)", "normalization", "AbstractSphereNorm"),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of your own rule, e.g. norm.power=3.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"Folder for report.html, {FIGURE} and {DATASET} [norms; with --json, none].", show_default=False
        ),
    ] = None,
    format: Format = "png",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a study in the folder.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small study: d 128, n 32, depth 24, 6 seeds; a quarter of a minute.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final numbers as JSON.")] = False,
) -> None:
    """Compare normalization rules in Transformers with random weights; write a figure and the data.

    Every layer has new Gaussian Q, K, V. The mean cosine of the tokens is compared with two predictions: the
    random-weight recursion, and equiangular tokens with Q = K = V = I.
    """
    folder = out if out is not None or as_json else Path("norms")
    given = {"d": d, "n": n, "depth": depth, "seeds": seeds}
    sizes: dict[str, Any] = {
        **(QUICK if quick else FULL),
        **{key: value for key, value in given.items() if value is not None},
    }
    context.with_resource(open_folder(folder, DATASET, "a study", overwrite))
    from ..config.build import set_keys
    from ..studies.normalization import RULES, normalization_study

    options = set_keys("norm", sets or ())
    study = normalization_study(
        **sizes, beta=beta, rules=rule or RULES, rho0=rho, tau=tau, alpha=alpha, options=options
    )
    numbers = summary(study)
    if folder is not None:
        numbers["out"] = str(folder)
        from ..plotting.norms import norms_figure
        from ..report.norms import norms_story
        from ..report.story import write_story

        figure = norms_figure(study)
        write_figure(figure, figure_file(folder, FIGURE, format))
        write_story(norms_story(study, figure, command_line(), format), folder)
        write_dataset(study, folder / DATASET)
    if as_json:
        print(json.dumps(numbers))
    else:
        _print(numbers)


def summary(study: "xarray.Dataset") -> dict[str, Any]:
    """Return the numbers after the last layer."""
    import numpy as np

    last = study.isel(layer=-1)
    rules = {}
    for name in study["rule"].values:
        one = last.sel(rule=name)
        low, high = np.quantile(one["mean_cosine"].values, [0.05, 0.95])
        rules[str(name)] = {
            "mean_cosine": float(one["mean_cosine"].mean()),
            "band": [float(low), float(high)],
            **{curve: float(one[curve]) if np.isfinite(one[curve]) else None for curve in ("recursion", "identity")},
        }
    return {**json.loads(study.attrs["config"]), "seeds": study.sizes["seed"], "rules": rules}


def _print(numbers: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = (
        f"mean cosine after {numbers['depth']} layers (d {numbers['d']}, n {numbers['n']}, {numbers['seeds']} seeds)"
    )
    table = Table(
        "rule", "mean cosine", "90 % of seeds", "predicted (random weights)", "predicted (Q = K = V = I)", title=title
    )
    for name, row in numbers["rules"].items():
        low, high = row["band"]
        recursion, identity = row["recursion"], row["identity"]
        theory = "—" if recursion is None else f"{recursion:.5f}", "—" if identity is None else f"{identity:.3g}"
        table.add_row(name, f"{row['mean_cosine']:.5f}", f"{low:.5f} … {high:.5f}", *theory)
    Console(markup=False).print(table)
    if "out" in numbers:
        say_open(Path(numbers["out"]) / REPORT)
