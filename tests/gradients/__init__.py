"""Derivatives of runs against exact answers: quadrature, closed forms and variational equations in NumPy and mpmath."""
