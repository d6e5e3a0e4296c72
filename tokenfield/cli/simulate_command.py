"""`tokenfield simulate`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

Attention = StrEnum("Attention", ["softmax", "l2", "sinkhorn", "unnormalized", "linear", "relu", "sigmoid", "hardmax"])  # type: ignore[misc]
Norm = StrEnum("Norm", ["none", "rescaled", "post", "pre", "peri", "mix", "ngpt", "sqrt"])  # type: ignore[misc]
Start = StrEnum("Start", ["sphere", "gaussian", "hemisphere", "equiangular", "clusters", "circle", "file"])  # type: ignore[misc]


def _flag(help: str) -> Any:
    return typer.Option(help=help, show_default=False)


def simulate(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML file; flags are laid over it.", show_default=False)
    ] = None,
    attention: Annotated[Attention | None, _flag("Attention kernel [softmax].")] = None,
    norm: Annotated[Norm | None, _flag("Normalization rule [post].")] = None,
    beta: Annotated[float | None, _flag("Inverse temperature [1].")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Token i attends to j <= i only.")] = False,
    tau: Annotated[float | None, _flag("Time at which Mix-LN turns from Post to Pre.")] = None,
    alpha: Annotated[float | None, _flag("Rate of nGPT [1].")] = None,
    tokens: Annotated[Start | None, _flag("Where tokens start [sphere].")] = None,
    n: Annotated[int | None, _flag("Number of tokens [256].")] = None,
    d: Annotated[int | None, _flag("Dimension [3].")] = None,
    seed: Annotated[int | None, _flag("Seed of the start [0].")] = None,
    rho: Annotated[float | None, _flag("Cosine of equiangular tokens [0].")] = None,
    file: Annotated[Path | None, _flag("Tokens from a .npy, .csv or text file.")] = None,
    kappa: Annotated[float | None, _flag("Inverse noise: sqrt(2/kappa) dW on every token [no noise].")] = None,
    noise_seed: Annotated[int | None, _flag("Seed of the noise [0].")] = None,
    fisher_rao: Annotated[
        float | None, _flag("Rate at which weights grow (unnormalized, post) [fixed weights].")
    ] = None,
    t1: Annotated[float | None, _flag("End time [10]; inf with --method coarsen.")] = None,
    depth: Annotated[int | None, _flag("Run this many discrete layers instead of the flow.")] = None,
    step: Annotated[float | None, _flag("Step of a discrete layer [1].")] = None,
    save_at: Annotated[int | None, _flag("How many states to keep [101].")] = None,
    rtol: Annotated[float | None, _flag("Relative tolerance [1e-6].")] = None,
    atol: Annotated[float | None, _flag("Absolute tolerance [1e-9].")] = None,
    dt: Annotated[float | None, _flag("A fixed step [error control; with noise, one that fits].")] = None,
    method: Annotated[
        str | None, _flag("Stepper, or coarsen for long waits [coarsen where a long run allows it, else tsit5].")
    ] = None,
    merge_tolerance: Annotated[float | None, _flag("Distance within which coarsen merges tokens [1e-6].")] = None,
    stop_when: Annotated[
        str | None, _flag("one-cluster, clusters<=K, order>=R, energy-settled or energy-settled<=RATE.")
    ] = None,
    out: Annotated[Path | None, _flag("Run folder [runs/NAME; with --json, none].")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished run in the folder.")] = False,
    animation: Annotated[bool, typer.Option(help="Draw the animation.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final numbers as JSON.")] = False,
) -> None:
    """Move tokens by a Transformer; write the run, figures, an animation and a report.

    A run that was interrupted or killed goes on from its checkpoint when the same command is given again.
    """
    from ..config.run import read

    given = {
        "attention.kind": attention and attention.value,
        "attention.beta": beta,
        "attention.causal": causal or None,
        "norm.kind": norm and norm.value,
        "norm.tau": tau,
        "norm.alpha": alpha,
        "tokens.kind": tokens.value if tokens else "file" if file else None,
        "tokens.n": n,
        "tokens.d": d,
        "tokens.seed": seed,
        "tokens.rho": rho,
        "tokens.file": file and str(file),
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
    }
    resolved = read(config, {key: value for key, value in given.items() if value is not None})
    if resolved.t1 is not None and resolved.depth is not None:
        raise ValueError("give t1 (the flow) or depth (discrete layers), not both")
    if resolved.t1 is None and resolved.depth is None:
        resolved.t1 = 10.0
    resolved.refuse_large()  # before JAX is imported and tokens are made
    from .run_folder import execute

    execute(resolved, out, overwrite=overwrite, animation=animation, as_json=as_json)
