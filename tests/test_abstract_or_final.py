"""A method is abstract or final: no class overrides a method that has a body, so what a class does is written in one place."""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from pathlib import Path

import equinox as eqx
import pytest

import tokenfield
from tokenfield._explained import Explained
from tokenfield._kinds import Named

HOOKS = (Explained, Named)  # how an object shows itself, and how it is made from words

ROOMS = (
    *("attention", "flows", "lipschitz", "mlp", "noise", "normalization", "observables", "solver", "spaces"),
    *("spectral", "states", "stop_rule", "transformer"),
)


def ours(kind):
    return kind.__module__.startswith("tokenfield.")


def subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def function(attribute):
    return attribute.fget if isinstance(attribute, property) else getattr(attribute, "__func__", attribute)


def is_open(attribute):
    """True for an abstract method, and for one that only raises: it says that a fact is not known."""
    if getattr(attribute, "__isabstractmethod__", False):
        return True
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function(attribute))))).body
    return all(isinstance(line, ast.Raise | ast.Expr) for line in definition.body)


@pytest.fixture(scope="module")
def kinds():
    """All classes of the package."""
    for module in pkgutil.walk_packages(tokenfield.__path__, "tokenfield."):
        if module.name.split(".")[1] in ROOMS:
            importlib.import_module(module.name)
    return {kind for kind in subclasses(eqx.Module) if ours(kind)}


def test_no_method_with_a_body_is_overridden(kinds):
    overridden = []
    for kind in kinds:
        for name, attribute in vars(kind).items():
            if name.startswith("__") or not (callable(attribute) or isinstance(attribute, property | classmethod)):
                continue
            above = next((base for base in kind.__mro__[1:] if ours(base) and name in vars(base)), None)
            if above is not None and above not in HOOKS and not is_open(vars(above)[name]):
                overridden.append(f"{kind.__name__}.{name} overrides {above.__name__}.{name}")
    assert len(kinds) > 100
    assert not overridden


def test_the_table_of_what_to_add_names_all_that_a_class_needs(kinds):
    text = (Path(__file__).parent.parent / "docs/architecture.md").read_text()
    named, seen = {kind.__name__: kind for kind in kinds}, 0
    for row in text.partition("## Where to add what")[2].splitlines():
        for name in re.findall(r"`(Abstract\w+)", row):
            kind = named[name]
            needed = {*kind.__abstractmethods__, *kind.__abstractvars__, *kind.__abstractclassvars__}
            named_there = " ".join(re.findall(r"`([^`]+)`", row.split("|")[3]))
            assert needed <= set(re.findall(r"\w+", named_there)), name
            seen += 1
    assert seen > 10


def test_an_overridden_body_is_seen():
    class Base(eqx.Module):
        def plain(self):
            return 1

        def missing(self):
            raise ValueError("not known")

        @property
        def number(self):
            return 2

    assert not is_open(vars(Base)["plain"])
    assert not is_open(vars(Base)["number"])
    assert is_open(vars(Base)["missing"])
