"""
Heads and layers of a real model
================================

The probe measures every head and every layer. Here the figures of its report for MiniLM (``make models`` installs it),
each a function of the dataset.
"""

import tokenfield as tkf

try:
    text = tkf.probe.english_text()
    result = tkf.probe("minilm", [text[start : start + 400] for start in range(0, 3000, 500)], allow_pickle=True)
except ValueError as error:
    result = None
    print("skipped:", error)

if result is not None:
    print("layers:", result.dataset.sizes["layer"], "heads:", result.dataset.sizes["head"])
    theory = tkf.plotting.probe_theory(result.dataset)
    cosines = tkf.plotting.probe_cosines(result.dataset)
    layers = tkf.plotting.probe_layers(result.dataset)

# %%
# Each dot is a head of a block. Top left: the sharpness :math:`\\gamma` against the critical :math:`1/(1-\\rho)` of its
# layer (line). Above the line theory says that each token looks at itself only. Top right: the entropy of attention, 1 if a
# token looks at all others equally.
#
# Bottom left: how much attention a token pays to itself and to the first token. Sharp heads do not look at themselves, as
# theory with V = I has it, but at few other tokens. Bottom right: the number that bounds the Lipschitz constant from
# below.

if result is not None:
    figure = tkf.plotting.probe_heads(result.dataset)
    figure.show()
