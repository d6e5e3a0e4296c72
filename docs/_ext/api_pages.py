"""Pages of the API reference, made from the lists of names that the package itself keeps.

A name is on the page of its home. A home without a page is an error, so that nothing public is left out.
"""

import importlib
from pathlib import Path
from typing import NamedTuple


class Group(NamedTuple):
    """Names of one home: a folder of the package whose names `tokenfield` exports, or a package with names of its own."""

    title: str
    home: str
    only: str = ""
    """Names, set apart by spaces, if not all."""
    more: str = ""
    """Names that are not exported, such as base classes."""


class Page(NamedTuple):
    title: str
    text: str
    groups: tuple[Group, ...]


EXPORTED = "tokenfield"
POSITIONS = "RoPE ALiBi Bias Window Sinks"
STATES = "Tokens Gaussian Equiangular CircleDensity SphereDensity ZonalDensity"
STOPPING = "one_cluster at_most_clusters order_above cosine_above energy_settled"

PAGES = {
    "models": Page(
        "Models",
        "A model is a :obj:`tokenfield.Transformer`: attention, a norm and, if you like, an MLP, noise, a context or a space.",
        (
            Group("The model", "transformer"),
            Group("Attention", "attention", f"not {POSITIONS}"),
            Group("Positions", "attention", POSITIONS),
            Group("Normalization", "normalization"),
            Group("MLP", "mlp"),
            Group("Noise", "noise"),
            Group("Spaces", "spaces"),
        ),
    ),
    "states": Page(
        "States",
        "A state says how the measure is represented. Samplers make tokens to start from.",
        (Group("Representations", "states", STATES), Group("Samplers", "states", f"not {STATES}")),
    ),
    "running": Page(
        "Running",
        "`simulate` is a run with progress, events and a dataset. `solve` is the same run as a pure JAX function.",
        (
            Group("Runs", "driver"),
            Group("Pure functions", "solver"),
            Group("Stop rules", "observables", STOPPING),
            Group("Results", "results"),
            Group("Errors", "flows"),
        ),
    ),
    "observables": Page(
        "Observables",
        "Numbers measured from a state. Given a trajectory or an ensemble, each returns a labeled series.",
        (Group("Observables", "observables", f"not {STOPPING}"),),
    ),
    "theory": Page(
        "Theory",
        "What theory predicts, without a simulation. :doc:`The theory pages </formulas>` derive the formulas.",
        (Group("Predictions", "tokenfield.theory", "not SCALES"),),
    ),
    "lipschitz": Page(
        "Lipschitz constants",
        "How much attention, a layer, a stack or a flow stretches distances.",
        (Group("Lipschitz constants", "tokenfield.lipschitz"),),
    ),
    "many_runs": Page(
        "Sweeps and studies",
        "Many runs: a grid of parameters, experiments over seeds, and clustering of data by attention.",
        (
            Group("Sweeps", "tokenfield.sweep", more="run.sweep"),
            Group("Studies", "tokenfield.studies"),
            Group("Clustering of data", "tokenfield.clustering"),
        ),
    ),
    "real_models": Page(
        "Real models",
        "Pretrained Transformers: measure them, or run their blocks. Needs the extra `models`.",
        (Group("Probe", "tokenfield.probe", more="run.probe"), Group("Real blocks", "probe.pretrained")),
    ),
    "figures": Page(
        "Figures and reports",
        "Figures with matplotlib, and HTML reports that open without a network.",
        (
            Group("Figures", "tokenfield.plotting"),
            Group("Reports", "tokenfield.report", more="write_report summary"),
            Group("The live page", "tokenfield.explorer"),
        ),
    ),
    "atlas": Page(
        "Atlas",
        "Claims from the literature, checked by experiment: `tokenfield atlas` runs them. :doc:`/theory/claims` lists them.",
        (Group("Claims", "tokenfield.atlas"),),
    ),
    "base_classes": Page(
        "Base classes",
        "What to derive from to write your own part. :doc:`/howto/index` has an example of each.",
        (
            Group(
                "Attention",
                "tokenfield.attention",
                more="AbstractAttention AbstractHead AbstractGeneralHead AbstractPairwise",
            ),
            Group("Positions", "tokenfield.attention", more="AbstractBias AbstractMask AbstractRotation"),
            Group(
                "Normalization",
                "tokenfield.normalization",
                more="AbstractNorm AbstractSphereNorm AbstractDirectionNorm AbstractGainNorm AbstractTokenMap forever unit",
            ),
            Group("Spaces", "tokenfield.spaces", more="AbstractSpace AbstractBrownianSpace"),
            Group("Noise", "tokenfield.noise", more="AbstractNoise"),
            Group("Stop rules", "tokenfield.stop_rule", more="AbstractStopRule"),
            Group("Methods", "tokenfield.solver", more="AbstractMethod"),
            Group("Flows", "tokenfield.flows", more="AbstractFlow"),
        ),
    ),
}


def write(folder: Path) -> None:
    """Write the pages, and an index of them; a file that has the right text already is left alone."""
    folder.mkdir(exist_ok=True)
    missing = sorted(set(exported()) - {name.rpartition(".")[2] for page in PAGES.values() for name in names(page)})
    if missing:
        raise ValueError(f"docs/_ext/api_pages.py: give {', '.join(missing)} a place in PAGES")
    for name, page in PAGES.items():
        _update(folder / f"{name}.rst", rendered(page))
    _update(folder / "index.rst", index())


def exported() -> dict[str, str]:
    """The names of `tokenfield`, each with its home."""
    package = importlib.import_module(EXPORTED)
    return {name: home for home, listed in package._HOMES.items() for name in listed.split()}


def members(group: Group) -> list[str]:
    """Full names of a group."""
    if group.home.startswith(EXPORTED):
        package, prefix = importlib.import_module(group.home), group.home
        found = [*getattr(package, "__all__", ()), *group.more.split()]
    else:
        found, prefix = [name for name, home in exported().items() if home == group.home], EXPORTED
    chosen = group.only.removeprefix("not ").split()
    if chosen:
        found = [name for name in found if (name in chosen) != group.only.startswith("not ")]
    return [f"{prefix}.{name}" for name in found]


def names(page: Page) -> list[str]:
    return [name for group in page.groups for name in members(group)]


def rendered(page: Page) -> str:
    """A page with one table of names for each group."""
    lines = [page.title, "=" * len(page.title), "", page.text, ""]
    for group in page.groups:
        if len(page.groups) > 1:
            lines += [group.title, "-" * len(group.title), ""]
        home = group.home if group.home.startswith(EXPORTED) else EXPORTED
        inside = [name.removeprefix(f"{home}.") for name in members(group)]
        called = [f"~{home.removeprefix(f'{EXPORTED}.')}.{name}" for name in inside if "." in name]  # `tkf.sweep(plan)`
        lines += [*summary(EXPORTED, called), *summary(home, [name for name in inside if "." not in name])]
    return "\n".join(lines)


def summary(module: str, names: list[str]) -> list[str]:
    """A table of names of a module."""
    head = [f".. currentmodule:: {module}", "", ".. autosummary::", "   :toctree: names", "   :nosignatures:", ""]
    return [*head, *(f"   {name}" for name in names), ""] if names else []


def index() -> str:
    """The page of all pages."""
    title = "API reference"
    lines = [
        title,
        "=" * len(title),
        "",
        "Every public name, from its docstring. Examples use ``import tokenfield as tkf``.",
        "",
    ]
    lines += [".. toctree::", "   :maxdepth: 1", "", *(f"   {name}" for name in PAGES), ""]
    return "\n".join(lines)


def _update(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
