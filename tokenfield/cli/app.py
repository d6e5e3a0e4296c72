"""The commands."""

from typing import Annotated

import typer

from .atlas_command import atlas
from .completion_command import completion
from .examples import epilog
from .explore_command import explore
from .kinds_command import kinds
from .lipschitz_command import lipschitz
from .norms_command import norms
from .phase_diagram_command import phase_diagram
from .plain_help import PlainHelp
from .predict_command import predict
from .probe_command import probe
from .quiet_flag import with_quiet
from .simulate_command import simulate
from .sweep_command import sweep

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="The dynamics of tokens in deep Transformers: simulate them, and check the theory.",
    epilog=epilog(""),
)
for command in (simulate, predict, atlas, norms, lipschitz, phase_diagram, probe, kinds, explore):
    name = command.__name__.replace("_", "-")
    app.command(name, cls=PlainHelp, epilog=epilog(name))(with_quiet(command))
app.add_typer(sweep, name="sweep")
app.command(epilog=epilog("completion"))(completion)  # it only prints, so it has no --quiet


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
