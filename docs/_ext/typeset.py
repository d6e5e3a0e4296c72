"""Formulas of docstrings, which are plain text such as `e^{beta<x,y>}`, as they are printed in books."""

import re

from tokenfield.report.page import formula

GREEK = dict(
    alpha="α", beta="β", gamma="γ", delta="δ", eps="ε", theta="θ", kappa="κ", rho="ρ", sigma="σ", tau="τ", mu="μ", phi="φ",
    psi="ψ", omega="ω", xi="ξ", pi="π", Gamma="Γ", Sigma="Σ", Omega="Ω", Pi="Π", Phi="Φ",
)  # fmt: skip
WORD = re.compile(r"(?<![A-Za-z])(d?)(" + "|".join(GREEK) + r"|lambda)(?![A-Za-z])")
SIGNS = {"<->": "↔", "<-": "←", "->": "→", "<=": "≤", ">=": "≥", "sum_": "Σ_", "artanh": "artanh "}
BRACKET = re.compile(r"<([^<>]*?,[^<>]*?)>")
FUNCTIONS = "|".join(
    ["sqrt", "cosh", "sinh", "tanh", "artanh", "floor", "binom", "argmax", "dist", "mean", "expm1", *GREEK]
)
PROGRAM = re.compile(
    r"\w=\S|\"|\w\[|[A-Za-z_]\.[A-Za-z]|^\.|^--|\(\)|\.\.\.|\*\*|:|^[a-z]{4,} [a-z]{4,}$|"  # keywords, texts, indices, attributes
    rf"(?<![A-Za-z_])(?![A-Z]_)(?!(?:{FUNCTIONS})(?:_\w+)?\()[A-Za-z]\w{{3,}}\("  # calls of functions with long names
)
NAME = re.compile(r"\w+")


def is_formula(text: str) -> bool:
    """True for a formula, False for code.

    Example:
        >>> [is_formula(text) for text in ("e^{-2t}", "<Ax, y>", "A = beta I", "w_k/beta", "Gamma_mu")]
        [True, True, True, True, True]
        >>> [is_formula(text) for text in ("save_at=3", "jax.grad", "beta_star", "layers(model, x)", "n")]
        [False, False, False, False, False]
    """
    if NAME.fullmatch(text):
        return (
            text.split("_")[0] in GREEK
            and len(text.split("_")) == 2
            and text.split("_")[1] in (*GREEK, "c", "n", "i", "0")
        )
    return not PROGRAM.search(text)


def typeset(text: str) -> str:
    """A formula as HTML.

    Example:
        >>> typeset("e^{beta<x,y>}")
        '<span class="formula">e<sup>β⟨x,y⟩</sup></span>'
    """
    for sign, better in SIGNS.items():
        text = text.replace(sign, better)
    text = BRACKET.sub(r"⟨\1⟩", text)
    text = WORD.sub(lambda found: found[1] + {"lambda": "λ", **GREEK}[found[2]], text)
    text = re.sub(r"\bsqrt\((\w+)\)", r"√\1", text).replace("sqrt(", "√(")
    return f'<span class="formula">{formula(text)}</span>'
