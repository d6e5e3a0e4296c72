"""What examples print, compared with what the documentation says: numbers up to rounding, words exactly, spaces not at all."""

import doctest
import math
import re

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
ROUNDING = 1e-6


class Checker(doctest.OutputChecker):
    """Compares outputs word by word."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return alike(want, got)


def alike(want: str, got: str) -> bool:
    """True if both have the same words, and numbers that agree up to rounding.

    >>> alike("r = 0.5000001, [3 4]", "r  =  0.5, [3 4]")
    True
    >>> alike("r = 0.5", "r = 0.51"), alike("r = 0.5", "s = 0.5")
    (False, False)
    """
    if words(want) != words(got):
        return False
    pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=ROUNDING, abs_tol=1e-12) for a, b in pairs)


def words(text: str) -> list[str]:
    """The text between numbers, without its spaces."""
    return ["".join(part.split()) for part in NUMBER.split(text)]


class Runner(doctest.DocTestRunner):
    """Runs examples and collects what they print otherwise than they say."""

    def __init__(self):
        super().__init__(checker=Checker(), verbose=False)
        self.faults: list[str] = []

    def report_failure(self, out, test, example, got):
        if example.want:  # an example that says nothing may print anything
            self.faults.append(f"{example.source.strip()} prints {got.strip()!r}, not {example.want.strip()!r}")

    def report_unexpected_exception(self, out, test, example, exc_info):
        raise exc_info[1]


def faults(text: str, name: str, names: dict | None = None) -> list[str]:
    """Run the examples of a docstring, which may use `names`; return what they print otherwise than they say."""
    runner = Runner()
    runner.run(doctest.DocTestParser().get_doctest(text, dict(names or {}), name, None, 0), out=lambda _: None)
    return runner.faults
