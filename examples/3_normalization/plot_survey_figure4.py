r"""
Random weights and six norms (Figure 4 of the survey)
=====================================================

A fresh Transformer has random weights: Q, K and V are Gaussian matrices, new in each layer. How fast do its tokens
become alike? ``normalization_study`` runs all six rules for placing the norm, over several seeds. Figure 4 of
Rigollet's survey has d = 512. Here d = 128, to save time.
"""

import tokenfield as tkf

study = tkf.studies.normalization_study(d=128, n=48, depth=40, seeds=8)
print(study["mean_cosine"].mean("seed").isel(layer=[10, 20, 40]).round(3).to_pandas())

# %%
# The band holds 90 percent of the seeds. The dashed line is theory for random weights: all scores are then Gaussian,
# and the mean cosine follows a recursion from layer to layer. Nothing is fitted.
#
# The dotted line is the theory for Q = K = V = I at equal angles. With :math:`\beta = \sqrt d` it stays at zero: each
# token then looks only at itself. So collapse under random weights has another reason. Random scores make each token
# look at a few random tokens, and shared partners make tokens alike.
#
# Under Post-LN and nGPT the tokens are equal to three digits after 20 layers. Under Pre-LN and Peri-LN the tokens grow
# with depth, each new layer changes them less, and some diversity is left after 40 layers. Sqrt-scaling damps layer l
# by :math:`1/\sqrt{l+1}` from the start, and is slowest.

figure = tkf.plotting.norms_figure(study)
figure.show()
