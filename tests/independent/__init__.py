"""Tests against references that were written from the formulas alone, with NumPy, SciPy and mpmath, over random draws."""
