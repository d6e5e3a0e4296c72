"""Print constraints.txt with the hash of each file that pip installs here, for `pip install --require-hashes`.

    .venv/bin/python tools/lock.py > requirements.lock

Hashes are those of the wheels for this system and this Python. torch is left out: it comes in several builds.
"""

import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = {"torch"}
HEADER = """\
# What `make` installs, with hashes, for {system}, Python {python}. Made by `make lock`.
#
#   pip install --require-hashes --no-deps --requirement requirements.lock
#   pip install --no-deps --no-build-isolation .
#
# torch is not here, since it comes in several builds: install the one that fits your machine, or do without real models.
"""


def pinned() -> list[str]:
    """The lines of constraints.txt that are locked."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return [name for name in names if name.partition("==")[0] not in LEFT_OUT]


def resolved(requirements: list[str]) -> list[tuple[str, str, str]]:
    """Name, version and hash of the file that pip would install for each requirement."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder, "wanted.txt"), Path(folder, "report.json")
        wanted.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        options = ["--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:"]
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            *options,
            "--report",
            str(report),
            "--requirement",
            str(wanted),
        ]
        subprocess.run(command, check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [
        (
            entry["metadata"]["name"],
            entry["metadata"]["version"],
            entry["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for entry in found
    ]


def main() -> None:
    requirements = pinned()
    files = resolved(requirements)
    assert len(files) == len(requirements), "pip left a requirement out"
    system, python = f"{platform.system()} {platform.machine()}", ".".join(platform.python_version_tuple()[:2])
    print(HEADER.format(system=system, python=python), end="")
    for name, version, digest in sorted(files, key=lambda file: re.sub(r"[-_.]+", "-", file[0]).lower()):
        print(f"{name}=={version} --hash=sha256:{digest}")


if __name__ == "__main__":
    main()
