"""`tokenfield lipschitz`."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from .._cost import SHORTEST_BASIS, refuse_derivative
from .._files import write_text
from .._shown import shown
from .choices import Format, flag, kind_flag
from .command_line import command_line
from .folders import REPORT, figure_file, open_folder, say_open, write_dataset, write_figure

DATA = "sphere", "gaussian", "low_rank", "clustered", "correlated", "heavy_tailed"
DATASET, FIGURE, CHECKPOINT, CONSTANT = "growth.zarr", "growth.png", "growth.npz", "constant.json"
BOUNDS = {
    "R": "R, radius of the ball",
    "gap": "g, the score gap",
    "lower": "some tokens in the ball: at least",
    "upper": "all tokens in the ball: at most",
    "sharp_upper": "or, sharper",
    "data": "these tokens: at most",
    "sharp_data": "or, sharper, from their attention",
    "mean_field": "measures in the ball: at most",
    "log_mean_field": "logarithm of that",
}


def lipschitz(
    context: typer.Context,
    attention: Annotated[str, kind_flag("Kernel [softmax]", "attention", "AbstractHead")] = "softmax",
    beta: Annotated[float | None, flag("Inverse temperature [1; with --A, none].")] = None,
    A: Annotated[Path | None, flag("Score matrix, a .npy, .csv or text file [beta I].", "--A")] = None,
    V: Annotated[Path | None, flag("Value matrix, a .npy, .csv or text file [I].", "--V")] = None,
    causal: Annotated[
        bool, typer.Option("--causal", help="Tokens attend only to themselves and earlier tokens.")
    ] = False,
    n: Annotated[int, flag("Number of tokens [64].", "--n")] = 64,
    d: Annotated[int | None, flag("Dimension [that of A or V, or 8].", "--d")] = None,
    R: Annotated[
        float | None, flag("Scale the tokens so that the longest has this length [as sampled; adversarial 1].", "--R")
    ] = None,
    data: Annotated[
        str, flag("Tokens: sphere, gaussian, low_rank, clustered, correlated or heavy_tailed [gaussian].", values=DATA)
    ] = "gaussian",
    lengths: Annotated[
        str | None, flag("Numbers of tokens, such as 64,128,256: measure how the constant grows.")
    ] = None,
    repeats: Annotated[int, flag("Samples for each of the --lengths [10].")] = 10,
    adversarial: Annotated[
        bool, typer.Option("--adversarial", help="Search for the tokens of length at most R with the largest constant.")
    ] = False,
    starts: Annotated[int, flag("Number of these searches [24].")] = 24,
    steps: Annotated[int, flag("Maximum number of iterations of each search [200].")] = 200,
    top_k: Annotated[int, flag("Number of singular values [1].")] = 1,
    rtol: Annotated[float, flag("Relative accuracy of the constants [1e-6].")] = 1e-6,
    max_products: Annotated[int, flag("Maximum number of products with the derivative [1000].")] = 1000,
    seed: Annotated[int, flag("Seed of the tokens [0].")] = 0,
    sets: Annotated[list[str] | None, flag("A parameter of the kernel, e.g. attention.power=3.", "--set")] = None,
    out: Annotated[
        Path | None,
        flag(
            f"Folder for report.html and {CONSTANT} [none]; "
            f"with --lengths, for report.html, {FIGURE} and {DATASET} [lipschitz; with --json, none]."
        ),
    ] = None,
    format: Format = "png",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a study in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Local Lipschitz constant of attention at sampled tokens, with bounds.

    With --lengths, measure how it grows with the number of tokens and fit a power of n; after an interruption, the same
    command continues. With --adversarial, search for the worst tokens.
    The study of growth writes a report; the others do so with --out.
    """
    if lengths is not None and adversarial:
        raise ValueError("--lengths and --adversarial cannot be combined: use one at a time")
    sizes = None if lengths is None else _lengths(lengths)
    if A is None and V is None:  # otherwise the matrices determine d
        refuse_derivative(n if sizes is None else max(sizes), 8 if d is None else d, max(SHORTEST_BASIS, 4 * top_k))
    from .._check import count, positive
    from . import lipschitz_numbers as answer
    from .predict_command import _matrix

    n, seed, R = count("n", n, 2), count("seed", seed, 0), None if R is None else positive("R", R)
    repeats, rtol = count("repeats", repeats), positive("rtol", rtol)
    d, kernel = answer.kernel(attention, beta, _matrix("A", A), _matrix("V", V), causal, d, sets or ())
    inputs: dict[str, Any] = {"attention": attention, "beta": beta, "A": A and str(A), "V": V and str(V)}
    inputs |= {"causal": causal, "d": d, "seed": seed} | ({"set": sets} if sets else {})
    draw = answer.sampler(data, d, R)
    if sizes is None:
        context.with_resource(open_folder(out, CONSTANT, "a constant", overwrite))
    if adversarial:
        R = 1.0 if R is None else R
        numbers = answer.worst(kernel, n, R, d, starts, steps, seed)
        inputs |= {"n": n, "R": R, "starts": starts, "steps": steps}
    elif sizes is None:
        numbers = answer.at_tokens(kernel, draw(n, seed), R, rtol, top_k, max_products)
        inputs |= {"data": data, "n": n, "R": R, "rtol": rtol, "top_k": top_k, "max_products": max_products}
    else:
        folder = out if out is not None or as_json else Path("lipschitz")
        context.with_resource(open_folder(folder, DATASET, "a study", overwrite))
        from ..lipschitz import growth

        checkpoint = None if folder is None else folder / CHECKPOINT
        if checkpoint is not None and overwrite:
            checkpoint.unlink(missing_ok=True)
        found = growth(kernel, draw, sizes, repeats, seed=seed, rtol=rtol, checkpoint=checkpoint)
        numbers = answer.of_growth(found)
        inputs |= {"data": data, "lengths": sizes, "R": R, "rtol": rtol, "repeats": repeats}
        if folder is not None:
            from ..plotting.growth import growth_figure
            from ..report.lipschitz import growth_story
            from ..report.story import write_story

            numbers["out"] = str(folder)
            figure = growth_figure({data: found})
            write_figure(figure, figure_file(folder, FIGURE, format))
            write_story(growth_story(found, inputs, figure, command_line(), format), folder)
            write_dataset(answer.dataset(found, inputs), folder / DATASET)
            (folder / CHECKPOINT).unlink(missing_ok=True)
    if sizes is None and out is not None:
        from ..report.lipschitz import constant_story
        from ..report.story import write_story

        write_story(constant_story(numbers, inputs, command_line()), out)
        write_text(out / CONSTANT, json.dumps({**numbers, "inputs": inputs}, allow_nan=False, indent=1))
        numbers["out"] = str(out)
    if as_json:
        print(json.dumps({**numbers, "inputs": inputs}, allow_nan=False))
    else:
        _print(numbers, f"{attention}{', causal' if causal else ''}, d = {d}")


