"""`tokenfield explore`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .folders import say_open


def explore(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="A run folder, its report or a saved trajectory to replay, or a TOML file to run live.",
            metavar="RUN",
            show_default=False,
        ),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write the page as one HTML file instead of serving it.", show_default=False)
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; the next free one if it is in use.")] = 8765,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Watch tokens move on a live page: change beta, noise and norms, and compare with theory.

    Without arguments the page runs the simulator on this machine; the page is not reachable from other machines.

    Needs the extra "explore", except with --export: pip install -e ".[explore]" in the folder of tokenfield.
    """
    replay: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    if export is None:
        from ..explorer.extra import SERVER, require

        require(*SERVER)
    if run is not None and run.suffix == ".toml":
        config = _config(run, export)
    elif run is not None:
        from ..explorer.replay import open_run, replay_data

        replay = replay_data(open_run(run))
    if export is not None:
        from ..explorer.export import export_page

        say_open(export_page(export, replay))
        return
    from ..explorer.serve import serve

    serve(port, replay=replay, config=config, browser=browser, say=lambda line: print(line, flush=True))


def _config(path: Path, export: Path | None) -> dict[str, Any]:
    """Return the tables of a run file, after checking them."""
    if export is not None:
        raise ValueError("--export: an exported page cannot run a TOML file: run it first, and give its folder")
    from ..config.run import read

    found = read(path, {})
    return found.model_dump(exclude_none=True, exclude_unset=True)
