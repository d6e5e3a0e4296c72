"""Examples in docstrings that need a model run on a small one."""

import ast
from pathlib import Path

import numpy as np
import printed
import pytest

pytest.importorskip("torch", reason='pip install -e ".[models]"')

from small_models import REACTIONS

import tokenfield as tkf
from tokenfield.probe.extract import head_weights
from tokenfield.probe.texts import windows

PACKAGE = Path(tkf.__file__).parent


def skipped():
    """The docstrings of the probe and its figures with an example that needs a model; those without a result first."""
    found = []
    for path in sorted([*PACKAGE.glob("probe/*.py"), *PACKAGE.glob("plotting/probe*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef) else None
            if text and "# doctest: +SKIP" in text:
                found.append(pytest.param(text, id=node.name))
    return sorted(found, key=lambda each: (uses_result(each.values[0]), each.id))


def uses_result(text):
    return "(result" in text


@pytest.fixture(scope="module")
def result(folders):
    return tkf.probe(folders("bert"), REACTIONS, full=True, lengths=(8, 12))


@pytest.fixture(scope="module")
def names(small):
    """What the examples call `loaded`, `parts`, ..., for a small BERT."""
    loaded = small("bert")
    parts, _ = windows(loaded.tokenizer, [" ".join(REACTIONS)], 64)
    return {
        "loaded": loaded,
        "parts": parts,
        "window": parts[0],
        "head_weights": head_weights,
        "x": np.random.default_rng(0).standard_normal((6, loaded.architecture.width)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("text", skipped())
def test_examples_that_need_a_model_run(text, names, folders, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if uses_result(text):
        names = {**names, "result": request.getfixturevalue("result")}
    path = folders("llama" if "position_influence" in text else "bert")
    text = text.replace("  # doctest: +SKIP", "").replace("path/to/model", str(path)).replace("…", REACTIONS[0])
    try:
        assert printed.faults(text, "example", names) == []
    except ValueError as error:
        if "make models" in str(error):
            pytest.skip(str(error))
        raise
