r"""
Recent tokens and first tokens: a response with two ends
========================================================

In a causal Transformer with ALiBi, which favors recent positions, the last token depends most on the first tokens and
on the last ones: the middle is lost. Here this is measured in layers by derivatives, ``tkf.lipschitz.influence``. Then
the theory of layers that attend by position alone is fitted to it.
"""

import tokenfield as tkf

slope, step, depths = 2.0, 0.3, (1, 4, 12)
n = 96
head = tkf.Softmax(beta=1.0, causal=True, positions=tkf.ALiBi(slope))
model = tkf.Transformer(head, norm=tkf.NoNorm())
positions = [(k + 1) / n for k in range(n)]
tokens = tkf.Tokens(0.02 * tkf.gaussian_tokens(n, 4, seed=0).x, positions=positions)
measured = tkf.lipschitz.influence(model, tokens, depths, step=step)
for depth, row in zip(depths, measured, strict=True):
    fit = tkf.theory.fit_influence(row, depth)
    print(f"{depth} layers: weight of attention {fit.alpha:.3f} (step/(1 + step) = {step / (1 + step):.3f}),", end=" ")
    print(f"slope {fit.slope:.2f}; recency ends after t = {tkf.theory.recency_ends(slope, 1.0):.2f}")

# %%
# Dots are the share of each position in the last token, times n: one is an equal share. The circle is the last
# token's own share. After one layer only recency is seen: ALiBi's weights rise toward the end. With each further
# layer the first tokens gain, since all later tokens have read them before, and after twelve layers they have the
# largest shares.
#
# Lines are theory with two fitted numbers, the weight of attention in a layer and the slope. Both are printed, and
# agree with those that the model was made with. The theory without a slope (dashed) misses the rise at the end.

figure = tkf.plotting.influence_figure(measured, depths)
figure.show()
