"""Formulas in text become MathML; plain English and names do not."""

import re
import xml.etree.ElementTree as tree
from importlib import import_module

import pytest

from tokenfield.atlas.papers import linked
from tokenfield.atlas.runner import all_claims
from tokenfield.report.mathml import typeset


def letters(html):
    """What is left without the marks."""
    return re.sub(r"<[^>]*>", "", html)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("x_i^2", "<math><msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup></math>"),
        ("√(1-ρ)", "<math><msqrt><mn>1</mn><mo>−</mo><mi>ρ</mi></msqrt></math>"),
        ("cos θ_i", "<math><mi>cos</mi><mspace width='0.22em'/><msub><mi>θ</mi><mi>i</mi></msub></math>"),
        (
            "(log(1/τ))^k",
            "<math><msup><mrow><mo>(</mo><mi>log</mi><mrow><mo>(</mo><mn>1</mn><mo lspace='0' rspace='0' stretchy='false'>/</mo>"
            "<mi>τ</mi><mo>)</mo></mrow><mo>)</mo></mrow><mi>k</mi></msup></math>",
        ),
        ("R²", "<math><msup><mi>R</mi><mn>2</mn></msup></math>"),
        ("2e-06", "<math><mn>2</mn><mo>×</mo><msup><mn>10</mn><mrow><mo>−</mo><mn>6</mn></mrow></msup></math>"),
        (
            "x' = V_1 VAx",
            "<math><mi>x</mi><mo>′</mo><mspace width='0.22em'/><mo>=</mo><mspace width='0.22em'/><msub><mi>V</mi><mn>1</mn></msub>"
            "<mspace width='0.22em'/><mi>V</mi><mi>A</mi><mi>x</mi></math>",
        ),
        ("plain <b>words</b> of a claim, d and n", "plain &lt;b&gt;words&lt;/b&gt; of a claim, d and n"),
        ("max_position of save_at", "max_position of save_at"),
        ("x^{2", "x^{2"),
    ],
)
def test_formulas(text, html):
    assert typeset(text) == html


def test_a_formula_ends_with_its_sentence():
    html = typeset("It is β = 1. A norm, for d ≥ 3 (where α > 0), helps.")
    assert [letters(each) for each in re.findall(r"<math>.*?</math>", html)] == ["β=1", "d≥3", "α&gt;0"]
    assert "</math>. A norm, for <math>" in html
    assert "(where <math>" in html


def test_every_claim_is_well_formed_and_loses_nothing():
    for claim in all_claims():
        for text in (claim.title, claim.statement):
            html = typeset(text)
            tree.fromstring(f"<p>{html}</p>")
            kept = "".join(tree.fromstring(f"<p>{html}</p>").itertext())
            for word in re.findall(r"[A-Za-z]{3,}", text):
                assert word in kept, (claim.id, word)
            assert "<b>" not in html


def test_no_formula_of_a_claim_is_left_as_text():
    for claim in all_claims():
        caption = getattr(import_module(claim.measure.__module__), "CAPTION", "")
        for text in (claim.title, claim.statement, caption):
            words = re.sub(r"<math>.*?</math>", "", typeset(text)).split()
            left = [word for word in words if re.search(r"[\^_√²Σ]|<su[bp]>|(sqrt|det|mean)[({_]", word)]
            assert left == [], (claim.id, left)


def test_sources_link_to_papers():
    assert linked("Castin, Ablin, Peyré, How smooth is attention?, 2024 <x>") == (
        'Castin, Ablin, Peyré, <a href="https://arxiv.org/abs/2312.14820">How smooth is attention?</a>, 2024 &lt;x&gt;'
    )
    found = [claim for claim in all_claims() if '<a href="https://arxiv.org/abs/' in linked(claim.source)]
    assert len(found) > 50
    assert all("derived here" in claim.source for claim in all_claims() if claim not in found)
