"""Formulas in running text, typeset as MathML, which browsers render without scripts."""

import re
from html import escape

from .page import formula

FUNCTIONS = frozenset(
    (
        "exp",
        "log",
        "cos",
        "sin",
        "tan",
        "tanh",
        "artanh",
        "max",
        "min",
        "lim",
        "sup",
        "inf",
        "det",
        "dim",
        "ker",
        "Var",
        "Lip",
        "Re",
        "argmax",
    )
)
DIFFERENTIALS = frozenset(("dt", "ds", "dx", "dy", "dμ", "dν", "dσ", "dW", "dE", "dX"))
SCIENTIFIC = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?)0*(\d+)(?!\w)")
STRONG = re.compile(r"[\^_=≤≥≈∫∬Σ√∂∇Δ→∞⟨⟩±×⪯≪²³⁴⁻½ᵀ₀₁₂ⱼᵢ*]|[α-ωΓΦΨ]|<[^<> ]+>")
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀᵗ", "0123456789-+Tt")
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉ᵢⱼ", "0123456789ij")
NAMES = "|".join(sorted(FUNCTIONS, key=len, reverse=True))
TOKEN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?|½|¼)|(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀᵗ]+)|(?P<lowered>[₀₁₂₃₄₅₆₇₈₉ᵢⱼ]+)"
    rf"|(?P<name>(?:{NAMES})(?![A-Za-z]))"
    r"|(?P<letter>[^\W\d_]|∂|∇|∞)|(?P<open>[({\[⟨])|(?P<close>[)}\]⟩])|(?P<mark>[\^_√])|(?P<space>\s+)|(?P<operator>.)",
    re.DOTALL,
)
TIGHT = "|/*·!"
RELATIONS = set(["=", "≤", "≥", "<", ">", "≈", "→", "~", "≪", "←", "⪯", ":=", "∈"])
NO_PRODUCT = set(["is", "in", "at", "of", "as", "to", "or", "if", "by", "on", "so", "it", "an", "we", "no", "LN", "SA"])
MATRICES = re.compile(r"[ACKQVW]{1,3}[uvxyz]?|vI")  # a product such as `VA` or `VAx`
PARTNER = {"(": ")", "{": "}", "[": "]", "⟨": "⟩"}


def typeset(text: str) -> str:
    """Return text as HTML, with its formulas as MathML; all other text is escaped.

    A formula is a sequence of words that are not English and that contain a mathematical sign.

    Example:
        >>> typeset("It falls like e^{-2t}.")
        'It falls like <math><msup><mi>e</mi><mrow><mo>−</mo><mn>2</mn><mi>t</mi></mrow></msup></math>.'
    """
    html: list[str] = []
    run: list[str] = []
    text = SCIENTIFIC.sub(lambda m: f"{m[1]}×10^{{{m[2].replace('+', '')}{m[3]}}}", text)
    pieces = re.findall(r"\S+|\s+", text)
    for place, word in enumerate(pieces):
        named = word in FUNCTIONS and place + 2 < len(pieces) and bool(STRONG.search(pieces[place + 2]))
        short = re.fullmatch(r"[-−]?[\d.]+|\w{1,2}['’′]?|\w\(\w\)", word)
        related = named or (bool(short) and place + 2 < len(pieces) and pieces[place + 2] in RELATIONS)
        if word.isspace():
            (run if run else html).append(word if run else escape(word))
        elif _mathematical(word, bool(run) or related):
            run.append(word)
            whole = "".join(run)
            listed = word[-1] == "," and all(
                whole.count(a) == whole.count(b) for a, b in ("()", "<>", "{}", "[]", "⟨⟩")
            )
            if (
                word[-1] in ".;:" or listed
            ):  # a clause ends here, and so does the formula, so that lines can break between them
                html.append(_fragment("".join(run)))
                run = []
        else:
            html += [_fragment("".join(run)), escape(word)]
            run = []
    return "".join([*html, _fragment("".join(run))])


def _mathematical(word: str, inside: bool) -> bool:
    """Return whether a word is part of a formula; a single letter or number is one only inside a formula."""
    bare = word.strip(".,;:")
    names = re.findall(r"[A-Za-z]{2,}", bare)
    if any(name not in FUNCTIONS and name not in DIFFERENTIALS and not _product(name, bare) for name in names):
        return False
    if STRONG.search(bare):
        return True
    if word[0] in "(“" and not re.search(r"[)=]", bare):  # the beginning of a remark in parentheses
        return False
    return inside and bare != "a" and bool(re.fullmatch(r"[-+−/|<>·~()\[\]\dA-Za-z.'’′!]+", bare))


