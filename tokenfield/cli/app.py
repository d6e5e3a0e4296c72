"""The commands."""

from typing import Annotated

import typer

from .atlas_command import atlas
from .explore_command import explore
from .kinds_command import kinds
from .lipschitz_command import lipschitz
from .norms_command import norms
from .phase_diagram_command import phase_diagram
from .predict_command import predict
from .probe_command import probe
from .simulate_command import simulate
from .sweep_command import sweep

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="The dynamics of tokens in deep Transformers: simulate them, and check the theory.",
)
app.command()(simulate)
app.command()(predict)
app.command()(atlas)
app.command()(norms)
app.command()(lipschitz)
app.command("phase-diagram")(phase_diagram)
app.command()(sweep)
app.command()(probe)
app.command()(kinds)
app.command()(explore)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tokenfield {version('tokenfield')}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
