"""Draw the pictures of README and docs again, with the package's own functions and commands.

    .venv/bin/python tools/pictures.py              # all, in about ten minutes; needs `make models`
    .venv/bin/python tools/pictures.py clusters     # some

`docs/images/explore.gif` is not drawn here: it is recorded on the live page.
"""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import tokenfield as tkf
from tokenfield.probe.packages import english_text, model_path, reactions
from tokenfield.report.page import figure_bytes

IMAGES = Path(__file__).parent.parent / "docs" / "images"
DPI = 160
TEXTS, TOKENS = 6, 128


def clusters():
    """The run of the README."""
    model = tkf.Transformer(tkf.Softmax(beta=9.0), norm=tkf.PostLN())
    return tkf.simulate(model, tkf.uniform_sphere(n=256, d=3, seed=0), t1=40.0).plot()


def student_circle():
    """The run of the page for students."""
    model = tkf.Transformer(tkf.Softmax(beta=4.0), norm=tkf.PostLN())
    return tkf.plotting.space_time(tkf.simulate(model, tkf.uniform_sphere(n=40, d=2, seed=1), t1=20.0))


def phase_diagram():
    return by_command("phase_diagram.png", "phase-diagram", "--d", "2")


def figure3():
    return by_command("aligned.png", "sweep", "run", "figure3")


def probe():
    """ALBERT on reactions, its block iterated 48 times, beside random weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning about pickles: these files are known
        options = {"iterations": 48, "null": True, "allow_pickle": True}
        return tkf.probe(model_path("albert"), reactions(), **options).plot_theory()


def influence():
    """SmolLM2 on six passages of English."""
    text = english_text()
    texts = [text[start : start + 8 * TOKENS] for start in range(0, len(text), len(text) // TEXTS)][:TEXTS]
    return tkf.probe.position_influence(tkf.from_pretrained(model_path("smollm2")), texts, tokens=TOKENS).plot()


PICTURES = {each.__name__: each for each in (clusters, student_circle, phase_diagram, figure3, probe, influence)}


def by_command(figure: str, *words: str) -> bytes:
    """Return a figure that a command writes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        subprocess.run([sys.executable, "-m", "tokenfield", *words, "--out", out], check=True)
        return (out / figure).read_bytes()


def main(names: list[str]) -> None:
    """Draw the pictures with these names, or all."""
    if unknown := set(names) - set(PICTURES):
        sys.exit(f"no such picture: {', '.join(sorted(unknown))}; known: {', '.join(PICTURES)}")
    for name in names or PICTURES:
        drawn = PICTURES[name]()
        (IMAGES / f"{name}.png").write_bytes(drawn if isinstance(drawn, bytes) else figure_bytes(drawn, dpi=DPI))
        print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
