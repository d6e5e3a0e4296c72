r"""
The phase diagram of noisy tokens
=================================

All of the last example in one picture: the plane of :math:`\beta` (how sharp attention is) and :math:`\kappa` (how weak
the noise is), for tokens on the circle under unnormalized attention.

``theory.phase_diagram`` computes the stationary laws on a grid. ``noisy_order_study`` runs random tokens at a few
points, each from a spread-out and from a gathered start.
"""

import numpy as np

import tokenfield as tkf

diagram = tkf.theory.phase_diagram(np.linspace(0, 5, 31), np.geomspace(0.1, 4, 31), d=2)
runs = tkf.studies.noisy_order_study([0.5, 2.0, 3.5], d=2, n=256)
print(f"beta_* = {tkf.theory.beta_star(d=2):.6f}")

# %%
# Panel a: the shade is the order parameter of the ordered law. Below the black line the uniform law is stable. Disks
# are runs: the left half has the shade of the order that was reached from a disordered start, the right half that of the
# order that was reached from an ordered start. Where the halves differ, both laws are stable.
#
# Panel b shows this range, which is too thin to be seen in a. It opens at :math:`\beta_*`. The ordered law appears at
# the dotted line, the fold. On the dashed line both laws have the same free energy: above it order is favored, but a
# spread-out start stays disordered up to the black line.

figure = tkf.plotting.phase_diagram_figure(diagram, runs)
figure.show()
