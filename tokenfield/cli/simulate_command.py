"""`tokenfield simulate`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .._cost import refuse_layers, refuse_run
from .choices import Format, flag, kind_flag, start_flag


def simulate(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML file; flags override it.", metavar="CONFIG", show_default=False)
    ] = None,
    attention: Annotated[str | None, kind_flag("Attention kernel [softmax]", "attention", "AbstractAttention")] = None,
    space: Annotated[str | None, kind_flag("Space instead of a norm", "spaces", "AbstractSpace")] = None,
    norm: Annotated[str | None, kind_flag("Normalization rule [post]", "normalization", "AbstractNorm")] = None,
    beta: Annotated[float | None, flag("Inverse temperature [1].")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Token i attends to j <= i only.")] = False,
    tau: Annotated[float | None, flag("Time at which Mix-LN switches from Post-LN to Pre-LN.")] = None,
    alpha: Annotated[float | None, flag("Rate of nGPT [1].")] = None,
    tokens: Annotated[str | None, start_flag("Initial tokens [sphere]")] = None,
    n: Annotated[int | None, flag("Number of tokens [256].")] = None,
    d: Annotated[int | None, flag("Dimension [3].")] = None,
    seed: Annotated[int | None, flag("Seed of the initial tokens [0].")] = None,
    rho: Annotated[float | None, flag("Cosine of equiangular tokens [0].")] = None,
    k: Annotated[int | None, flag("Number of initial clusters [4].", "--k")] = None,
    spread: Annotated[float | None, flag("Width of initial clusters [0.1].")] = None,
    file: Annotated[Path | None, flag("Tokens from a .npy, .npz, .csv or text file.")] = None,
    weights: Annotated[Path | None, flag("Weights of tokens: a .npy, .npz, .csv or text file [all equal].")] = None,
    positions: Annotated[
        Path | None, flag("Positions of tokens: a .npy, .npz, .csv or text file [in order, in (0, 1]].")
    ] = None,
    state: Annotated[
        str | None, kind_flag("Another state instead of tokens [tokens]", "states", "AbstractState")
    ] = None,
    noise: Annotated[str | None, kind_flag("Noise [that of the space]", "noise", "AbstractNoise")] = None,
    kappa: Annotated[float | None, flag("Inverse noise: sqrt(2/kappa) dW on every token [no noise].")] = None,
    noise_seed: Annotated[int | None, flag("Seed of the noise [0].")] = None,
    fisher_rao: Annotated[
        float | None, flag("Rate at which weights grow (unnormalized, post) [fixed weights].")
    ] = None,
    t1: Annotated[float | None, flag("End time [10]; inf with --method coarsen.")] = None,
    depth: Annotated[int | None, flag("Run this many discrete layers instead of the flow.")] = None,
    step: Annotated[float | None, flag("Step of a discrete layer [1].")] = None,
    save_at: Annotated[int | None, flag("Number of states to save [101].")] = None,
    rtol: Annotated[float | None, flag("Relative tolerance [1e-6].")] = None,
    atol: Annotated[float | None, flag("Absolute tolerance [1e-9].")] = None,
    dt: Annotated[float | None, flag("A fixed step size [error control; with noise, chosen from the model].")] = None,
    method: Annotated[
        str | None, flag("Time-stepping method [coarsen for long runs that allow it, otherwise tsit5].")
    ] = None,
    merge_tolerance: Annotated[float | None, flag("Distance within which coarsen merges tokens [1e-6].")] = None,
    stop_when: Annotated[
        str | None,
        flag(
            "one-cluster, clusters<=K, order>=R, cosine>=RHO, energy-settled or energy-settled<=RATE.",
            values=["one-cluster", "energy-settled"],
        ),
    ] = None,
    observe: Annotated[
        list[str] | None, flag("An observable of the final state, by name or as module:function (may be repeated).")
    ] = None,
    sets: Annotated[
        list[str] | None, flag("Any key of a TOML file, e.g. attention.power=3 (may be repeated).", "--set")
    ] = None,
    out: Annotated[Path | None, flag("Run folder [runs/NAME; with --json, none].")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished run in the folder.")] = False,
    format: Format = "png",
    animation: Annotated[
        Literal["gif", "mp4", "html", "none"],
        typer.Option(help="Format of the animation; mp4 needs ffmpeg, html is a page with a player."),
    ] = "gif",
    no_animation: Annotated[bool, typer.Option("--no-animation", help="The same as --animation none.")] = False,
    animate_time: Annotated[
        Literal["log", "linear"] | None,
        typer.Option(help="Time scale of the animation [log if tokens move early].", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final numbers as JSON.")] = False,
) -> None:
    """Simulate tokens moving through a Transformer; write the run, figures, an animation and a report.

    If a run was interrupted or killed, the same command continues it from its checkpoint.
    """
    if config is None and state is None and n is not None:  # a lower bound on memory, checked before JAX is imported
        width = 3 if d is None else d
        if depth is None:
            refuse_run(n, min(n, width), 101 if save_at is None else save_at)
        else:
            refuse_layers(n, width, depth)
    from ..config.keys import assignment
    from ..config.run import read

    start = "state" if state else "tokens"
    given = {
        "attention.kind": attention,
        "attention.beta": beta,
        "attention.causal": causal or None,
        "norm.kind": norm,
        "space.kind": space,
        "norm.tau": tau,
        "norm.alpha": alpha,
        "state.kind": state,
        "tokens.kind": tokens or ("file" if file else None),
        f"{start}.n": n,
        f"{start}.d": d,
        f"{start}.seed": seed,
        f"{start}.rho": rho,
        "tokens.k": k,
        "tokens.spread": spread,
        "tokens.file": file and str(file),
        "tokens.weights": weights and str(weights),
        "tokens.positions": positions and str(positions),
        "noise.kind": noise,
        "noise.kappa": kappa,
        "noise.seed": noise_seed,
        "fisher_rao": fisher_rao,
        "t1": t1,
        "depth": depth,
        "step": step,
        "save_at": save_at,
        "rtol": rtol,
        "atol": atol,
        "dt": dt,
        "method": method,
        "merge_tolerance": merge_tolerance,
        "stop_when": stop_when,
        **{f"observe.{name.rpartition(':')[2]}": name for name in observe or ()},
        **dict(assignment(text) for text in sets or ()),
    }
    if animation == "mp4" and not no_animation:
        from ..plotting.movie import ffmpeg

        ffmpeg()  # before the run
    resolved = read(config, {key: value for key, value in given.items() if value is not None})
    _refuse_unused(resolved.norm, {"tau": tau, "alpha": alpha})
    if resolved.t1 is not None and resolved.depth is not None:
        raise ValueError("give t1 (the flow) or depth (discrete layers), not both")
    if resolved.t1 is None and resolved.depth is None:
        resolved.t1 = 10.0
    resolved.refuse_large()  # before tokens are made
    from .run_folder import Animation, execute

    execute(
        resolved,
        out,
        overwrite=overwrite,
        format=format,
        animation=Animation("none" if no_animation else animation, animate_time),
        as_json=as_json,
    )


def _refuse_unused(norm: Any, flags: dict[str, float | None]) -> None:
    """Raise ValueError if a flag was given that the norm does not take; the error lists the options that it takes."""
    from .._kinds import parameters

    taken = list(parameters(norm.made_by.maker()))
    for name, value in flags.items():
        if value is not None and name not in taken:
            others = (
                f"it takes {', '.join(taken)}: give --set norm.{taken[0]}=VALUE" if taken else "it takes no options"
            )
            raise ValueError(f"--{name}: {norm.kind} takes no {name}; {others}")
