"""Links to the papers that claims cite."""

from html import escape

ARXIV = {
    "Geshkovski, Letrouit, Polyanskiy, Rigollet 2025": "2312.10794",
    "The emergence of clusters in self-attention dynamics": "2305.05465",
    "Geshkovski, Koubbi, Polyanskiy, Rigollet 2024": "2410.06833",
    "Castin, Ablin, Carrillo, Peyré 2025": "2501.18322",
    "A unified perspective on the dynamics of deep Transformers": "2501.18322",
    "How smooth is attention?": "2312.14820",
    "Karagodin, Polyanskiy, Rigollet 2024": "2411.04990",
    "Chen, Lin, Polyanskiy, Rigollet 2025": "2504.14697",
    "Bruno, Pasqualotto, Agazzi 2024": "2410.23228",
    "Bruno, Pasqualotto, Agazzi 2025": "2509.25040",
    "Geshkovski, Rigollet, Sun 2024": "2412.09080",
    "Criscitiello, Rebjock, McRae, Boumal 2024": "2405.18273",
    "Polyanskiy, Rigollet, Yao 2025": "2507.22857",
    "Balasubramanian, Banerjee, Rigollet 2025": "2510.20094",
    "Shalova, Schlichting 2024": "2412.14813",
    "Liu et al. 2023": "2307.03172",
    "The mean-field dynamics of Transformers": "2512.01868",
    "Karagodin, Ge, Polyanskiy, Rigollet 2025": "2510.22026",
    "Chen, Lin, Polyanskiy, Rigollet 2026": "2510.05554",
    "Alcalde, Fantuzzi, Zuazua 2025": "2407.01602",
    "Barbero et al. 2024": "2406.04267",
}


def linked(source: str) -> str:
    """Return the source of a claim as HTML, with links to the papers that are on arXiv.

    Example:
        >>> linked("Liu et al. 2023, page 4")
        '<a href="https://arxiv.org/abs/2307.03172">Liu et al. 2023</a>, page 4'
    """
    html = escape(source)
    for name, number in ARXIV.items():
        html = html.replace(escape(name), f'<a href="https://arxiv.org/abs/{number}">{escape(name)}</a>')
    return html
