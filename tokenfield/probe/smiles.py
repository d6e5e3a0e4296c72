"""A tokenizer for models of chemical reactions, whose vocabulary is a list of atoms, bonds and brackets."""

import re
from pathlib import Path

# The published pattern of Schwaller et al. (Chem. Sci. 9, 6091, 2018): bracketed atoms, atoms of the organic subset, bonds,
# branches, ring closures (two digits after %), and the reaction arrows. A text is split into exactly these pieces.
PIECES = re.compile(
    r"(%\([0-9]{3}\)|\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9])"
)


def is_smiles_vocabulary(path: Path) -> bool:
    """Return True for a vocabulary with a reaction arrow and atoms, and no pieces of words."""
    vocabulary = path.read_text(encoding="utf-8").split("\n")
    return {">>", "Cl", "="} <= set(vocabulary) and not any(word.startswith("##") for word in vocabulary)


class SmilesTokenizer:
    """Split a text into `[CLS] pieces [SEP]`; the id of a piece is its line number in vocab.txt.

    Example:
        >>> from tokenfield.probe.smiles import PIECES
        >>> PIECES.findall("CC(=O)Cl>>[Na+]")
        ['C', 'C', '(', '=', 'O', ')', 'Cl', '>>', '[Na+]']
    """

    def __init__(self, vocabulary: Path):
        lines = vocabulary.read_text(encoding="utf-8").split("\n")
        self.number = {word: index for index, word in enumerate(lines) if word}
        missing = [word for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]") if word not in self.number]
        if missing:
            raise ValueError(f"{vocabulary} is damaged: it has no {missing[0]}")
        self.pad = self.number["[PAD]"]
        self.prefix, self.suffix = [self.number["[CLS]"]], [self.number["[SEP]"]]

    def word(self, number: int) -> str:
        """Return the piece with this id."""
        return next((word for word, index in self.number.items() if index == number), "[UNK]")

    def unknown(self, text: str) -> float:
        """Return the fraction of a text that is not in the vocabulary, such as the letters of words."""
        known = sum(len(piece) for piece in PIECES.findall(text) if piece in self.number)
        return 1 - known / max(len("".join(text.split())), 1)

    def pieces(self, text: str) -> list[int]:
        """Return the ids of the pieces; that of [UNK] for a piece that is not in the vocabulary."""
        return [self.number.get(piece, self.number["[UNK]"]) for piece in PIECES.findall(text)]
