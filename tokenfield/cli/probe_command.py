"""`tokenfield probe`."""

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from .._files import remove
from .._shown import shown
from .choices import Format, flag
from .command_line import command_line
from .errors import Interrupted
from .folders import open_folder, say_open
from .probe_table import print_layers


def probe(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="Model folder, .gguf file, hub name in the local cache, or minilm, smollm2, albert, rxnfp (make models).",
            metavar="MODEL",
        ),
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(help="More text files.", metavar="FILE", show_default=False)
    ] = None,
    text: Annotated[list[Path] | None, flag("Text file; more files may follow, or repeat --text.", "--text")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of the files is a text (SMILES, sentences).")
    ] = False,
    out: Annotated[
        Path | None, flag("Folder for report.html, figures and probe.zarr [probe; with --json, none].", "--out")
    ] = None,
    batch: Annotated[int, flag("Maximum number of texts at a time [8].", "--batch")] = 8,
    max_tokens: Annotated[
        int | None,
        flag("Maximum number of tokens in a window of a text [positions of the model, at most 4096].", "--max-tokens"),
    ] = None,
    windows: Annotated[int, flag("Maximum number of windows per text [4].", "--windows")] = 4,
    iterations: Annotated[
        int | None, flag("How many times to apply a shared block (ALBERT) [as trained].", "--iterations")
    ] = None,
    lengths: Annotated[
        str | None,
        flag("Numbers of tokens for Lipschitz constants, such as 8,16,32 [up to the longest text].", "--lengths"),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Measure everything: the same as --null --lipschitz; takes a few minutes.")
    ] = False,
    lipschitz: Annotated[
        bool | None,
        typer.Option("--lipschitz/--no-lipschitz", help="Also measure Lipschitz constants.", show_default=False),
    ] = None,
    null: Annotated[
        bool | None,
        typer.Option("--null/--no-null", help="Also measure the same model with random weights.", show_default=False),
    ] = None,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read weights from a .bin file, with a reader that runs no code.")
    ] = False,
    seed: Annotated[int, flag("Seed of the random weights [0].")] = 0,
    format: Format = "png",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished probe in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Measure collapse, clustering and smoothness of a pretrained Transformer on texts, and draw theory over it.

    Nothing is downloaded, and no code from the model folder is run. If the probe is interrupted, the same command continues it.

    Needs the extra "models": pip install -e ".[models]" in the folder of tokenfield.
    """
    paths = [*(text or []), *(files or [])]
    if not paths:
        raise ValueError("--text: give at least one text file")
    sizes = None if lengths is None else _lengths(lengths)
    folder = out if out is not None or as_json else Path("probe")
    from .._check import count
    from ..probe.texts import read_texts

    count("--windows", windows)
    texts = read_texts(paths, lines)
    context.with_resource(open_folder(folder, "probe.zarr", "a finished probe", overwrite, unfinished="probe.part"))
    if folder is not None and overwrite:
        remove(folder / "probe.part")
    from ..probe.run import probe as run

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            result = run(
                model,
                texts,
                out=folder,
                batch=batch,
                max_tokens=max_tokens,
                most_windows=windows,
                iterations=iterations,
                lengths=sizes,
                full=full,
                null=null,
                lipschitz=lipschitz,
                allow_pickle=allow_pickle,
                seed=seed,
                draw=None if folder is None else lambda result: result.report(folder, command_line(), format),
            )
        except KeyboardInterrupt:
            hint = (
                ""
                if folder is None
                else f"; finished batches are saved in {folder}: run the same command again to continue"
            )
            raise Interrupted("interrupted" + hint) from None
    numbers = result.summary()
    if folder is not None:
        numbers["out"] = str(folder)
    for warning in caught:
        if "is a pickle" in str(warning.message):
            print(f"warning: {warning.message}", file=sys.stderr)
    if as_json:
        print(json.dumps(numbers, allow_nan=False))
    else:
        _print(numbers)


def _lengths(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--lengths must be whole numbers such as 8,16,32, got {shown(text)}") from None
    if min(sizes) < 2 or len(set(sizes)) < 2:
        raise ValueError(f"--lengths must hold at least two different numbers, all >= 2, got {shown(text)}")
    return sizes


def _print(numbers: dict[str, Any]) -> None:
    print_layers(numbers)
    print(numbers["answer"])
    print(f"{len(numbers['verdict'])} detailed findings are in the report (and in --json).")
    for note in numbers["notes"]:
        print(f"note: {note}")
    if more := numbers["more"]:
        print(more)
    if "out" in numbers:
        say_open(Path(numbers["out"]) / "report.html")
