"""`tokenfield lipschitz`."""

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .._cost import SHORTEST_BASIS, refuse_derivative
from .._files import write_text
from .._shown import shown
from .choices import flag, kind_flag
from .command_line import command_line
from .errors import Interrupted
from .folders import REPORT, figure_file, open_folder, say_open, write_dataset, write_figure
from .interrupts import interrupted, resumable_from

DATA = "sphere", "gaussian", "low_rank", "clustered", "correlated", "heavy_tailed"
DATASET, FIGURE, CHECKPOINT, CONSTANT = "growth.zarr", "growth.png", "growth.npz", "constant.json"
BOUNDS = {
    "R": "R, radius of the ball",
    "gap": "g, the score gap",
    "lower": "some tokens in the ball: at least",
    "upper": "all tokens in the ball: at most",
    "sharp_upper": "all tokens in the ball, sharper bound",
    "data": "these tokens: at most",
    "sharp_data": "these tokens, bound from their attention",
    "mean_field": "measures in the ball: at most",
    "log_mean_field": "logarithm of the mean-field bound",
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
        float | None,
        flag("Scale the tokens so that the longest has this length [as sampled; with --adversarial: 1].", "--R"),
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
    format: Annotated[
        Literal["png", "pdf", "svg"] | None, flag("Format of the figure, with --lengths [png].", "--format")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a study in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Local Lipschitz constant of attention at sampled tokens, with bounds.

    With --lengths, measure how it grows with the number of tokens and fit a power of n; after an interruption, the same
    command continues. With --adversarial, search for the worst tokens.
    With --out, a report is written for a single constant too.
    """
    if lengths is not None and adversarial:
        raise ValueError("--lengths and --adversarial cannot be combined: use one at a time")
    if lengths is None and format is not None:
        raise ValueError("--format needs --lengths: a single constant has no figure")
    sizes = [n] if lengths is None else _lengths(lengths)
    if A is None and V is None:  # otherwise the matrices determine d
        refuse_derivative(max(sizes), 8 if d is None else d, max(SHORTEST_BASIS, 4 * top_k))
    from .._check import count, positive
    from . import lipschitz_numbers as answer
    from .predict_command import _matrix

    n, seed, R = count("n", n, 2), count("seed", seed, 0), None if R is None else positive("R", R)
    repeats, rtol = count("repeats", repeats), positive("rtol", rtol)
    d, kernel = answer.kernel(attention, beta, _matrix("A", A), _matrix("V", V), causal, d, sets or ())
    inputs: dict[str, Any] = {"attention": attention, "beta": beta, "A": A and str(A), "V": V and str(V)}
    inputs |= {"causal": causal, "d": d, "seed": seed} | ({"set": sets} if sets else {})
    if lengths is not None:
        folder = out if out is not None or as_json else Path("lipschitz")
        draw = answer.sampler(data, d, R)
        inputs |= {"data": data, "lengths": sizes, "R": R, "rtol": rtol, "repeats": repeats}
        context.with_resource(open_folder(folder, DATASET, "a study", overwrite, unfinished=CHECKPOINT))
        if folder is not None and overwrite:
            (folder / CHECKPOINT).unlink(missing_ok=True)
        numbers = _growth(kernel, draw, inputs, folder, format or "png")
    elif adversarial:
        R = 1.0 if R is None else R
        inputs |= {"n": n, "R": R, "starts": starts, "steps": steps}
        context.with_resource(open_folder(out, CONSTANT, "a constant", overwrite))
        numbers = _constant(answer.worst(kernel, n, R, d, starts, steps, seed), inputs, out)
    else:
        x = answer.sampler(data, d, R)(n, seed)
        inputs |= {"data": data, "n": n, "R": R, "rtol": rtol, "top_k": top_k, "max_products": max_products}
        context.with_resource(open_folder(out, CONSTANT, "a constant", overwrite))
        numbers = _constant(answer.at_tokens(kernel, x, R, rtol, top_k, max_products), inputs, out)
    if as_json:
        print(json.dumps({**numbers, "inputs": inputs}, allow_nan=False))
    else:
        _print(numbers, f"{attention}{', causal' if causal else ''}, d = {d}")


def _growth(kernel: Any, draw: Any, inputs: dict[str, Any], folder: Path | None, format: str) -> dict[str, Any]:
    """Measure the constants for several numbers of tokens; write the figure, the report and the data to the folder."""
    from ..lipschitz import growth
    from . import lipschitz_numbers as answer

    checkpoint = None if folder is None else folder / CHECKPOINT
    options = {name: inputs[name] for name in ("lengths", "repeats", "seed", "rtol")}
    with resumable_from(checkpoint):
        try:
            found = growth(kernel, draw, **options, checkpoint=checkpoint)
        except KeyboardInterrupt:
            raise Interrupted(interrupted()) from None
    numbers = answer.of_growth(found)
    if folder is None:
        return numbers
    from ..plotting.growth import growth_figure
    from ..report.lipschitz import growth_story
    from ..report.story import write_story

    figure = growth_figure({inputs["data"]: found})
    write_figure(figure, figure_file(folder, FIGURE, format))
    write_story(growth_story(found, inputs, figure, command_line(), format), folder)
    write_dataset(answer.dataset(found, inputs), folder / DATASET)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return {**numbers, "out": str(folder)}


def _constant(numbers: dict[str, Any], inputs: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """Write the report of a single constant and the numbers to the folder."""
    if folder is None:
        return numbers
    from ..report.lipschitz import constant_story
    from ..report.story import write_story

    write_story(constant_story(numbers, inputs, command_line()), folder)
    write_text(folder / CONSTANT, json.dumps({**numbers, "inputs": inputs}, allow_nan=False, indent=1))
    return {**numbers, "out": str(folder)}


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

    from ..report.lipschitz import factor_text

    exact = lambda value, digits=9: factor_text(value, numbers["log_unit"], digits)  # noqa: E731
    table = Table("what", "value", "within", title=f"Lipschitz constant: {title}")
    for rank, (value, (low, high)) in enumerate(
        zip(numbers.get("values", []), numbers.get("intervals", []), strict=True)
    ):
        name = "local constant" if rank == 0 else f"singular value {rank + 1}"
        table.add_row(name, exact(value), f"{exact(low)} … {exact(high)}")
    for n, row in zip(numbers.get("lengths", []), numbers.get("constants", []), strict=True):
        table.add_row(f"n = {n}, geometric mean", exact(_mean(row), 6), f"{exact(min(row), 6)} … {exact(max(row), 6)}")
    if "power" in numbers:
        interval = numbers["power_interval"]
        within = f"{interval[0]:.4f} … {interval[1]:.4f} (95 %)" if interval else "unknown: two points"
        table.add_row("power p of C n^p", f"{numbers['power']:.4f}", within)
    if "found" in numbers:
        table.add_row("worst tokens found: at least", exact(numbers["constant"]), "")
        if numbers["explicit_constant"] is not None:
            table.add_row("explicit tokens", exact(numbers["explicit_constant"]), "")
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
