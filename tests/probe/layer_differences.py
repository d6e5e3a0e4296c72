"""How far the hidden states of real models are from those of transformers, at every layer and in both precisions.

`python tests/probe/layer_differences.py` writes the table of the page "Hidden states of real models".
"""

import contextlib
import csv
import functools
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import REACTIONS

import tokenfield as tkf
from tokenfield.probe.packages import model_path

TABLE = Path(__file__).parents[2] / "docs/hidden_states.csv"
ENGLISH = "Before we proceed any further, hear me speak. You are all resolved rather to die than to famish?"
MODELS = {  # title: name, iterations of a shared block, text
    "MiniLM": ("minilm", None, ENGLISH),
    "ALBERT × 48": ("albert", 48, REACTIONS[0]),  # the first 12 are the model as it was trained
    "BERT on reactions": ("rxnfp", None, REACTIONS[0]),
    "SmolLM2": ("smollm2", None, ENGLISH),
}
COLUMNS = ("model", "layer", "largest entry", "double", "single", "single − double")


@contextlib.contextmanager
def all_in_double(model):
    """A model in double precision. Llama's angles, RMSNorm and softmax are in single whatever they are given: patched here."""
    softmax = torch.nn.functional.softmax
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "softmax", lambda x, dim, dtype=None: softmax(x, dim=dim))
        rotary = getattr(model, "rotary_emb", None)
        if rotary is not None:
            patch.setattr(rotary, "forward", functools.partial(turns, rotary))
        for norm in model.modules():
            if hasattr(norm, "variance_epsilon"):
                patch.setattr(norm, "forward", functools.partial(rms_norm, norm))
        yield torch.nn.Module.double(model)
    torch.nn.Module.float(model)


def turns(rotary, x, position_ids):
    angle = position_ids[:, :, None] * rotary.inv_freq.double().repeat(2)
    return angle.cos(), angle.sin()


def rms_norm(norm, x):
    return norm.weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)


def hidden_states(model, ids):
    """(depth + 1, n, d) hidden states of `transformers` in the precision that the model has."""
    with torch.no_grad():
        found = model(torch.as_tensor(ids)[None], output_hidden_states=True).hidden_states
        return np.stack([x[0].double().numpy() for x in found])


def in_double(pre, text):
    """Hidden states of `transformers` in double precision."""
    with all_in_double(pre.loaded.model) as model:
        return hidden_states(model, pre.ids(text))


def errors(pre, text):
    """The largest difference from `transformers` in double precision at each layer."""
    return differences(pre, text)[1]


def differences(pre, text):
    """Four numbers for each layer, from 0 (the output of the embeddings).

    They are the largest entry; the largest difference between tokenfield (in double) and transformers in double; the same with
    transformers in single; and that between the two runs of transformers.
    """
    double, single = in_double(pre, text), hidden_states(pre.loaded.model, pre.ids(text))
    run = tkf.layers(pre.model, pre.tokens(text), depth=pre.depth)
    assert len(run.states) == len(double) == pre.depth + 1
    ours = np.stack([np.asarray(state.x) for state in run.states])
    largest = lambda a: np.abs(a).max(axis=(1, 2))  # noqa: E731
    return np.stack([largest(double), largest(ours - double), largest(ours - single), largest(single - double)])


def pretrained(title):
    """A model of the table, and its text."""
    name, iterations, text = MODELS[title]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two of them are pickles
        return tkf.from_pretrained(model_path(name), iterations=iterations, allow_pickle=True), text


def stated():
    """The table of the page: for each model (layers + 1, 4) numbers."""
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return {title: np.array([row[2:] for row in rows if row[0] == title], float) for title in MODELS}


def table():
    """Rows of the table of one model after another, numbers as text."""
    for title in MODELS:
        for layer, (entry, *rest) in enumerate(differences(*pretrained(title)).T):
            yield title, layer, f"{entry:.3g}", *(f"{number:.1e}" for number in rest)


if __name__ == "__main__":
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *table()])
