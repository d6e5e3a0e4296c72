"""Examples for the help of each command: every line works in a fresh folder, apart from files and folders in capitals."""

EXAMPLES = {
    "": (
        "tokenfield simulate --n 256 --beta 9 --t1 40 --out runs/first",
        "tokenfield atlas --quick",
        "tokenfield probe minilm --text TEXT.txt",
    ),
    "simulate": (
        "tokenfield simulate --n 256 --beta 9 --t1 40 --out runs/first",
        "tokenfield simulate --n 200 --d 2 --beta 4 --kappa 10 --t1 20 --animation html",
        "tokenfield simulate --norm pre --depth 24 --n 32 --json",
    ),
    "predict": (
        "tokenfield predict --n 32 --d 64 --beta 4",
        "tokenfield predict --n 256 --d 2 --beta 9 --kappa 5 --all",
        "tokenfield predict --norm pre --radius 4 --json",
    ),
    "atlas": (
        "tokenfield atlas --quick",
        "tokenfield atlas --only one_cluster --out atlas-one",
    ),
    "norms": (
        "tokenfield norms --quick",
        "tokenfield norms --d 128 --depth 32 --rule pre --rule peri --out norms-two",
    ),
    "lipschitz": (
        "tokenfield lipschitz --n 64 --d 8 --beta 2",
        "tokenfield lipschitz --n 16 --d 4 --adversarial --json",
        "tokenfield lipschitz --lengths 16,32,64 --repeats 4 --out growth",
    ),
    "phase-diagram": (
        "tokenfield phase-diagram --d 2 --runs 0",
        "tokenfield phase-diagram --d 3 --beta-max 4 --attention softmax --out softmax",
    ),
    "sweep": (
        "tokenfield sweep plans",
        "tokenfield sweep run first-clusters --dry-run",
        "tokenfield sweep status DIR",
    ),
    "sweep run": (
        "tokenfield sweep run first-clusters --dry-run",
        "tokenfield sweep run norms --set repeats=2 --out norms-sweep",
        "tokenfield sweep run PLAN.toml --out DIR --resume",
    ),
    "sweep status": (
        "tokenfield sweep status DIR",
        "tokenfield sweep status DIR --json",
    ),
    "sweep figures": (
        "tokenfield sweep figures DIR",
        "tokenfield sweep figures DIR --format pdf",
    ),
    "sweep export": (
        "tokenfield sweep export DIR FILE.nc",
        "tokenfield sweep export DIR FILE.nc --quiet",
    ),
    "sweep plans": (
        "tokenfield sweep plans",
        "tokenfield sweep plans --json",
    ),
    "probe": (
        "tokenfield probe minilm --text TEXT.txt",
        "tokenfield probe MODEL_FOLDER --text TEXT.txt --full --out probes/mine",
    ),
    "kinds": (
        "tokenfield kinds",
        "tokenfield kinds --json",
    ),
    "explore": (
        "tokenfield explore",
        "tokenfield explore --export explorer.html",
    ),
    "completion": (
        'eval "$(tokenfield completion bash)"',
        'autoload -U compinit && compinit && eval "$(tokenfield completion zsh)"',
        "tokenfield completion fish | source",
    ),
}


def epilog(command: str) -> str | None:
    """Return the examples of a command for the end of its help; \\b keeps the line breaks."""
    lines = EXAMPLES.get(command)
    return None if lines is None else "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
