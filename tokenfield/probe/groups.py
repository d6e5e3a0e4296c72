"""The groups of tokens after the last layer, as words."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .texts import Tokenizer

MOST_GROUPS = 5
MOST_MEMBERS = 12
WIDTH = 600  # maximum number of characters of this JSON


def largest_groups(labels: np.ndarray) -> str:
    """Return the largest clusters of a text as JSON: for each its size, and the positions of its first tokens.

    Args:
        labels: (n,) the cluster of each token.

    Example:
        >>> import numpy as np
        >>> largest_groups(np.array([0, 1, 0, 2, 0, 1]))
        '[[3, 0, 2, 4], [2, 1, 5]]'
    """
    kinds, sizes = np.unique(labels, return_counts=True)
    order = [k for k in np.argsort(-sizes, kind="stable")[:MOST_GROUPS] if sizes[k] > 1]
    return json.dumps([[int(sizes[k]), *np.flatnonzero(labels == kinds[k])[:MOST_MEMBERS].tolist()] for k in order])


def group_words(groups: str, ids: np.ndarray, tokenizer: "Tokenizer") -> str:
    """Return the result of `largest_groups` with words instead of positions, as JSON; each word is listed once."""
    found = []
    for size, *places in json.loads(groups):
        examples = list(dict.fromkeys(tokenizer.word(int(ids[place])) for place in places))
        found.append({"size": size, "words": examples, "more": size > len(places)})
    return json.dumps(found, ensure_ascii=False)


def group_text(group: dict[str, Any]) -> str:
    """Return a group as text: `12 tokens: "the", "of", …`."""
    examples = ", ".join(f"“{word}”" for word in group["words"])
    return f"{group['size']} tokens: {examples}{', …' if group['more'] else ''}"
