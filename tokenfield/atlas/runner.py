"""Run the claims, and write the results to disk as they come."""

import difflib
import importlib
import json
import pkgutil
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from .._check import count
from .._files import refuse_foreign, write_text
from .._quiet import say
from .._workers import begin_worker, terminate
from . import claims
from .claim import OPEN, Claim, Evidence

SECTIONS = (
    "Models",
    "Well-posedness and stability",
    "Lipschitz constants",
    "Clustering in R^d",
    "Gaussian data",
    "Clustering on the sphere",
    "Equiangular model",
    "Long context",
    "Metastability",
    "Causal attention",
    "Layers and flow",
    "Noise",
    "Real models",
)
EXPECTED = ("holds", "corrected", "skipped")


class Result(NamedTuple):
    """Result of one claim: its evidence and figure (as PNG, and in the format of the files), or the error that stopped it."""

    claim: Claim
    evidence: Evidence | None
    picture: bytes
    error: str
    seconds: float
    file: bytes = b""

    @property
    def verdict(self) -> str:
        """ "holds", "corrected" (fails as printed, holds as corrected), "fails", "skipped" or "error"."""
        if self.evidence is None:
            return "error"
        if self.evidence.skipped:
            return "skipped"
        if not all(check.holds for check in self.evidence.checks if not check.printed):
            return "fails"
        if any(check.printed and not check.holds for check in self.evidence.checks):
            return "corrected"
        return "holds"


def all_claims() -> list[Claim]:
    """Return every claim of the atlas, section by section, then by name.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.atlas.all_claims()[0].section
        'Models'
    """
    names = sorted(module.name for module in pkgutil.iter_modules(claims.__path__))
    found = [importlib.import_module(f"{claims.__name__}.{name}").CLAIM for name in names]
    place = lambda section: SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)  # noqa: E731
    return sorted(found, key=lambda claim: (place(claim.section), claim.section, claim.id))


def choose(only: Sequence[str] | None) -> list[Claim]:
    """Return all claims, or those asked for by id.

    Example:
        >>> import tokenfield as tkf
        >>> (claim,) = tkf.atlas.choose(["pairing"])
        >>> claim.title
        'Only the closest pair moves, in a time rescaled by its current inner product'
    """
    known = {claim.id: claim for claim in all_claims()}
    if not only:
        return list(known.values())
    for wanted in only:
        if wanted not in known:
            near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise ValueError(f"--only: no claim {wanted!r}: {hint}")
    return [known[wanted] for wanted in only]


def measure(claim: Claim, quick: bool, format: str = "png") -> Result:
    """Run one claim. An exception is returned as a result, so that the other claims still run.

    `format` is that of the figure beside the page: "png", "pdf" or "svg".
    """
    from ..report.page import figure_bytes

    begun = time.monotonic()
    evidence, picture, file, error = None, b"", b"", ""
    try:
        evidence = claim.measure(quick)
        if evidence.figure is not None:
            picture = figure_bytes(evidence.figure, dpi=140)
            file = picture if format == "png" else figure_bytes(evidence.figure, format)
    except Exception:
        error = traceback.format_exc(limit=-3)
    return Result(claim, evidence, picture, error, time.monotonic() - begun, file)


def measure_all(chosen: Sequence[Claim], quick: bool, jobs: int, format: str = "png") -> Iterator[Result]:
    """Yield results as they finish. Several jobs run in separate processes, which receive claims by id.

    Claims about real models share one process and start first: loading torch and the models takes longer than measuring.
    """
    if jobs == 1 or len(chosen) == 1:
        yield from (measure(claim, quick, format) for claim in chosen)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), begin_worker, ({},)) as pool:
        together = [claim for claim in chosen if claim.section == "Real models"]
        groups = [*([together] if together else []), *([claim] for claim in chosen if claim not in together)]
        waiting = {pool.submit(_measure_by_id, [claim.id for claim in group], quick, format): group for group in groups}
        try:
            for done in as_completed(waiting):
                for claim, found in zip(waiting[done], done.result(), strict=True):
                    yield Result(claim, *found)
        except BaseException:  # an interruption
            terminate(pool)
            raise


def _measure_by_id(
    wanted: list[str], quick: bool, format: str
) -> list[tuple[Evidence | None, bytes, str, float, bytes]]:
    """Run claims in a worker process and return what can be pickled, so without the figures."""
    found = [measure(claim, quick, format) for claim in choose(wanted)]
    return [(each.evidence and each.evidence._replace(figure=None), *each[2:]) for each in found]


def run(
    *, quick: bool, only: Sequence[str] | None, folder: Path, as_json: bool, jobs: int = 1, format: str = "png"
) -> int:
    """Run the claims, print them, write `index.html` and `atlas.json`; return 0 if every claim came out as expected."""
    from .page import write_page

    chosen, jobs = choose(only), count("jobs", jobs)
    refuse_foreign(folder, ("atlas.json",), overwrite=None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "atlas.json").touch()
    except OSError as error:
        raise ValueError(f"--out: cannot write to {folder}: {error.strerror}") from None
    results: list[Result] = []
    place = {claim.id: index for index, claim in enumerate(chosen)}
    for result in measure_all(chosen, quick, jobs, format):
        results = sorted([*results, result], key=lambda each: place[each.claim.id])
        if not as_json:
            done = (
                f"[{len(results):2d}/{len(chosen)}] {result.claim.id:32s} {result.verdict:10s} {result.seconds:6.1f} s"
            )
            say(done)
        write_page(results, len(chosen), quick, folder / "index.html", format)
        write_text(folder / "atlas.json", json.dumps(as_data(results), indent=1))
    if as_json:
        print(json.dumps(as_data(results)))
    else:
        _print(results)
        print(f"open {folder / 'index.html'}")
    return 0 if all(result.verdict in EXPECTED for result in results) else 1


def as_data(results: Sequence[Result]) -> list[dict]:
    """Return the results as plain data, for JSON."""
    return [
        {
            "id": result.claim.id,
            "section": result.claim.section,
            "title": result.claim.title,
            "source": result.claim.source,
            "verdict": result.verdict,
            "seconds": round(result.seconds, 2),
            "checks": [check._asdict() for check in result.evidence.checks] if result.evidence else [],
            "error": result.error,
            "skipped": result.evidence.skipped if result.evidence else "",
        }
        for result in results
    ]


def _print(results: Sequence[Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    colors = {"holds": "green", "corrected": "yellow", "skipped": "dim", "fails": "red", "error": "red"}
    table = Table("claim", "verdict", "checks", "seconds", title="atlas")
    for result in results:
        checks = result.evidence.checks if result.evidence else ()
        hold = sum(check.holds and check.predicted != OPEN for check in checks)
        reported = sum(check.predicted == OPEN for check in checks)
        wrong = sum(check.printed and not check.holds for check in checks)
        counts = f"{hold} hold" + (f", {wrong} fail as printed" if wrong else "")
        counts += f", {reported} reported" if reported else ""
        verdict = f"[{colors[result.verdict]}]{result.verdict}[/]"
        table.add_row(result.claim.id, verdict, counts if checks else "none", f"{result.seconds:.1f}")
    console = Console()
    console.print(table)
    for result in results:
        if result.error:
            print(f"{result.claim.id}: {result.error.strip().splitlines()[-1]}")
        if result.evidence and result.evidence.skipped:
            print(f"{result.claim.id}: skipped: {result.evidence.skipped}")
        for check in result.evidence.checks if result.evidence else ():
            if check.holds == check.printed:
                print(f"{result.claim.id}: {check.what}: predicted {check.predicted}, measured {check.measured}")
