"""
Plan a sweep before it runs
===========================

A sweep of an hour should not fail in its last minute. ``read_plan`` checks a plan and names what is wrong in it,
``estimate`` says how long it takes and how much memory it needs, and ``differences`` compares two plans. Plans that come
with the package are listed by ``ready``.
"""

import tokenfield as tkf

print("plans of the package:", ", ".join(tkf.sweep.ready()))
plan = tkf.sweep.read_plan(
    {
        "name": "order by beta and n",
        "repeats": 4,
        "run": {"t1": 6.0, "tokens": {"d": 3}},
        "axes": {"beta": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "n": [8, 32]},
        "record": {"order": "order_parameter"},
    }
)
print("runs:", plan.shape, tkf.sweep.estimate(plan, timed=False))
longer = plan.model_copy(update={"repeats": 8})
print("changed:", tkf.sweep.differences(plan.model_dump(), longer.model_dump()))
try:
    tkf.sweep.read_plan({"run": {"t1": 6.0}, "axes": {"betta": [1.0]}, "record": {"order": "order_parameter"}})
except ValueError as error:
    print("a mistake:", error)
result = tkf.sweep(plan)

# %%
# The order parameter at t = 6, as a mean over four starts with a band of one standard deviation. It is large for small
# :math:`\\beta`, where all tokens attract each other and are already near one point. At large :math:`\\beta` clusters on
# different sides of the sphere keep it small. ``result.plot()`` chooses the kind of figure from the axes of the plan: here
# curves, one for each number of tokens.

figure = result.plot()
figure.show()