def _product(name: str, word: str) -> bool:
    """Return whether a word is a product: matrices and a vector, or two letters next to a sign or after `=`."""
    if MATRICES.fullmatch(name):
        return True
    return len(name) <= 2 and name not in NO_PRODUCT and bool(STRONG.search(word) or re.search(r"[^a-zA-Z,.;:]", word))


def _fragment(text: str) -> str:
    """Typeset a sequence of words as a formula; spaces and punctuation at its ends stay outside."""
    core = text.strip().rstrip(".,;:")
    while core.count("(") != core.count(")"):  # half of a remark in parentheses
        shorter = (
            core.removeprefix("(")
            if core.startswith("(") and core.count("(") > core.count(")")
            else core.removesuffix(")")
        )
        if shorter == core:
            return formula(text)
        core = shorter
    if not core or not STRONG.search(core):
        return formula(text)
    start = text.index(core)
    try:
        inner = _Reader(re.sub(r"<([^<>]*,[^<>]*)>", r"⟨\1⟩", core)).row()
    except ValueError:
        return formula(text)
    return f"{escape(text[:start])}<math>{inner}</math>{escape(text[start + len(core) :])}"


class _Reader:
    """A parser of one formula."""

    def __init__(self, text: str):
        self.tokens = [(str(match.lastgroup), match.group()) for match in TOKEN.finditer(text)]
        self.place = 0

    def row(self, until: str = "") -> str:
        """Parse everything up to a closing sign, or to the end."""
        parts: list[str] = []
        while self.place < len(self.tokens):
            kind, value = self.tokens[self.place]
            if kind == "close":
                if value != until:
                    raise ValueError("unbalanced")
                return "".join(parts)
            parts.append(self.scripted())
        if until:
            raise ValueError("unbalanced")
        return "".join(parts)

    def scripted(self) -> str:
        """Parse one sign with its superscript and subscript."""
        base, lower, upper = self.one(), "", ""
        while self.place < len(self.tokens):
            kind, value = self.tokens[self.place]
            if kind == "raised" and not upper:
                self.place += 1
                upper = _Reader(value.translate(RAISED)).row()
            elif kind == "lowered" and not lower:
                self.place += 1
                lower = _Reader(value.translate(LOWERED)).row()
            elif value == "^" and not upper:
                self.place += 1
                upper = self.argument()
            elif value == "_" and not lower:
                self.place += 1
                lower = self.argument()
            else:
                break
        if lower and upper:
            return f"<msubsup>{base}{_grouped(lower)}{_grouped(upper)}</msubsup>"
        if lower:
            return f"<msub>{base}{_grouped(lower)}</msub>"
        return f"<msup>{base}{_grouped(upper)}</msup>" if upper else base

    def argument(self) -> str:
        """Parse the argument of `^`, `_` or a root, without its braces or parentheses."""
        if self.place >= len(self.tokens):
            raise ValueError("nothing follows")
        kind, value = self.tokens[self.place]
        if kind == "open":
            self.place += 1
            inner = self.row(PARTNER[value])
            self.place += 1
            return inner
        sign = self.one() if value in "-−" else ""
        return sign + self.one()

    def one(self) -> str:
        """Parse one sign, a name, a root, or an expression in parentheses."""
        if self.place >= len(self.tokens):
            raise ValueError("nothing follows")
        kind, value = self.tokens[self.place]
        self.place += 1
        if kind == "open":
            inner = self.row(PARTNER[value])
            self.place += 1
            return _grouped(inner) if value == "{" else f"<mrow><mo>{value}</mo>{inner}<mo>{PARTNER[value]}</mo></mrow>"
        if value == "√":
            return f"<msqrt>{self.argument()}</msqrt>"
        if value == "'":
            return "<mo>′</mo>"
        if kind == "number":
            return f"<mn>{value}</mn>"
        if kind == "letter":
            return f"<mi>{value}</mi>"
        if kind == "name":
            return f"<mi>{value}</mi>"
        if value in TIGHT:
            return f"<mo lspace='0' rspace='0' stretchy='false'>{value}</mo>"
        if kind == "space":
            return "<mspace width='0.22em'/>"
        if kind in ("operator", "raised", "lowered"):
            return f"<mo>{escape(value.replace('-', '−'))}</mo>"
        raise ValueError(f"{value} stands alone")


def _grouped(html: str) -> str:
    return html if re.fullmatch(r"<(m[ino])>[^<]*</\1>", html) else f"<mrow>{html}</mrow>"