def _lengths(text: str) -> list[int]:
    """Parse `64,128,256` as numbers: all >= 2, at least two of them different."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--lengths must be whole numbers such as 64,128,256, got {shown(text)}") from None
    if min(sizes) < 2 or len(set(sizes)) < 2:
        raise ValueError(f"--lengths must hold at least two different numbers, all >= 2, got {shown(text)}")
    return sizes


def _print(numbers: dict[str, Any], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "value", "within", title=f"Lipschitz constant: {title}")
    for rank, (value, (low, high)) in enumerate(
        zip(numbers.get("values", []), numbers.get("intervals", []), strict=True)
    ):
        name = "local constant" if rank == 0 else f"singular value {rank + 1}"
        table.add_row(name, f"{value:.9g}", f"{low:.9g} … {high:.9g}")
    for n, row in zip(numbers.get("lengths", []), numbers.get("constants", []), strict=True):
        table.add_row(f"n = {n}, geometric mean", f"{_mean(row):.6g}", f"{min(row):.6g} … {max(row):.6g}")
    if "power" in numbers:
        interval = numbers["power_interval"]
        within = f"{interval[0]:.4f} … {interval[1]:.4f} (95 %)" if interval else "unknown: two points"
        table.add_row("power p of C n^p", f"{numbers['power']:.4f}", within)
    if "found" in numbers:
        table.add_row("worst tokens found: at least", f"{numbers['constant']:.9g}", "")
        if numbers["explicit_constant"] is not None:
            table.add_row("explicit tokens", f"{numbers['explicit_constant']:.9g}", "")
    if numbers.get("log_unit"):
        table.add_row("all divided by e to the power", f"{numbers['log_unit']:.9g}", "")
    known = numbers.get("bounds") or {}
    for key, name in BOUNDS.items():
        if known.get(key) is not None:
            table.add_row(name, f"{known[key]:.9g}", "")
    Console(markup=False).print(table)
    for note in known.get("notes", []):
        print(f"note: {note}")
    if not numbers.get("converged", True):
        print("NOT converged to --rtol: increase it or --max-products; each interval still contains a singular value")
    if "out" in numbers:
        say_open(Path(numbers["out"]) / REPORT)


def _mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))
