"""
Stop a run when something happens
=================================

Often the question is not where the tokens are at time t, but *when* something happens. A stop rule ends the run at that
moment. The time is located to rounding error, whatever the step size was, and it is an event of the trajectory.

There are rules for the usual questions, and any function of the state can be one: it stops the run where it returns a
number that is at least zero.
"""

import matplotlib.pyplot as plt

import tokenfield as tkf

model = tkf.Transformer(tkf.Softmax(beta=3.0), norm=tkf.PostLN())
start = tkf.uniform_sphere(n=24, d=3, seed=1)
rules = {
    "at_most_clusters(2)": tkf.at_most_clusters(2),
    "cosine_above(0.5)": tkf.cosine_above(0.5),
    "rank below 1.5": lambda state: 1.5 - tkf.effective_rank(state),
    "one_cluster()": tkf.one_cluster(),
    "energy_settled(1e-6)": tkf.energy_settled(1e-6),
}
whole = tkf.simulate(model, start, t1=40.0, save_at=401)
ends = {name: tkf.simulate(model, start, t1=40.0, stop_when=rule).times[-1] for name, rule in rules.items()}

# %%
# The three curves are measured along one long run. The effective rank counts how many directions the tokens use: 3 at
# first, 1 in the end. Each dashed line is the end of another run of the same tokens, with the rule that is named on it.
#
# Two clusters form first. They meet late, and the energy settles last of all.

tkf.plotting.use_style()
figure, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
ax.plot(whole.times, tkf.mean_cosine(whole), label="mean cosine")
ax.plot(whole.times, tkf.order_parameter(whole), label="order parameter")
ax.plot(whole.times, tkf.effective_rank(whole), label="effective rank")
for name, time in ends.items():
    print(f"{name:22} stops at t = {time:.4f}")
    ax.axvline(time, color="0.6", lw=0.8, ls="--", zorder=0)
    ax.text(time, 3.05, name, rotation=35, ha="left", va="bottom", fontsize=8)
ax.set(xlabel="time $t$", ylim=(0, 3), xlim=(0, 40))
ax.legend(loc="center right")
plt.show()
