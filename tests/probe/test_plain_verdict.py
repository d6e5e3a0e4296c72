"""The answer of a probe in plain words, and the words that group."""

import json
from types import SimpleNamespace

import made_probe
import numpy as np
import pytest

from tokenfield.probe.groups import group_text, group_words, largest_groups
from tokenfield.probe.page import comparisons, group_rows
from tokenfield.probe.plain_verdict import plain_verdict
from tokenfield.probe.predicted import predict

POST = SimpleNamespace(norm="post", causal=False)
GROUPS = json.dumps([{"size": 9, "words": ["the", "<of>"], "more": True}])


def with_cosines(*rho):
    data = made_probe.dataset(lipschitz=False)
    values = np.repeat(np.array(rho)[:, None], data.sizes["text"], axis=1)
    data = data.assign(mean_cosine=(("layer", "text"), values), groups=("text", [GROUPS, "[]", "[]"]))
    return data.merge(predict(data, "post", causal=False))


@pytest.mark.parametrize(
    ("rho", "said"),
    [
        (
            (0.1, 0.2, 0.3, 0.4, 0.5),
            "No, the tokens do not become alike: after layer 4 the mean cosine between two tokens is 0.50",
        ),
        ((0.1, 0.2, 0.92, 0.95, 0.97), "Yes, the tokens become alike: from layer 2 on"),
        ((0.1, 0.2, 0.93, 0.4, 0.5), "For a while: the tokens are nearly alike at layer 2 (mean cosine 0.93"),
    ],
)
def test_the_answer_says_yes_or_no(rho, said):
    text = " ".join(plain_verdict(with_cosines(*rho), POST))
    assert text.startswith(said)
    assert (
        "There are 5 clusters of nearly identical tokens on average over texts; the largest has 9 tokens: “the”, “<of>”, …."
        in text
    )


def test_the_answer_is_held_against_theory():
    expected = float(with_cosines(0.1, 0.2, 0.3, 0.4, 0.5)["predicted_cosine"][-1])
    assert "close to the" in plain_verdict(with_cosines(0.1, 0.2, 0.3, 0.4, expected - 0.05), POST)[1]
    far = with_cosines(0.1, 0.1, 0.1, 0.1, 0.1)
    assert f"less than the {expected:.2f}" in plain_verdict(far, POST)[1]
    theory, random = comparisons(far, POST)
    assert (theory.measured, theory.predicted, theory.agrees) == ("0.10", f"{expected:.2f}", False)
    assert random.agrees is None


def test_groups_are_named_by_their_words():
    labels = np.array([3, 0, 3, 1, 3, 0, 2])
    places = largest_groups(labels)
    assert json.loads(places) == [[3, 0, 2, 4], [2, 1, 5]]
    tokenizer = SimpleNamespace(word=lambda number: "abcdef"[number])
    named = json.loads(group_words(places, np.array([0, 1, 0, 2, 3, 4, 5]), tokenizer))
    assert [group_text(group) for group in named] == ["3 tokens: “a”, “d”", "2 tokens: “b”, “e”"]
    many = json.loads(largest_groups(np.zeros(4096, int)))
    assert (many[0][0], len(many[0])) == (4096, 13)
    assert len(largest_groups(4000 + np.arange(4096) // 20)) < 600
    rows = group_rows(with_cosines(0.1, 0.2, 0.3, 0.4, 0.5))
    assert rows[0] == ("text <0> & more", "9 tokens: “the”, “<of>”, …")
    assert rows[1][1].startswith("none")
