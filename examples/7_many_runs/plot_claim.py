"""
Check a claim of the literature yourself
========================================

The atlas has a claim for each statement of the papers: what it says, where it is from, what theory predicts and what
is measured. ``tokenfield atlas`` runs all of them; here is one, chosen by its name.
"""

import tokenfield as tkf

print(len(tkf.atlas.all_claims()), "claims, among them:")
(claim,) = tkf.atlas.choose(["random_weights"])
print(claim.title)
print(claim.source)
evidence = claim.measure(True)  # the quick version
for check in evidence.checks:
    print(
        f"{check.what}: predicted {check.predicted}, measured {check.measured}, {'holds' if check.holds else 'fails'}"
    )

# %%
# The figure of the claim in the atlas: the mean cosine through layers with random weights, under six norms. Solid lines
# are measured, as means over seeds with a band, and dashed lines are the recursion of theory. Each check printed above has a
# prediction and a measurement. The two that apply the law t^-2 fail, as they should: it holds for V = I, and not for
# random weights.

figure = evidence.figure
figure.show()
